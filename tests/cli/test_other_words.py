"""A first try in another tool's words is answered in ours: options, chips, sizes, models, lines."""

from __future__ import annotations

import json

import pytest

from roofline.cli import main
from tests.strategies import for_each, some

MATMUL = "bf16[B, D] * bf16[D, F]"
LLM = ["llm", "llama-3-8b", "--on", "h100"]
TRAIN = ["train", "llama-3-8b", "--on", "h100"]
IN_A_LINE = "a matmul is written with *, as in bf16[B, D] * bf16[D, F] -> bf16[B, F]"
LABELS = "an einsum is written with its labels, as in bf16[B, D] * bf16[D, F] -> bf16[B, F]"

MESSAGES = [
    (["llm", "--on", "h100"], "as in: roofline llm llama-3-8b --on h100, and roofline model lists them"),
    (["solve", MATMUL, "--for", "B,D", "--on", "h100"], "one unknown at a time: --for B"),
    (
        ["bound", "bf16[8, 8] @ bf16[8, 8]", "--on", "h100", "--took", "2us"],
        "what it takes in reality is --measured 60us",
    ),
    ([*LLM, "--fit", "--tpot", "20ms", "--batch", "8"], "--tpot chooses among several steps, and --fit is about one"),
    (["measure", "--fast"], "a measurement of ten seconds is --quick"),
    (["accuracy", "h100", "--kind", "attention"], "a kind of kernel is --op"),
    (["llm", "llama-3-8b", "--on", "h100", "--max-batch"], "what holds a model, and with how much left, is --fit"),
    (["bound", MATMUL, "--gpu", "h100"], "No such option '--gpu'; the machine is --on TARGET."),
    (["run", MATMUL, "--gpu", "h100"], "No such option '--gpu'; operations run on this machine, whose measurement is"),
    (["bound", MATMUL, "--batch-size", "8"], "No such option '--batch-size'; sizes are given by name: B=64."),
    (
        ["plot", "llama-3-8b", "--on", "h100", "--batch", "8"],
        "is a model, and this is about a line of notation; its roofline is drawn by roofline llm llama-3-8b --on h100",
    ),
    (["plot", "llama-3-8b", "--tensor", "8"], "its steps by roofline sweep llama-3-8b --on h100"),
    (
        ["solve", "llama-3-8b", "--for", "batch", "--on", "h100", "--context", "2k"],
        "from which batch on its decode is compute-bound is said by roofline llm llama-3-8b --on h100 --context",
    ),
    (
        ["solve", "llama-3-8b", "--for", "hbm", "--batch", "8"],
        "sizes are written as words: roofline solve llama-3-8b --for hbm --time 5ms --on h100 batch=8 context=4k; ",
    ),
    (["advise", "llama-3-8b", "--on", "h100", "--batch", "8"], "its steps are asked by roofline llm llama-3-8b --on"),
    (
        ["formula", "llama-3-8b", "--on", "h100:n", "--n", "8"],
        "No such option '--n'; a number of chips is written n=8.",
    ),
    ([*LLM, "--cache", "fp8"], "No such option '--cache'; the format of keys and values is --kv."),
    ([*LLM, "--prefill", "8"], "a prompt is --prompt, prefill on chips of its own --prefill-on h100:8, with"),
    (
        ["bound", MATMUL, "--on", "h100", "--sparse"],
        "2:4 sparsity, two of each four weights zero, doubles a peak: --set",
    ),
    (["shard", MATMUL, "--on", "v5p:4", "--for", "B"], "is answered by roofline solve, with a line and --for B."),
    (
        [*TRAIN, "--batch", "64", "--seq=4096", "--micro-batch", "2", "--fsdp", "8"],
        "in our words: roofline train llama-3-8b --on h100 --batch-tokens '64*4096' --sequence 4096 --microbatches 4 ",
    ),
    ([*LLM, "--dtype", "fp8", "--tp", "2"], "roofline llm llama-3-8b --on h100 --weights fp8 --tensor 2 --activations"),
    ([*LLM, "--kv-cache-dtype", "fp8"], "is --kv.\n  in our words: roofline llm llama-3-8b --on h100 --kv fp8\n"),
    (["plan", "llama-3-8b", "--weights", "fp8"], "roofline plan llama-3-8b --formats fp8\n"),
    ([*LLM, "--isl", "fp8"], "No such option '--isl'; a prompt is --prompt.\n"),  # no line, as it would not run
    ([*LLM, "--isl", "8", "--prompt", "9"], "No such option '--isl'; a prompt is --prompt.\n"),
    ([*LLM, "--kv-dtype", "x"], "No such option '--kv-dtype'; the format of keys and values is --kv.\n"),
    ([*LLM, "--osl", "9", "--isl=8"], "\n  in our words: roofline llm llama-3-8b --on h100 --output 9 --prompt 8\n"),
    (
        ["plan", "llama-3-8b", "--gpu", "h100", "--qps", "3", "--nonsense"],
        "No such option '--gpu'; the machine is --on TARGET.\n",
    ),
    (["plan", "llama-3-8b", "--gpu", "h100", "--qps", "3"], "roofline plan llama-3-8b --on h100 --rate 3\n"),
    ([*LLM, "--disaggregate"], "prefill on chips of its own --prefill-on h100:8, with --prompt 4k --output 512."),
    (["train", "gpt-3", "--batch", "1536"], "a batch is --batch-tokens, in tokens, as in --batch-tokens 1536*2048."),
    (
        ["train", "gpt-3", "--micro-batch", "1"],
        "how many: tokens of the batch / (copies · sequence · sequences of a part)",
    ),
    (["bound", MATMUL, "--on=h100", "-B", "8"], "No such option '-B'; sizes are given by name: B=64.\n"),
    (["bound", "-bf16[B, D]", "--on", "h100"], "No such option '-b'; the negative of a tensor is neg(x).\n"),
    (["llm", MATMUL, "--on", "h100"], "is a line, not a model; bound, advise and solve ask about one;"),
    (["bound", MATMUL, "--precision", "fp8"], "each tensor names its own format, as in fp8[B, D]."),
    ([*LLM, "--tp", "8"], "No such option '--tp'; tensor parallelism is --tensor."),
    ([*LLM, "--tensor_parallel_size", "8"], "tensor parallelism is --tensor."),
    ([*LLM, "--batch-size", "8"], "a batch is --batch."),
    (
        [*LLM, "--dtype", "fp8"],
        "formats are --weights, --activations (of products, and of keys and values) and --kv, as",
    ),
    ([*LLM, "--bits", "4"], "formats are --weights, --activations (of products, and of keys and values) and --kv, as"),
    ([*LLM, "--energy"], "watts of a chip are --power."),
    ([*LLM, "--seq-len", "8"], "a prompt is --prompt, what decode comes after --context."),
    ([*LLM, "--gpus", "8"], "the number of chips stands behind the target: --on h100:8."),
    ([*LLM, "--chips", "8", "--prompt", "8"], "--chips '8' is not a machine file; a number of chips stands behind the"),
    ([*LLM, "--slo", "20ms"], "No such option '--slo'; the longest time a token may take is --tpot."),
    (
        [*LLM, "--context", "9", "--tpot", "20ms", "--batch", "8"],
        "--tpot chooses among steps of decoding, and this is one; give several",
    ),
    ([*TRAIN, "--batch-size", "8"], "a batch is --batch-tokens, in tokens, as in"),
    ([*TRAIN, "--precision", "fp8"], "formats are --weights, --gradients, --moments and --master."),
    (["bound", "bf16[8]", "--train"], "No such option '--train'; a training step is roofline train MODEL,"),
    (["trace", "m.py:f", "--train"], "No such option '--train'; the gradient too is --backward."),
    (["bound", MATMUL, "--peak", "1e15"], "a figure of the machine is set by --set hbm=8.2e11."),
    (["llm", "llama-3-8b", "--rps", "3"], "what meets a rate and limits is found by roofline plan."),
    (["plan", "llama-3-8b", "--qps", "3"], "requests that come in are --rate 12/s."),
    (["plan", "llama-3-8b", "--cost", "3"], "dollars of a chip for an hour are --price."),
    ([*TRAIN, "--recompute", "full"], "what is kept, and what computed again, is --checkpoint: full, selective, none."),
    ([*TRAIN, "--gradient-accumulation-steps", "4"], "parts of a step are --microbatches, how many: "),
    ([*LLM, "--speculative", "4"], "tokens of a draft are --draft N, what makes them --draft-by."),
    ([*LLM, "--seq_len", "8"], "a prompt is --prompt, what decode comes after --context."),
    (["bound", MATMUL, "--compare", "a100"], "several machines stand behind one --on: --on h100,a100."),
    (["bound", MATMUL, "--verbose"], "where each figure comes from is --explain."),
    (["plot", MATMUL, "--svg", "a.svg"], "a file is -o FILE."),
    (
        ["bound", "1024x1024x1024", "--on", "h100"],
        "are the sizes m, n, k of a matmul; write them as 'bf16[1024, 1024] * bf16",
    ),
    (["bound", "(M,K)x(K,N)", "--on", "h100"], f"round brackets hold an expression; {IN_A_LINE}"),
    (["bound", "matmul(bf16[2, 3], bf16[3, 4])", "--on", "h100"], f"unknown function 'matmul'; {IN_A_LINE}"),
    (["bound", "swish(bf16[B])", "--on", "h100"], "unknown function 'swish'; did you mean 'silu'?"),
    (["bound", "bd,df->bf", "--on", "h100"], LABELS),
    (["bound", "bf16[2^10, D] * bf16[D, F]"], "unexpected '^'; name the size and give it beside the line: N=2^10"),
    (["bound", "abs(-bf16[B])"], "a name or a function, found '-'; the negative is neg(x)"),
    (["bound", "x = gelu(bf16[B]); x ** x"], "a name or a function, found '*'; a power is power(a, b)"),
    (["bound", "bf16[B, D].T * bf16[B, F]"], "'T' is not defined; labels say what meets what"),
    (["bound", "bf16[B, D]^T * bf16[B, F]"], "unexpected '^'; labels say what meets what"),
    (["bound", MATMUL, "--on", "h100", "B=4k+1"], "expected an operator before 'k'; write 4*k"),
    (["sweep", MATMUL, "--on", "h100", "B=1..4"], "size B is '1..4'; a range is B=1:512, B=1:512:8 or B=1:512:*2"),
    (["bound", "bf16[B_data, D] * bf16[D, F]", "--on", "v5e:4", "B=8"], "B over a mesh axis data is written B_{data}"),
    (
        ["solve", MATMUL, "--for", "memory", "--on", "h100"],
        "nothing here is called 'memory'; did you mean 'bandwidth'?",
    ),
    (["solve", "--for", "ridge", "--on", "h100"], "the ridge of a machine is --for intensity"),
    (["plot", MATMUL, "--on", "h100", "B=1:512", "D=8", "F=8"], "or draw over one: --vary B"),
    (["model", "scout"], "no model 'scout'; shipped are: llama-4-scout\n"),
    (["model", "meta-llama/Meta-Llama-3-70B"], "or a folder that holds it; llama-3-70b is shipped"),
    (["comm", "all-gather", "--size", "1GB", "--on", "h100:8"], "the bytes of the whole array are --bytes"),
    (
        ["model", "opt-30b"],
        "no model 'opt-30b'; it is not shipped, but model_type 'opt' is read: give its config.json, or a",
    ),
    (["model", "gemma-3-9b"], "no model 'gemma-3-9b'; it is not shipped, but model_type 'gemma3' is read: give its"),
    (["model", "qwen3-24b"], "did you mean 'qwen3-4b'? it is not shipped, but model_type 'qwen3' is read: give its"),
    (["model", "llama-3.1-1b"], "no model 'llama-3.1-1b'; did you mean 'llama-3.1-8b'? it is not shipped, but"),
    (["model", "meta-llama/Llama-3.1-9B"], "or a folder that holds it; llama-3.1-8b is shipped"),
    (["model", "llama-2-7c"], "no model 'llama-2-7c'; did you mean 'llama-2-7b'?\n"),
    (["model", "facebook/opt-30b"], "or a folder that holds it; model_type 'opt' is read"),
    (
        ["model", "vgg16"],
        "no model 'vgg16'; `roofline model` lists the shipped ones; a config.json of a transformer does as well, and",
    ),
]


