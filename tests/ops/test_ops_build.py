"""Building operations from a program: sizes, coverage, and what holds for every family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy
from tests.strategies import for_each

from roofline.errors import InputError, NotationError, SizeError
from roofline.notation import program
from roofline.notation.calls import canonical_functions
from roofline.notation.structure import Program, Shape, Span, Step, TensorDim
from roofline.ops import build
from roofline.ops.basic import embedding
from roofline.ops.rules import has_rule
from roofline.sizes import symbol
from roofline.work import Key, Op, Tensor

FAMILIES = {
    "contraction": "bf16[B, D] * int4[D, F] -> fp32[B, F]",
    "batched": "int8[B, D] * int8[B, D, F] -> int8[B, F]",
    "dot": "bf16[B, N] · bf16[B, N] -> bf16[B]",
    "elementwise": "gelu_tanh(mxfp8[B, F])",
    "broadcast": "bf16[B, F] + bf16[F]",
    "softmax": "softmax_T(fp32[B, N, T])",
    "log_softmax": "log_softmax_T(fp32[B, N, T])",
    "reduction": "logsumexp_F(bf16[B, F])",
    "norm": "layer_norm_F(bf16[B, F], bf16[F], bf16[F])",
    "group_norm": "group_norm(bf16[B, F, 32], groups=4)",
    "scan": "cumsum_F(bf16[B, F])",
    "top": "topk_F(bf16[B, F], k=3)",
    "fourier": "fft_F(complex64[B, F])",
    "attention": "attention(bf16[B, S, 8, H], bf16[B, T, 4, H], bf16[B, T, 4, H])",
    "causal": "attention(bf16[B, S, 8, H], bf16[B, T, 4, H], bf16[B, T, 4, H], causal)",
    "window": "attention(bf16[B, S, 8, H], bf16[B, T, 4, H], bf16[B, T, 4, H], causal, window=5)",
    "latent": "attention(bf16[B, S, 8, H], bf16[B, T, 1, H], causal, values=24)",
    "unfused": "attention(bf16[B, S, 8, H], bf16[B, T, 4, H], bf16[B, T, 4, H], causal, unfused)",
    "conv": "conv(bf16[B, L, W, 8], bf16[3, 3, 2, F], bf16[F], stride=2, pad=1, groups=4)",
    "depthwise": "conv(bf16[B, L, W, D], bf16[3, 3, 1, D], depthwise, same)",
    "conv_transpose": "conv_transpose(bf16[B, L, 8], bf16[4, 8, F], stride=2, pad=1)",
    "pool": "pool(bf16[B, L, W, D], window=3, stride=2, pad=1)",
    "embedding": "embedding(bf16[V, D], int32[B, S])",
    "copy": "transpose(bf16[B, D])",
    "program": "h = bf16[B, D] * bf16[D, F]; g = swiglu(h, bf16[B, F]); rms_norm(g * bf16[F, D], bf16[D])",
}
VALUES = {"B": 6, "D": 16, "F": 32, "N": 8, "T": 12, "S": 7, "H": 32, "L": 14, "W": 10, "V": 1000}
OPTIONS: list[dict[str, Any]] = [{}, {"exact": True}, {"count_padding": False}]


def amounts(text: str, sizes: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Every amount an answer is made of, by name."""
    found = {}
    for index, op in enumerate(build(program(text), sizes, **options)):
        found |= {f"{index}.{'/'.join(key)}": amount for key, amount in op.work.items()}
        found |= {f"{index}.read{i}": t.traffic_bytes for i, t in enumerate(op.reads)}
        found |= {f"{index}.write{i}": t.traffic_bytes for i, t in enumerate(op.writes)}
        found |= {f"{index}.{name}": value for name, value in op.dims.items()}
    return found


def sizes_of(text: str) -> dict[str, int]:
    return {label: VALUES[label] for label in program(text).labels}


@for_each("options", OPTIONS, ids=["usual", "exact", "unpadded"])
@for_each("family", FAMILIES)
def test_number_equals_array_equals_symbol(family: str, options: dict[str, Any]) -> None:
    text = FAMILIES[family]
    sizes = sizes_of(text)
    numbers = amounts(text, sizes, **options)
    arrays = amounts(text, {name: np.array([value, value + 32]) for name, value in sizes.items()}, **options)
    symbols = amounts(text, {}, **options)
    known = {symbol(name): value for name, value in sizes.items()}
    assert numbers.keys() == arrays.keys() == symbols.keys()
    for name, number in numbers.items():
        assert isinstance(number, int), name
        assert np.ravel(arrays[name])[0] == pytest.approx(number, rel=1e-12), name
        assert float(sympy.sympify(symbols[name]).subs(known)) == pytest.approx(number, rel=1e-12), name


@pytest.mark.parametrize("family", FAMILIES)
def test_work_is_linear_in_a_label_that_stands_in_every_row(family: str) -> None:
    text = FAMILIES[family]
    once = [op.work for op in build(program(text), sizes_of(text))]
    thrice = [op.work for op in build(program(text), {**sizes_of(text), "B": 3 * VALUES["B"]})]
    assert [work * 3 for work in once] == thrice


