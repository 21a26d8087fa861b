"""Bad input: exit code 2, one clear message that says what would be right, no traceback. The text is an interface."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roofline.cli import main
from roofline.errors import HardwareError, InputError
from roofline.hardware import chip
from roofline.models.serving.llm import llm
from tests.strategies import for_each

MATMUL = "bf16[B, D] * bf16[D, F]"
SIZES = ["B=8", "D=16", "F=32"]
PLAN = ["plan", "llama-3-8b", "--rate", "1/s", "--prompt", "64", "--output", "8"]
TABLE = ["sweep", MATMUL, "--on", "h100", "D=8", "F=8"]
TRAIN = ["train", "llama-3-8b", "--on", "h100:8"]

MESSAGES = [
    ([*TRAIN, "--tokens", "1T", "--explain"], "--explain is of a step; add --batch-tokens, as in --batch-tokens 4M"),
    ([*TRAIN, "--batch-tokens", "1M,x"], "--batch-tokens 'x' is not a number of tokens; as in 65536, 4e6 or 4M"),
    ([*TRAIN, "--batch-tokens", "1M,2M", "--search"], "--batch-tokens '1M,2M' is not a number of tokens"),
    (
        ["llm", "llama-3-8b", "--on", "h100,h200", "--context", "8", "-o", "x.svg", "--json"],
        "--json and x.svg are two answers; -o FILE.json",
    ),
    (["bound", MATMUL, "--on", "v5e", "B=0"], "size B is 0; a size is a whole number of at least 1"),
    (["formula", MATMUL, "--on", "v5e", "B=0", "D=8", "F=8"], "size B is 0; a size is a whole number of at least 1"),
    (["model", "-o", "x.svg"], "cannot be saved as 'x.svg'; end the name in .html, .json, .txt or .csv"),
    (["comm", "all-reduce", "--on", "h100:8"], "the bytes of all-reduce are missing; as in --bytes 1GB"),
    (
        ["sweep", "llama-3-8b", "--on", "h100", "--batch", "1,8", "--columns", "time_per_token", "-o", "x.svg"],
        "there is no picture of these steps; one is of two rows or more with lower or throughput among the",
    ),
    (["bound", "mlp.onnx", "--on", "h100"], "mlp.onnx is a program; roofline trace mlp.onnx prices its operations"),
    (["sweep", "model.py:build", "--on", "h100", "batch=1,2"], "model.py:build is a program; roofline trace model.py:"),
    (
        ["llm", "mlp.onnx", "--on", "h100"],
        "mlp.onnx is a program, not a model's configuration; `roofline trace` reads it",
    ),
    (
        ["accuracy", "h100", "-o", "x.svg"],
        "there is no picture of a list of errors; end the name in .html, .csv, .json or .txt",
    ),
    (["bound", MATMUL, "--on", "v5e", "B=-3"], "size B is -3; a size is a whole number of at least 1"),
    (["bound", MATMUL, "--on", "v5e", "B=2.5"], "size B is 2.5; a size is a whole number of at least 1"),
    (["bound", MATMUL, "--on", "v5e", "B=nan"], "size B is nan; a size is a whole number of at least 1"),
    (["bound", MATMUL, "--on", "v5e", "B=1e400"], "size B is inf; a size is a whole number of at least 1"),
    (["bound", MATMUL, "--on", "v5e", "B=2e30"], "sizes go up to 1e30"),
    (["bound", MATMUL, "--on", "v5e", "B=1,0"], "size B is 0 at index 1; a size is a whole number of at least 1"),
    (["bound", MATMUL, "--on", "v5e", "B=x"], "size B is a formula of x, which has no value"),
    (["bound", MATMUL, "--on", "v5e", "B=D", "D=B"], "size B depends on itself (B = D)"),
    (["bound", MATMUL, "--on", "v5e", "B="], "size B has no value; for instance B=64"),
    (["bound", MATMUL, "--on", "v5e", "B=1", "B=2"], "size B is given twice; give it once"),
    (
        ["plot", "--on", "1080ti", "--flops", "1e9,2e9", "--bytes", "1e9,2e9,3e9"],
        "amounts that go together differ in number: 2 of flops, 3 of bytes; give as many of each",
    ),
    (
        ["plot", "--on", "1080ti", "--intensity", "7,25", "--name", "a"],
        "1 names for 2 lots of work; name each, in order",
    ),
    (
        ["solve", "--flops", "1e12,2e12", "--bytes", "1e9", "--for", "hbm", "--on", "h100"],
        "flops has several values, and an answer is for one set of sizes",
    ),
    (
        ["bound", "--flops", "b*h + b*o", "--bytes", "h*b", "--on", "h100", "W=3"],
        "size W stands nowhere in the raw work; sizes are: b, h, o\n",
    ),
    (["plot", "--on", "1080ti", "--intensity", "7", "--intensity", "25"], "a list is one word: --intensity 7,25"),
    (["bound", "--flops", "1e9", "--dtype", "fp8", "--dtype", "bf16", "--on", "h100"], "--dtype is given 2 times"),
    (["bound", MATMUL, "--on", "v5e", "--warm", "--over", "vmem"], "--warm and --over exclude each other"),
    (["comm", "AllReduce_X(bf16[B])", "--on", "v5e:4", "--wrap", "--no-wrap", "B=8"], "--wrap is given 2 times"),
    (["llm", "llama-13b", "--on", "a100", "--batch", "1", "--batch", "8"], "--batch is given 2 times; give it once"),
    (
        ["llm", "llama-13b", "--on", "a100", "--weights", "fp16", "--weights", "int4"],
        "--weights is given 2 times; several stand in one word: --weights DTYPE[,…]",
    ),
    (["bound", MATMUL, "--on", "v5e", "Q=3"], "size Q stands nowhere in the expression; sizes are: B, D, F"),
    (["bound", MATMUL, *SIZES], "no machine to run on; name one: --on h100"),
    (["bound", MATMUL, "--on", "h10", *SIZES], "unknown chip 'h10'; did you mean 'h100'?"),
    (["bound", MATMUL, "--on", "v5e", "--unit", "vecto"], "TPU v5e has no unit 'vecto'; did you mean 'vector'?"),
    (["bound", MATMUL, "--on", "v5e", "--over", "vmen"], "TPU v5e has no memory level 'vmen'; did you mean 'vmem'?"),
    (["bound", MATMUL, "--on", "v5e", "--set", "hmb=3"], "TPU v5e has no figure 'hmb'; did you mean 'hbm'?"),
    (
        ["bound", MATMUL, "--on", "v5e", "--set", "hbm"],
        "--set 'hbm' is not FIGURE=VALUE; for instance --set hbm=8.2e11",
    ),
    (["bound", MATMUL, "--on", "v5e", "--set", "hbm=-3"], "expected a bandwidth in bytes per second above 0"),
    (["bound", MATMUL, "--on", "v5e", "--policy", "fusd"], "unknown byte policy 'fusd'; did you mean 'fused'?"),
    (["bound", MATMUL, "--on", "v5e", "--tile", "1,2", *SIZES], "--tile '1,2' is not three sizes; bm,bn,bk"),
    (["bound", MATMUL, "--on", "v5e", "--overlap", "2", *SIZES], "overlap 2.0 is not a fraction; 0 is no overlap"),
    (["bound", MATMUL, "--on", "v5e", "--overlap", "much", *SIZES], "--overlap: 'much' does not start with a number"),
    (["llm", "llama-2-7b", "--on", "a100", "--context", "8", "--price", "2 W"], "--price: '2 W' is a power"),
    (["llm", "llama-2-7b", "--on", "a100", "--context", "8", "--power", "1,2"], "--power: '1,2' has a comma"),
    (["bound", MATMUL, "--on", "v5e", "--overhead", "-5us", *SIZES], "--overhead: '-5us' is negative; expected a time"),
    (["bound", MATMUL, "--on", "h100", "--pad", *SIZES], "has no tile size for its matrix unit"),
    (["bound", MATMUL, "--on", "no.toml", *SIZES], "cannot read 'no.toml': No such file or directory"),
    (["bound", MATMUL, "--on", "v5e", "--compute", "bf17"], "unknown dtype 'bf17'; did you mean 'bf16'?"),
    (["bound", "bf61[B, D] * bf16[D, F]", "--on", "v5e"], "unknown dtype 'bf61'; did you mean 'bf16'?\n  bf61"),
    (["bound", "fp16[B] + bf16[B]", "--on", "v5e"], "fp16 and bf16 are equally wide"),
    (["bound", "--flops", "1e12", "--intensity", "3", "--on", "h100"], "an intensity stands alone"),
    (["bound", "--flops", "2*(x", "--on", "h100", "x=3"], "expected ')'\n  2*(x\n      ^"),
    (["bound", "--flops", "-1", "--on", "h100"], "'-1' is negative; expected an amount of arithmetic"),
    (["bound", "--intensity", "3", "--dtype", "fp9", "--on", "h100"], "unknown dtype 'fp9'; did you mean 'fp8'?"),
    (["bound", "--dtype", "bf16", "--on", "h100"], "ask about either an expression or raw work"),
    (["bound", MATMUL, "--dtype", "bf16", "--on", "h100"], "--dtype goes with raw work"),
    (["bound", "", "--on", "h100"], "the expression is empty"),
    (["bound", MATMUL, MATMUL, "--on", "h100"], "one expression at a time, not 2"),
    (["bound", "bf16[B,", "D]", *"abcdefg", "--on", "h100"], "not 9: 'bf16[B,', 'D]', 'a', 'b', 'c', 'd', …; quote"),
    (["bound", MATMUL, "on", "h100"], "an option begins with two dashes: --on h100"),
    (["llm", "h100"], "'h100' is a machine, not a model; name a model; to llm and train it is --on h100"),
    (["trace"], "Missing argument 'FILE.py:NAME | FILE.onnx'; as in: roofline trace "),
    (["profile"], "Missing argument 'FILE'; as in: roofline profile trace.json --on h100."),
    (["llm"], "as in: roofline llm llama-3-8b --on h100, and roofline model lists them"),
    (["bound", MATMUL, "h100"], "the machine is an option: --on h100"),
    (["comm", "allreduce", "h100:8"], "the machine is an option: --on h100:8"),
    (["comm", "allreduce", "1GB", "h100:8"], "the machine is an option: --on h100:8"),
    (["llm", "llama-2-7b", "dgx-h100"], "unexpected extra argument (dgx-h100); the machine is an option: --on dgx-h"),
    (["llm", "llama-2-7b", "--on", "h100", "a100"], "(a100); several machines are one word: --on h100,a100"),
    (["bound", MATMUL, "—on", "h100"], "an option begins with two dashes: --on h100"),
    (["bound", MATMUL, "B", "=", "64"], "a size is one word without spaces: B=64"),
    (["llm", "llama-2-7b", "--on", "h100", "--context", "8", "k"], "(k); a number and its unit are one word: 8k"),
    (["plan", "llama-2-7b", "--rate", "4", "/s"], "a number and its unit are one word: 4/s"),
    (["comm", "allreduce", "--bytes", "64", "MB", "--on", "h100:8"], "a number and its unit are one word: 64MB"),
    (["bound", MATMUL, "--on", "v5e", "--measured", "5", "us"], "a number and its unit are one word: 5us"),
    (["bound", MATMUL, "B:64"], "a size is written B=64"),
    (["bound", MATMUL, "B=64,D=8"], "each size is a word of its own, after a space: B=64 D=8"),
    (["bound", "“bf16[4,", "--on", "v5e"], "unexpected '“'; quotes of a word processor"),
    (["bound", MATMUL, "--on", "tpu"], "unknown chip 'tpu'; chips of that family are: v1, v2, v3"),
    (["bound", MATMUL, "--on", "cpu"], "unknown chip 'cpu'; measure this machine with `roofline measure`, then --on"),
    (
        ["bound", MATMUL, "--on", "my/chip.json"],
        "'my/chip.json' is no machine file; one is TOML, and its name ends in .toml",
    ),
    (["sweep", MATMUL, "--on", "v5e", "B=1:2:3:4"], "size B is '1:2:3:4'; a range is B=1:512, B=1:512:8 or B=1:512:*2"),
    (["sweep", MATMUL, "--on", "v5e", "B=1:2.5"], "size B has a range of 1:2.5, and sizes are whole numbers"),
    (["sweep", MATMUL, "--on", "v5e", "B=1:9:1.5"], "size B has a range with a step of 1.5, and sizes are whole"),
    (["sweep", MATMUL, "--on", "v5e", *SIZES, "-o", "/dev/null/a.csv"], "there is no folder '/dev/null'"),
    (
        ["plot", MATMUL, "--on", "v5e", "--vary", "B"],
        "size B is not given; give it several values, as in B=",
    ),
    (["trace", "model.py"], "'model.py' does not say which function; FILE.py:NAME, as in model.py:build"),
    (
        ["--on", "h100", "bound"],
        "options stand behind a command, as in roofline bound … --on h100",
    ),
    (["help"], "no command 'help'; help is roofline --help, or roofline COMMAND --help"),
    (["bound", MATMUL, "-on", "h100"], "No such option '-on'; that is written --on, with two dashes."),
    (["advise", MATMUL, "--csv", "a.csv"], "No such option '--csv'; a file is -o FILE."),
    (["llm", "llama-2-7b", "on", "h100"], "unexpected extra arguments (on h100); an option begins with two dashes"),
    (["solve", MATMUL, "--on", "v5e"], "Missing option '--for'; a size (B), a bandwidth (hbm), a peak (bf16)"),
    (["solve", MATMUL, "--for", "Q", "--on", "v5e"], "nothing here is called 'Q'; unknowns are: B, D, F"),
    (
        ["solve", MATMUL, "--for", "dtype:9", "--on", "v5e", *SIZES],
        "no operand 9; operands are: 0 (bf16[B, D])",
    ),
    (["solve", MATMUL, "--for", "dtype:x", "--on", "v5e"], "does not name an operand; dtype:0 is the first"),
    (["solve", MATMUL, "--for", "B", "--bandwidth", "3", "--on", "v5e"], "--bandwidth goes with --for intensity"),
    (["advise", MATMUL, "--on", "v5e"], "advice needs plain numbers; give every size one value"),
    (["sweep", MATMUL, "--on", "v5e", "B=1:4", "D=3"], "size F has no value; a table needs numbers, as in F=1024"),
    (["sweep", MATMUL, "--on", "v5e", "B=4:1", "D=3", "F=3"], "size B has an empty range 4:1; as in 1:512"),
    (["plot", MATMUL, "--on", "v5e", "--vary", "B=1:4", "--vary", "D=1:3", "F=4"], "--vary is given 2 times; one size"),
    (["bound", "einsum('bd,df->bf')", "--on", "v5e"], "an einsum is written with its labels, as in bf16[B, D] *"),
    (["bound", MATMUL, "--on", "v5e", "--set", "hbm=1e12", "--set", "hbm=2e12", *SIZES], "--set hbm is given twice"),
    (["bound", MATMUL, "--on", "v5e", "F=round_up(D, 256)", "D=3"], "a formula of sizes is made with max, min, ceil"),
    (["sweep", MATMUL, "--on", "v5e", "--columns", "lowr", *SIZES], "no column 'lowr'; did you mean 'lower'?"),
    (
        ["sweep", MATMUL, "--on", "v5e", "-o", "x.xls", *SIZES],
        "cannot write a table to 'x.xls'; endings are: .csv, .json, .npz, .parquet, .svg",
    ),
    (["sweep", MATMUL, "--on", "v5e", "-o", "no/x.csv", *SIZES], "there is no folder 'no'"),
    (
        ["plot", MATMUL, "--on", "v5e", "-o", "x.gif", *SIZES],
        "an answer cannot be saved as 'x.gif'; end the name in .html, .json, .txt, .svg, .png or .pdf",
    ),
    (["plot", MATMUL, "--on", "v5e", "--vary", "B=", "D=1", "F=1"], "size B has no value"),
    (["chips", "xyz"], "unknown chip 'xyz'"),
    (["chips", "--filter", "zzz"], "no chip holds 'zzz'"),
    (["chips", "--set", "hbm=1"], "--set goes with a chip"),
    (["bound", MATMUL, "--nonsense"], "No such option '--nonsense'"),
    (["accuracy", "--on", "h100"], "No such option '--on'; a chip is a word without dashes: roofline accuracy h100."),
    (["chips", "--on", "h100"], "No such option '--on'; a chip is a word without dashes: roofline chips h100."),
    (["model", "llama-3-8b", "--on", "h100"], "No such option '--on'; a model on a chip is asked by roofline llm"),
    ([*TRAIN, "--draft", "4"], "No such option '--draft'; that is an option of roofline llm, plan."),
    ([*TRAIN, "--fit"], "No such option '--fit'; what training holds, and the chips for it, is --memory."),
    ([*TRAIN, "--advise"], "No such option '--advise'; the answer says what would be faster; of a line"),
    (
        ["train", "--model-params", "70e9"],
        "No such option '--model-params'; a model in outline is a word: roofline train",
    ),
    (
        ["solve", MATMUL, "--on", "v5e", "--for", "B", "--within", "1ms"],
        "the time that the floor is to take is --time 1ms",
    ),
    (["model", "llama-3-8b", "--tree"], "No such option '--tree'; the parameters of each part are --parts."),
    (
        ["scaling", "bf16[B_X, D] * bf16[D, F]", "--on", "v5e"],
        "where a line flips is `roofline solve`, its plans on a mesh",
    ),
    (
        ["sweep", "llama-3-8b", "--on", "h100", "--columns", "cost"],
        "no column 'cost'; did you mean 'cost_per_million'?",
    ),
    (["trace", "x.py:f", "--advise"], "No such option '--advise'; a program is asked again: --policy each-op,fused"),
    (["boun"], "no command 'boun'; did you mean 'bound'?"),
    (
        ["profile", "docs/examples/profile.csv", "--on", "h100", "--on", "a100"],
        "profile takes one machine, and --on names 2: h100, a100; roofline bound",
    ),
    (["bound", MATMUL, "--on", "h100", "B=1,024", "D=1", "F=1"], "size B lists '024'; numbers without separators"),
    (
        ["bound", MATMUL, "--on", "h100", "B=1", "D=8,192", "F=1"],
        "size D is several sizes, 8 and 192; one is written without separators, D=8192; roofline sweep takes several",
    ),
    (["solve", MATMUL, "--for", "B", "--on", "h100", "D=1,234,567"], "size D is several sizes, 1, 234 and 567; one is"),
    (["bound", MATMUL, "--on", "h100", "B=64,", "D=1", "F=1"], "size B lists ''; no comma stands at an end; each size"),
    (["bound", "--flops", "1,000,000", "--on", "h100"], "is a list: 1, 000, 000; numbers without separators, as in"),
    (["bound", "--flops", "2BDF", "--on", "h100", "B=8"], "write 2*BDF, or 2*B*D*F if each letter is a size"),
    (["bound", MATMUL, "--on", "h100", "B=0:8", "D=1", "F=1"], "size B has a range that starts at 0"),
    (["sweep", "llama-3-8b", "--on", "h100", "--context", "0:8:*2"], "starts at 0; 0 grows by no factor"),
    (["bound", MATMUL, "--on", "h100", "B=1:8:0", "D=1", "F=1"], "size B has a range with a step of 0"),
    (["bound", "g = gelu(h)", "--on", "h100"], "'h' is not defined"),
    (["bound", "--flops", "nan", "--on", "h100"], "'nan' is not finite"),
    (["bound", "--flops", "1e12", "--bytes", "0", "--on", "h100"], "--bytes: '0' is zero; expected an amount of bytes"),
    (["comm", "allreduce", "--bytes-per-chip", "-1", "--on", "h100:8"], "--bytes-per-chip: '-1' is negative; expected"),
    (["bound", "bf16[4, 4 * bf16[4, 4]", "--on", "h100"], "expected ',' or ']', found '*'"),
    (
        [*TABLE, "B=1:4", "--columns", "estimate"],
        "needs a stated overlap or overhead; as in --overhead 5us; --estimate",
    ),
    (["sweep", "llama-3-8b", "--on", "h100", "--overlap", "0.5"], "no column of it; --estimate adds columns of what"),
    (["bound", "--flops", "1GB", "--on", "h100"], "'1GB' is an amount of bytes; expected an amount of arithmetic"),
    (["chips", "--dtype", "fp99"], "unknown dtype 'fp99'"),
    (
        ["solve", MATMUL, MATMUL, "--equal", "time", "--for", "B", "--on", "h100", "D=64"],
        "times are compared where every other size is a number, and F is open; as in B=65536, F=32768",
    ),
    (
        ["bound", MATMUL, "--on", "h100,a100", "B=8,16", "D=8", "F=8"],
        "answers side by side take one value of size B, and several are given; sweep takes several",
    ),
    (["plan", "llama-3-8b", "--on", "h100", "--rate", "1/s", "--output", "1"], "a plan needs --prompt; tokens, as in"),
    (
        [*PLAN, "--on", "h100,l4", "--price", "l4=1,h100"],
        "--price 'h100' is not CHIP=DOLLARS; for instance --price h100=2.5",
    ),
    ([*PLAN, "--on", "h100", "--view", "frontier", "--json"], "--json and a picture are two answers; give -o FILE for"),
    ([*PLAN, "--on", "h100", "--simulate", "--json"], "--simulate is a table, which --json does not have; leave one"),
    ([*PLAN, "--on", "h100", "--draft", "0.5"], "--draft '0.5' is not a number of tokens; 4, or several to try"),
    ([*PLAN, "--on", "h100", "--count", "0.5"], "--count '0.5' is not a number of chips; 8, a list 8,16 or a range"),
    ([*PLAN, "--on", "h100", "--draft", "2,1.5"], "--draft '2,1.5' is not a number of tokens"),
    (["bound", "4096x1024x512", "--on", "a100"], "write them as 'bf16[4096, 512] * bf16[512, 1024]'"),
    (["bound", "matmul 64 32 16 fp8", "--on", "h100"], "write them as 'fp8[64, 16] * fp8[16, 32]'"),
    (["advise", "llama-3-8b", "--on", "h100"], "ask llm, as in `roofline llm llama-3-8b --on h100`, with --advise"),
    (["chips", "--sort", "bf16"], "the peak of a format is --sort peak with --dtype bf16"),
    (
        [*PLAN, "--on", "h100:8"],
        "'h100:8' is a number of chips; name the kind, h100, and how many there may be: --on h100 and --count 8",
    ),
    ([*PLAN, "--on", "h100", "--shared", "1"], "1 of each prompt shared; a share of 0 to below 1, as in 80%"),
    (["explore", "B=8"], 'sizes go with a line; as in roofline explore "bf16[B, D] * bf16[D, F]" B=64'),
    (["formula", MATMUL, "--on", "h100", "--js", "--json"], "--json and a program are two answers; leave one of them"),
    (["formula", "llama-3-8b", "--on", "h100", "B=8"], "B= is no size of a model; sizes are options: --batch"),
    (["sweep", "llama-3-8b", "--on", "h100", "B=8"], "B= is no size of a model; sizes are options: --batch"),
    (
        ["sweep", "llama-3-8b", "--on", "h100:8", "--phase", "train", "--batch-tokens", "65536", "--kv", "fp8"],
        "--kv is of serving, and this is training; leave it out",
    ),
    (["layout", "--on", "v5e:4x4"], "the tensor is missing; for instance 'bf16[B_X, D]'"),
    (
        ["llm", "llama-3-8b", "--on", "h100,h200", "--context", "8", "--draft", "2"],
        "--draft is of one step, and several models, machines, formats or policies are given; give one of",
    ),
    ([*PLAN, "--on", "h100", "--formats", "q4_k"], "no format 'q4_k' of a plan"),
    ([*PLAN, "--on", "h100", "--count", "-1"], "size count is -1; a size is a whole number"),
    (["model", "llama-3-8b", "--prompt", "1,2"], "--prompt '1,2' is not a number of tokens or sequences; one, for"),
    (
        ["llm", "llama-3-8b", "--on", "v5e:4x4", "--pool", "4", "--context", "8"],
        "v5e has a shape, and the 4 chips of a pool have none; say on v5e",
    ),
    (
        ["llm", "llama-3-8b", "--on", "h100", "--warm", "--pool", "4", "--context", "8"],
        "a pool of chips has no warm data",
    ),
    (
        [
            "llm",
            "mixtral-8x7b",
            "--on",
            "h100:8",
            "--tensor",
            "8",
            "--expert",
            "2",
            "--context",
            "8",
            "--expert-exchange",
            "all-to-all",
        ],
        "an AllToAll needs whole experts on all of 8 chips, not on 2; say expert 8",
    ),
    (
        ["sweep", "llama-3-8b", "--on", "h100", "--context", "64", "--flops", "8"],
        "--flops is about raw work, and this is",
    ),
    (
        [*TABLE, "B=1:4", "--keep", "front", "-o", "one.csv"],
        "blocks are not written to one file: one.csv; name a folder",
    ),
    ([*TABLE, "B=1:200000000"], "size B has over 50 million values; take larger steps"),
    ([*TABLE, "B=1:200000", "--json"], "200000 rows are too many for JSON on a terminal; write a file: -o grid.npz"),
    ([*TABLE, "B=1:4", "--keep", "front=lower"], "--keep front=lower is over one column; two or more, as in"),
    ([*TABLE, "B=1:4", "--columns", "time.hbn"], "no time on 'hbn'; did you mean 'hbm'?"),
    (
        ["sweep", "llama-3-70b", "--on", "h100", "--batch", "1:4", "--context", "4096", "--keep", "front"],
        "no row is left to keep: does not fit the memory",
    ),
    (
        [
            "sweep",
            "llama-3-8b",
            "--on",
            "h100",
            "--batch",
            "1,256",
            "--context",
            "8192",
            "--tpot",
            "1us",
            "--keep",
            "top=3",
        ],
        "no row is left to keep: 1 row: does not fit the memory; 1 row: takes longer at best than the limit",
    ),
    (
        [
            "comm",
            "AllReduce_X(bf16[B])",
            "--on",
            "h100:8",
            "--algorithm",
            "AllReduce=tree",
            "--algorithm",
            "AllReduce=ring",
        ],
        "AllReduce has two algorithms; give it one",
    ),
    (["run"], 'nothing to run; for instance roofline run "bf16[256, 4096] @ bf16[4096, 4096]"'),
    (
        ["solve", "--for", "ridge", "--on", "v5e"],
        "--for ridge is not an unknown; the ridge of a machine is --for intensity",
    ),
    (["trace", "a.py:b", "--depth", "-1"], "--depth -1: there are no modules above the program; 0 shows the program"),
    (["trace", "a.py:b", "-o", "x.gif"], "an answer cannot be saved as 'x.gif'; end the name in .html, .json"),
    (
        [*TRAIN, "--batch-tokens", "1M", "--search", "--estimate"],
        "--search compares floors, and --estimate is of one layout",
    ),
    ([*TRAIN, "--search"], "--search is about a step; add --batch-tokens, as in --batch-tokens 4M"),
    ([*TRAIN, "--estimate"], "what to expect is that of a step; give --batch-tokens"),
    (
        ["bound", MATMUL, "--on", "h100", "--estimate", "D=8", "F=8"],
        "what to expect is worked out for numbers; give each size a number, or an array",
    ),
    (["bound", "AllReduce_X(bf16[B])", "--on", "v5e", "--mesh", "X=0", "B=8"], "size X is 0; a size is a whole number"),
    (
        ["llm", "llama-3-8b", "--on", "h100", "--context", "64", "--chunk", "8"],
        "--chunk needs --prompt; for instance --p",
    ),
    (
        ["bound", MATMUL, "--on", "h100", "--set", "bf16=x2", "B=8", "D=8", "F=8"],
        "bf16: 'x2' does not start with a number; expected a rate of arithmetic, such as '312 TFLOP/s'; 2x is twice",
    ),
    (["accuracy", "--runs", "x.csv"], "--runs has rows of one chip; roofline accuracy h100 --runs x.csv"),
    (["accuracy", "h100", "--op", "gemm", "--runs", "x.csv"], "--op picks shipped errors, --runs has its own rows"),
    (["calibrate", "x.csv", "--on", "h100", "--tensor", "8"], "--tensor is of a model that is served; name it with"),
    (
        ["formula", "bf16[B, D] * bf16[D, F]", "--on", "h100", "--c", "-o", "x.json"],
        "a formula in another language is text, and x.json is not; end the name in .py, .js, .c, .tex or .txt",
    ),
    ([*PLAN, "--on", "h100,h200", "--price", "h100=2"], "not one price for each of h100, h200: 1 given; one for all"),
    ([*PLAN, "--on", "h100,h200", "--price", "h100=2"], "by name: --price h100=2.5; table takes those that are listed"),
    *(
        ([*PLAN, "--on", "h100", "--count", "1", "--why", words], said)
        for words, said in (
            (
                "",
                "'' is no chip of the plan, nor a number of one; a chip of the plan first, as in h100, or a",
            ),
            ("h100:0", "'h100:0' is no chip of the plan, nor a number of one; a chip of the plan first, as in h100"),
            ("h100 tensor 0", "tensor without a number in 'h100 tensor 0'; for instance tensor 8"),
            (
                "h100 tensor 2",
                "no number of chips of the plan is a multiple of 2, those of tensor 2; name a number, as",
            ),
            ("prefill h100, decode h100:1", "pool 'h100' has no number of chips; as in h100:8"),
        )
    ),
]

RECORD = '[[constants]]\nchip = "h100"\nkernel = "eager_kernel"\ndtype = "any"\nlibrary = "x"\n'
VALUES = "[constants.values]\nhost_time = 1e-6"
OWN = "bound relu(fp32[8]) --on h100 --estimate --constants FILE"

#: Files that are not what they should be, and what is said of each.
FILES = [
    ("ends.py", "import sys\nsys.exit(3)\n", "trace FILE:b", "FILE ends with sys.exit(3); put what only"),
    ("ends.py", "import sys\ndef b():\n    sys.exit(3)\n", "trace FILE:b", "ends.py:b ends with sys.exit(3); put what"),
    ("ends.py", "import sys\ndef b(x):\n    sys.exit(3)\n", "trace FILE:b --input bf16[8]", "ends with sys.exit(3)"),
    ("runs.py", "1 / 0\n", "trace FILE:b", "FILE:1: the file does not run: ZeroDivisionError: division by zero; trace"),
    ("made.py", "def b():\n    return 3\n", "trace FILE:b", "FILE:b gives int; it should return a module or a f"),
    ("made.py", "def b():\n    return sum, 'f32[8]'\n", "trace FILE:b --input f32[8]",
     "FILE:b gives its inputs, and so does --input; leave one of them out"),
    ("made.py", "def b():\n    return sum, 'f32[8]'\n", "trace FILE:b B=8", "no input names the size B"),
    ("made.py", "def b():\n    1 / 0\n", "trace FILE:b", "made.py:b does not build on shapes alone: ZeroDivisionError"),
    ("made.py", "def b():\n    return 3\n", "trace FILE:c", "FILE has no 'c'; names are: b"),
    ("rate.csv", "time,rate\n", "plan llama-3-8b --on h100 --rate FILE --prompt 64 --output 8",
     "has no rows below its first line; columns time (in seconds) and rate, or time alone"),
    ("rate.csv", "rate\n3\n", "plan llama-3-8b --on h100 --rate FILE --prompt 64 --output 8", "first line has rate"),
    ("rate.csv", "time,rate\n0,1\n5,2\n3,1\n", "plan llama-3-8b --on h100 --rate FILE --prompt 64 --output 8",
     "times of a trace do not rise; one row a moment, in order"),
    ("rate.csv", "time,rate\n0,0\n5,0\n", "plan llama-3-8b --on h100 --rate FILE --prompt 64 --output 8",
     "a trace without requests; rates are 0 or from 1e-60 to 1e+60 requests a second, one of them above 0"),
    ("runs.csv", "expression,seconds\n", "accuracy h100 --runs FILE", "can be held against constants: the file"),
    ("runs.csv", "name,seconds\n,1\n", "accuracy h100 --runs FILE", "line 2: no kernel is named; an expression, or m"),
    ("runs.csv", "expression\nx\n", "accuracy h100 --runs FILE", "line 2: no time; a column seconds, ms or us"),
    ("runs.csv", 'expression,ms\n"h = bf16[8, 8] * bf16[8, 8]; softmax(h)",1\n', "accuracy h100 --runs FILE",
     "line 2: the expression makes 2 kernels; one operation a row"),
    ("runs.csv", "expression,seconds\n", "calibrate FILE --on h100", "nothing can be fitted: the file has no rows"),
    ("runs.csv", "m,n,kk,us\n1,1,1,1\n", "calibrate FILE --on h100", "no column k; unknown column 'kk': did you mean"),
    ("runs.csv", "batch,context\n1,1\n", "calibrate FILE --on h100",
     "no columns heads, head_size and us; an expression, or m, n, k, or batch, heads, head_size, length; --model"),
    ("runs.csv", "bacth,context,ms\n1,1,1\n", "calibrate FILE --on h100 --model llama-3-8b",
     "FILE: no column batch; unknown column 'bacth': did you mean 'batch'?"),
    ("runs.csv", "batch,seconds\n", "calibrate FILE --on h100 --model llama-3-8b --from sglang",
     "--from is of kernels: steps start from those of --library; leave one of them out"),
    ("own.toml", 'schema = "x"\n', "bound relu(fp32[8]) --on h100 --estimate --constants FILE",
     'is no file of constants; its first line is schema = "roofline/constants/1"'),
    ("own.toml", 'schema = "roofline/constants/1"\n', "bound relu(fp32[8]) --on h100 --estimate --constants FILE",
     "holds no [[constants]]; roofline calibrate writes them"),
    *(
        ("own.toml", 'schema = "roofline/constants/1"\n' + text, OWN, f"FILE, record 1{said}")
        for text, said in [
            ("constants = [3]", " is no table; [[constants]]"),
            (RECORD, " has no values; [constants.values]"),
            (f"{RECORD}[constants.values]\nhost_time = true", ": host_time is True; a number from "),
            (f"{RECORD}[constants.values]\nx = 1", ": eager_kernel has no constant 'x'; constants are: host_time; "
             "roofline calibrate makes a file of another version anew"),
            (f"{RECORD}[constants.values]", " lacks host_time; eager_kernel has host_time; roofline calibrate makes"),
            (f"{RECORD}policy = 'x'\n{VALUES}", ": policy 'x'; one of "),
            (f"{RECORD}edges = ['x']\n{VALUES}", ": edges is ['x']; numbers, up to 1e30"),
            (f"{RECORD}interval = [[2, 1]]\n{VALUES}", ": interval is [[2, 1]]; pairs of a low and a high end"),
            (f"{RECORD}valid = 3\n{VALUES}", ": valid is 3; [constants.valid]"),
            (f"{RECORD}{VALUES}\n[constants.figures]\ncores = -1", ": figures is [-1]; numbers from 0 to 1e30"),
        ]
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "asked", "message"), FILES, ids=[message[:40] for *_, message in FILES])
def test_message_of_a_file(
    name: str, text: str, asked: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert main(asked.replace("FILE", str(path)).split()) == 2
    said = capsys.readouterr().err
    assert message.replace("FILE", str(path)) in said
    assert "Traceback" not in said


@for_each(("words", "message"), MESSAGES, ids=[" ".join(w)[:60] for w, _ in MESSAGES])
def test_message(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""
    assert "Traceback" not in shown.err


def test_a_right_question_ends_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", MATMUL, "--on", "v5e", *SIZES]) == 0
    assert "at best" in capsys.readouterr().out


def test_nothing_that_can_be_timed_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", "--flops", "1e12", "--dtype", "int64", "--on", "v5e"]) == 2
    assert "not timed: flops on matrix in int64 (1 TFLOP); TPU v5e has no figure for it" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "plain"), [("80%", "0.8"), ("80 percent", "0.8")])
def test_a_fraction_may_be_a_percentage(given: str, plain: str, capsys: pytest.CaptureFixture[str]) -> None:
    answers = []
    for overlap in (given, plain):
        assert main(["bound", MATMUL, "--on", "v5e", "--overlap", overlap, *SIZES]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "line",
    [
        "comm AllReduce --bytes 1GB --on h100:8 --plan {}",
        "plan llama-2-7b --on h100 --rate 1/s --prompt 64 --output 16 --count 1 --why h100:{}",
        "plan llama-2-7b --on h100 --rate 1/s --prompt 64 --output 16 --count 1 --why h100:1,batch,{}",
        "train llama-2-7b --on h100:8 --batch-tokens 64k --checkpoint {}",
        "bound bf16[64,64]*bf16[64,64] --on h100 --tile {},1,1",
        "llm qwen3-vl-2b-instruct --on h100 --prompt 4k --images {}",
        "llm qwen3-vl-2b-instruct --on h100 --prompt 4k --images 1 --image-size {}x8",
        "solve bf16[64,64]*bf16[64,64] --on h100 --for dtype:{}",
        "chips --sort {}",
        "bound bf16[64,64]*bf16[64,64] --on h100 --density {}",
        "train llama-2-7b --on h100:8 --tokens 1e12 --chip-hours {}",
    ],
)
def test_a_number_of_thousands_of_digits_is_one_short_error(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    for digits in ("9" * 5000, "²"):
        words = [word.replace(",batch,", " batch ") for word in line.format(digits).split()]
        assert main(words) == 2
        said = capsys.readouterr().err
        assert "Traceback" not in said
        assert len(said) < 1500


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["bound", "llama-3-8b", "--on", "h100"],
            "llama-3-8b is a model, and this is about a line of notation; ask llm",
        ),
        (
            ["solve", "llama-3-8b", "--for", "batch", "--on", "h100"],
            "takes a stated time; give --time 5ms; `roofline llm llama-3-8b --on h100` says from which batch on a step",
        ),
        (
            ["solve", "llama-3-8b", "--for", "context", "--on", "h100", "batch=8"],
            "give --time 5ms; `roofline llm llama-3-8b --on h100 --fit` says the longest context that memory holds",
        ),
        (["trace", "llama-3-8b", "--on", "h100"], "llama-3-8b is a model, and this is about a program; roofline llm"),
        (
            ["plan", "llama-3-8b", "--on", "nvidia", *PLAN[2:], "--price", "table"],
            "unknown chip 'nvidia'; `roofline chips",
        ),
        (["solve", "bf16[N, N] * bf16[N, N]", "--for", "N"], "tie the two: N, K with K=N"),
        (["solve", "bf16[N, K] * bf16[K, N]", "--for", "N"], "give the last N a name of its own and tie the two, M=N"),
        (
            ["bound", "bf16[8, 8] @ bf16[8, 8]", "--on", "v5e", "--eager"],
            "--library, --constants and --eager go with --est",
        ),
    ],
)
def test_what_stands_in_a_newcomers_way_is_said(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert says in capsys.readouterr().err


def test_a_collective_and_its_bytes_are_one_question(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for words in (["allreduce", "500MB"], ["allreduce 500MB"], ["allreduce", "--bytes", "500MB"]):
        assert main(["comm", *words, "--on", "h100:8"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2]


def test_an_option_is_spelled_as_the_caller_writes_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["llm", "llama-3-8b", "--on", "h100", "--context", "1k", "--prefill-on", "h200:8", "--prompt", "8"]) == 2
    )
    assert "--prefill-on needs --output; tokens of an answer, as in --output 512" in capsys.readouterr().err
    with pytest.raises(InputError, match="prefill_on= needs output=; tokens of an answer, as in output=512"):
        llm("llama-3-8b", on="h100", context=1000, prefill_on="h200:8", prompt=8)


def test_a_chip_of_ones_own_and_a_price_by_chip_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HardwareError, match="figures are set on a chip that is known, chip"):
        chip("mine", bf16="312 TFLOP/s")
    with pytest.raises(
        InputError,
        match="not one price for each of h100: 1 given; one for all, one for each in their order, or by name",
    ):
        llm("llama-3-8b", on="h100", context=64, price={"a100": 2})
    assert llm("llama-3-8b", on="h100", context=64, price={"h100": 2}).cost["output"].dollars > 0
    assert main(["solve", "bf16[8, 8] * bf16[8, B]", "--on", "h100", "--measured", "62us"]) == 2
    assert "a measured run beside its floor is a row of a CSV: roofline profile FILE" in capsys.readouterr().err


def test_prices_stand_behind_one_option_by_name_or_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["llm", "llama-3-8b", "--context", "64", "--json", "--on"]

    def costs(on: str, price: str) -> list[float]:
        assert main([*words, on, "--price", price]) == 0
        found = json.loads(capsys.readouterr().out)
        return found["facts"]["$ a million output tokens"]

    assert costs("h100,a100", "h100=3,a100=2") == costs("h100,a100", "3,2") == costs("h100,a100", "a100=2, h100=$3/h")
    alone = [
        llm("llama-3-8b", on=on, context=64, price=price).cost["output"].dollars
        for on, price in (("h100", 3), ("a100", 2))
    ]
    assert costs("h100,a100", "3,2") == pytest.approx(alone)
    for price, wrong in (
        ("3,2,1", "not one price for each of h100, a100: 3 given"),
        ("h100=3", "not one price for each of h100, a100: 1 given"),
        ("1,000", "has a comma"),
    ):
        assert main([*words, "h100,a100", "--price", price]) == 2
        assert wrong in capsys.readouterr().err


def test_a_weight_format_as_wide_as_the_activations_names_both_ways() -> None:
    says = "say compute='bf16' or compute='fp16', or activations='fp16' to run all of it so"
    with pytest.raises(InputError, match=says):
        llm("mistral-7b", on="h100", context=8, weights="fp16")


def test_a_figure_of_ones_own_is_no_data_sheet_peak(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", MATMUL, "--on", "h100", *SIZES, "--set", "bf16=2x"]) == 0
    assert "data-sheet peaks and one-way bandwidths, but for the figures given by the caller" in capsys.readouterr().out


def test_what_to_expect_stands_above_the_rows_of_the_floor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", "bf16[128, 4096] @ bf16[4096, 11008]", "--on", "a100", "--estimate"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("  expect ")
    assert sum("  expect " in line for line in lines) == 1


def test_measured_points_are_listed_beside_their_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs.csv").write_text("name,dtype,flops,bytes,seconds\nfirst,bf16,1e12,1e9,5e-3\n")
    picture = str(tmp_path / "p.svg")
    assert main(["plot", "--on", "a100", "--points", str(tmp_path / "runs.csv"), "-o", picture]) == 0
    head, row, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["measured", "reached", "roof", "of", "the", "roof", "bound", "by"]
    assert row.split() == ["first", "200", "TFLOP/s", "312", "TFLOP/s", "64%", "tensor"]  # 1e12 / 5 ms


def test_tokens_of_a_batch_may_be_a_product(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for tokens in ("8*2048", "16384"):
        assert main([*TRAIN, "--batch-tokens", tokens, "--sequence", "2048"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


def test_collectives_side_by_side_say_whose_bytes_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    for kind, says in (
        ("alltoall", "AllToAll over X (bytes in all)"),
        ("allreduce", "AllReduce over X (bytes on each"),
    ):
        assert main(["comm", kind, "--bytes", "64MB", "--on", "h100:8,h200:8"]) == 0
        assert capsys.readouterr().out.startswith(says)
    assert main(["comm", "alltoall", "--bytes", "64MB", "--on", "h100:16"]) == 0
    said = "nccl-tests' size of it is what each chip holds, 4 MB: --bytes-per-chip takes that"
    assert said in capsys.readouterr().out.partition("algorithm ")[0]


def test_several_policies_of_checkpoints_name_the_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "--batch-tokens", "65536", "--checkpoint", "none,full", "--search"]) == 2
    assert "sweep takes several, one row each: roofline sweep MODEL … --checkpoint none,full" in capsys.readouterr().err


def test_a_formula_in_python_says_which_of_its_results_is_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["formula", MATMUL, "--on", "h100", "D=8", "F=8", "--python"]) == 0
    assert "Gives seconds: lower is the time at best" in capsys.readouterr().out
