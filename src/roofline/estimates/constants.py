"""Fitted constants of kernel models: records with their error, interval, validity and source, read from TOML files.

A record belongs to one chip, kind of kernel, format, library and path of the library. The shipped ones lie in
``catalog/``, fitted by ``benchmarks/estimates``; a user's own file overlays them. Every record carries::

    policy, values        the constants of :mod:`roofline.estimates.kernel_model`, own and shared ones together
    error                 mdape, mape, p90, bias on rows that were not fitted; n_fit, n_test rows
    edges, interval       by predicted time (short, middle, long): the quantiles of measured ÷ estimate, 80%
    valid                 range of each shape that was measured
    source, state         who measured it, and how (graph or eager, warm or cold)
    figures               cores, peak, bandwidth and cache of the chip that the values go with

:data:`KERNELS` has every kernel model by the kind of kernel. Adding one is a file with ``MODELS`` and a word here.

>>> sorted(KERNELS)[:3]
['all_reduce', 'batched_contraction', 'collective']
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from roofline.answers import MADE_TO_HOLD
from roofline.errors import InputError, check_one_of, quoted, suggest
from roofline.estimates import attention, contraction, experts, steps, vector_and_collectives
from roofline.estimates.contraction import IN_TURN
from roofline.estimates.kernel_model import BESIDE, KernelModel
from roofline.files import read_toml, toml_value, write_text
from roofline.frozen import dataclass, field
from roofline.lazy import np
from roofline.quantity import format_percent, format_quantity, in_a_row
from roofline.signatures import check_methods, takes
from roofline.sizes import array_of, is_number

#: Kernel models by name.
KERNELS: dict[str, KernelModel] = {
    model.name: model
    for family in (contraction, attention, vector_and_collectives, experts, steps)
    for model in family.MODELS
}


#: Shares of measurements that an interval leaves out below and above: 80% lie within.
TAILS = (0.1, 0.9)
SCHEMA = "roofline/constants/1"
#: The line that a record of a file begins with.
HEADING = "[[constants]]"
#: The source of constants that were calibrated.
OWN_RUNS = "calibrated from runs of one's own"
#: Which runs the errors of calibrated constants are of: never those that the constants of that estimate were fitted to.
LEFT_OUT = "a fifth of the runs at a time, by constants of the others"
#: The words that a record tells what it is of by.
_WORDS = ("chip", "kernel", "dtype", "library", "version", "path", "policy", "state", "source", "transferred_from")
#: Entries of an error that count rows.
COUNTS = ("n_fit", "n_test")
#: The least share of the runs left out with which an interval is said to hold 80%.
LEAST_HELD = 0.65
#: Largest median error of constants that promise anything: with a larger one the bound stands, and accuracy says so.
USABLE = 0.35
#: Largest factor of an interval that promises anything.
WIDEST = 10.0

#: Sizes whose names are not those of a shape, in words.
_IN_WORDS = {
    "decode": "decode time", "prefill": "prefill time", "floor": "floor of a step", "kernels": "number of kernels"
}  # fmt: skip


def in_words(sizes: Sequence[str]) -> str:
    """Names of sizes as a sentence has them."""
    return ", ".join(_IN_WORDS.get(name, name) for name in sizes)


#: Names that users have for kernels, in what they read.
CALLED = {
    "contraction": "matmul (contraction)", "quantised_contraction": "quantised matmul",
    "batched_contraction": "batched matmul", "quantised_batched_contraction": "quantised batched matmul",
}  # fmt: skip


def kernel_in_words(kernel: str, path: str = "") -> str:
    """A kind of kernel, products with the name that users have for them, and which of a library's kernels of it.

    >>> kernel_in_words("contraction"), kernel_in_words("decode_attention", "shared key heads")
    ('matmul (contraction)', 'decode attention, shared key heads')
    """
    return ", ".join(filter(None, (CALLED.get(kernel, kernel).replace("_", " "), path)))


def error_told(error: float | None, outside: Sequence[str], of: str = "", stand_in: Sequence[str] = ()) -> str:
    """What was not measured of this one, its format and then its sizes, and how far estimates of the kind were off.

    ``stand_in`` are the format that was measured and the format that it stands for.

    >>> error_told(0.044, ()), error_told(0.044, ("batch",))
    ('; median error 4.4%', '; outside the measured batch; inside, median error 4.4%')
    >>> error_told(0.03, ("kernels",), "", ("fp8", "bf16"))
    '; none was measured for bf16; outside the measured number of kernels; inside, median error of fp8 steps 3%'
    >>> error_told(0.03, (), " of its main kernel", ("bf16", "fp8"))
    '; none was measured for fp8; median error of its main kernel in bf16 3%'
    """
    if error is None:
        return ""
    if stand_in:
        of = f"{of} in {stand_in[0]}" if of else f" of {stand_in[0]} steps"
    missing = f"; none was measured for {stand_in[1]}" if stand_in else ""
    if outside:
        missing += f"; outside the measured {in_a_row([in_words([name]) for name in outside])}; inside,"
    return f"{missing}{'' if outside else ';'} median error{of} {format_percent(error)}"


#: What is said of an interval of a format that no run was measured in.
EXTRAPOLATED = "extrapolated"


def share_held(error: Mapping[str, float], outside: Sequence[str] = (), stand_in: Sequence[str] = ()) -> float | None:
    """The share of runs that an interval of steps holds: 80%, or what it held of those left out where that is far less.

    Of another model the interval is not that of these runs: it is as wide as models left out had to have it. Of another
    format (``stand_in``) nothing was measured: None.

    >>> share_held({"coverage": 0.79}), share_held({"coverage": 0.42}), share_held({"coverage": 0.42}, ("kernels",))
    (0.8, 0.42, 0.8)
    """
    if stand_in:
        return None
    held = MADE_TO_HOLD if "kernels" in outside else error.get("coverage", MADE_TO_HOLD)
    return held if held < LEAST_HELD else MADE_TO_HOLD


def interval_told(error: Mapping[str, float], outside: Sequence[str] = (), stand_in: Sequence[str] = ()) -> str:
    """What stands behind the ends of an interval of steps: 80%, or how many runs it held where these are far fewer.

    >>> interval_told({"coverage": 0.79}), interval_told({"coverage": 0.42, "n_test": 38})
    ('80%', 'held 42% of 38 runs')
    >>> interval_told({"coverage": 0.79}, (), ("fp8", "bf16"))
    'extrapolated'
    """
    held = share_held(error, outside, stand_in)
    if held is None:
        return EXTRAPOLATED
    return format_percent(held) if held == MADE_TO_HOLD else f"held {format_percent(held)} of {error['n_test']:g} runs"


def ends_in_words(low: Any, high: Any, floor: Any = None) -> str:
    """The ends of an interval of seconds; that the lower one is the floor, where it would be below.

    >>> ends_in_words(5e-3, 8e-3, 4e-3), ends_in_words(5e-3, 8e-3, 5e-3)
    ('5 ms to 8 ms', '5 ms, the floor, to 8 ms')
    """
    at = ", the floor," if is_number(floor) and is_number(low) and low <= floor else ""
    return f"{format_quantity(low, 's')}{at} to {format_quantity(high, 's')}"


@check_methods
@dataclass(frozen=True, slots=True, eq=False)
class KernelConstants:
    """The constants of one kind of kernel on one chip with one library.

    ``path`` tells kernels of a library apart that the format does not ("grouped heads", "block scales").
    ``other_model`` are values of steps for models, chips and formats that were not measured, where these differ.
    """

    chip: str
    kernel: str
    dtype: str
    library: str
    values: Mapping[str, float]
    policy: str = ""
    version: str = ""
    path: str = ""
    error: Mapping[str, float] = field(default_factory=dict)
    edges: tuple[float, ...] = ()
    interval: tuple[tuple[float, float], ...] = ((1.0, 1.0),)
    valid: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    state: str = ""
    source: str = ""
    transferred_from: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    #: The format of steps, or the kind of kernel, that was measured and the one that it stands for, where they differ.
    stand_in: tuple[str, ...] = ()
    other_model: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        name = f"{self.chip} {self.library} {kernel_in_words(self.kernel, self.path)} {self.dtype}"
        return f"<KernelConstants {name}{error_told(self.error.get('mdape'), ())}>"

    @property
    def key(self) -> tuple[str, str, str, str, str, str]:
        """What tells one record from another."""
        return self.chip, self.kernel, self.dtype, self.library, self.path, self.version

    @property
    def told(self) -> str:
        """What follows the name of its chip and library where it comes from runs of the user's own."""
        return f", from {self.error.get('n_fit', 0):.0f} runs of your own" if self.source == OWN_RUNS else ""

    @property
    def usable(self) -> bool:
        """Whether the error and the interval are small enough to promise anything."""
        narrow = all(low >= 1 / WIDEST and high <= WIDEST for low, high in self.interval)
        return narrow and self.error.get("mdape", 0.0) <= USABLE

    @property
    def name(self) -> str:
        """The record in words: ``H100 vLLM bf16 contraction``."""
        return " ".join(filter(None, (self.chip, self.library, self.version, self.dtype, self.kernel, self.path)))

    def limits(self, seconds: Any) -> tuple[Any, Any]:
        """Low and high ends of the interval around estimated seconds."""
        seconds = seconds if isinstance(seconds, float) else array_of("seconds", seconds)
        which = np.searchsorted(np.asarray(self.edges), seconds)
        ends = np.asarray(self.interval)[which]
        return seconds * ends[..., 0], seconds * ends[..., 1]

    def outside(self, shapes: Mapping[str, Any]) -> tuple[str, ...]:
        """Names of the shapes that lie outside what was measured."""
        known = [(name, np.asarray(shapes[name]), *ends) for name, ends in self.valid.items() if name in shapes]
        return tuple(name for name, sizes, low, high in known if not np.all((sizes >= low) & (sizes <= high)))

    def as_timed(self, shapes: Mapping[str, Any]) -> Mapping[str, Any]:
        """Shapes of a kernel by itself with what the measured ones took in turn; a step says what else it moves."""
        known = {} if BESIDE in shapes else {name: self.figures[name] for name in IN_TURN if name in self.figures}
        return {**known, **shapes}

    def octaves_outside(self, shapes: Mapping[str, Any]) -> Any:
        """How far kernels lie outside what was measured: doublings of the shape that is furthest out, 0 inside."""
        far: Any = 0.0
        for name, (low, high) in self.valid.items():
            if name in shapes and high > 0:
                sizes = np.maximum(np.asarray(shapes[name], float), 1e-12)
                far = np.maximum(far, np.log2(np.maximum(max(low, 1e-12) / sizes, sizes / high)))
        return far

    def to_dict(self) -> dict[str, Any]:
        """The record as it stands in a file."""
        plain = {name: getattr(self, name) for name in _WORDS if getattr(self, name)}
        values, wider, figures = (
            {name: four_digits(value) for name, value in each.items()}
            for each in (self.values, self.other_model, self.figures)
        )
        return {
            **plain,
            "values": values,
            **({"other_model": wider} if wider else {}),
            "error": {name: int(v) if name in COUNTS else four_digits(v) for name, v in self.error.items()},
            "edges": [four_digits(edge) for edge in self.edges],
            "interval": [[four_digits(end) for end in ends] for ends in self.interval],
            "valid": {name: list(ends) for name, ends in self.valid.items()},
            "figures": figures,
        }