@pytest.mark.parametrize("family", FAMILIES)
def test_renaming_a_size_changes_nothing(family: str) -> None:
    text = FAMILIES[family]
    renamed = text.replace("B", "rows").replace("D", "width")
    other = {{"B": "rows", "D": "width"}.get(name, name): value for name, value in sizes_of(text).items()}
    assert amounts(text, sizes_of(text)) == amounts(renamed, other)


# ---- coverage

CALLS = {
    "where": "where(bool[B, D], bf16[B, D], bf16[B, D])",
    "cast": "cast(bf16[B, D]) -> int8[B, D]",
    "group_norm": "group_norm(bf16[B, D, 8], groups=4)",
    "attention": FAMILIES["attention"],
    "conv": FAMILIES["conv"],
    "conv_transpose": FAMILIES["conv_transpose"],
    "pool": FAMILIES["pool"],
    "embedding": FAMILIES["embedding"],
    "topk": FAMILIES["top"],
}
FUNCTIONS = {name: row for name, row in canonical_functions().items() if row.family != "collective"}


@for_each("name", FUNCTIONS)
def test_every_function_has_a_cost(name: str) -> None:
    operands = ", ".join(["bf16[B, D]"] * FUNCTIONS[name].least)
    (op,) = build(program(CALLS.get(name, f"{name}({operands})")), {})
    assert op.kind == FUNCTIONS[name].family
    assert bool(op.reads) == (name != "from_host")  # what is read lies in the host's memory
    assert op.writes
    moves_only = {"cast", "copy", "transpose", "embedding", "from_host"}
    assert bool(op.work.total("flops") == 0) == (name in moves_only)


def test_a_function_without_a_rule_is_found() -> None:
    assert not has_rule("quicksort")


# ---- sizes


def test_sizes_come_from_the_text_and_from_the_caller() -> None:
    (op,) = build(program("bf16[B, 4096] @ bf16[4096, F]"), {"B": 4e3})
    assert op.dims == {"m": 4000, "n": symbol("F"), "k": 4096, "batch": 1}


def test_a_size_given_again_as_it_stands_in_the_text_is_no_mistake() -> None:
    line = program("bf16[B, 4096] @ bf16[D, F]")
    assert line.sizes["D"] == 4096
    assert build(line, {"B": 1, "F": 2, "D": 4096})[0].dims["k"] == 4096


LINE = "bf16[Batch, D] * bf16[D, F] -> bf16[Batch, F]"


