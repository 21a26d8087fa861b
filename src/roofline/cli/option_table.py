"""Every option of every command, once: its words, what it means, its group, what its value may be.

Commands take options by name. A word means one thing in all commands; a command may choose a type or a default, and say
with ``help`` what the meaning comes to there. Help, the reference and completion follow from this table.

>>> [row.word for row in GROUPS["formats"] if isinstance(row, OptionRow)][:3]
['--weights', '--activations', '--kv']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from roofline.bounds.conventions import settings
from roofline.cli.command import Option
from roofline.cli.values import FRACTION, PRICE
from roofline.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])
Decorator = Callable[[Any], Any]


class OptionRow(NamedTuple):
    """One option: its words (behind a bar older ones that are taken too), the form of its value, what it means.

    ``more`` are settings of click's, ``values`` what completion offers: chip, model, dtype, policy, library, file.
    """

    words: str
    metavar: str
    help: str
    values: str = ""
    more: Mapping[str, Any] = {}

    @property
    def word(self) -> str:
        """The word that the option is called by."""
        shown = [word for word in self.words.partition("|")[0].split() if word.startswith("--")]
        return shown[0].partition("/")[0]


_WAYS = "N[,N…]"


def _row(words: str, metavar: str, help: str, values: str = "", **more: Any) -> OptionRow:
    return OptionRow(words, metavar, help, values, more)


def _flag(words: str, help: str, **more: Any) -> OptionRow:
    return OptionRow(words, "", help, "", {"is_flag": True, **more})


#: The options by group. A plain word is the name of a convention, whose option its field says.
GROUPS: dict[str, tuple[OptionRow | str, ...]] = {
    "what is asked": (
        _row("--for", "UNKNOWN", "What is solved for.", name="for_"),
        _row("--equal", "WHAT", "Of two expressions: where flops (default), bytes, sent or time are equal."),
        _row("--bandwidth", "B/s", "A bandwidth, or several.", name="bandwidths", multiple=True),
        _row(
            "--than",
            "CHIP",
            "Chips to compare with (default: a few current ones).",
            "chip",
            multiple=True,
            name="others",
        ),
        _row("--vary", "SIZE[=VALUES]", "The size along the horizontal axis: B, or B=1:511.", multiple=True),
        _row("--kind", "", "What to draw; found by itself."),
        _row(
            "--phase",
            "",
            "Which step of a model (default: as its sizes say).",
            type=click.Choice(["prefill", "decode", "mixed", "train"]),
        ),
        _row("--batch", "N", "Sequences at once (default 1); a list or range gives a table."),
        _row("--prompt", "TOKENS", "Tokens to prefill of each sequence."),
        _row("--past", "TOKENS", "Tokens in the cache already, before the prompt's."),
        _row("--context", "TOKENS", "Tokens in the cache when decoding (default: past and prompt)."),
        _row("--output", "TOKENS", "Tokens of an answer: prefill, then so many."),
        _row("--chunk", "TOKENS", "Prefill the prompt in chunks, beside what decodes at --context."),
        _row("--images", "N", "Images in each prompt; their tokens are part of it."),
        _row("--image-size", "HxW", "Height and width of an image in pixels (default: the tower's own)."),
        _flag("--all-logits", "Prefill makes output for every token, not only the last."),
        _row("--batch-tokens", "N", "Tokens of one training step over all chips, as in 4M."),
        _row("--sequence", "N", "Tokens of a training sequence (default 4096, or the most it takes)."),
        _row("--tokens", "N", "A token budget, as in 15T."),
        _row("--days", "DAYS", "Without a step: days of the budget; gives MFU or chips.", callback=FRACTION),
        _row("--chip-hours", "HOURS", "Without a step: hours of all chips; gives MFU.", callback=FRACTION),
        _row("--mfu", "FRACTION", "A stated utilisation in place of the floor.", callback=FRACTION),
        _row("--measured", "TIME", "What a step takes in reality (14.2s): MFU, and how far off the floor."),
        _flag("--memory", "Without a layout: what training holds in all, and the chips that hold it."),
        _flag("--search", "The fastest layout that fits: what is not given is tried."),
        _row(
            "--input",
            "TENSOR",
            'An input: "bf16[1, 3, 224, 224]", with values "int64[2] = 0, 1"; repeat for more.',
            multiple=True,
            name="inputs",
        ),
        _row(
            "--jax",
            "",
            "The function is JAX's (default: torch for .py, ONNX for .onnx).",
            name="frontend",
            flag_value="jax",
        ),
        _row(
            "--trips",
            "N | PLACE=N",
            "How often loops run that JAX or an ONNX file leaves open; repeat for each, as in step.py:12=10.",
            multiple=True,
        ),
        _flag("--local", "The sizes are those of one chip's part, as a profile shows them."),
        _row("--ratio", "FIGURE/FIGURE", "One figure over another: hbm/pcie, bf16/vpu.fp32."),
        _flag("--backward", "Trace the gradient too."),
        _row("--rate", "RATE", "Requests: 12/s, 700/min, 40k/h; a CSV file with columns time, rate.", required=True),
        _row("--shared", "SHARE", "Share of each prompt that is cached already (80%).", callback=FRACTION),
        _row(
            "--lengths",
            "",
            "How lengths of answers are spread.",
            type=click.Choice(["geometric", "fixed"]),
            default="geometric",
        ),
        _row("--why", "DEPLOYMENT", "Why not this one: 'h100:8 tensor 8 fp8'."),
        _row("--filter", "TEXT", "Only chips with this text in a name, maker or family.", name="filter_"),
        _row("--op", "KIND", "A kind of kernel: gemm, attention, moe, collective …", "kernel", name="kernel"),
        _row("--threads", "N", "Threads; by default one a core.", type=click.IntRange(1, 4096)),
        _row("--seconds", "N", "Seconds of sampling: more confirm more on a shared machine.", type=float),
        _flag("--quick", "At most ten seconds: fewer working sets and windows."),
        _row("--device", "cuda[:N]|jax[:N]", "Measure an accelerator through PyTorch or JAX instead."),
        _flag("--no-library", "Leave out the matrix products of PyTorch or NumPy."),
        _flag("--show", "Show what the file holds, without measuring.", name="again"),
    ),
    "machine": (
        _row("--on", "TARGET[,TARGET]…", "h100, h100:8, v5e:4x4, a TOML file; or several.", "chip", multiple=True),
        _row("--count", "N", "Chips of a kind that may be used.", default="1:64"),
        _row("--set", "FIGURE=VALUE", "Override a figure: hbm=8.2e11.", "figure", multiple=True, name="set_"),
        _row("--chips", "PATH", "Machine file or folder over the catalog.", "file", multiple=True, name="files"),
        _row("--machine", "FILE", "Machine file of `roofline measure`; by default the one of --on this.", "file"),
        _row("--unit", "UNIT", "Run the arithmetic on matrix, vector, or a unit's own name.", "unit"),
        _row("--over", "LEVEL", "Where data comes from: hbm (default), l2, vmem, pcie …", "level"),
        _row("--warm", "", "Data lies in whichever level holds it all.", name="over", flag_value="warm"),
        _row("--cold", "", "Data starts in the main memory (default).", name="over", flag_value="main"),
        _flag("--achievable", "Use measured fractions of the data-sheet rates where known."),
        _row("--pool", "N", "Chips that share evenly.", type=click.IntRange(1), default=1),
    ),
    "several chips": (
        _row("--tensor", _WAYS, "Chips that split each layer; a list gives a table."),
        _flag("--sequence-parallel", "They split the hidden state between blocks by tokens."),
        _row("--pipeline", _WAYS, "Stages of consecutive layers."),
        _row(
            "--microbatches --micro-batches",
            "N",
            "Parts of a batch in flight in a pipeline (default: one a stage).",
            type=int,
            name="micro_batches",
        ),
        _row("--balance", "HOW", "Cut stages by layers (default) or by time.", "layers time"),
        _row("--data", _WAYS, "Copies of the model (default: what chips are left)."),
        _row("--expert", _WAYS, "Chips over which whole experts are spread."),
        _row(
            "--expert-exchange",
            "HOW",
            "Tokens are sent to experts (all-to-all, per-expert), or sums are added up (all-reduce).",
            "all-to-all per-expert all-reduce",
        ),
        _row("--shared-experts", "HOW", "replicated (default) or split, where tokens are sent.", "replicated split"),
        _row("--context-parallel", _WAYS, "Chips that share each sequence."),
        _row("--kv-parallel", _WAYS, "Of the tensor chips, how many share keys and values."),
        _row("--fsdp", "N", "Chips that share one copy in training (default: what is left).", type=int),
        _row("--zero", "STAGE", "0 nothing … 3 weights too.", "0 1 2 3", type=int, default=3),
        _row("--schedule", "NAME", "gpipe, 1f1b, interleaved, zb-h1.", "gpipe 1f1b interleaved zb-h1", default="1f1b"),
        _row("--chunks", "N", "Pieces a stage (interleaved).", type=int, default=1),
        "mesh",
        _row("--link", "B/s", "One-way bandwidth of a link to other chips."),
        "algorithm",
        _flag("--sharp", "AllReduce in the switches (SHARP, NVLS)."),
        "wrap",
        _row("--network", "LINK", "Count what goes over one link only: nvlink, ib, dcn."),
        _row("--torus-axes", "AXIS=COUNT,…", "Axes of a torus that a mesh axis lies over.", multiple=True),
        "plan",
        "uneven",
        "use",
        "density",
    ),
    "formats": (
        _row("--weights", "DTYPE", "Format of the matrices (default: the model's own).", "dtype"),
        _row("--activations", "DTYPE", "Format of activations (default: the model's own).", "dtype"),
        _row("--kv", "DTYPE", "Format of keys and values (default: as activations).", "dtype"),
        _row("--dtype", "DTYPE", "Arithmetic dtype of raw work (default bf16).", "dtype"),
        "compute",
        _row("--dispatch", "DTYPE", "Format in which tokens are sent to experts.", "dtype"),
        _row("--combine", "DTYPE", "Format in which experts' results are sent back.", "dtype"),
        _row("--gradients", "DTYPE", "Format of gradients (default: as weights).", "dtype"),
        _row("--moments", "DTYPE", "Format of optimizer states.", "dtype", default="fp32"),
        _row("--master", "DTYPE", "Second copy of weights, or none.", "dtype", default="fp32"),
        _row("--saved-activations", "DTYPE", "Format that activations wait in (default: their own).", "dtype"),
        _row("--formats", "NAME[,NAME…]", "Formats to choose from: bf16, fp8, 'fp8 kv fp8', int4 …", "dtype"),
    ),
    "what is counted": (
        _row("--flops", "AMOUNT", "Raw work: FLOPs, as a number or a formula of named sizes."),
        _row("--bytes", "AMOUNT", "Raw work: bytes, as a number or a formula.", name="bytes_"),
        _row("--intensity", "FLOP/B", "Raw work: an arithmetic intensity."),
        "policy",
        "tile",
        "exact",
        "count_padding",
        "pad",
        _flag("--full-attention", "Count every pair of query and key, masked or not."),
        _flag("--unfused", "Attention writes its scores and probabilities to memory."),
        _row(
            "--checkpoint",
            "POLICY",
            "What training keeps: none, selective, matmuls, full.",
            "none selective matmuls full",
        ),
        _row("--optimizer", "NAME", "And a step of the optimizer.", "sgd adam adamw rmsprop adagrad"),
        _row(
            "--convention | --count",
            "CONVENTION",
            "What counts as a FLOP: flops, macs, all …",
            "convention",
            default="flops",
        ),
    ),
    "what to expect": (
        _flag("--estimate", "Say what to expect too, by constants of a library's kernels."),
        _row("--library", "NAME", "Whose kernels: vllm, trtllm, sglang.", "library", default="vllm"),
        _flag("--eager", "Expect kernels without a CUDA graph (default: with one)."),
        _row("--constants", "FILE", "Constants of your own, from roofline calibrate.", "file", multiple=True),
        _row("--runs | --data", "FILE", "Your own runs, to hold constants against.", "file", name="data"),
        _row("--model", "MODEL", "The model that was served: then a row is a served run.", "model"),
        _row("--from", "LIBRARY", "Whose constants to start from (default: those of vllm).", "library", name="start"),
        "overlap",
        "overhead",
    ),
    "limits and cost": (
        _row("--ttft", "TIME", "Longest time to first token: 500ms."),
        _row("--tpot", "TIME", "Longest mean time between tokens of a request: 30ms."),
        _row("--e2e", "TIME", "Longest time to the last token."),
        _row("--percentile", "P", "Of requests in limits.", type=float, default=95.0),
        _row("--price", "DOLLARS", "Of one chip for an hour.", callback=PRICE),
        _row("--prices", "CHIP=DOLLARS", "Of a chip for an hour: h100=2.5,h200=3.1; or table.", multiple=True),
        _row("--power", "WATTS", "Of one chip."),
        _row("--objective", "", "What is least (cost, where there are prices).", type=click.Choice(["cost", "chips"])),
        _row("--most", "N", "Sequences at once.", type=click.IntRange(1), default=1024),
        _flag("--fit", "The fewest chips, and the least slice, that hold model and sequences."),
    ),
    "ways of serving": (
        _row("--draft", "N", "Speculative decoding with drafts of N tokens.", type=int),
        _row("--accept", "P", "Chance that one holds.", callback=FRACTION, default="0.8"),
        _row("--draft-by", "MODEL", "What drafts: a model, mtp, or a fraction of a step (0.1).", "model"),
        _row("--draft-weights", "DTYPE", "Format of a drafting model's matrices (default: its own).", "dtype"),
        _row("--prefill-on", "TARGET", "Prefill on chips of its own: how many for each that decodes.", "chip"),
        _row("--prefill-tensor", "N", "Chips that split a prefill server (all).", type=click.IntRange(1)),
        _row("--prefill-batch", "N", "Prompts at once.", type=click.IntRange(1), default=1),
        _row("--prefill-link | --link", "B/s", "One way from a prefill chip to the servers that decode.", name="link"),
        _flag("--disaggregate", "Prefill on chips of its own too."),
        _row(
            "--form",
            "",
            "Which bound of a step adds up to longer times.",
            type=click.Choice(["lower", "op_by_op", "upper"]),
            default="lower",
        ),
    ),
    "picture": (
        _row("--view", "", "A picture, in the terminal or in the file of -o."),
        _row("--name", "TEXT", "A name for each expression, in order.", multiple=True, name="names"),
        _row("--ceiling", "DTYPE", "Roofline: a ceiling for each dtype.", "dtype", multiple=True, name="dtypes"),
        _row("--level", "LEVEL", "Roofline: a slope for each memory level.", "level", multiple=True, name="levels"),
        _row(
            "--points | --measured",
            "FILE",
            "Roofline: measured points, CSV of name,flops,bytes,seconds.",
            "file",
            name="measured",
        ),
        _row("--title", "TEXT", "A title in place of the one made up.", default=""),
        _flag("--dark", "Light on dark."),
        _row("--width", "PIXELS", "Width of the picture.", type=click.IntRange(320, 4000)),
        _row("--chart", "FILE", "Draw the points under the roof: .svg, .png or .pdf.", "file"),
        _row("--roofline", "FILE", "Draw the roofline: levels, registers and library.", "file"),
        _row("--against", "CHIP", "A data sheet to draw beside it, with --roofline.", "chip"),
        _row("--split", "FILE", "Draw the time by operation, and what of it the roof needs.", "file"),
    ),
    "how it is worked out": (
        _row("--keep", "WHAT", "Reduce in blocks: front, front=lower:memory, top=100, histogram=lower; rows."),
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
        _row("--workers", "N", "So many processes of this machine, by Dask.", type=click.IntRange(0)),
        _row("--scheduler", "ADDRESS", "The workers of a Dask scheduler: tcp://host:8786."),
        _row("--scheduler-file", "FILE", "The same, by the file that the scheduler wrote.", "file"),
        _row("--block-rows", "N", "Rows of a block (10,000,000).", type=click.IntRange(1)),
    ),
    "answer": (
        _flag("--explain", "Show the arithmetic and the source of every figure."),
        _flag("--advise", "What would move each phase, and by how much."),
        _flag("--simulate", "Check the best replica by a simulation, request by request."),
        _flag("--sources", "With one chip: every figure's source, and what other sources say."),
        _flag("--modules", "Parameters by module, for one model."),
        _flag("--parts", "Parameters of attention, MLP, experts, vocabulary, with and without norms."),
        _flag("--flat", "List every operation rather than the tree of modules."),
        _row("--depth", "N", "How many levels of the tree to show.", type=int),
        _row("--top", "N", "Show the runs that took longest.", type=click.IntRange(1), default=20),
        _row(
            "--sort",
            "FIGURE",
            "Order the list: peak, bandwidth, capacity, ridge, power (largest first), price, name.",
            "name peak bandwidth capacity ridge power price",
        ),
        _row("--columns", "NAMES", "Columns, comma-separated: lower,upper,attainable,intensity,bound_by,fits …"),
        _flag("--formula", "The closed form in the open sizes: terms, flips, elasticities; sizes are its point."),
        _row("--latex", "", "Print it in LaTeX.", name="language", flag_value="latex"),
        _row("--js", "", "Print it as a function in JavaScript.", name="language", flag_value="javascript"),
        _row("--python", "", "Print it as a function in Python.", name="language", flag_value="python"),
        _row("--csv", "FILE", "Write name,dtype,flops,bytes,seconds.", "file", name="csv_file"),
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
    if len(values) > 1:
        raise InputError(
            f"--on is given {len(values)} times: {', '.join(values)}",
            hint="one machine at a time; roofline bound compares several",
        )
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

#: How several chips share a model.
SHARING = options(
    "tensor sequence-parallel pipeline microbatches balance data expert expert-exchange dispatch combine "
    "shared-experts context-parallel kv-parallel"
)

#: A question about a model beside its conventions and its target.
MODEL_QUESTION = [
    *options("phase batch prompt past context chunk batch-tokens sequence fsdp checkpoint"),
    *SHARING,
    *options("weights activations kv full-attention"),
]
