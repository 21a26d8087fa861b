"""Every option of every command, once: its words, what it means, its group, what its value may be.

Commands take options by name. A word means one thing in all commands; a command may choose a type or a default, and
what the meaning comes to there stands beside that of functions (:data:`roofline.meanings.MEANINGS_OF`). Help, the
reference and completion follow from this table.

>>> [row.word for row in GROUPS["formats"] if isinstance(row, OptionRow)][:3]
['--weights', '--activations', '--kv']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import click

from roofline.bounds.conventions import settings
from roofline.cli.command import Option
from roofline.cli.option_values import FRACTION, READERS, prices, targets, words_of_lists
from roofline.errors import InputError
from roofline.formulas.printers import PRINTED
from roofline.frozen import NamedTuple
from roofline.meanings import MEANINGS, MEANINGS_OF

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Any], Any]


class OptionRow(NamedTuple):
    """One option: its words (behind a bar older ones that are taken too), the form of its value, what it means.

    ``more`` are settings of click's, ``values`` what completion offers: chip, model, dtype, policy, library, file.
    ``read`` is what makes its text an argument of the library (:data:`READERS`); ``means`` are the name and the value
    of the argument that a flag stands for, where they are others.
    """

    words: str
    metavar: str
    help: str
    values: str = ""
    more: Mapping[str, Any] = {}
    read: str = ""
    means: tuple[str, Any] | None = None

    @property
    def word(self) -> str:
        """The word that the option is called by."""
        shown = [word for word in self.words.partition("|")[0].split() if word.startswith("--")]
        return shown[0].partition("/")[0]


_WAYS = "N[,N…]"


def _row(
    words: str, metavar: str = "", help: str = "", values: str = "", read: str = "",
    means: tuple[str, Any] | None = None, **more: Any,
) -> OptionRow:  # fmt: skip
    row = OptionRow(words, metavar, help, values, more, read, means)
    return row if help else row._replace(help=MEANINGS[more.get("name") or row.word[2:].replace("-", "_")])


def _flag(words: str, help: str = "", **more: Any) -> OptionRow:
    return _row(words, "", help, is_flag=True, **more)


#: What stands several times, or with commas in one word.
_LISTED: dict[str, Any] = {"multiple": True, "callback": words_of_lists}

#: The options by group. A plain word is the name of a convention, whose option its field says; a row without help means
#: what the argument of its name does.
GROUPS: dict[str, tuple[OptionRow | str, ...]] = {
    "what is asked": (
        _row("--for", "UNKNOWN", name="for_"),
        _row("--equal", "WHAT", "Of two expressions: where flops (default), bytes, sent or time are equal."),
        _row("--time", "TIME", MEANINGS_OF["solve"]["time"]),
        _row("--bandwidth", "B/s[,…]", name="bandwidths", **_LISTED),
        _row("--than", "CHIP[,…]", "Chips to compare with (default: a few current).", "chip", name="others", **_LISTED),
        _row("--vary", "SIZE[=VALUES]"),
        _row("--kind", "", "What to draw; found by itself."),
        _row("--phase", type=click.Choice(["prefill", "decode", "mixed", "train"])),
        _row("--batch", "N", read="size"),
        _row("--prompt", "TOKENS", read="size"),
        _row("--past", "TOKENS", read="size"),
        _row("--context", "TOKENS", read="size"),
        _row("--output", "TOKENS"),
        _row("--chunk", "TOKENS", read="size"),
        _row("--source", "TOKENS", read="size"),
        _row("--images", "N"),
        _row("--image-size", "HxW"),
        _flag("--all-logits", "Prefill makes output for every token, not only the last."),
        _row("--batch-tokens", "N", read="size"),
        _row("--sequence", "N", read="size"),
        _row("--tokens", "N", MEANINGS_OF["train"]["tokens"]),
        _row("--days", "DAYS", callback=FRACTION),
        _row("--chip-hours", "HOURS", callback=FRACTION),
        _row("--mfu", "FRACTION", callback=FRACTION),
        _flag("--memory"),
        _flag("--search"),
        _row("--input", "TENSOR", multiple=True, name="inputs"),
        _row(
            "--jax",
            "",
            "The function is JAX's (default: torch for .py, ONNX for .onnx).",
            name="frontend",
            flag_value="jax",
        ),
        _row("--trips", "N|PLACE=N", multiple=True),
        _flag("--local"),
        _row("--ratio", "FIGURE/FIGURE", "One figure over another, the most first: bf16/price, hbm/pcie."),
        _flag("--backward"),
        _flag("--input-gradients"),
        _row("--rate", "RATE", required=True),
        _row("--shared", "SHARE", callback=FRACTION),
        _row("--lengths", type=click.Choice(["geometric", "fixed"]), default="geometric"),
        _row("--why", "DEPLOYMENT", "Why not this one: h100, 'tensor 4', 'h100:8 tensor 8 fp8'."),
        _row("--filter", "TEXT", MEANINGS["filter"], name="filter_"),
        _row("--op", "KIND", MEANINGS_OF["accuracy"]["op"], values="kernel"),
        _row("--threads", "N", type=click.IntRange(1, 4096)),
        _row("--backend", type=click.Choice(["torch", "numpy"])),
        _row("--seconds", "N", type=float),
        _flag("--quick"),
        _row("--device", "cuda[:N]|jax[:N]"),
        _flag("--no-library", "Leave out the matrix products of PyTorch or NumPy."),
        _flag("--show", "Show what the file holds, without measuring.", name="again"),
    ),
    "machine": (
        _row("--on", "TARGET[,TARGET]…", MEANINGS_OF["bound"]["on"], "chip", multiple=True),
        _row("--count", "N", "Chips of a kind that may be used.", default="1:64"),
        _row("--set", "FIGURE=VALUE[,…]", MEANINGS["set"], "figure", name="set_", **_LISTED),
        _row("--chips", "PATH", values="file", multiple=True, name="files"),
        _row("--unit", "UNIT", values="unit"),
        _row("--over", "LEVEL", values="level"),
        _row("--warm", "", "Data lies in whichever level holds it all.", name="over", flag_value="warm"),
        _row("--cold", "", "Data starts in the main memory (default).", name="over", flag_value="main"),
        _flag("--achievable"),
        _row("--pool", "N", type=click.IntRange(1), default=1),
    ),
    "several chips": (
        _row("--tensor", _WAYS, read="chips"),
        _flag("--sequence-parallel"),
        _row("--pipeline", _WAYS, read="chips"),
        _row("--microbatches|--micro-batches", "N", read="parts", type=int),
        _row("--balance", "HOW", values="layers time"),
        _row("--data", _WAYS, read="chips"),
        _row("--expert", _WAYS, read="chips"),
        _row("--expert-exchange", "HOW", values="all-to-all per-expert all-reduce"),
        _row("--shared-experts", "HOW", values="replicated split"),
        _row("--context-parallel", _WAYS, read="chips"),
        _row("--kv-parallel", _WAYS, read="chips"),
        _row("--fsdp", "N", read="chips", type=int),
        _row("--zero", "STAGE", read="stages", values="0 1 2 3", type=int, default=3),
        _row("--schedule", "NAME", values="gpipe 1f1b interleaved zb-h1 zb-h2", default="1f1b"),
        _row("--chunks", "N", type=int, default=1),
        "mesh",
        _row("--link", "B/s"),
        "algorithm",
        _flag("--sharp"),
        "wrap",
        _row("--network", "LINK"),
        _row("--torus-axes", "AXIS=COUNT,…", multiple=True),
        "plan",
        _flag("--layouts"),
        "uneven",
        "use",
        "density",
    ),
    "formats": (
        _row("--weights", "DTYPE[,…]", values="dtype"),
        _row("--activations", "DTYPE[,…]", values="dtype"),
        _row("--kv", "DTYPE[,…]", values="dtype"),
        _row("--dtype", "DTYPE", values="dtype"),
        "compute",
        _row("--dispatch", "DTYPE", values="dtype"),
        _row("--combine", "DTYPE", values="dtype"),
        _row("--gradients", "DTYPE", values="dtype"),
        _row("--moments", "DTYPE", values="dtype", default="fp32"),
        _row("--master", "DTYPE", values="dtype", default="fp32"),
        _row("--lora", "RANK", read="size", type=int),
        _row("--saved-activations", "DTYPE", values="dtype"),
        _row("--formats", "NAME[,NAME…]", values="dtype"),
    ),
    "what is counted": (
        _row("--flops", "AMOUNT"),
        _row("--bytes", "AMOUNT", MEANINGS["bytes"], name="bytes_"),
        _row("--bytes-per-chip", "AMOUNT", "Bytes that each chip holds before."),
        _row("--intensity", "FLOP/B"),
        "policy",
        "tile",
        "exact",
        "count_padding",
        "pad",
        _flag("--full-attention", "Count every pair of query and key, masked or not.", means=("count", "full")),
        _flag("--unfused"),
        _row("--checkpoint", "POLICY", values="none selective matmuls full", read="policies"),
        _row("--optimizer", "NAME", values="sgd adam adamw rmsprop adagrad adafactor muon"),
        _row(
            "--convention | --count",
            "CONVENTION",
            "What counts as a FLOP: flops, macs, all …",
            "convention",
            default="flops",
        ),
    ),
    "what to expect": (
        _row("--measured", "TIME"),
        _flag("--estimate"),
        _row("--library", "NAME", values="library", default="vllm"),
        _flag("--eager"),
        _row("--constants", "FILE", values="file", multiple=True),
        _row("--runs | --data", "FILE", "Your own runs, to hold constants against.", "file", name="data"),
        _row("--model", "MODEL", "The model that was served: then a row is a served run.", "model"),
        _row("--from", "[CHIP+]LIBRARY", values="library", name="start"),
        "overlap",
        "overhead",
    ),
    "limits and cost": (
        _row("--ttft", "TIME"),
        _row("--tpot", "TIME"),
        _row("--e2e", "TIME"),
        _row("--percentile", "P", type=float, default=95.0),
        _row("--price|--prices", "DOLLARS", callback=prices),
        _row("--power", "WATTS"),
        _row("--objective", type=click.Choice(["cost", "chips", "energy"])),
        _row("--most", "N", type=click.IntRange(1), default=1024),
        _flag("--fit"),
    ),
    "ways of serving": (
        _row("--adapters", "N", read="size"),
        _row("--kv-block", "TOKENS", read="size"),
        _row("--host-layers", "N", read="size"),
        _flag("--host-kv"),
        _row("--draft", "N", type=int),
        _row("--accept", "P", callback=FRACTION, default="0.8"),
        _row("--draft-by", "MODEL", values="model"),
        _row("--draft-weights", "DTYPE", values="dtype"),
        _row("--prefill-on", "TARGET", values="chip"),
        _row("--prefill-tensor", "N", type=click.IntRange(1)),
        _row("--prefill-batch", "N", type=click.IntRange(1), default=1),
        _row("--prefill-link | --link", "B/s", "One way from a prefill chip to the servers that decode.", name="link"),
        _flag("--disaggregate"),
        _row("--form", type=click.Choice(["lower", "op_by_op", "upper"]), default="lower"),
    ),
    "picture": (
        _row("--view", "", "A picture, in the terminal or in the file of -o."),
        _row("--name", "TEXT", "A name for each expression, in order.", multiple=True, name="names"),
        _row("--ceiling", "DTYPE[,…]", values="dtype", name="dtypes", **_LISTED),
        _row("--level", "LEVEL[,…]", values="level", name="levels", **_LISTED),
        _row(
            "--points | --measured",
            "FILE|TIME",
            "Roofline: measured points, CSV of name,flops,bytes,seconds; or a time of the one expression.",
            "file",
            name="measured",
        ),
        _row("--title", "TEXT", default=""),
        _flag("--dark", "Light on dark."),
        _row("--width", "PIXELS", "Width of the picture.", type=click.IntRange(320, 4000)),
        _row("--chart", "FILE", "Draw the points under the roof: .svg, .png or .pdf.", "file"),
        _row("--roofline", "FILE", "Draw the roofline: levels, registers and library.", "file"),
        _row("--against", "CHIP", "A data sheet to draw beside it, with --roofline.", "chip"),
        _row("--split", "FILE", "Draw the time by operation, and what of it the roof needs.", "file"),
    ),
    "how it is worked out": (
        _row("--keep", "WHAT"),
        _row(
            "--port", "N", "Port (default: any free one).", type=click.IntRange(0, 65535), default=0, show_default=False
        ),
        _flag("--no-browser", "Print the address, and open no browser."),
        _row(
            "--limit",
            "SECONDS",
            "The longest that a question may take.",
            type=click.FloatRange(0.1, 3600),
            default=30.0,
        ),
        _row("--workers", "N", type=click.IntRange(0)),
        _row("--scheduler", "ADDRESS"),
        _row("--scheduler-file", "FILE", values="file"),
        _row("--block-rows", "N", type=click.IntRange(1)),
    ),
    "answer": (
        _flag("--explain", "Show the arithmetic and the source of every figure."),
        _flag("--advise"),
        _flag("--simulate", "Check the best replica by a simulation, request by request."),
        _flag("--template", "Print a machine file to edit, for a chip of your own."),
        _flag("--sources", "With one chip: every figure's source, and what other sources say."),
        _flag("--modules", "Parameters by module, for one model."),
        _flag("--parts", "Parameters of attention, MLP, experts, vocabulary, with and without norms."),
        _flag("--flat", "List every operation rather than the tree of modules."),
        _row("--depth", "N", "How many levels of the tree to show.", type=int),
        _row("--top", "N", type=click.IntRange(1), default=20),
        _row("--sort", "FIGURE", values="name peak bandwidth capacity ridge power price"),
        _row("--columns", "NAMES"),
        _flag("--formula", "The closed form in the open sizes: terms, flips, elasticities; sizes are its point."),
        *(
            _row(f"--{each.word}", "", f"Print it in {each.title}.", name="language", flag_value=language)
            for language, each in PRINTED.items()
        ),
        _row("--csv", "FILE", "Write columns name, dtype, flops, bytes, seconds.", "file", name="csv_file"),
        _row("-o --output-file", "FILE", "Write to a file.", "file", name="file"),
        _flag("--json", "Print the answer as JSON in SI units.", name="as_json"),
    ),
}

#: What a convention's form is to click; any other is one word.
_FORMS: dict[str, dict[str, Any]] = {
    "flag": {"is_flag": True},
    "share": {"callback": FRACTION},
    "mesh": {"multiple": True},
    "algorithms": {"multiple": True},
    "yes or no": {"default": None},
}

#: What completion offers for a convention.
_VALUES = {"policy": "policy", "compute": "dtype", "algorithm": "algorithm"}


def _convention(name: str, default: str = "") -> OptionRow:
    """The row of a convention's option; ``default`` is what the command takes where it is left out."""
    setting = settings()[name]
    word = setting.option or name
    words = f"--{word}/--no-{word}" if setting.form == "yes or no" else f"--{word}"
    more = {**_FORMS.get(setting.form, {}), "name": name}
    if setting.choices:
        more |= {"type": click.Choice(setting.choices), "default": setting.choices[0]}
    return OptionRow(words, setting.metavar, setting.explain_option(default), _VALUES.get(name, ""), more)