@pytest.mark.parametrize(
    ("text", "sizes", "message"),
    [
        (LINE, {"D": 8, "batch": 4}, "size batch stands nowhere in the expression; did you mean 'Batch'?"),
        (LINE, {"price": 4}, "size price stands nowhere in the expression; roofline.bound() takes price="),
        (LINE, {"X": 4}, "size X stands nowhere in the expression; sizes are: Batch, D, F"),
        (
            "bf16[8] + bf16[8]",
            {"X": 4},
            "size X stands nowhere in the expression; all its sizes are written as numbers",
        ),
        (LINE, {"D": 0}, "size D is 0; a size is a whole number of at least 1"),
        (LINE, {"D": 2.5}, "size D is 2.5; a size is a whole number of at least 1"),
        (LINE, {"D": "4*F"}, "size D is '4*F'; a size is a whole number, an array of them, or nothing"),
        (LINE, {"D": float("nan")}, "size D is nan; a size is a whole number of at least 1"),
        (
            LINE,
            {"D": [1, 2]},
            "size Batch has no value while D is an array; give Batch, F too: arrays and unnamed sizes do not mix",
        ),
        (
            LINE,
            {"D": [1, 2], "F": [1, 2, 3], "Batch": 1},
            "sizes D and F are arrays of shapes (2,) and (3,); "
            "arrays pair element by element, as numpy broadcasts them",
        ),
        ("bf16[B, 4096] @ bf16[D, F]", {"D": 8}, "size D is 4096 in the text, not 8; give it in one place"),
        ("bf16[B, 4096] @ bf16[D, F]", {"D": [4096]}, "size D is 4096 in the text, not [4096]; give it in one place"),
        (
            "conv(bf16[B, L, 8], bf16[3, 8, F]) -> bf16[B, P, F]",
            {"P": 4},
            "size P follows from the others; leave it out",
        ),
    ],
)
def test_wrong_sizes(text: str, sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(SizeError) as raised:
        build(program(text), sizes)
    assert str(raised.value) == message


def test_a_size_of_none_is_not_given() -> None:
    assert build(program(LINE), {"D": None})[0].dims["k"] == symbol("D")


def test_sizes_that_follow_are_known_to_later_statements() -> None:
    text = "h = conv(bf16[B, L, 8], bf16[3, 8, F], stride=2) -> bf16[B, P, F]; gelu(h)"
    conv, gelu = build(program(text), {"B": 2, "L": 9, "F": 16})
    assert conv.writes[0].dims == gelu.reads[0].dims == (2, 4, 16)
    assert conv.writes[0].ident == gelu.reads[0].ident == "h"


def test_whole_numbers_stay_exact() -> None:
    (op,) = build(program(LINE), {"Batch": 10**30, "D": 10**30 - 1, "F": 10**30})
    assert op.work.total("flops") == 2 * 10**60 * (10**30 - 1)


def test_large_numbers_beside_arrays_are_floats() -> None:
    (op,) = build(program(LINE), {"Batch": np.array([1, 2]), "D": 10**30, "F": 10**30})
    assert op.work.total("flops").dtype == np.float64
    assert op.work.total("flops") == pytest.approx([2e60, 4e60], rel=1e-12)


# ---- one chip


def test_a_collective_needs_a_mesh() -> None:
    with pytest.raises(NotationError) as raised:
        build(program("h = bf16[B, D] * bf16[D, F]; AllReduce_X(h)"), {})
    assert "AllReduce moves data between chips: it needs a mesh, and this is one chip" in str(raised.value)
    assert raised.value.position == 29


def test_sharded_tensors_need_a_mesh() -> None:
    with pytest.raises(NotationError, match="sharded over X: that needs a mesh, and this is one chip; leave _X out"):
        build(program("bf16[B_X, D] * bf16[D, F] -> bf16[B_X, F]"), {})


# ---- steps made by hand


def shape(ident: str, *labels: str, dtype: str = "bf16", source: str = "input") -> Shape:
    return Shape(ident, dtype, tuple(TensorDim(label) for label in labels), source)


def built(step: Step, **sizes: int) -> Op:
    return build(Program((step,), {}, tuple(sizes), "by hand"), sizes)[0]


def test_a_step_made_by_hand() -> None:
    step = Step(
        "contraction",
        "contract",
        (shape("x", "B", "D"), shape("w", "D", "F", dtype="int8")),
        shape("y", "B", "F", source="step"),
        contracted=("D",),
        compute="bf16",
    )
    op = built(step, B=4, D=8, F=16)
    assert op.work[Key("flops", "matrix", "bf16")] == 2 * 4 * 8 * 16
    assert op.name == "matmul"


def test_complex_numbers_where_they_do_not_count_are_an_error() -> None:
    with pytest.raises(NotationError, match="softmax of complex numbers has no cost rule"):
        build(program("softmax(complex64[B, D])"), {})


def test_a_result_that_contradicts_what_was_known_is_an_error() -> None:
    x, out = shape("x", "B", "L", "C"), shape("y", "B", "P", "C", source="step")
    step = Step("function", "pool", (x,), out, options={"window": (2,), "stride": (2,), "pad": (0,), "dilation": (1,)})
    line = Program((step,), {"P": 7}, ("B", "L", "C"), "by hand")
    with pytest.raises(InputError, match="P of the result is 4, and 7 elsewhere"):
        build(line, {"B": 1, "L": 8, "C": 3})


# ---- lookups


def test_a_lookup_touches_the_rows_its_indices_name() -> None:
    table = Tensor("t", (1000, 64), "bf16", "weight")
    op = embedding("rows", (table, Tensor("i", (4, 8), "int32", "index")), (Tensor("x", (4, 8, 64), "bf16"),))
    assert len(op.work) == 0
    assert [t.traffic_bytes for t in (*op.reads, *op.writes)] == [32 * 64 * 2, 32 * 4, 32 * 64 * 2]
    assert op.reads[0].capacity_bytes == 128000
    many = embedding("rows", (table, Tensor("i", (4000,), "int32", "index")), (Tensor("x", (4000, 64), "bf16"),))
    assert many.reads[0].traffic_bytes == many.reads[0].capacity_bytes
    assert [t.role for t in build(program("embedding(bf16[V, D], int32[B])"), {})[0].reads] == ["weight", "index"]


# ---- spans point at the step


def test_the_place_of_a_step_is_where_its_error_points() -> None:
    step = Step("collective", "AllGather", (shape("x", "B"),), shape("y", "B"), over=("X",), span=Span(3, 5))
    with pytest.raises(NotationError) as raised:
        build(Program((step,), {}, ("B",), "abcdef"), {})
    assert raised.value.position == 3


def test_each_family_is_found_in_a_cold_process() -> None:
    """A rule stands in the file that is loaded when nothing else is."""
    from roofline.notation.calls import FUNCTIONS
    from roofline.ops import rules

    families = {function.family for function in FUNCTIONS.values()} | {"contraction", "elementwise", "copy"}
    found = {family: rules.rule_for(family).__module__ for family in sorted(families) if rules.has_rule(family)}
    assert set(found) >= {"norm", "softmax", "scan", "reduction", "attention", "convolution", "pooling", "embedding"}
    assert found == {family: f"roofline.ops.{rules._FILES.get(family, family)}" for family in found}
