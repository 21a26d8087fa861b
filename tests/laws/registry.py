"""The laws: each asks one random question, raises where it does not hold, and says how many checks it made.

A question over arrays of :data:`ROWS` random sizes makes a check for each row.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np

import roofline
from roofline.bounds.api import question
from roofline.bounds.evaluate import values_of
from roofline.bounds.memory import traffic
from roofline.errors import InputError, UntimedError
from roofline.hardware import override
from roofline.sizes import is_symbol, symbol
from tests.strategies import CHIPS, KINDS

#: Sizes of a question over arrays.
ROWS = 32
ROOM = 1 + 1e-12

Law = Callable[[random.Random], int]
LAWS: dict[str, Law] = {}


def law(says: str) -> Callable[[Law], Law]:
    """Register a law under what it says."""

    def keep(check: Law) -> Law:
        LAWS[says] = check
        return check

    return keep


def a_question(rng: random.Random, kinds: list[str] | None = None) -> tuple[str, tuple[str, ...], dict[str, int]]:
    """A line of any kind, its labels, and sizes of one to five digits for them."""
    line, labels = KINDS[rng.choice(kinds or sorted(KINDS))]
    return line, labels, {label: int(10 ** rng.uniform(0.5, 4)) for label in labels}


def columns(rng: random.Random, labels: tuple[str, ...]) -> dict[str, Any]:
    """Sizes for a question over arrays."""
    return {label: np.floor(10 ** np.array([rng.uniform(0.5, 4) for _ in range(ROWS)])) for label in labels}


def a_chip(rng: random.Random) -> Any:
    return CHIPS[rng.choice(sorted(CHIPS))]


def timed(line: str, sizes: dict[str, Any], machine: Any, **options: Any) -> Any:
    """The answer; None where the chip has no figure for any of it."""
    try:
        return roofline.bound(line, on=machine, sizes=sizes, **options)
    except UntimedError:
        return None


def close(one: Any, other: Any) -> bool:
    return bool(np.allclose(np.asarray(one, float), np.asarray(other, float), rtol=1e-12, atol=0))


@law("lower ≤ op_by_op ≤ upper ≤ resources × lower")
def in_order(rng: random.Random) -> int:
    line, labels, _ = a_question(rng)
    found = timed(line, columns(rng, labels), a_chip(rng))
    if found is None:
        return 0
    assert np.all(found.lower <= found.op_by_op * ROOM)
    assert np.all(found.op_by_op <= found.upper * ROOM)
    assert np.all(found.upper <= len(found.times) * found.lower * ROOM)
    return ROWS


@law("no time below FLOPs ÷ peak, nor below minimal bytes ÷ bandwidth")
def above_the_floors(rng: random.Random) -> int:
    line, _, sizes = a_question(rng)
    machine = a_chip(rng)
    found = timed(line, sizes, machine)
    if found is None:
        return 0
    least = sum(work.total("bytes") for work in traffic(question(line, on=machine, sizes=sizes).ops(), "minimal"))
    peak = max((p.value for unit in machine.units for p in unit.peaks.values()), default=0)
    for use in found.uses:
        assert found.lower * ROOM >= use.amount / use.rate.value
        assert use.quantity != "bytes" or use.amount >= least
    assert not found.flops or not found.attainable or found.attainable <= peak * ROOM
    return 1


@law("more bandwidth or a higher peak never slows")
def faster_never_slows(rng: random.Random) -> int:
    line, labels, sizes = a_question(rng)
    machine = a_chip(rng)
    found = timed(line, sizes, machine)
    if found is None:
        return 0
    use = rng.choice(found.uses)
    name = f"{use.resource}.{use.dtype}" if use.quantity == "flops" else use.resource
    better = override(machine, {name: use.rate.value * rng.uniform(1, 64)})
    many = columns(rng, labels)
    before, after = timed(line, many, machine), timed(line, many, better)
    assert np.all(after.lower <= before.lower * ROOM)
    assert np.all(after.upper <= before.upper * ROOM)
    return ROWS


@law("fewer storage bits never slow")
def narrow_never_slows(rng: random.Random) -> int:
    wide, narrow = rng.choice((("bf16", "int8"), ("int8", "int4"), ("fp32", "bf16")))
    line = f"{wide if wide == 'fp32' else 'bf16'}[B, D] * {{}}[D, F] -> bf16[B, F]"
    many = {label: 2 * value for label, value in columns(rng, ("B", "D", "F")).items()}
    machine = a_chip(rng)
    compute = {"compute": "fp32" if wide == "fp32" else "bf16"}
    before, after = (timed(line.format(dtype), many, machine, **compute) for dtype in (wide, narrow))
    if before is None or after is None:
        return 0
    assert np.all(after.lower <= before.lower * ROOM)
    return ROWS


@law("linear in a label that stands in every tensor")
def linear(rng: random.Random) -> int:
    line, labels, _ = a_question(rng, ["batched matmul", "batched dot", "softmax", "attention", "causal", "gelu"])
    many, factor = columns(rng, labels), rng.randint(2, 50)
    one, more = (roofline.bound(line, on="h100", sizes={**many, "B": many["B"] * n}) for n in (1, factor))
    assert close(more.flops, one.flops * factor)
    assert close(more.bytes["hbm"], one.bytes["hbm"] * factor)
    return ROWS


@law("renaming a dimension changes nothing")
def renamed(rng: random.Random) -> int:
    line, labels, _ = a_question(rng)
    machine, many = a_chip(rng), columns(rng, labels)
    new = {label: f"d_{label.lower()}{rng.randint(0, 9)}" for label in labels}
    other = re.sub(r"(?<![\w.])([A-Z])(?![\w(])", lambda found: new.get(found[1], found[1]), line)
    other = re.sub(r"(sum|cumsum)_T", rf"\1_{new.get('T', 'T')}", other)
    one, two = timed(line, many, machine), timed(other, {new[label]: size for label, size in many.items()}, machine)
    if one is None:
        return 0
    assert close(one.lower, two.lower)
    assert close(one.upper, two.upper)
    return ROWS


@law("number = array")
def number_is_array(rng: random.Random) -> int:
    line, labels, _ = a_question(rng)
    machine, many = a_chip(rng), columns(rng, labels)
    array = timed(line, many, machine)
    if array is None:
        return 0
    rows = rng.sample(range(ROWS), 4)
    for row in rows:
        number = timed(line, {label: int(column[row]) for label, column in many.items()}, machine)
        for name in ("lower", "op_by_op", "upper", "flops"):
            assert close(getattr(number, name), np.broadcast_to(getattr(array, name), ROWS)[row])
    return len(rows)


@law("number = symbol, its rates and sizes put in")
def number_is_symbol(rng: random.Random) -> int:
    import sympy

    line, labels, _ = a_question(rng)
    many, closed = columns(rng, labels), roofline.bound(line, on="h100")
    rates = values_of(use.rate for use in closed.uses)
    known = {rate: sympy.Float(value, 30) for rate, value in rates.items()}
    for row in range(ROWS // 4):
        sizes = {label: int(column[row]) for label, column in many.items()}
        number = roofline.bound(line, on="h100", sizes=sizes)
        put = {**known, **{symbol(label): sympy.Integer(size) for label, size in sizes.items()}}
        for name in ("flops", "lower", "upper", "op_by_op"):
            form = getattr(closed, name)
            assert close(float(form.xreplace(put) if is_symbol(form) else form), getattr(number, name))
    return ROWS // 4


@law("number = compiled closed form")
def number_is_compiled(rng: random.Random) -> int:
    from roofline.bounds.arrays import ArrayLine

    line, labels, _ = a_question(rng)
    many = columns(rng, labels)
    asked = question(line, on="h100", sizes=many)
    compiled = ArrayLine(asked, many).compiled()
    if compiled is None:
        return 0
    found = compiled.evaluate(many)
    for row in range(ROWS):
        number = roofline.bound(line, on="h100", sizes={label: int(column[row]) for label, column in many.items()})
        for name in ("lower", "upper", "flops"):
            assert close(np.broadcast_to(found[name], ROWS)[row], getattr(number, name))
    return ROWS


@law("elasticities over the rates sum to −1")
def elasticities(rng: random.Random) -> int:
    from roofline.bounds.bound import BOUNDS
    from roofline.bounds.closed_form import question_formula

    line, _, sizes = a_question(rng)
    try:
        form = question_formula(question(line, on=a_chip(rng), sizes=sizes))
    except UntimedError:
        return 0
    for name, found in ((name, form.elasticities()[name]) for name in BOUNDS):
        rates = [each for x, each in found.items() if x in form.rates]
        assert abs(sum(each.at for each in rates) + 1) < 1e-9, name
        assert all(each.below <= each.at + 1e-12 and each.at <= each.above + 1e-12 for each in rates if each.tied)
    return len(BOUNDS)


@law("bytes: minimal ≤ fused ≤ each-op")
def policies(rng: random.Random) -> int:
    line, _, sizes = a_question(rng)
    ops = question(line, on="h100", sizes=sizes).ops()
    least, fused, each = (
        sum(work.total("bytes") for work in traffic(ops, policy)) for policy in ("minimal", "fused", "each-op")
    )
    assert least <= fused <= each
    return 1


@law("unfused, Work(a; b) = Work(a) + Work(b)")
def work_adds(rng: random.Random) -> int:
    many, machine = columns(rng, ("B", "D", "F")), a_chip(rng)
    lines = ("bf16[B, D] * bf16[D, F] -> bf16[B, F]", "gelu(bf16[B, F])")
    first = timed(lines[0], many, machine)
    second = timed(lines[1], {label: many[label] for label in "BF"}, machine)
    both = timed(f"h = {lines[0]}; gelu(h)", many, machine)
    if first is None or second is None or both is None:
        return 0
    assert close(both.upper, first.upper + second.upper)
    assert close(sum(both.bytes.values()), sum(first.bytes.values()) + sum(second.bytes.values()))
    return ROWS


@law("a brute-force count of multiply-adds equals the formula")
def brute_force(rng: random.Random) -> int:
    tensors = [[label for label in "ABCD" if rng.random() < 0.6] or ["A"] for _ in range(2)]
    sizes = {label: rng.randint(1, 4) for label in {*tensors[0], *tensors[1]}}
    out = [label for label in sorted(sizes) if rng.random() < 0.5 or not set(tensors[0]) & set(tensors[1])]
    if any(label not in out and not (label in tensors[0] and label in tensors[1]) for label in sizes):
        return 0
    line = " * ".join(f"bf16[{', '.join(tensor)}]" for tensor in tensors) + f" -> bf16[{', '.join(out)}]"
    macs = int(np.prod(list(sizes.values())))
    flops = roofline.bound(line, on="h100", sizes=sizes).flops
    assert flops == (2 if set(sizes) - set(out) else 1) * sum(1 for _ in np.ndindex(*sizes.values())) == flops // 1
    assert flops in (macs, 2 * macs)
    return 1


@law("FLOPs are conserved under sharding")
def conserved(rng: random.Random) -> int:
    chips = rng.choice((2, 4, 8))
    line = rng.choice((
        "bf16[B_X, D] * bf16[D, F]", "bf16[B, D] * bf16[D, F_X] -> bf16[B, F_X]",
        "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F] {U_X}",
    ))  # fmt: skip
    sizes = {label: chips * rng.randint(1, 512) for label in ("B", "D", "F")}
    alone = roofline.bound("bf16[B, D] * bf16[D, F]", on="h100", sizes=sizes)
    found = roofline.bound(line, on=f"h100:{chips}", sizes=sizes)
    assert found.flops * chips == alone.flops
    return 1


@law("notation and ONNX give the same work")
def front_ends(rng: random.Random) -> int:
    from onnx import TensorProto, helper

    from tests.programs.onnx_models import model, value

    B, D, F = (rng.randint(1, 4096) for _ in range(3))
    graph = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", B, D), value("w", D, F)],
                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])  # fmt: skip
    machine = a_chip(rng)
    try:
        one = roofline.trace(graph, dtype="bf16").bound(on=machine, policy="each-op")  # fp32 may run as tf32
    except UntimedError:
        return 0
    other = roofline.bound("bf16[B, D] * bf16[D, F]", on=machine, B=B, D=D, F=F)
    assert (one.flops, dict(one.bytes)) == (other.flops, dict(other.bytes))
    assert close(one.lower, other.lower)
    return 1


@law("advice equals a fresh answer, and is not below its floor")
def advice(rng: random.Random) -> int:
    sizes = {label: rng.randint(1, 8192) for label in ("B", "D", "F")}
    found = roofline.bound("bf16[B, D] * bf16[D, F]", on=rng.choice(("h100", "a100", "v5e", "b200")), sizes=sizes)
    lines = roofline.advise(found.question.text, on=found.machine, sizes=sizes).to_dict()["advice"]
    for line in lines:
        assert 0 < line["lower_after"] <= line["lower_before"] * line["more_work"] * ROOM
        if line["change"].startswith(("B = ", "D = ", "F = ")):
            assert close(roofline.bound(line["expression"], on=found.machine).lower, line["lower_after"])
    return len(lines)


MODELS = ("gpt2", "llama-3-8b", "qwen3-30b-a3b", "deepseek-v3", "gpt-oss-20b")
LAYOUTS: tuple[dict[str, int], ...] = (
    {"tensor": 8}, {"data": 8}, {"pipeline": 4, "tensor": 2}, {"context_parallel": 2, "tensor": 4}, {"expert": 8},
    {"expert": 8, "tensor": 2}, {"kv_parallel": 2, "tensor": 8}, {"pipeline": 2, "expert": 4},
)  # fmt: skip


def a_step(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A model and a layout of it on eight chips, some of them in other formats."""
    formats = rng.choice(({}, {"weights": "fp8"}, {"kv": "fp8"}, {"kv_block": 16}))
    on = f"{rng.choice(('a100', 'h100', 'h200', 'b200'))}:8"
    return rng.choice(MODELS), {"on": on, "context": int(10 ** rng.uniform(0, 4)), **rng.choice(LAYOUTS), **formats}


