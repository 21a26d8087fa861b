"""Text to structure: tokens, dimensions, shardings, statements, calls and closing clauses."""

from __future__ import annotations

import pytest

from roofline.errors import NotationError
from roofline.notation import parse, program
from roofline.notation.tokens import tokenize


def first(text):
    return parse(text).statements[0].value


def dims(text):
    return [(dim.name or dim.size, dim.axes) for dim in first(text).dims]


def test_tokens_know_their_place():
    text = "bf16[B]·_D x"
    assert [(t.kind, text[t.start : t.end]) for t in tokenize(text)][:-1] == [
        ("name", "bf16"), ("[", "["), ("name", "B"), ("]", "]"), ("contract", "·_D"), ("name", "x"),
    ]  # fmt: skip


@pytest.mark.parametrize("sign", ["*", "@", ".", "·", "•", "×", "⨯", "⋅", r"\cdot", r"\times"])
def test_every_sign_of_a_product_contracts(sign):
    assert first(f"A[I, J] {sign} B[J, K]").operator == "contract"
    assert first(f"A[I, J] {sign}_J B[J, K]").over == ("J",)
    assert first(f"A[I, J] {sign}_{{I,J}} B[I, J]").over == ("I", "J")


@pytest.mark.parametrize("text", ["A[I, J] x B[J, K]", "bf16[I, J] X bf16[J, K]", "bf16[I, J] x [J, K]"])
def test_an_x_between_tensors_is_a_product_and_a_tensor_may_be_called_x(text):
    assert first(text).operator == "contract"
    assert first("A[I, J] * x[J, K]").right.name == "x"


@pytest.mark.parametrize("arrow", ["->", "→", "⟶", "-->", r"\rightarrow", r"\to"])
def test_every_arrow_gives_the_result(arrow):
    assert parse(f"A[I] * B[I] {arrow} C[]").statements[0].output.name == "C"


def test_a_point_is_an_operator_except_inside_a_number():
    assert first("A[2].B[2]").operator == "contract"
    with pytest.raises(NotationError, match=r"a size is a whole number, not 2\.5"):
        parse("A[2.5]")


def test_dimensions_are_names_or_numbers():
    assert dims("bf16[B, 4_096, d_ff, 1e6, 2.0]") == [("B", ()), (4096, ()), ("d_ff", ()), (10**6, ()), (2, ())]
    assert first("bf16[]").dims == ()


def test_capitals_after_an_underscore_are_mesh_axes():
    assert dims("A[B_X, D_YZ, d_ff, H_{data,model}]") == [
        ("B", ("X",)),
        ("D", ("Y", "Z")),
        ("d_ff", ()),
        ("H", ("data", "model")),
    ]
    assert dims("bf16[8_X, 16_{data}, d_ff_M]") == [(8, ("X",)), (16, ("data",)), ("d_ff", ("M",))]


def test_partial_sums_stand_in_braces():
    assert first("A[I] {U_XY}").unreduced == ("X", "Y")
    assert first("A[I]{U_{data}}").unreduced == ("data",)
    assert first(r"A[I] \{U_X\}").unreduced == ("X",)


def test_names_dtypes_and_both():
    assert (first("bfloat16[B]").dtype, first("bfloat16[B]").name) == ("bf16", None)
    assert (first("x[B]").dtype, first("x[B]").name) == (None, "x")
    assert (first("x: f32[B]").dtype, first("x: f32[B]").name) == ("fp32", "x")
    assert (first("[B]").dtype, first("[B]").name) == (None, None)


def test_a_product_binds_tighter_and_chains_go_left_to_right():
    total = first("a[I, J] * b[J, K] + c[I, K] / d[I, K]")
    assert total.operator == "divide"
    assert (total.left.operator, total.left.left.operator) == ("add", "contract")
    chain = first("a * b . c")
    assert chain.left.left.name == "a"
    assert first("a * (b + c)").right.operator == "add"


def test_statements_are_separated_by_semicolons_and_line_breaks():
    node = parse("h = a[I, J] *\n  b[J, K];; \n\n gelu(\n h\n)\n")
    assert [s.target for s in node.statements] == ["h", None]
    assert len(parse("a[I]*b[I]\n  -> c[]").statements) == 1
    assert len(parse("a[I]*b[I] # first\nc[I]+d[I] # second").statements) == 2


def test_calls_have_suffixes_flags_and_options():
    call = first("conv2d(x, w, stride=(2, 1), pad=3x3, groups=4, depthwise=false)")
    assert call.function == "conv"
    assert dict(call.options) == {"stride": (2, 1), "pad": (3, 3), "groups": 4}
    assert dict(first("attention(q, k, v, causal, window=128)").options) == {"causal": True, "window": 128}
    assert dict(first("conv(x, w, pad=same)").options) == {"pad": "same"}
    assert (first("rms_norm_D(x)").function, first("rms_norm_D(x)").over) == ("rms_norm", ("D",))
    assert first("sum_{S,T}(x)").over == ("S", "T")
    assert first("AllGather_XY(x)").over == ("X", "Y")
    assert first("all_gather_{data}(x)").over == ("data",)
    assert first("gelu(softmax_T(x))").arguments[0].function == "softmax"


def test_a_flag_is_a_flag_only_where_it_stands_alone():
    assert first("attention(causal[S, N, H], k, v)").arguments[0].name == "causal"


def test_clauses_close_the_text():
    node = parse("a[I_X] * b[I_X] mesh X=2,Y=4 on v5e:4x4 over vmem")
    assert (dict(node.mesh), node.on, node.over) == ({"X": 2, "Y": 4}, "v5e:4x4", "vmem")
    assert dict(parse("a[I]*b[I]; mesh data=2 model=n").mesh) == {"data": 2, "model": "n"}
    for target in ("dgx-h100:64", "./my/chip.toml", "h100x8", "~/a-b.toml", "this"):
        assert parse(f"gelu(x[B]) on {target}").on == target
    assert parse("on[B] * over[B]").on is None


def test_structure_is_immutable():
    node = parse("softmax_T(bf16[B, T])")
    with pytest.raises(AttributeError):
        node.text = ""
    with pytest.raises(TypeError):
        first("conv(x, w, stride=2)").options["stride"] = 1


def test_parsing_and_resolving_are_cached():
    assert parse("gelu(bf16[B])") is parse("gelu(bf16[B])")
    assert program("gelu(bf16[B])") is program("gelu(bf16[B])")


@pytest.mark.parametrize("text", [None, 5, ["bf16[B]"], b"bf16[B]"])
def test_what_is_not_text_is_refused(text):
    for read in (parse, program):
        with pytest.raises(NotationError, match="an expression is text, not"):
            read(text)