def four_digits(value: float) -> float | int:
    """Four significant digits: more than a fit can tell."""
    return value if isinstance(value, int) else float(f"{value:.4g}")


@takes()
def read_constants(path: str | os.PathLike[str]) -> tuple[KernelConstants, ...]:
    """Read a file of constants; whatever it holds that is no constant of a known kernel is an error that says so."""
    held = read_toml(path, "file of constants", hint="roofline calibrate writes one")
    if held.get("schema") != SCHEMA:
        raise InputError(f"{path} is no file of constants", hint=f'its first line is schema = "{SCHEMA}"')
    records = held.get("constants")
    if not isinstance(records, list):
        raise InputError(f"{path} holds no [[constants]]", hint="roofline calibrate writes them")
    return _checked(records, path)


def _checked(records: Sequence[Any], path: str | os.PathLike[str]) -> tuple[KernelConstants, ...]:
    return tuple(_record(entry, KERNELS, f"{path}, record {number}") for number, entry in enumerate(records, 1))


def _record(entry: Any, models: Mapping[str, KernelModel], where: str) -> KernelConstants:
    """Check one record of a file."""
    if not isinstance(entry, Mapping):
        raise InputError(f"{where} is no table", hint="[[constants]]")
    for name in ("chip", "kernel", "dtype", "library"):
        if not isinstance(entry.get(name), str) or not entry[name]:
            raise InputError(f"{where} has no {name}", hint=f'for instance {name} = "…"')
    kernel = entry["kernel"]
    check_one_of(f"{where}: no kernel {kernel!r}", kernel, models, "kernels")
    model = models[kernel]
    values = _values(entry.get("values"), model, where)
    other_model = _values(entry["other_model"], model, where) if "other_model" in entry else {}
    policy = entry.get("policy", "")
    policies = (*model.policies, *model.stated)
    if policy not in policies:
        raise InputError(f"{where}: policy {quoted(policy)}", hint=f"one of {', '.join(map(repr, policies))}")
    interval = _pairs(entry.get("interval", [[1.0, 1.0]]), where, "interval")
    edges = _figures(entry.get("edges", []), where, "edges")
    if len(interval) != len(edges) + 1:
        wrong = f"{where}: {len(edges)} edges and {len(interval)} intervals"
        raise InputError(wrong, hint="one interval more than edges")
    ranges, errors, held = (_table(entry, name, where) for name in ("valid", "error", "figures"))
    valid = {name: _pairs([ends], where, f"valid {name}")[0] for name, ends in ranges.items()}
    error = dict(zip(errors, _figures(list(errors.values()), where, "error"), strict=True))
    plain = {name: str(entry[name]) for name in _WORDS if name in entry}
    figures = dict(zip(held, _figures(list(held.values()), where, "figures", least=0.0), strict=True))
    return KernelConstants(
        **plain, values=values, other_model=other_model, error=error, edges=edges, interval=interval, valid=valid,
        figures=figures, stand_in=(),
    )  # fmt: skip