@law("a step of a model alone = an entry of several = a row of a sweep")
def step_by_any_route(rng: random.Random) -> int:
    model, asked = a_step(rng)
    batches = sorted(rng.sample(range(1, 300), 3))
    try:
        alone = [roofline.llm(model, **asked, batch=batch) for batch in batches]
    except InputError:
        return 0
    several = roofline.llm(model, **asked, batch=batches)
    table = roofline.sweep(model, **asked, batch=batches, columns="lower,op_by_op,upper,memory")
    for row, one in enumerate(alone):
        for name in ("lower", "op_by_op", "upper"):
            time = getattr(one.decode, name)
            assert close(time, getattr(several.decode, name)[row])
            assert close(time, table[name][row])
        assert close(one.memory.total, table["memory"][row])
    return len(batches)


@law("a step of a model is no slower on a better machine, and no faster with more to do")
def steps_in_order(rng: random.Random) -> int:
    model, asked = a_step(rng)
    batch, made = rng.randint(1, 300), 0
    try:
        before = roofline.llm(model, **asked, batch=batch)
    except InputError:
        return 0
    for figure in ("hbm", "link", "bf16"):
        after = roofline.llm(model, **asked, batch=batch, set={figure: f"+{rng.randint(1, 99)}%"})
        made += after.decode.lower <= before.decode.lower * ROOM
        # the fastest number of micro-batches is so at the floor: it may be another, with less that overlaps
        numbers = [getattr(each.decode, "micro_batches", 1) for each in (before, after)]
        made += numbers[0] != numbers[1] or after.decode.op_by_op <= before.decode.op_by_op * ROOM
    more = [{**asked, "batch": batch + 1}, {**asked, "batch": batch, "context": 2 * asked["context"]}]
    for each in more:
        after = roofline.llm(model, **each)
        made += before.decode.lower <= after.decode.lower * ROOM
        made += before.memory.total <= after.memory.total
    assert made == 2 * 5
    return made


@law("an estimate is not below its bound, where data is cold")
def estimates(rng: random.Random) -> int:
    from roofline.estimates import estimated

    sizes = {label: 2 ** rng.randint(4, 13) for label in ("B", "D", "F")}
    found = roofline.bound("bf16[B, D] * bf16[D, F]", on=rng.choice(("h100", "a100", "b200")), sizes=sizes)
    expected = estimated(found, "vllm", ()).expectation
    if expected is None or expected.value is None:
        return 0
    assert expected.value >= found.lower * (1 - 1e-9)
    return 1
