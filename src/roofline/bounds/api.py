"""The questions a user asks, as functions: ``bound``, ``sweep``, ``solve``, ``advise``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from roofline import dtypes
from roofline.answers import capability, estimable, measurable, on_several, priceable
from roofline.bounds.bound import Bound
from roofline.bounds.conventions import DEFAULT, NAMES, Conventions, settings, word_of
from roofline.bounds.question import (
    OF_ONE_LINE,
    Question,
    has_arrays,
    names_in,
    refuse_idle,
    resolve_sizes,
    several_amounts,
    without_helpers,
)
from roofline.counts import typed_sizes
from roofline.errors import InputError, NotationError, SizeError, did_you_mean, quoted, suggest
from roofline.frozen import replace
from roofline.hardware import chip, override, with_choices
from roofline.hardware.machine import SEVERAL_OF_ONE, Machine
from roofline.meanings import SAID_IN_PYTHON, meant
from roofline.notation import program
from roofline.notation.structure import Program
from roofline.ops import formula_names, read_names
from roofline.quantity import kind_of
from roofline.signatures import NAMED_SIZES, call, either, spelled, takes, wrong_kind
from roofline.sizes import Size, is_array, plain_number

if TYPE_CHECKING:
    from roofline.bounds.comparison import SideBySide

On = str | Machine | Mapping[str, Any] | None

#: Arguments of models that a line of notation says itself.
_SAID_IN_A_LINE = {"count": "a line's attention is full unless it says causal, as in attention(q, k, v, causal)"}

#: Arguments of a question beside its expression, target and sizes, each with its default.
ARGUMENTS: Mapping[str, Any] = {
    **dict.fromkeys(("flops", "bytes", "intensity", "dtype", "unit", "over", "set", "link")),
    "files": (),
    "achievable": False,
    **{name: getattr(DEFAULT, name) for name in NAMES},
    "policy": None,
}


@takes(Conventions, [NAMED_SIZES])
def question(
    expression: str | None = None,
    *,
    on: On = None,
    sizes: Mapping[str, Any] | None = None,
    flops: Size | Sequence[Any] | None = None,
    bytes: Size | Sequence[Any] | None = None,
    intensity: Size | Sequence[Any] | None = None,
    dtype: str | None = None,
    unit: str | None = None,
    over: str | None = None,
    set: Mapping[str, Any] | None = None,
    files: Sequence[str] = (),
    achievable: bool = False,
    link: float | str | None = None,
    **named: Any,
) -> Question:
    """Gather what :func:`bound` takes into a :class:`~roofline.bounds.question.Question`, checked.

    ``named`` holds conventions (:class:`~roofline.bounds.conventions.Conventions`), and sizes.
    """
    chosen = {name: named.pop(name) for name in NAMES if name in named}
    if isinstance(expression, str) and not expression.strip():
        raise InputError("the expression is empty", hint="for instance 'bf16[B, D] * bf16[D, F] -> bf16[B, F]'")
    flops, bytes, intensity, link = map(plain_number, (flops, bytes, intensity, link))
    raw = _raw(flops, bytes, intensity, dtype)
    if (expression is None) == (not raw):
        hint = f"'bf16[B, D] * bf16[D, F]', or {spelled('flops')} and {spelled('bytes')}, or an intensity"
        raise InputError("ask about either an expression or raw work", hint=hint)
    if dtype is not None and not raw:
        hint = "in an expression each tensor names its own, as in 'fp8[B, D]'"
        raise InputError(f"{spelled('dtype')} goes with raw work", hint=hint)
    if raw:
        _no_tensors(chosen)
    conventions = Conventions(**chosen)
    where, level = on, over
    given, axes = _all_sizes(sizes, named), dict(conventions.mesh)
    if expression is not None:
        parsed = _parsed(expression, conventions.compute)
        where, level = on if on is not None else parsed.on, over if over is not None else parsed.over
        axes = _mesh(parsed, axes, given)
    names = names_in(raw) if expression is None else [*parsed.labels, *axes, *names_in(axes)]
    _no_slip(named, names, given)
    wrong = wrong_kind(given, {}, "Size | Sequence | None")
    if wrong is not None:
        raise wrong
    known = without_helpers(resolve_sizes(given, names), given, names)
    if raw:
        stand_somewhere(named if names else known, raw, given)
    tied = {name: value for name, value in given.items() if isinstance(value, str) or name not in known}
    figures = {name: plain_number(value) for name, value in _all_figures(set, link).items()}
    return Question(
        machine=target(where, unit=unit, over=level, set=figures, files=files, achievable=achievable),
        text=expression or "",
        sizes=known,
        raw=raw,
        conventions=replace(conventions, mesh=axes),
        formulas=tied if any(isinstance(value, str) for value in tied.values()) else {},
    )


def _parsed(text: str, compute: Any) -> Program:
    """Read a line; a model's name in its place is told from a slip of notation."""
    try:
        return program(text, compute)
    except NotationError:
        product = re.fullmatch(_PRODUCT, text.strip().lower().rpartition("/")[2]) if "[" not in text else None
        if product is not None and dtypes.is_dtype(product["dtype"] or "bf16"):
            m, n, k, dtype = product["m"], product["n"], product["k"], product["dtype"] or "bf16"
            hint = f"write them as '{dtype}[{m}, {k}] * {dtype}[{k}, {n}]'"
            raise InputError(f"{text.strip()} are the sizes m, n, k of a matmul", hint=hint) from None
        asked = f"{call('llm', text.strip(), on='h100')}, with {spelled('advise', True)} for what would move it"
        drawn = either(f"; `roofline llm {text.strip()} --on h100 --context 2k -o roof.svg` draws its roofline", "")
        refuse_model(text, "a line of notation", f"ask llm, as in {asked}{drawn}; or train, formula, sweep or model")
        raise


