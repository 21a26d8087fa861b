"""Tables of a traced program: its modules as a tree, its operations as a list, what takes longest under a roof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from roofline.bounds.bound import (
    ALL_IN_TURN,
    Bound,
    OpBound,
    binding,
    fusing_in_words,
    missing_in_words,
    one_after_another,
    share_of,
    unfused_in_words,
)
from roofline.bounds.memory import traffic
from roofline.frozen import replace
from roofline.ops.counting import count_operation
from roofline.ops.pricing import UNKNOWN
from roofline.quantity import format_amount, format_percent
from roofline.sections import BLANK, Amount, Cell, Column, Row, Section, Sentences, Table, Wrap, figures
from roofline.signatures import either
from roofline.sizes import Size, grouped, is_number, is_symbol
from roofline.work import Op

#: Characters between columns.
GAP = 4

_NO_ROOFS: Mapping[str, Bound] = MappingProxyType({})

#: The rows under a module for its own ``forward``, beside the modules in it: attention, and all other operations.
OWN_ATTENTION, OWN_OPERATIONS = "its own attention", "its own operations"

#: Places in a program that a row names.
MOST_PLACES = 3


def module_table(
    name: str,
    ops: Sequence[Op],
    modules: Mapping[str, str],
    weights: Mapping[str, Size],
    depth: int | None = None,
    roofs: Mapping[str, Bound] = _NO_ROOFS,
) -> Table:
    """The modules as a tree, ``depth`` levels deep: parameters, FLOPs, bytes; under roofs the time and what binds.

    ``modules`` is the class by module path, ``weights`` the elements of each parameter. As data every module has a row,
    with its whole path. Operations of a module beside the modules in it have a row under it: the rows directly under a
    module add up to it.
    """
    timed = {who: _sums(ops, weights, roof) for who, roof in roofs.items() if not is_symbol(roof.op_by_op)}
    sums = next(iter(timed.values())) if timed else _sums(ops, weights, next(iter(roofs.values()), None))
    own = OWN_ATTENTION, OWN_OPERATIONS
    sums = {path: module for path, module in sums.items() if not path.endswith(own) or module.costs}
    alike = _alike(sums, modules)
    whole = sums[""].flops if sums else 0
    is_open = is_symbol(whole)
    has_weights = any(module.weights for module in sums.values())

    def row(path: str, module: _Module, word: str, level: int = 0) -> Row:
        cells: list[Cell] = [word, modules.get(path, "")]
        cells += [_or_blank(module.parameters, "")] * has_weights
        cells += [_or_blank(module.flops, "FLOP")]
        cells += [] if is_open else [_share(module.flops, whole)]
        cells += [_or_blank(module.bytes, "B")]
        for found in timed.values():
            cells += _timed(found[path].time, found[""].time, found[path].bound_by, len(timed))
        return Row(tuple(cells), level=level)

    rows = []
    for path, module in sums.items():
        level = path.count(".") + 1 if path else 0
        if (depth is not None and level > depth) or _hidden(path, alike):
            continue
        word = path.rsplit(".", 1)[-1] if path else name
        word += f" … {alike[path][-1].rsplit('.', 1)[-1]} (each of {len(alike[path])})" if path in alike else ""
        rows.append(row(path, module, word, level))
    wrap: Wrap = "anywhere" if is_open else "never"
    names = ["parameters"] * has_weights + ["FLOPs"] + ["share"] * (not is_open) + ["bytes"]
    figured = [
        each._replace(spare=len(timed) > 1 or each.name in ("share", "parameters"))
        for each in figures(*names, wrap=wrap)
    ]
    columns = [Column("module", wrap=wrap), Column(wrap=wrap, meaning="class", spare=len(timed) > 1), *figured]
    columns += _timed_columns(timed, "op by op")
    gap = 2 if timed else GAP
    return Table(columns, rows, "modules", gap=gap, every=lambda: [row(at, m, at or name) for at, m in sums.items()])


def _timed_columns(who: Collection[str], time: str) -> list[Column]:
    """The heads of :func:`_timed`: under one roof ``time``, under several the name of each."""
    if len(who) == 1:
        return [*figures(time, "of time"), Column("bound by")]
    pairs = [(Column(name, "right", "words"), Column("bound by", meaning=f"{name} bound by", spare=2)) for name in who]
    return [column for pair in pairs for column in pair]


def _timed(time: Size, whole: Size, bound_by: str, roofs: int) -> list[Cell]:
    """The time under a roof and what binds; under one alone its share too."""
    return [_or_blank(time, "s"), *[share_of(time, whole)] * (roofs == 1), bound_by]


def operation_table(
    ops: Sequence[Op], most: int | None = None, roofs: Mapping[str, Bound] = _NO_ROOFS
) -> Iterator[Section]:
    """The operations as a flat list, the first ``most`` of them; under roofs the time of each and what binds.

    Under several roofs a last row has the times of all.
    """
    chosen = list(zip(ops, traffic(ops), strict=True))[:most]
    placed = any(op.where for op, _ in chosen)
    timed = {who: roof for who, roof in roofs.items() if not is_symbol(roof.op_by_op)}
    wholes = {who: sum(part.lower for part in roof.ops) for who, roof in timed.items()}
    rows = []
    for number, (op, load) in enumerate(chosen):
        times = "" if not is_symbol(op.repeat) and op.repeat == 1 else f" x{op.repeat}"
        source = str(op.options.get("source", ""))
        moved = Amount(load.total("bytes") * op.repeat, "B")
        moved = next((Amount(roof.ops[number].bytes, "B") for roof in timed.values()), moved)
        cells = [op.name + times, *[op.where] * placed, source, _counted(op, count_operation(op, "all")), moved]
        for who, roof in timed.items():
            part = roof.ops[number]
            cells += _timed(part.lower, wholes[who], str(part.bound_by or ""), len(timed))
        rows.append(Row(tuple(cells)))
    if len(timed) > 1:
        sums = [cell for who in timed for cell in (Amount(wholes[who], "s"), "")]
        rows.append(Row((ALL_IN_TURN, *[""] * (3 + placed), *sums), "strong"))
    named = {"operation": "", **({"where": "module"} if placed else {}), "source": ""}
    columns = [*(Column(each, wrap="anywhere", meaning=name) for each, name in named.items())]
    columns += figures("FLOPs", "bytes")
    columns += _timed_columns(timed, "at best")
    yield Table(columns, rows, "operations", gap=2 if timed else GAP)
    if left := len(ops) - len(chosen):
        yield Sentences([f"… and {left} more; {either('--flat', 'to_dict()')} lists them all"], "quiet")


def time_at_best(answer: Bound) -> Iterator[Section]:
    """What does not fit, the time at best, where it is a number, on which machine, and what to expect."""
    if is_symbol(answer.lower):
        yield from (BLANK, Sentences([f"on {answer.target}"]))
    else:
        yield from (BLANK, *([] if answer.footprint is None else answer.footprint.misfit()))
        at, gaps = ("at least", f"; {missing_in_words(answer.incomplete)}") if answer.incomplete else ("at best", "")
        time = f"{at} {format_amount(answer.lower, 's')}, {answer.kind} ({answer.bound_by})"
        yield Sentences([f"{time}, on {answer.target}{gaps}", *unfused_in_words({"": answer})])
        yield from _expected(answer)


def under_the_roof(answer: Bound, most: int | None = 15, advice: Sequence[Section] = ()) -> Iterator[Section]:
    """A program's bound: the resources, then the operations that take longest, alike ones together.

    With open sizes which takes longest is not known, and the resources stand alone. What the program is, and that it
    does not fit, stands above, and what to expect.
    """
    below = replace(answer, ops=(), footprint=None, program=None, expectation=None)
    _headline, _blank, *rest = below.sections(advice)
    yield from rest
    if is_symbol(answer.op_by_op):
        return
    if answer.footprint is not None and answer.footprint.fits:
        yield BLANK
        yield Sentences([answer.footprint.in_words()])
    groups = grouped(((part.op.name, str(part.bound_by or "")), part) for part in answer.ops)
    longest = sorted(groups.items(), key=lambda item: -sum(float(part.lower) for part in item[1]))
    rows, whole = [], sum(part.lower for part in answer.ops)
    for (name, resource), parts in longest[:most]:
        flops, moved = sum(part.flops for part in parts), sum(part.bytes for part in parts)
        is_known = parts[0].op.kind != UNKNOWN
        ratio = Amount(flops / moved, "", format_amount(flops / moved, "", 4)) if moved and is_known else ""
        count, time = sum(part.op.repeat for part in parts), sum(part.lower for part in parts)
        amounts = (_counted(parts[0].op, flops), Amount(moved, "B"), ratio, Amount(time, "s"), share_of(time, whole))
        rows.append(Row((_named(name, parts), str(count), *amounts, resource)))
    together, apart = _in_turn(answer)
    by_kernel = "" if together == apart else f"{together} kernel by kernel, what is joined overlapping too; "
    yield BLANK
    yield Sentences([f"{by_kernel}{apart} op by op, each overlapping within itself; operations that take longest:"])
    yield BLANK
    names = ("count", "FLOPs", "bytes", "FLOP/B", "at best", "of time")
    spared = {"FLOP/B": 3, "count": 2, "FLOPs": 1}
    figured = [column._replace(spare=spared.get(column.name, 0)) for column in figures(*names)]
    yield Table((Column("operation", wrap="words"), *figured, Column("bound by", wrap="words")), rows, "longest", gap=2)
    if most and longest[most:]:
        yield Sentences([f"… and {len(longest[most:])} shorter kinds"], "quiet")
    yield from fusing_in_words(answer)
    if answer.expectation is not None:
        yield from (BLANK, *answer.expectation.sections())


def _expected(answer: Bound) -> Iterator[Section]:
    if answer.expectation is not None and is_number(answer.lower):
        yield Sentences([answer.expectation.in_words()], "strong")


def _in_turn(answer: Bound) -> tuple[str, str]:
    """A program's time kernel by kernel, and op by op."""
    each = answer.op_by_op, sum(part.lower for part in answer.ops)
    together, apart = (format_amount(time, "s") for time in each)
    return together, apart