def _by_name() -> dict[str, tuple[str, int, OptionRow | str]]:
    found: dict[str, tuple[str, int, OptionRow | str]] = {}
    for rank, (group, rows) in enumerate(GROUPS.items()):
        for row in rows:
            word = settings()[row].option or row if isinstance(row, str) else row.word.removeprefix("--")
            found[word] = (group, rank, row)
    return found


_ROWS = _by_name()

#: The words of all options, without dashes.
OPTION_WORDS = frozenset(_ROWS)


def option(name: str, /, *, policy: str = "", older: str = "", words: str = "", **changes: Any) -> Decorator:
    """The option of this name, for a command.

    ``changes`` are what this command has of its own: ``help``, ``metavar``, ``values`` and settings of click's.
    ``words`` are its words where they are others here, ``older`` words that this command takes too, ``policy`` is its
    default byte policy.
    """
    group, rank, row = _ROWS[name]

    def add(function: Any) -> Any:  # only what a command takes is worked out
        found = _convention(row, policy) if isinstance(row, str) else row
        shown, _, past = found.words.partition("|")
        more = {
            name: value for name, value in {**found.more, **changes}.items() if (name, value) != ("flag_value", None)
        }
        named = more.pop("name", None)
        more.setdefault("values", found.values)
        more.setdefault("help", found.help)
        more.setdefault("metavar", found.metavar or None)
        more.setdefault("show_default", bool(more.get("default")) and not more.get("is_flag"))
        said = [*(words or shown).split(), *([named] if named else []), *past.split(), *older.split()]
        taken = (*past.split(), *older.split())
        return click.option(*said, cls=Option, group=group, rank=rank, older=taken, **more)(function)

    return add