#: What helps a file that another version made, whose models had other constants.
_ANEW = "roofline calibrate makes a file of another version anew"


def _values(values: Any, model: KernelModel, where: str) -> dict[str, float]:
    """The constants of a model, each within its range."""
    if not isinstance(values, Mapping):
        raise InputError(f"{where} has no values", hint="[constants.values]")
    known = {constant.name: constant for constant in model.constants}
    for name, value in values.items():
        if name not in known:
            hint = f"{suggest(name, known, what='constants')}; {_ANEW}"
            raise InputError(f"{where}: {model.name} has no constant {name!r}", hint=hint)
        low, high = known[name].low, known[name].high
        if isinstance(value, bool) or not isinstance(value, int | float) or not low * 0.999 <= value <= high * 1.001:
            raise InputError(f"{where}: {name} is {quoted(value)}", hint=f"a number from {low:g} to {high:g}")
    missing = [name for name in known if name not in values]
    if missing:
        raise InputError(f"{where} lacks {missing[0]}", hint=f"{model.name} has {', '.join(known)}; {_ANEW}")
    return {name: value + 0.0 for name, value in values.items()}  # -0.0 is 0.0


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e30


def _figures(value: Any, where: str, what: str, *, least: float = -1e30) -> tuple[float, ...]:
    if not isinstance(value, list) or not all(_is_figure(each) and each >= least for each in value):
        hint = "numbers, up to 1e30" if least else "numbers from 0 to 1e30"
        raise InputError(f"{where}: {what} is {quoted(value)}", hint=hint)
    return tuple(float(each) + 0.0 for each in value)  # -0.0 is 0.0