def is_model_named(given: Any) -> bool:
    """Whether it is a model, or the name of one that is shipped, and no line of notation."""
    if not isinstance(given, str):
        return type(given).__name__ == "Model" or (isinstance(given, Mapping) and "model_type" in given)
    return "[" not in given and given.strip().lower().rpartition("/")[2] in capability("model_names")()


def refuse_model(text: str, about: str, hint: str) -> None:
    """Raise where what stands in the place of something else is the name of a shipped model."""
    if is_model_named(text):
        raise InputError(f"{text.strip()} is a model, and this is about {about}", hint=hint) from None


#: Sizes of a matmul as they stand in tables: ``4096x4096x4096``, ``gemm 64 4096 4096 bf16``.
_PRODUCT = r"(?:(?:matmul|gemm|mm)[\s:(]*)?(?P<m>\d+)[\sx×*,]+(?P<n>\d+)[\sx×*,]+(?P<k>\d+)\)?(?:[\s,]+(?P<dtype>\w+))?"


@overload
def bound(expression: str | None = None, *, on: list[Any] | tuple[Any, ...], **arguments: Any) -> SideBySide: ...
@overload
def bound(expression: str | None = None, **arguments: Any) -> Bound: ...
@measurable
@on_several
@priceable
@estimable
@takes(question)
def bound(expression: str | None = None, **arguments: Any) -> Bound | SideBySide:
    """Answer: how fast can this run here at best, and what limits it?

    >>> answer = bound("bf16[B, D] * int8[D, F] -> bf16[B, F]", on="v5e", B=64, D=8192, F=8192)
    >>> answer.bound_by, round(answer.lower * 1e6, 1), round(answer.intensity)
    ('hbm', 84.5, 124)
    >>> answer = bound(flops=1e12, bytes=2e9, dtype="bf16", on="h100")
    >>> answer.kind
    'compute-bound'

    Dimensions of attention are batch, sequence, heads, head size; heads of keys and values may be fewer:

    >>> bound("attention(bf16[B, S, N, 128], bf16[B, T, K, 128], bf16[B, T, K, 128])", on="h100", B=8, S=1, T=8192,
    ...       N=32, K=8).bound_by
    'hbm'

    Sizes may be arrays, which gives arrays, or be left out, which gives formulas:

    >>> import numpy as np
    >>> many = bound("bf16[B, D] * bf16[D, F]", on="h100", B=np.array([64, 4096]), D=8192, F=8192)
    >>> many.bound_by.tolist(), many.kind == "compute-bound"
    (['hbm', 'tensor'], array([False,  True]))
    >>> bound("bf16[B, D] * bf16[D, F]", on="h100").intensity
    B*D*F/(B*D + B*F + D*F)

    Parameters
        ``expression``    a line of the notation (or leave it out and give ``flops`` and ``bytes``, or ``intensity``)
        ``on``            a target: ``"h100"``, ``"v5e:4x4"``, a TOML file, or a :class:`Machine`
        ``sizes``         sizes by name; plain keyword arguments are sizes too (``B=64``, ``F="4*D"``)
        ``unit``          ``matrix``, ``vector`` or a unit's own name: which unit the arithmetic runs on
        ``over``          the memory level or link data comes from: ``hbm``, ``vmem``, ``l2``, ``pcie`` …
        ``set``           figures to override: ``{"hbm": "8.1e11 B/s", "bf16": 1e15}``
        ``files``         machine files or folders that overlay the catalog
        ``policy``        which bytes count: ``each-op``, ``fused``, ``tiled``, ``minimal``, ``streamed``
        ``tile``          (bm, bn, bk): contractions re-load their operands for every tile
        ``exact``         one add fewer than multiplies (2D−1 in place of 2D)
        ``count_padding`` whether a convolution's padded positions count (the field's habit)
        ``pad``           round matrix sizes up to the matrix unit's tile
        ``compute``       the arithmetic dtype, where the operands' wider one is not meant
        ``achievable``    use measured fractions of the rates where the catalog has them
        ``overlap``, ``overhead``   a stated fraction and a time per operation: adds an estimate
        ``mesh``          sizes of mesh axes, ``{"X": 4, "Y": "n"}``; a target's own shape names X, Y, Z in order
        ``link``          one-way bandwidth of a link to other chips, in place of the catalog's
        ``plan``          which plan a sharded program goes by: its rank, its name or words of it, or ``fewest``: the
                          one that sends over the fewest mesh axes
        ``algorithm``     of collectives: one for all that it does, ``{"AllReduce": "in-switch"}``; without, and
                          for ``auto``, the fastest at each size
        ``uneven``        what is done with sizes that a mesh axis does not divide: ``error`` or ``pad``
        ``use``           mesh axes that plans may use though no tensor is sharded over them
        ``wrap``          whether the axes of a torus close, in place of the catalog's rule
        ``density``       the share of an AllToAll's array that is sent: k/E of one with a row for each of E experts

    Times are seconds, sizes elements, rates FLOP/s and bytes/s. Bad input raises
    :class:`~roofline.errors.InputError` with a message that says what would be right.
    """
    asked = question(expression, **arguments)
    refuse_idle(asked, uses=OF_ONE_LINE)
    if has_arrays(asked.sizes):
        from roofline.bounds.arrays import bound_arrays

        return bound_arrays(asked)
    return asked.answer()


