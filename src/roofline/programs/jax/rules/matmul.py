"""Matrix products: dot_general and ragged_dot."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.programs.jax.registry import Call, Priced, Value, pricing, rule
from roofline.programs.jax.rules.collectives import reduced_over
from roofline.sizes import Size, exact_div, product
from roofline.work import Op, Tensor


@rule("dot_general")
def dot_general(call: Call) -> Priced:
    """Contract some dimensions, batch over others: all that is left of either side is m and n."""
    (left, right), (left_batch, right_batch) = call.params["dimension_numbers"]
    a, b = call.ins[:2]
    op = pricing.matmul(
        call.name,
        _operands(call),
        call.writes,
        m=_rest(a, left, left_batch),
        n=_rest(b, right, right_batch),
        k=product(a.shape[d] for d in left),
        batch=product(a.shape[d] for d in left_batch),
    )
    axes = [axis for d in left for axis in (a.split[d] if a.split else ())]
    return [op, *reduced_over(call, axes, call.writes[0], call.outs[0])]


@rule("ragged_dot_general", "ragged_dot")
def ragged_dot(call: Call) -> Priced:
    """Every row meets the matrix of one group: the groups' dimension multiplies nothing, and t rows meet at most t."""
    numbers = call.params["ragged_dot_dimension_numbers"]
    (left, right), (left_batch, right_batch) = numbers.dot_dimension_numbers
    a, b = call.ins[:2]
    m, k = _rest(a, left, left_batch), product(a.shape[d] for d in left)
    n = _rest(b, (*right, *numbers.rhs_group_dimensions), right_batch)
    batch = product(a.shape[d] for d in left_batch)
    op = pricing.matmul(call.name, _operands(call), call.writes, m=m, n=n, k=k, batch=batch)
    reads = {tensor.ident: tensor for tensor in call.reads}
    if numbers.rhs_group_dimensions:
        groups = product(b.shape[d] for d in numbers.rhs_group_dimensions)
        rows = product(a.shape[d] for d in numbers.lhs_ragged_dimensions)
        reads |= {tensor.ident: tensor for tensor in call.touch(1, exact_div(b.size, groups) * rows)}
    return Op(op.name, op.kind, op.work, tuple(reads.values()), op.writes, op.dims, options=op.options)


@rule("scaled_dot", "scaled_matmul", "scaled_matmul_wrapper")
def scaled(call: Call) -> Priced:
    """Multiply [b, m, k] by [b, n, k], each in blocks with a scale of its own."""
    if "dimension_numbers" in call.params:
        return dot_general(call)
    a, b = call.ins[:2]
    sizes = {"batch": a.shape[0], "m": a.shape[1], "k": a.shape[2], "n": b.shape[1]}
    op = pricing.matmul(call.name, call.read(0, 1), call.writes, **sizes)
    return Op(op.name, op.kind, op.work, call.reads, op.writes, op.dims, options=op.options)


def _operands(call: Call) -> tuple[Tensor, ...]:
    """Both operands; a constant that the program holds is written out as large as it is."""
    found = []
    for place in (0, 1):
        tensor = call.operands[place]
        value = call.ins[place]
        found.append(tensor or Tensor(f"{call.writes[0].ident}.constant{place}", value.shape, value.dtype, touched=0))
    return tuple(found)


def _rest(value: Value, contracted: Sequence[int], batch: Sequence[int]) -> Size:
    return product(size for d, size in enumerate(value.shape) if d not in contracted and d not in batch)
