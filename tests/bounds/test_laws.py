"""Physical laws, for every kind of operation and every chip of the catalog (DESIGN section 8)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.bounds.api import bound, question
from roofline.bounds.evaluate import values_of
from roofline.bounds.memory import kernels, traffic
from roofline.errors import UntimedError
from roofline.hardware import Machine, override
from roofline.sizes import is_symbol, symbol
from roofline.work import Op, Tensor
from tests.strategies import CHIPS, KINDS, expressions, few, machines, some

ROOM = 1 + 1e-12
Asked = tuple[str, dict[str, int]]


def answer(asked: Asked, machine: Any, **options: Any) -> Any:
    return bound(asked[0], on=machine, sizes=asked[1], **options)


def timed(asked: Asked, machine: Machine, **options: Any) -> Any:
    """The bound, or None where this chip has no figure for any of it."""
    try:
        return answer(asked, machine, **options)
    except UntimedError:
        return None


@given(expressions(), machines)
def test_the_three_bounds_are_in_order(asked: Asked, machine: Machine) -> None:
    found = timed(asked, machine)
    if found is None:
        return
    assert 0 < found.lower <= found.op_by_op * ROOM
    assert found.op_by_op <= found.upper * ROOM
    assert found.upper <= len(found.times) * found.lower * ROOM
    assert found.lower == max(found.times.values())
    assert found.lower == max(found.math, found.moving, found.comms)
    assert found.times[found.bound_by] == found.lower


@given(expressions(), machines)
def test_nothing_is_faster_than_the_peak_or_the_least_bytes(asked: Asked, machine: Machine) -> None:
    found = timed(asked, machine)
    if found is None:
        return
    least = sum(w.total("bytes") for w in traffic(question(asked[0], on=machine, sizes=asked[1]).ops(), "minimal"))
    for use in found.uses:
        assert found.lower * ROOM >= use.amount / use.rate.value
        if use.quantity == "bytes":
            assert use.amount >= least
    best = max((p.value for u in machine.units for p in u.peaks.values()), default=0)
    if found.flops and found.utilisation is not None:
        assert found.attainable <= best * ROOM


@given(expressions(), machines, st.floats(1, 64))
def test_faster_hardware_never_slows(asked: Asked, machine: Machine, times: float) -> None:
    found = timed(asked, machine)
    if found is None:
        return
    for use in found.uses:
        name = f"{use.resource}.{use.dtype}" if use.quantity == "flops" else use.resource
        better = answer(asked, override(machine, {name: use.rate.value * times}))
        assert better.lower <= found.lower * ROOM
        assert better.upper <= found.upper * ROOM


@pytest.mark.parametrize(("wide", "narrow"), some([("bf16", "int8"), ("int8", "int4"), ("fp32", "bf16")], 2))
@given(sizes=st.tuples(*[st.integers(1, 512)] * 3), machine=machines)
def test_fewer_storage_bits_never_slow(wide: str, narrow: str, sizes: tuple[int, ...], machine: Machine) -> None:
    named = dict(zip(("B", "D", "F"), (2 * s for s in sizes), strict=True))
    arithmetic = "fp32" if wide == "fp32" else "bf16"
    line = f"{arithmetic}[B, D] * {{}}[D, F] -> {arithmetic}[B, F]"
    before, after = timed((line.format(wide), named), machine), timed((line.format(narrow), named), machine)
    if before is not None and after is not None:
        assert after.lower <= before.lower * ROOM


@pytest.mark.parametrize(
    "kind", some(["batched matmul", "batched dot", "softmax", "attention", "causal", "gelu"], 2, 1)
)
@given(factor=st.integers(2, 50), data=st.data())
@few(25)
def test_work_is_linear_in_a_label_of_every_tensor(kind: str, factor: int, data: st.DataObject) -> None:
    line, labels = KINDS[kind]
    sizes = {label: data.draw(st.integers(2, 64), label) for label in labels}
    one, many = (answer((line, {**sizes, "B": sizes["B"] * n}), "h100") for n in (1, factor))
    assert many.flops == one.flops * factor
    assert many.bytes["hbm"] == one.bytes["hbm"] * factor


@pytest.mark.parametrize("kind", ["matmul", "convolution", "transposed", "program"])
@given(factor=st.integers(2, 50), data=st.data())
@few(25)
def test_flops_are_linear_in_the_batch_and_weights_are_read_once(kind: str, factor: int, data: st.DataObject) -> None:
    line, labels = KINDS[kind]
    sizes = {label: data.draw(st.integers(2, 64), label) for label in labels}
    one, many = (answer((line, {**sizes, "B": sizes["B"] * n}), "h100") for n in (1, factor))
    weights = sum(t.traffic_bytes for p in one.ops for t in p.op.reads if t.role == "weight")
    assert many.flops == one.flops * factor
    assert many.bytes["hbm"] - weights == (one.bytes["hbm"] - weights) * factor
    assert weights > 0


@given(expressions(), machines)
def test_renaming_dims_changes_nothing(asked: Asked, machine: Machine) -> None:
    found = timed(asked, machine)
    if found is None:
        return
    import re

    line, sizes = asked
    new = {label: f"d_{label.lower()}x" for label in sizes}
    renamed = re.sub(r"(?<![\w.])([A-Z])(?![\w(])", lambda m: new.get(m.group(1), m.group(1)), line)
    renamed = re.sub(r"(sum|cumsum)_T", r"\1_d_tx", renamed)
    other = answer((renamed, {new[label]: size for label, size in sizes.items()}), machine)
    assert (other.lower, other.upper, other.flops, other.bytes) == (found.lower, found.upper, found.flops, found.bytes)


@given(expressions())
@few(5)
def test_number_array_and_symbol_agree(asked: Asked) -> None:
    line, sizes = asked
    machine = CHIPS["h100"]
    number = answer(asked, machine)
    array = answer((line, {name: np.array([size, size]) for name, size in sizes.items()}), machine)
    assert array.lower.tolist() == pytest.approx([number.lower] * 2, rel=1e-12)
    assert array.upper.tolist() == pytest.approx([number.upper] * 2, rel=1e-12)
    assert array.bound_by.decode() == [number.bound_by] * 2
    closed = bound(line, on=machine)
    known = {symbol(name): size for name, size in sizes.items()}
    known |= values_of(use.rate for use in closed.uses)
    for name in ("flops", "lower", "upper", "op_by_op"):
        form = getattr(closed, name)
        assert float(form.subs(known) if is_symbol(form) else form) == pytest.approx(getattr(number, name), rel=1e-12)


@given(expressions(), machines)
def test_policies_are_in_order(asked: Asked, machine: Machine) -> None:
    ops = question(asked[0], on=machine, sizes=asked[1]).ops()
    by = {policy: sum(w.total("bytes") for w in traffic(ops, policy)) for policy in ("minimal", "fused", "each-op")}
    assert by["minimal"] <= by["fused"] <= by["each-op"]


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300), machines)
def test_unfused_work_of_two_statements_is_the_sum(b: int, d: int, f: int, machine: Machine) -> None:
    sizes = {"B": b, "D": d, "F": f}
    lines = ("h = bf16[B, D] * bf16[D, F] -> bf16[B, F]", "gelu(bf16[B, F])")
    first, second = (timed((line, {k: v for k, v in sizes.items() if k in line}), machine) for line in lines)
    both = timed(("h = bf16[B, D] * bf16[D, F] -> bf16[B, F]; gelu(h)", sizes), machine)
    if None not in (first, second, both):
        assert both.upper == pytest.approx(first.upper + second.upper, rel=1e-12)
        assert sum(both.bytes.values()) == sum(first.bytes.values()) + sum(second.bytes.values())


@pytest.mark.parametrize("policy", ["each-op", "fused", "minimal", "streamed"])
def test_a_result_read_again_moves_as_much_in_arrays_as_in_numbers(policy: str) -> None:
    line = "h = bf16[B, D] + bf16[B, D]; layer_norm(h); h"
    rows = bound(line, on="h100", policy=policy, B=np.array([3, 500]), D=np.array([7, 800]))
    alone = [bound(line, on="h100", policy=policy, B=b, D=d).lower for b, d in ((3, 7), (500, 800))]
    assert rows.lower.tolist() == alone


def test_a_fused_kernel_takes_the_larger_operand_in_whatever_order_both_are_made() -> None:
    """A row for every product, worked out before or after them: the products wait in no memory."""
    lines, sizes = ("b = bf16[B, D] * bf16[D, F]", "s = gelu(bf16[F])"), {"B": 64, "D": 64, "F": 64}
    for made in (lines, lines[::-1]):
        ops = question("; ".join((*made, "b + s")), on="h100", sizes=sizes).ops()
        assert sum(work.total("bytes") for work in traffic(ops, "fused")) == 2 * (3 * 64 * 64 + 3 * 64)


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from((1, 8, 64)), st.integers(0, 99), st.integers(0, 99)), max_size=12)
)
def test_fused_kernels_run_one_after_the_other(drawn: list[tuple[bool, int, int, int]]) -> None:
    """No kernel waits for one that waits for it."""
    made, ops = [Tensor("x", (8,), "fp32")], []
    for number, (joins, size, first, second) in enumerate(drawn):
        reads = (made[first % len(made)], made[second % len(made)])
        size = max(t.elements for t in reads) if joins else size
        made.append(Tensor(f"t{number}", (size,), "fp32"))
        ops.append(Op(f"o{number}", "elementwise" if joins else "contraction", reads=reads, writes=(made[-1],)))
    kernel = kernels(ops, "fused")
    maker = {t.ident: kernel[place] for place, op in enumerate(ops) for t in op.writes}
    needs = {own: {maker[t.ident] for op, k in zip(ops, kernel, strict=True) if k == own for t in op.reads
                   if t.ident in maker} - {own} for own in kernel}  # fmt: skip
    done: set[int] = set()
    while needs.keys() - done:
        able = {own for own, others in needs.items() if own not in done and others <= done}
        assert able
        done |= able


def test_kernels_are_fused_alike_where_sizes_are_open_and_given() -> None:
    """Of two operands of one size the latest is joined, of others the larger, by an open batch too."""
    for first, second, joined in (("B", "B", 1), ("B", 1, 0), (1, "B", 1), ("5B", 3, 0)):
        for batch in (3, symbol("B")):
            sizes: dict[Any, Any] = {"B": batch, "5B": 5 * batch}
            made = [Tensor(f"t{n}", (sizes.get(rows, rows), 8), "fp32") for n, rows in enumerate((first, second))]
            ops = [Op(t.ident, "contraction", writes=(t,)) for t in made]
            ops.append(Op("add", "elementwise", reads=tuple(made), writes=(Tensor("y", (batch, 8), "fp32"),)))
            assert kernels(ops, "fused") == [0, 1, joined]
