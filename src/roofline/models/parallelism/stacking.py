"""Several layouts in one call: numbers of chips as arrays that broadcast with the sizes.

Each distinct layout is priced once, for all its sizes together, and the answers are put where they belong:

>>> from roofline.models.serving import serve_bound
>>> found = serve_bound("llama-2-70b", "decode", on="h200:8", tensor=[1, 2, 4, 8], batch=64, context=2048)
>>> [round(float(time) * 1e3, 1) for time in found.lower], found.bound_by.decode()
([29.8, 15.4, 8.3, 4.7], ['hbm', 'hbm', 'hbm', 'hbm'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from roofline.bounds.bound import Bound
from roofline.bounds.footprint import Footprint
from roofline.errors import SizeError
from roofline.models.parallelism.layout import OPTIONS
from roofline.sizes import Codes, common_shape, is_array, is_symbol

#: Options that are sequences by themselves.
_LISTS = ("skew", "tile")


def stack_layouts(ask: Callable[..., Bound], asked: Mapping[str, Any], **every: Any) -> Bound:
    """Ask for each layout among the options and stack the answers in the shape that sizes and layouts broadcast to."""
    import numpy as np

    varying = {n: np.asarray(v) for n, v in asked.items() if n not in _LISTS and _varies(v)}
    fixed = {name: value for name, value in asked.items() if name not in varying}
    symbols = [name for name, value in fixed.items() if is_symbol(value)]
    if symbols:
        raise SizeError(f"{symbols[0]} is unnamed, and numbers of chips are an array", hint="give it a value")
    shape = common_shape(varying)
    flat = {name: np.broadcast_to(values, shape).ravel() for name, values in varying.items()}
    names = [name for name in flat if name in OPTIONS]
    rows: dict[tuple[Any, ...], list[int]] = {}
    for index, layout in enumerate(zip(*(flat[name].tolist() for name in names), strict=True)):
        rows.setdefault(layout, []).append(index)
    answers = []
    for layout, where in rows.items():
        sizes = {name: values[where].astype(float) for name, values in flat.items() if name not in names}
        answers.append((where, ask(**every, **fixed, **sizes, **dict(zip(names, layout, strict=True)))))
    full = {name: np.broadcast_to(values, shape).astype(float) for name, values in varying.items()}
    return _stack(answers, shape, full)


def stack_parts(ask: Callable[..., Bound], sizes: Mapping[str, Any], some: Any) -> Bound:
    """Ask once for the entries that ``some`` selects and once for the rest, and merge the answers."""
    import numpy as np

    varying = {name: np.asarray(value) for name, value in sizes.items() if is_array(value)}
    fixed = {name: value for name, value in sizes.items() if name not in varying}
    shape = common_shape(varying)
    full = {name: np.broadcast_to(values, shape) for name, values in varying.items()}
    chosen = np.broadcast_to(some, shape).ravel()
    answers = []
    for where in (np.flatnonzero(chosen), np.flatnonzero(~chosen)):
        answers.append((where.tolist(), ask(**fixed, **{name: values.ravel()[where] for name, values in full.items()})))
    return _stack(answers, shape, full)


def _stack(answers: Sequence[tuple[list[int], Bound]], shape: tuple[int, ...], varying: Mapping[str, Any]) -> Bound:
    import numpy as np

    first = answers[0][1]

    def column(values: Iterable[Any]) -> Any:
        listed = list(values)
        if any(value is None for value in listed):
            return None
        made = np.zeros(int(np.prod(shape)))
        for (where, _), value in zip(answers, listed, strict=True):
            made[where] = value
        return made.reshape(shape)

    def columns(mappings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        names = dict.fromkeys(name for mapping in mappings for name in mapping)
        return {name: column(mapping.get(name, 0) for mapping in mappings) for name in names}

    bounds = [bound for _, bound in answers]
    plain = ("flops", "intensity", "critical_intensity", "lower", "op_by_op", "upper", "attainable", "utilisation",
             "estimate")  # fmt: skip
    times = columns([bound.times for bound in bounds])
    found = [bound.footprint for bound in bounds if bound.footprint is not None]
    footprint = None
    if len(found) == len(bounds):
        footprint = Footprint(columns([each.parts for each in found]), found[0].level, found[0].capacity)
    changed: dict[str, Any] = {name: column(getattr(bound, name) for bound in bounds) for name in plain}
    changed |= {name: columns([getattr(bound, name) for bound in bounds]) for name in ("flops_by", "bytes", "wire")}
    changed |= {name: _united(getattr(bound, name) for bound in bounds) for name in ("assumptions", "incomplete")}
    # an axis that another layout lacks has size 1 there
    sizes = dict.fromkeys(name for bound in bounds for name in bound.sizes)
    changed["sizes"] = {n: varying[n] if n in varying else column(b.sizes.get(n, 1) for b in bounds) for n in sizes}
    for name, values in changed["sizes"].items():
        if name not in varying and (values == values.ravel()[0]).all():
            changed["sizes"][name] = first.sizes.get(name, 1)
    base = first if type(first) is Bound else _plain_bound(first)
    return replace(base, **changed, times=times, bound_by=Codes.of(times), uses=(), ops=(), footprint=footprint)


def _plain_bound(found: Bound) -> Bound:
    from dataclasses import fields

    return Bound(**{f.name: getattr(found, f.name) for f in fields(Bound)})


def _united(many: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Statements of all layouts, each once."""
    listed = [dict.fromkeys(each) for each in many]
    return tuple(dict.fromkeys(item for each in listed for item in each))


def _varies(value: Any) -> bool:
    return is_array(value) or isinstance(value, list | tuple | range)