#: What a target is described by, beside its name.
TARGET_OPTIONS = ("set", "files", "unit", "over", "achievable")


def take_target_options(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of a target out of a step's options."""
    return {name: options.pop(name) for name in TARGET_OPTIONS if name in options}


def target(
    on: On,
    *,
    unit: str | None = None,
    over: str | None = None,
    set: Mapping[str, Any] | None = None,
    files: Sequence[str] = (),
    achievable: bool = False,
) -> Machine:
    """Resolve a target and the choices that go with it."""
    if on is None:
        hint = f"name one: {spelled('on', 'h100')} ({call('chips')} lists them), or a file of your own figures, my.toml"
        raise InputError("no machine to run on", hint=hint)
    if not isinstance(on, str | Machine | Mapping):
        hint = "give a name such as 'h100', a TOML file, or figures, as in {'bf16': 3e14, 'hbm': 2e12}"
        parts = on if isinstance(on, list | tuple) else [on]
        if any(isinstance(part, int | float) for part in parts):
            hint = SEVERAL_OF_ONE
        elif len(parts) > 1:
            hint = "ask about each, and compare: answer.compare(other)"
        raise InputError(f"{quoted(on)} is not a machine", hint=hint)
    for what, word in (("unit", unit), ("over", over)):
        if word is not None and not isinstance(word, str):
            hint = f"give the name of {'a unit' if what == 'unit' else 'a level'}"
            raise InputError(f"{what} is {word!r}", hint=hint)
    if set is not None and not isinstance(set, Mapping):
        raise InputError(f"set is {set!r}", hint="give figures by name, as in set={'hbm': '8.1e11 B/s'}")
    if isinstance(on, str | Mapping):
        return chip(on, unit=unit, over=over, files=files, achievable=achievable, **dict(set or {}))

    changed = override(on, dict(set)) if set else on
    return with_choices(changed, unit=unit, over=over, achievable=achievable or None)


def _raw(flops: Any, bytes: Any, intensity: Any, dtype: str | None) -> dict[str, Any]:
    given = {"flops": flops, "bytes": bytes, "intensity": intensity}
    amounts = {name: value for name, value in given.items() if value is not None}
    if any(isinstance(value, list | tuple | range) for value in amounts.values()):
        amounts = several_amounts(amounts)
    return {**amounts, "dtype": dtype or "bf16"} if amounts else {}


def _no_tensors(chosen: Mapping[str, Any]) -> None:
    """Refuse conventions about tensors beside raw work, which has none."""
    about = (name for name, setting in settings().items() if setting.group != "estimate" and name in chosen)
    # as text, since a value may be an array or compare as it likes
    said = next((name for name in about if quoted(chosen[name]) not in map(quoted, (None, ARGUMENTS[name], []))), None)
    if said is not None:
        raw = f"its arithmetic dtype is {spelled('dtype')}"
        hint = raw if said == "compute" else "leave it out, or give an expression"
        raise InputError(f"{word_of(said)} says nothing about raw work, which has no tensors", hint=hint)


def _no_slip(named: Mapping[str, Any], names: Sequence[str], given: Mapping[str, Any]) -> None:
    """Refuse a keyword that is no size of the question and nearly one of its arguments: ``polcy="fused"``."""
    helpers = {name for value in given.values() if isinstance(value, str) for name in formula_names(value)}
    for word in named.keys() - {*names, *helpers}:
        near = did_you_mean(word, ARGUMENTS) if len(word) > 2 else None
        if near is None and isinstance(given[word], str):
            near = did_you_mean(word, ("on",), 0.75)
        said = _SAID_IN_A_LINE.get(word) or SAID_IN_PYTHON.get(word) or meant(word, ("on",))
        if not said and near:
            said = f"did you mean {near!r}?"
        if said:
            raise InputError(f"there is no argument {word!r}", hint=said)
        if isinstance(given[word], str):
            hint = suggest(word, dict.fromkeys(names), what="sizes")
            raise SizeError(f"size {word} stands nowhere in the question", hint=hint)


def stand_somewhere(sizes: Mapping[str, Any], raw: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse a size that no amount of raw work is a formula of, nor one of those sizes; a formula that does not read
    is refused first.

    A mapping of sizes may serve several questions, so that one of its sizes at least is to stand somewhere.
    """
    names = names_in(raw)
    stands = {*names, *names_in(given)}
    idle = next((name for name in sizes if name not in stands), None)
    if idle is not None:
        for text in raw.values():
            if isinstance(text, str) and kind_of(text) is None:
                read_names(text)
        hint = suggest(idle, dict.fromkeys(names), what="sizes") if names else "all its amounts are written as numbers"
        raise SizeError(f"size {idle} stands nowhere in the raw work", hint=hint)


def _all_figures(figures: Mapping[str, Any] | None, link: Any) -> dict[str, Any]:
    if figures is not None and not isinstance(figures, Mapping):
        raise InputError(f"set is {quoted(figures)}", hint="give figures by name, as in set={'hbm': 4e12}")
    return {**({} if link is None else {"link": link}), **(figures or {})}


def _all_sizes(sizes: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    if sizes is not None and not isinstance(sizes, Mapping):
        raise InputError(f"sizes is {quoted(sizes)}", hint="give sizes by name, as in sizes={'B': 64}, or B=64 alone")
    both = sorted((sizes or {}).keys() & named.keys())
    if both:
        raise InputError(f"size {both[0]} is given twice", hint="give it once")
    return typed_sizes({**(sizes or {}), **named})


def _mesh(parsed: Program, given: Mapping[str, Any], sizes: dict[str, Any]) -> dict[str, Any]:
    """Gather the sizes of mesh axes: a number, or a formula of sizes; an array becomes a size named as the axis."""
    axes = {**parsed.mesh, **given}
    for axis, size in axes.items():
        if isinstance(size, list | tuple | range) or is_array(size):
            sizes[axis], axes[axis] = size, axis
    return {**axes, **{name: name for name in sizes if name in parsed.axes}}
