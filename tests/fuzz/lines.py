"""Command lines at random: those of the docs and a short one of each command, with words changed and options added.

Options and their values come from the commands' own tables, so that a new command needs a line in :data:`SHORT` and a
new option needs nothing. A value that names a file to read is a key of :data:`READ`; who makes the input makes the file.
"""

from __future__ import annotations

import functools
import random
import re
import shlex
from pathlib import Path

import click

from roofline.cli import cli
from tests.notation.strings import VALID, mutated, random_text

ROOT = Path(__file__).resolve().parents[2]

#: Words in place of a value: of any option, size, field or cell.
ODD_WORDS = (
    "", " ", "0", "-0", "1", "-1", "2", "3", "8", "0.5", "1.5", "-2.5", "1e-3", "1e3", "1e30", "1e31", "1e308", "1e400",
    "5e-324", "1e-320", "nan", "inf", "-inf", "NaN", "Infinity", "true", "False", "None", "null", "1,2", "1,2,0", "1:4",
    "1e5", "1e6", "1e9", "1e12", "1e15", "8k", "4M", "15T", "1k,2k", "64,1e6",
    "1:8:*2", "4:1", "1:1e9", "1:3:0", "2,4,8", "X=2", "X=2,4,8", "X=n", "X=0", "X=[1]", "=", "==", "a=b", ",", ":", "*",
    "9**9**9", "4*D", "B", "D", "B/0", "max(B,D)", "sqrt(-1)", "1j", "٣", "²", "½", "4×10⁶", "é", "漢", "🙂", "\x00",
    "\u202e", "\n", "'", '"', "{", "}", "[", "]", "()", "%", "$", "h100", "v5e:4x4", "h100:8", "h100:0", "h100:-1",
    "gb200:32", "v5p:16x16x16", "this", "bf16", "fp8", "int4", "nvfp4", "fp9", "matrix", "vector", "hbm", "vmem", "l2",
    "pcie", "hbm=4e12", "bf16=0", "x=1", "auto", "ring", "tree", "1024x768", "0x0", "512,512,512", "80%", "5us", "2 W",
    "$2.50/h", "3.35 TB/s", "../../no/such", "/dev/null", "/dev/zero", "a" * 300, "9" * 31, "9" * 400, "9" * 5000,
    "-" * 50, "--", "--on", "-h", "1_000", "0x10", "1e", "+1", "1 2", "00", "1.", ".5", "1e+2", "١٢", "min", "full",
    "1e18", "1e60", "1e-60", "1:1e12", "1:1e30:*2", "1:4000", "1:1e12:1e9", "1," * 2000 + "1", "B*" * 500 + "B",
    "2**100000", "h100:1000000000", "v5p:1000x1000x1000", "h100," * 300 + "h100", "X=1e18", "1e18/s", "[1]" * 500,
)  # fmt: skip


@functools.cache
def command_lines() -> tuple[tuple[str, ...], ...]:
    """Every command line of the docs that answers without a program, a measurement or a server, and the lines below."""
    found = dict.fromkeys(SHORT + LONG_LINES)
    for path in (ROOT / "README.md", ROOT / "docs" / "demo.txt", *sorted((ROOT / "docs").glob("*.md"))):
        for line in re.findall(r"^(?:\$ )?roofline (.*)$", path.read_text(encoding="utf-8"), re.M):
            words = tuple(shlex.split(line))
            if words[:2] == ("plan", "deepseek-v3"):  # a plan of several counts takes as much longer
                words = tuple("8" if word == "8,16" else word for word in words)
            if words and words[0] not in ("trace", "run", "measure", "explore") and "-o" not in words:
                found[words] = None
    return tuple(found)


def command_names() -> tuple[str, ...]:
    """Every command there is."""
    return tuple(cli.list_commands(click.Context(cli)))