def _table(entry: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    value = entry.get(name, {})
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: {name} is {quoted(value)}", hint=f"[constants.{name}]")
    return value


def _pairs(value: Any, where: str, what: str) -> tuple[tuple[float, float], ...]:
    pairs = value if isinstance(value, list) else []
    good = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2]
    good = [pair for pair in good if all(map(_is_figure, pair)) and pair[0] <= pair[1]]
    if not pairs or len(good) != len(pairs):
        raise InputError(f"{where}: {what} is {quoted(value)}", hint="pairs of a low and a high end")
    return tuple((float(low) + 0.0, float(high) + 0.0) for low, high in good)


@cache
def shipped(kernel: str = "", **words: str) -> tuple[KernelConstants, ...]:
    """Constants that the package ships: all, or those of a kind of kernel and of words that their records have.

    Each kind of kernel has a file, of which only the records that are asked for are parsed.

    >>> {(one.chip, one.library) for one in shipped("contraction", dtype="int8")}
    {('a100', 'trtllm')}
    """
    every, stem = Path(__file__).with_name("catalog").glob("*.toml"), kernel.replace("_", "-")
    files = [path for path in every if not kernel or path.stem == stem]

    def wanted(text: str) -> str:
        head, *records = text.split(HEADING)
        return HEADING.join([head, *(one for one in records if all(_says(one, *word) for word in words.items()))])

    read = ((path, read_toml(path, "file of constants", part=wanted)) for path in sorted(files))
    return tuple(record for path, held in read for record in _checked(held.get("constants", []), path))