def kernels_in_words(roofs: Mapping[str, Bound]) -> Iterator[str]:
    """What the times of a table under several roofs are, and where operations are joined the time kernel by kernel."""
    found = {who: _in_turn(roof) for who, roof in roofs.items() if not is_symbol(roof.op_by_op)}
    if len(found) < 2:
        return
    told = ", ".join(f"{who} {together}" for who, (together, _) in found.items())
    joined = any(together != apart for together, apart in found.values())
    by_kernel = f"; kernel by kernel, what is joined overlapping too: {told}" if joined else ""
    yield f"times are op by op, each overlapping within itself{by_kernel}"


def added_by_phases(ops: Sequence[Op], roofs: Mapping[str, Bound]) -> Iterator[str]:
    """What each phase after the forward one adds, in a line: FLOPs, bytes and under roofs the time."""
    moved = [load.total("bytes") * op.repeat for op, load in zip(ops, traffic(ops), strict=True)]
    sums: dict[str, list[Size]] = {}
    for op, load in zip(ops, moved, strict=True):
        flops, held = sums.setdefault(op.phase, [0, 0])
        sums[op.phase] = [flops + count_operation(op, "all"), held + load]
    timed = {who: roof for who, roof in roofs.items() if not is_symbol(roof.op_by_op)}
    for phase, (flops, held) in sums.items() if "forward" in sums else ():
        if phase in ("forward", ""):
            continue
        said = f"{phase} adds {format_amount(flops, 'FLOP')} and {format_amount(held, 'B')}"
        times = []
        for who, roof in timed.items():
            time = one_after_another([part for part in roof.ops if part.op.phase == phase])
            on = f" on {who}" if len(timed) > 1 else ""
            share = format_percent(float(time) / float(roof.op_by_op))
            times.append(f"{format_amount(time, 's')} of {format_amount(roof.op_by_op, 's')}{on} ({share})")
        yield said + (f": {', '.join(times)}, one after the other" if times else "")