MATMUL = ("bf16[B, D] * bf16[D, F]", "--on", "h100", "D=512", "F=512")
SHORT = (
    ("bound", *MATMUL, "B=64"),
    ("bound", *MATMUL, "B=64", "--estimate"),
    ("solve", *MATMUL, "--for", "B"),
    ("sweep", *MATMUL, "B=64,128"),
    ("advise", *MATMUL, "B=64"),
    ("plot", *MATMUL, "--vary", "B=1:16", "--json"),
    ("shard", "bf16[B, D_X] * bf16[D_X, F]", "--on", "v5e:4", "B=64", "D=512", "F=512"),
    ("comm", "AllReduce_X(bf16[B, D] {U_X})", "--on", "h100:8", "B=64", "D=512"),
    ("layout", "bf16[B_X, D]", "--on", "v5e:4", "B=64", "D=512"),
    ("scaling", "tp", "--on", "v5p"),
    ("chips", "h100"),
    ("llm", "llama-2-7b", "--on", "h100", "--context", "128"),
    ("llm", "llama-2-7b", "--on", "h100", "--prompt", "128", "--context", "256", "--output", "16"),
    ("llm", "llama-2-7b", "--on", "h100", "--prompt", "128", "--context", "256", "--chunk", "64", "--batch", "2"),
    ("model", "llama-2-7b"),
    ("accuracy", "h100"),
    ("formula", *MATMUL),
    ("trace", "given.onnx", "--on", "h100"),
    ("trace", "given.py:step", "--input", "bf16[8]"),
    ("profile", "given-points.csv", "--on", "h100"),
    ("measure", "--show", "-o", "given-machine.toml"),
    ("measure", "--quick", "-o", "o.toml"),
    ("run", "bf16[64, 64] @ bf16[64, 64]", "--machine", "given-machine.toml"),
    ("explore", "llama-2-7b", "--on", "h100"),
    ("completion", "bash"),
    ("bound", "h = bf16[B, D] * bf16[D, F]; gelu(h); h", "--on", "h100", "B=64", "D=512", "F=512"),
    ("bound", "--flops", "1e12", "--bytes", "1e9", "--dtype", "bf16", "--on", "h100,mi300x"),
    ("shard", "bf16[B, D] * bf16[D, F]", "--on", "v5e:4", "B=64", "D=512", "F=512", "--layouts"),
    ("solve", "bf16[B, D] * bf16[D, F]", "AllReduce_X(bf16[B, D]{U_X})", "--for", "B", "--on", "v5e:4", "D=512", "F=512"),
    ("formula", "llama-2-7b", "--phase", "decode", "--on", "h100"),
    ("sweep", "llama-2-7b", "--phase", "decode", "--on", "h100", "--batch", "1:8", "--context", "128"),
    ("llm", "llama-2-7b", "--on", "h100,h200", "--phase", "decode", "--context", "128", "--fit"),
    ("train", "llama-2-7b", "--on", "h100", "--memory"),
    ("train", "7e9", "--on", "h100:8", "--tokens", "1T"),
    ("trace", "given.onnx", "--on", "h100", "--formula"),
    ("trace", "given.py:step", "--input", "bf16[8, 8]", "--on", "h100"),
    ("accuracy", "h100", "--runs", "given-samples.csv"),
)  # fmt: skip
#: Lines that take a tenth of a second and more, asked less often.
LONG_LINES = (
    ("scaling", "fsdp", "--on", "v5p", "--torus-axes", "X=3"),
    ("chips", "--filter", "tpu"),
    ("llm", "mixtral-8x7b", "--on", "h100:8", "--tensor", "8", "--prompt", "128", "--batch", "4"),
    ("llm", "llama-2-7b", "--on", "h100:2", "--context", "256", "--draft", "4", "--accept", "0.8"),
    ("llm", "llama-2-7b", "--on", "h100:8", "--prompt", "128", "--output", "16", "--prefill-on", "h100:2"),
    ("train", "llama-2-7b", "--on", "h100:8", "--batch-tokens", "65536"),
    ("train", "llama-2-7b", "--on", "h100:8", "--batch-tokens", "65536", "--tokens", "1T", "--mfu", "0.4"),
    ("plan", "llama-2-7b", "--on", "h100", "--rate", "1/s", "--prompt", "64", "--output", "16", "--count", "1"),
    ("plan", "llama-2-7b", "--on", "h100", "--rate", "given-rates.csv", "--prompt", "64", "--output", "16", "--count", "1"),
    ("calibrate", "given-samples.csv", "--on", "h100"),
    ("train", "llama-2-7b", "--on", "h100:16", "--batch-tokens", "65536", "--search"),
    ("train", "llama-2-7b", "--on", "h100:8", "--batch-tokens", "65536", "--tensor", "2", "--pipeline", "2", "--micro-batches", "4"),
    ("llm", "qwen3-vl-2b-instruct", "--on", "h100", "--prompt", "512", "--images", "1", "--image-size", "640x480"),
    ("llm", "deepseek-v3", "--on", "h200:8", "--tensor", "8", "--context", "4096", "--advise"),
    ("sweep", *MATMUL, "B=1:64", "--keep", "top=3", "-o", "grid"),
)  # fmt: skip

#: What takes the place of a word that stands without an option.
_MODELS = ("llama-2-7b", "gpt-3", "mixtral-8x7b", "deepseek-v3", "qwen3-vl-2b-instruct", "no-model")


#: Options that read a file, with what of theirs is made; any other option of files writes one.
READ = {
    "--chips": "given-machine.toml", "--machine": "given-machine.toml", "--constants": "given-constants.toml",
    "--runs": "given-samples.csv", "--points": "given-points.csv", "--scheduler-file": "given-scheduler.json",
    "--prices": "given-constants.toml", "--rate": "given-rates.csv",
}  # fmt: skip

#: Files that an answer is written to, by their endings; pictures take a quarter of a second, so they are rare.
WRITTEN = (
    "o.json",
    "o.txt",
    "o.csv",
    "o.npz",
    "o.toml",
    "o.JSON",
    "o",
    "no/o.json",
    "o.xyz",
    ".json",
    "o.json.gz",
    "docs",
    "o.c",
    "o.js",
    "o.py",
    "o.tex",
)
WRITTEN_SLOWLY = ("o.html", "o.svg", "o.png", "o.pdf", "o.parquet")