def options(names: str, /, **changes: Any) -> list[Decorator]:
    """The options of several names; ``changes`` go for all of them."""
    return [option(name, **changes) for name in names.split()]


def output_option(help: str, **changes: Any) -> Decorator:
    """``-o FILE`` of a command that writes files of its own."""
    return option("output-file", name="output", older="--output", help=help, **changes)


class OptionGroup(list[Decorator]):
    """Options that stand together in commands, and become arguments of the library together.

    ``changes`` are what the option of a word has of its own here, as in :func:`option`.
    """

    def __init__(self, words: str, changes: Mapping[str, Mapping[str, Any]] = MappingProxyType({})) -> None:
        super().__init__(option(word, **changes.get(word, {})) for word in words.split())
        self.words = tuple(words.split())

    @property
    def names(self) -> tuple[str, ...]:
        """Their names as parameters of a command's function."""
        return tuple(word.replace("-", "_") for word in self.words)

    def arguments(self, options: dict[str, Any], on: str | None = None) -> dict[str, Any]:
        """The arguments of the library that they are, those given; ``options`` loses them.

        A number of chips of the target ``on`` may be open.

        >>> OptionGroup("tensor full-attention").arguments({"tensor": "2,4", "full_attention": True})
        {'tensor': [2, 4], 'count': 'full'}
        """
        found: dict[str, Any] = {}
        for word, name in zip(self.words, self.names, strict=True):
            row, value = _ROWS[word][2], options.pop(name)
            if isinstance(row, OptionRow):
                value = READERS[row.read](name, value, on) if row.read else value
                name, value = row.means if row.means and value else (name, value)
            if value is not None and value is not False:
                found[name] = value
        return found