def _says(record: str, name: str, word: str) -> bool:
    """Whether the text of a record has a word, or not the name where the word is empty."""
    return f'\n{name} = "{word}"\n' in record if word else f"\n{name} = " not in record


def read_files(files: Any) -> list[KernelConstants]:
    """The constants of one file, or of what ``calibrate`` gave; or of several."""
    several = files if isinstance(files, list | tuple) else (files,)
    found: list[KernelConstants] = []
    for each in several:
        if isinstance(each, str | os.PathLike):
            found += read_constants(each)
        elif isinstance(own := getattr(each, "constants", None), tuple):
            found += own
        else:
            hint = "a file that roofline calibrate wrote, or what roofline.calibrate gives"
            raise InputError(f"{quoted(each)} holds no constants", hint=hint)
    return found


def overlaid(records: Iterable[KernelConstants], own: Iterable[KernelConstants]) -> tuple[KernelConstants, ...]:
    """Records with a user's own in front; one with the same key is replaced."""
    mine = {record.key: record for record in own}
    return (*mine.values(), *(record for record in records if record.key not in mine))


def write_constants(records: Sequence[KernelConstants], path: str | Path, heading: str = "") -> None:
    """Write records to a file: complete or not at all."""
    lines = [f'schema = "{SCHEMA}"', *(f"# {line}" for line in heading.splitlines())]
    for record in records:
        held = record.to_dict()
        lines += ["", HEADING, *(f"{name} = {toml_value(value)}" for name, value in held.items())]
    write_text(path, "\n".join(lines) + "\n")


__all__ = ["KernelConstants", "overlaid", "read_constants", "read_files", "shipped", "write_constants"]