@for_each(("words", "message"), MESSAGES, ids=[" ".join(w)[:60] for w, _ in MESSAGES])
def test_the_answer_names_our_word(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err


def test_an_option_nobody_knows_keeps_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", MATMUL, "--onn", "h100"]) == 2
    said = capsys.readouterr().err
    assert "No such option '--onn'." in said
    assert "Did you mean '--on'?" in said
    assert main(["llm", "llama-3-8b", "--on", "h100", "--bathc", "8"]) == 2
    assert "Did you mean '--batch'?" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["[1, 2,4]", "(1,2,4)", "1,2,4"])
def test_a_list_may_keep_its_brackets(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", MATMUL, "--on", "h100", f"B={value}", "D=8", "F=8"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[3:6]] == ["1", "2", "4"]


@pytest.mark.parametrize(
    "words",
    [
        ["bf16［B，D］×int8［D，F］→bf16［B，F］", "B＝６４", "D=4096", "F=4096"],
        ["bf16[B, D] * int8[D, F]", "B=64", "F=D=4096"],
        ["bf16[B, D] * int8[D, F]", "B=64", "F = D = 2¹²"],
        ["bf16[B, D] * int8[D, F]", "B=64", "D=4096", "F=D", "--set", "hbm=8.19×10¹¹", "--set", "bf16=1.97x10^14"],
    ],
)
def test_what_a_document_prints_is_read(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", *words, "--on", "v5e", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["flops"], found["bytes"]["hbm"]) == (2 * 64 * 4096**2, 4096**2 + 2 * 2 * 64 * 4096)
    assert found["lower"] == pytest.approx(found["bytes"]["hbm"] / 8.19e11)


def test_formats_may_be_written_in_capitals(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for form in ("fp16[8, 8] * fp16[8, 8]", "FP16[8, 8] * Float16[8, 8]"):
        assert main(["bound", form, "--on", "h100", "--json"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    for words in (["--weights", "fp8", "--kv", "int8"], ["--weights", "FP8", "--kv", "INT8"]):
        assert main([*LLM, "--context", "1024", "--json", *words]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[2] == shown[3]


@pytest.mark.parametrize(
    ("words", "plain"),
    some(
        [
            (["bound", "FP16[8, 8] * FP16[8, 8]", "--on", "H100", "--over", "L2"], ["--over", "l2"]),
            (["BOUND", "fp16[8, 8] * fp16[8, 8]", "--ON", "h100", "--Over", "HBM"], ["--over", "hbm"]),
            (["bound", "fp16[8, 8] * fp16[8, 8]", "--on", "h100", "--policy", "Fused"], ["--policy", "fused"]),
            ([*LLM, "--Context", "1K", "--price", "2", "--form", "UPPER"], ["--form", "upper"]),
            ([*LLM, "--context", "1k", "--estimate", "--library", "VLLM"], ["--library", "vllm"]),
            ([*TRAIN[:3], "h100:8", "--Batch_Tokens", "1M", "--checkpoint", "Full"], ["--checkpoint", "full"]),
            (["chips", "nvidia", "--sort", "PEAK"], ["--sort", "peak"]),
            (["solve", MATMUL, "--on", "h100", "B=8", "D=8", "F=8", "--for", "HBM"], ["--for", "hbm"]),
            (["scaling", "--on", "v5p", "DP"], ["dp"]),
        ],
        2,
    ),
)
def test_case_does_not_matter(words: list[str], plain: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert main([*words[: -len(plain)], *plain]) == 0
    assert capsys.readouterr().out == shown


def test_microbatches_have_one_name_in_two_spellings(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for word in ("--microbatches", "--micro-batches"):
        assert main([*LLM[:3], "h100:2", "--context", "64", "--batch", "4", "--pipeline", "2", word, "4"]) == 0
        assert main([*TRAIN[:3], "h100:8", "--batch-tokens", "1e5", word, "2"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


def test_what_is_called_exact_has_more_figures_than_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["solve", "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", "--for", "D", "--on", "v5e:4"]
    assert main(words) == 0
    assert "D = 17,511.111" in capsys.readouterr().out


def test_advice_in_json_says_what_it_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["advise", MATMUL, "--on", "h100", "B=64", "D=8192", "F=8192", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["target"] == "NVIDIA H100 SXM5 80GB"
    assert found["bound_by"] == "hbm"
    assert found["lower"] == found["advice"][0]["lower_before"]


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["formula", MATMUL, "--on", "h100", "--julia"], "--python, --js, --c or --latex"),
        (["scaling", "mixed", "--on", "v5p", "--mesh", "X=16,Y=4"], "as in N=4096 and --torus-axes X=2"),
    ],
)
def test_what_is_asked_in_another_way_is_told_in_words_of_the_command_line(
    words: list[str], right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert right in " ".join(capsys.readouterr().err.split())


def test_a_step_with_several_policies_of_recomputation_stands_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "llama-3-8b", "--on", "a100-40gb:16", "--fsdp", "16", "--batch-tokens", "65536"]
    assert main([*words, "--checkpoint", "none,full"]) == 0
    [needed] = [line for line in capsys.readouterr().out.splitlines() if "memory needed" in line]
    assert needed.split() == ["memory", "needed", "29.5", "GB", "12.9", "GB"]
    assert main([*words, "--checkpoint", "layernorm,mlp"]) == 0  # modules are one policy
    assert "side by side" not in capsys.readouterr().out