def _named(name: str, parts: Sequence[OpBound]) -> str:
    """An operation, and which ones of the program they are, where they are few; how many of each where not one."""
    places: Counter[str] = Counter()
    for part in parts:
        places[part.op.where or str(part.op.options.get("source", ""))] += part.op.repeat
    if len(places) > MOST_PLACES or not all(places):
        return name
    alone = len(places) == 1  # the count stands beside it
    return f"{name} ({', '.join(f'{place} x{n}' if n != 1 and not alone else place for place, n in places.items())})"


def _share(flops: Size, whole: Size) -> Cell:
    share = float(flops) / float(whole) if flops else 0.0
    return Amount(share, "", format_percent(share)) if flops else ""


def _counted(op: Op, flops: Size) -> Cell:
    """A count; of an operation without a rule there is none."""
    return "unknown" if op.kind == UNKNOWN else Amount(flops, "FLOP")


@dataclass(slots=True)
class _Module:
    """What the operations of a module and of those in it add up to: ``time`` where each overlaps within itself."""

    place: int
    flops: Size = 0
    bytes: Size = 0
    weights: dict[str, Size] = field(default_factory=dict)
    time: Size = 0
    times: Counter[str] = field(default_factory=Counter)

    @property
    def parameters(self) -> Size:
        return sum(self.weights.values())

    @property
    def costs(self) -> bool:
        """Whether anything is done or moved; views alone cost nothing."""
        return bool(self.flops or self.bytes or self.weights or self.time)

    @property
    def bound_by(self) -> str:
        """The resource that takes longest where all of its operations overlap, as that of a whole answer does."""
        return str(binding(self.times) or "")


