"""Conventions of counting FLOPs: the totals that people report, each over the same operations.

>>> from roofline.ops.contraction import matmul
>>> op = matmul(m=64, n=8192, k=8192)
>>> count([op], "flops"), count([op], "macs")
(8589934592, 4294967296)
>>> count([op], "flop")
Traceback (most recent call last):
roofline.errors.InputError: unknown counting convention 'flop'; did you mean 'flops'?

Tools disagree by factors of two and more on the same network because each has a convention of its own: one FLOP or
two for a multiply-add, masked scores counted or not, padding counted or not, bias and normalisation counted or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from roofline.errors import check_one_of
from roofline.frozen import NamedTuple
from roofline.ops.basic import written_elements
from roofline.ops.contraction import real_flops
from roofline.sizes import Size, product
from roofline.work import Op

#: Kinds that multiply and add; all others work element by element.
MATMUL_KINDS = ("contraction", "attention", "convolution")


def macs(op: Op) -> Size:
    """Multiply-adds of one operation: padding counted, masked scores not; four for each of complex numbers.

    >>> from roofline.work import Tensor
    >>> from roofline.ops.contraction import contraction
    >>> a, b = Tensor("a", (8, 16), "complex64"), Tensor("b", (16, 32), "complex64")
    >>> macs(contraction("mm", [a, b], [Tensor("c", (8, 32), "complex64")], m=8, n=32, k=16)) == 4 * 8 * 16 * 32
    True
    """
    return _terms(op) * (sum(real_flops(*(tensor.dtype for tensor in op.reads[:2]))) // 2 if len(op.reads) > 1 else 1)


def _terms(op: Op) -> Size:
    """Terms of an operation's sums, those of complex numbers one each, as other tools count them.

    A front end states them as ``options["macs"]`` where they do not follow from the shape facts.
    """
    if op.kind not in MATMUL_KINDS:
        return 0
    if "macs" in op.options:
        return op.options["macs"]
    if op.kind == "attention":
        facts = op.dims
        return facts["batch"] * facts["heads"] * facts["pairs"] * (facts["head_size"] + facts["v_head_size"])
    return product(op.dims[name] for name in ("batch", "m", "n", "k"))


def unmasked_macs(op: Op) -> Size:
    """Multiply-adds with every score of an attention counted, masked or not (``options["unmasked_macs"]``)."""
    found = op.options.get("unmasked_macs")
    if found is not None or op.kind != "attention":
        return _terms(op) if found is None else found
    pairs = op.dims["q_length"] * op.dims["kv_length"]
    return op.dims["batch"] * op.dims["heads"] * pairs * (op.dims["head_size"] + op.dims["v_head_size"])


def valid_macs(op: Op) -> Size:
    """Multiply-adds of taps that meet an element: a convolution's padding left out (``options["valid_macs"]``)."""
    return op.options.get("valid_macs", macs(op))


def one_each(op: Op) -> Size:
    """One for every element worked on: of the result, or of what is reduced (``options["one_each"]``).

    Multiply-adds, copies and lookups have none.
    """
    if "one_each" in op.options:
        return op.options["one_each"]
    if not op.work.total("flops", "vector") or op.kind in MATMUL_KINDS:
        return 0
    return op.dims.get("elements", written_elements(op))


def as_fvcore(op: Op) -> Size:
    """fvcore: 1 per multiply-add; 4 an element of a norm (1 with stored statistics) and 1 more if it is scaled.

    Adaptive mean pooling is 1 for each element that goes in, resampling 1 (nearest) or 4 (bilinear) for each that
    comes out. Attention in one call, other pooling, RMS norms and recurrent layers have no rule there and are 0.

    Source: facebookresearch/fvcore, fvcore/nn/jit_handles.py and flop_count.py (``_DEFAULT_SUPPORTED_OPS``).
    """
    if op.kind == "norm":
        each = (4 if op.dims.get("statistics", 1) else 1) + (1 if op.dims.get("affine", 0) else 0)
        return each * op.dims["elements"] if op.options.get("function") != "rms_norm" else 0
    if op.kind == "pooling":
        return one_each(op) if op.options.get("is_adaptive_mean") else 0
    if op.kind == "resample":
        return one_each(op) * {1: 1, 4: 4}.get(op.options.get("taps", 4), 0)
    return 0 if op.kind == "attention" or op.options.get("is_recurrent") else _terms(op)


def as_ptflops(op: Op) -> Size:
    """ptflops: 1 per multiply-add, 1 for every element a bias is added to, 1 for every element resampled or pooled.

    Source: sovrasov/flops-counter.pytorch, ptflops/pytorch_ops.py.
    """
    if op.kind in MATMUL_KINDS:
        return _terms(op) + (op.work.total("flops", "vector") if op.kind != "attention" else 0)
    return one_each(op) if op.kind in ("pooling", "resample") else 0


def priced(op: Op) -> Size:
    """All arithmetic as this package prices it, matrix and vector unit together."""
    return op.work.total("flops")


class Convention(NamedTuple):
    """One way to count: of one operation, and in words."""

    count: Callable[[Op], Size]
    meaning: str


#: Conventions by name.
CONVENTIONS: dict[str, Convention] = {
    "flops": Convention(
        lambda op: 2 * macs(op),
        "2 per multiply-add of matmuls, convolutions and attention; padding counted, masked scores not",
    ),
    "macs": Convention(macs, "1 per multiply-add of matmuls, convolutions and attention"),
    "unmasked": Convention(
        lambda op: 2 * unmasked_macs(op), "2 per multiply-add, masked scores counted too, as torch's FlopCounterMode"
    ),
    "valid": Convention(
        lambda op: 2 * valid_macs(op), "2 per multiply-add, padded positions of convolutions left out, as XLA"
    ),
    "elementwise": Convention(
        lambda op: 2 * macs(op) + one_each(op), "2 per multiply-add, and 1 for every element of everything else"
    ),
    "fvcore": Convention(as_fvcore, "as fvcore counts: 1 per multiply-add; norms, pooling and resampling too"),
    "ptflops": Convention(
        as_ptflops, "as ptflops counts: 1 per multiply-add and 1 per added bias; pooling, resampling"
    ),
    "all": Convention(priced, "everything as this package prices it: each primitive of a composite is 1"),
}


def count(ops: Iterable[Op], convention: str = "flops") -> Size:
    """Add up operations under a convention, each as often as it is repeated."""
    amounts = [count_operation(op, convention) for op in ops]
    return sum(amounts)


def count_operation(op: Op, convention: str = "flops") -> Size:
    """Count one operation with its repeats under a convention."""
    check_one_of(f"unknown counting convention {convention!r}", convention, CONVENTIONS, "counting conventions")
    return CONVENTIONS[convention].count(op) * op.repeat