def with_options(*groups: Sequence[Decorator] | Decorator) -> Callable[[Function], Function]:
    """Add options to a command, in order."""

    def add(function: Function) -> Function:
        listed = [each for group in groups for each in (group if isinstance(group, Sequence) else (group,))]
        for each in reversed(listed):
            function = each(function)
        return function

    return add


def _last_of_one(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Take the one value of an option; a second is an error, not an override."""
    named = targets(values)
    if len(named) > 1:
        wrong = f"{context.info_name} takes one machine, and --on names {len(named)}: {', '.join(map(str, named))}"
        raise InputError(wrong, hint="roofline bound, llm, train and solve put several side by side")
    return values[0] if values else None


#: How a machine is described, beside its name.
DESCRIBED = options("set chips unit over warm cold achievable")

#: One machine; several, ``--on h100:8,h200:8`` or once for each.
TARGET = [option("on", callback=_last_of_one, metavar="TARGET", help="h100, h100:8, v5e:4x4, a TOML file."), *DESCRIBED]
SEVERAL = [option("on"), *DESCRIBED]

#: Which bytes count of a model or a program, by the default policy.
BYTES = {policy: [option("policy", policy=policy), option("tile")] for policy in ("minimal", "each-op")}

#: How the work of expressions is counted; the same with raw work.
COUNTING = options("policy tile exact valid-only pad compute")
WORK = [*options("flops bytes intensity dtype"), *COUNTING]

NETWORK = options("mesh link algorithm sharp wrap")
MESH = [*NETWORK, *options("plan uneven use density")]

ESTIMATE = options("overlap overhead")

#: Where blocks of rows or of candidates are worked out, and what is kept of rows.
WORKERS = options("workers scheduler scheduler-file")
BLOCKS = [*options("keep block-rows"), *WORKERS]
EXPECT = options("estimate library constants eager")

#: Formats of a model's parts; how its bytes and pairs are counted.
FORMATS = [*options("weights activations kv compute"), *BYTES["minimal"], option("full-attention")]

_LAYOUT = (
    "tensor sequence-parallel pipeline microbatches balance data expert expert-exchange dispatch combine "
    "shared-experts context-parallel kv-parallel"
)
#: How several chips share a model; the same with a list of every number.
SHARING = OptionGroup(_LAYOUT)
SHARING_OF_EACH = OptionGroup(_LAYOUT, {"microbatches": {"metavar": _WAYS, "type": str}})

#: What is served and where it lies.
SERVED = OptionGroup("lora source adapters kv-block host-layers host-kv", {"lora": {"type": str}})

#: Formats of a model's tensors, and which pairs of query and key count.
STORED = OptionGroup("weights activations kv full-attention")

#: Sizes of a step of a model; what a training step has alone.
STEP_SIZES = OptionGroup("batch prompt past context chunk batch-tokens sequence")
OF_TRAINING = OptionGroup(
    "fsdp zero checkpoint",
    {
        "fsdp": {"metavar": _WAYS, "type": str}, "zero": {"metavar": "STAGE[,…]", "type": str, "default": None},
        "checkpoint": {"metavar": "POLICY[,…]"},
    },
)  # fmt: skip

#: A question about a model beside its conventions and its target.
MODEL_QUESTION = [option("phase"), *STEP_SIZES, *OF_TRAINING, *SHARING_OF_EACH, *STORED, *SERVED]