def _sums(ops: Sequence[Op], weights: Mapping[str, Size], answer: Bound | None) -> dict[str, _Module]:
    """What each module adds up to by its path, every module holding what is under it, in the order of the tree."""
    found: dict[str, _Module] = {}
    parents = {path for op in ops for path in modules_above(op.where)[:-1]}
    loads = [load.total("bytes") * op.repeat for op, load in zip(ops, traffic(ops), strict=True)]
    for op, load in zip(ops, loads, strict=True):
        flops, read = count_operation(op), parameters_of(op, weights)
        for path in _paths(op, parents):
            module = found.setdefault(path, _Module(len(found)))
            module.flops, module.bytes = module.flops + flops, module.bytes + (load if answer is None else 0)
            module.weights.update(read)
    for part in () if answer is None else answer.ops:
        for path in _paths(part.op, parents):
            module = found.setdefault(path, _Module(len(found)))
            module.bytes += part.bytes
            module.time += part.lower
            module.times.update(part.times)
    # what is under a module follows it, siblings in the order they ran
    places = {path: [found[each].place for each in modules_above(path)] for path in found}
    return {path: found[path] for path in sorted(found, key=places.__getitem__)}


def parameters_of(op: Op, weights: Mapping[str, Size]) -> dict[str, Size]:
    """Elements of the parameters that an operation reads, by the name of their memory, each whole."""
    found = {}
    for tensor in (t for t in op.reads if t.role == "weight"):
        whole = (tensor.storage or tensor.ident).partition("[")[0]
        is_known = whole in weights
        found[whole if is_known else tensor.storage or tensor.ident] = weights.get(whole, tensor.elements)
    return found


def _paths(op: Op, parents: Collection[str]) -> list[str]:
    """The modules that an operation is in, the program first; last the row of its own of one that has others in it."""
    word = OWN_ATTENTION if op.kind == "attention" else OWN_OPERATIONS
    own = f"{op.where}.{word}" if op.where else word
    return [*modules_above(op.where), *[own] * (op.where in parents)]


def modules_above(where: str) -> list[str]:
    """The paths from the program itself down to a module."""
    parts = where.split(".") if where else []
    return [".".join(parts[:level]) for level in range(len(parts) + 1)]


def _or_blank(amount: Size, unit: str) -> Cell:
    return Amount(amount, unit) if is_symbol(amount) or amount else ""


def _alike(sums: Mapping[str, _Module], classes: Mapping[str, str]) -> dict[str, list[str]]:
    """Numbered siblings of one class that cost the same, by the first of them."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for path, module in sums.items():
        parent, _, name = path.rpartition(".")
        if name.isdigit():
            costs = (str(module.flops), str(module.bytes), str(module.parameters))
            found.setdefault((parent, classes.get(path, ""), *costs), []).append(path)
    return {paths[0]: paths for paths in found.values() if len(paths) > 2}


def _hidden(path: str, alike: Mapping[str, list[str]]) -> bool:
    """Whether a module is one of several that are shown once, or is inside such a one."""
    return any(path == other or path.startswith(f"{other}.") for paths in alike.values() for other in paths[1:])