#: Right values, by what completion offers for an option.
RIGHT = {
    "chip": ("h100", "v5e:4", "a100:8", "gb200:4", "cpu", "mi300x", "h100,b200", "given-machine.toml"),
    "model": _MODELS, "dtype": ("bf16", "fp8", "int8", "nvfp4", "fp32", "fp16"), "level": ("hbm", "l2", "vmem", "pcie"),
    "policy": ("min", "tiled", "unfused"), "library": ("vllm", "sglang", "trtllm"), "unit": ("matrix", "vector"),
    "figure": ("hbm=1e12", "bf16=1e15"), "kernel": ("gemm", "attention", "moe"), "convention": ("flops", "macs"),
}  # fmt: skip


@functools.cache
def options_of(name: str) -> tuple[click.Option, ...]:
    """The options of a command, with the one that every command has for a file."""
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return tuple(param for param in found.params if isinstance(param, click.Option))


def _value(rng: random.Random, option: click.Option) -> str:
    """A value of an option: one of its choices, of its kind, one that its help names, or an odd word."""
    if isinstance(option.type, click.Choice) and rng.random() < 0.8:
        return str(rng.choice(list(option.type.choices)))
    read = next((READ[word] for word in option.opts if word in READ), None)
    kind = getattr(option, "values", "")
    if read is not None and rng.random() < 0.5:
        return read
    if read is None and kind == "file" and rng.random() < 0.8:
        return rng.choice(WRITTEN_SLOWLY if rng.random() < 0.05 else WRITTEN)
    if kind in RIGHT and rng.random() < 0.4:
        return rng.choice(RIGHT[kind])
    told = re.findall(r"[\w.-]+", option.help or "")
    if told and rng.random() < 0.3:
        return rng.choice(told)
    return rng.choice(ODD_WORDS)


def with_options(rng: random.Random, words: list[str], most: int = 3) -> list[str]:
    """Add options of the command at random; answers as JSON are checked further."""
    options = options_of(words[0])
    for _ in range(rng.randint(0, most) if options else 0):
        option = rng.choice(options)
        word = max(option.opts + (option.secondary_opts if rng.random() < 0.3 else []), key=len)
        words = [*words, word] if option.is_flag else [*words, word, _value(rng, option)]
    if "--json" not in words and rng.random() < 0.8 and any("--json" in option.opts for option in options):
        words = [*words, "--json"]
    return words


def _mutated_words(rng: random.Random, words: list[str]) -> list[str]:
    """Change a few words: their values, their order, their number."""
    words = list(words)
    for _ in range(rng.randint(0, 3)):
        place = rng.randrange(1, len(words)) if len(words) > 1 else 0
        word, kind = words[place], rng.random()
        if place == 0:
            break
        if kind < 0.55:
            name, equals, _ = word.partition("=")
            if equals and re.fullmatch(r"\w+", name):
                words[place] = f"{name}={rng.choice(ODD_WORDS)}"
            elif word in _MODELS:
                words[place] = rng.choice(_MODELS)
            elif "[" in word and "(" not in word[:1]:
                words[place] = rng.choice(VALID) if rng.random() < 0.5 else mutated(rng)
            elif not word.startswith("-"):
                words[place] = rng.choice(ODD_WORDS)
        elif kind < 0.65:
            del words[place]
        elif kind < 0.75:
            words.insert(place, rng.choice(ODD_WORDS))
        elif kind < 0.8:
            words.insert(place, word)
        else:
            words.append(f"{rng.choice('BDFXNSTn')}={rng.choice(ODD_WORDS)}")
    return words


def _short(rng: random.Random) -> list[str]:
    return list(rng.choice(LONG_LINES if rng.random() < 0.03 else SHORT))


def command(rng: random.Random) -> list[str]:
    """A command line of the docs, with words changed and options added."""
    words = list(rng.choice(command_lines())) if rng.random() < 0.1 else _short(rng)
    return with_options(rng, _mutated_words(rng, words))


def option(rng: random.Random) -> list[str]:
    """A short question with one to four options and nothing else changed."""
    return with_options(rng, _short(rng), 4)


def notation(rng: random.Random) -> list[str]:
    """A line of the notation, damaged, with odd sizes."""
    line = mutated(rng) if rng.random() < 0.8 else random_text(rng)
    sizes = [f"{label}={rng.choice(ODD_WORDS) if rng.random() < 0.3 else rng.randint(1, 9000)}"
             for label in rng.sample("BDFSTNHKXYC", rng.randint(0, 8))]  # fmt: skip
    name = rng.choice(("bound", "bound", "bound", "shard", "comm", "layout"))
    options = ["--on", rng.choice(("h100", "v5e", "v5e:4x4", "cpu", "a100:8"))]
    return with_options(rng, [name, line, *sizes, *options], 1)
