"""Matrix products."""

from __future__ import annotations

from roofline.ops.einsum import steps
from roofline.programs.onnx.registry import Call, Priced, pricing, rule
from roofline.sizes import Size, product


@rule("MatMul", "MatMulInteger", "FusedMatMul", "TransposeMatMul", "QLinearMatMul")
def matmul(call: Call) -> Priced:
    """Multiply as numpy.matmul, either transposed; the quantised one has its second matrix in fourth place."""
    second = 3 if call.name == "QLinearMatMul" else 1
    a, b = (_turned(call.shape(place), call.get(word, 0)) for place, word in ((0, "transA"), (second, "transB")))
    m, n = (a[-2] if len(a) > 1 else 1), (b[-1] if len(b) > 1 else 1)
    if len(b) <= 2:
        m, batch = m * product(a[:-2]), 1
    else:
        batch = product(call.writes[0].dims[:-2] if len(a) > 1 else call.writes[0].dims[:-1])
    return pricing.matmul(call.name, call.read(0, second), call.writes, m=m, n=n, k=a[-1], batch=batch)


def _turned(shape: tuple[Size, ...], transposed: int) -> tuple[Size, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if transposed and len(shape) > 1 else shape


@rule("Gemm", "FusedGemm")
def gemm(call: Call) -> Priced:
    """α·A·B + β·C, either transposed."""
    a = call.shape(0)
    k = a[0] if call.get("transA") else a[1]
    m, n = call.writes[0].dims
    return pricing.matmul(call.name, call.read(0, 1, 2), call.writes, m=m, n=n, k=k)


@rule("Einsum")
def einsum(call: Call) -> Priced:
    """A sum over products, two operands at a time."""
    text = call.get("equation")
    equation = text.decode() if isinstance(text, bytes) else text
    operands = [tensor for tensor in call.ins if tensor is not None]
    return steps(call.name, equation, operands, call.writes)
