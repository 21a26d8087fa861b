"""Quantised operators, narrow dtypes, opset 23 and the operators after it: counts worked out apart."""

from __future__ import annotations

from math import prod

import pytest
from onnx import TensorProto, helper

from roofline.errors import InputError
from roofline.ops.counting import unmasked_macs
from roofline.programs import trace as trace_any
from tests.programs.onnx_models import model, runtime, value, weight

INT8, UINT8, FLOAT = TensorProto.INT8, TensorProto.UINT8, TensorProto.FLOAT
SCALES = [weight("s"), weight("z", dtype=UINT8)]


def trace(program, **options):
    return trace_any(program, frontend="onnx", **options)


def _one(node, inputs, weights=(), opset=17, dtype=UINT8):
    return trace(model([node], inputs, [value(node.output[0], dtype=dtype)], weights, opset))


def _run(dtype):
    """How much of the matrix work runs in a dtype."""
    return lambda op: op.work["flops", "matrix", dtype]


def test_a_quantised_convolution_with_its_bias():
    node = helper.make_node("QLinearConv", ["x", "s", "z", "w", "s", "z", "s", "z", "b"], ["y"], pads=[1, 1, 1, 1])
    weights = [weight("w", 8, 3, 3, 3, dtype=UINT8), weight("b", 8, dtype=TensorProto.INT32), *SCALES]
    (op,) = _one(node, [value("x", 2, 3, 10, 10, dtype=UINT8)], weights).ops
    assert _run("int8")(op) == 2 * 2 * 100 * 8 * 27
    assert op.work.total("flops", "vector") == 2 * 8 * 100 * (1 + 3)  # a bias; the scale of the result, as in torch
    moved = 2 * 3 * 100 + 8 * 27 + 8 * 4 + 2 * 8 * 100 + 4 + 1  # and a scale and a zero, which stand elsewhere
    assert sum(t.traffic_bytes for t in (*op.reads, *op.writes)) == moved


@pytest.mark.parametrize(("kind", "inputs", "dtype"), [
    ("MatMulInteger", ["x", "w"], TensorProto.INT32),
    ("QLinearMatMul", ["x", "s", "z", "w", "s", "z", "s", "z"], UINT8),
])  # fmt: skip
def test_integer_products(kind, inputs, dtype):
    node = helper.make_node(kind, inputs, ["y"])
    (op,) = _one(node, [value("x", 4, 16, dtype=UINT8)], [weight("w", 16, 32, dtype=UINT8), *SCALES], dtype=dtype).ops
    assert _run("int8")(op) == 2 * 4 * 16 * 32
    assert sum(t.traffic_bytes for t in op.writes) == 4 * 32 * (4 if dtype == TensorProto.INT32 else 1)


@pytest.mark.parametrize(("kind", "inputs", "extra"), [
    ("DynamicQuantizeMatMul", ["x", "w", "s", "z"], 3 * 4 * 16 + 4 * 32),
    ("MatMulIntegerToFloat", ["x", "w", "s", "s", "z", "z"], 4 * 32),
    ("QGemm", ["x", "s", "z", "w", "s", "z"], 4 * 32),
])  # fmt: skip
def test_integer_products_of_the_runtime(kind, inputs, extra):
    node = runtime(kind, inputs)
    (op,) = _one(node, [value("x", 4, 16)], [weight("w", 16, 32, dtype=INT8), *SCALES], dtype=FLOAT).ops
    assert op.work.total("flops", "matrix") == 2 * 4 * 16 * 32
    assert op.work.total("flops", "vector") == extra


def test_elementwise_on_integers():
    node = runtime("QLinearAdd", ["x", "s", "z", "x2", "s", "z", "s", "z"])
    (op,) = _one(node, [value(name, 4, 16, dtype=UINT8) for name in ("x", "x2")], SCALES).ops
    assert op.work.total("flops") == (2 + 2 + 1 + 3) * 64  # two out of integers, the sum, and back
    node = runtime("QLinearConcat", ["s", "z", "x", "s", "z", "x2", "s", "z"], axis=1)
    (op,) = _one(node, [value(name, 4, 16, dtype=UINT8) for name in ("x", "x2")], SCALES).ops
    assert op.writes[0].dims == (4, 32)
    node = runtime("QLinearGlobalAveragePool", ["x", "s", "z", "s", "z"])
    (op,) = _one(node, [value("x", 2, 8, 5, 5, dtype=UINT8)], SCALES).ops
    assert (op.writes[0].dims, op.work.total("flops")) == ((2, 8, 1, 1), 2 * 8 * 25 + 5 * 2 * 8)


PRODUCTS = {
    "MatMul": ((4, 16), (16, 32), {}, "QLinearMatMul"),
    "Gemm": ((4, 16), (32, 16), {"transB": 1}, "QGemm"),
    "Conv": ((2, 3, 10, 10), (8, 3, 3, 3), {"pads": [1, 1, 1, 1]}, "QLinearConv"),
}


@pytest.mark.parametrize("between", [(), ("Relu",)])
@pytest.mark.parametrize("kind", PRODUCTS)
def test_a_product_between_pairs_is_its_twin_on_integers(kind, between):
    x, w, attributes, twin = PRODUCTS[kind]
    nodes = [helper.make_node("DequantizeLinear", [word, "s", "z"], [f"{word}_wide"]) for word in "xw"]
    nodes.append(helper.make_node(kind, ["x_wide", "w_wide"], ["y"], **attributes))
    nodes += [helper.make_node(each, ["y"], ["y_bounded"]) for each in between]
    nodes.append(helper.make_node("QuantizeLinear", ["y_bounded" if between else "y", "s", "z"], ["o"]))
    given, out, weights = [value("x", *x, dtype=UINT8)], [value("o", dtype=UINT8)], [weight("w", *w, dtype=UINT8)]
    paired = trace(model(nodes, given, out, [*weights, *SCALES]))
    words = ["x", "s", "z", "w", "s", "z", *([""] if kind == "Gemm" else []), "s", "z"]
    make = runtime if kind == "Gemm" else helper.make_node
    whole = trace(model([make(twin, words, ["o"], **attributes)], given, out, [*weights, *SCALES]))
    assert [op.name for op in paired.ops] == [twin]
    for policy in ("minimal", "fused", "each-op"):
        ours, theirs = (each.bound("t4", policy=policy) for each in (paired, whole))
        assert (ours.lower, ours.upper, dict(ours.bytes)) == (theirs.lower, theirs.upper, dict(theirs.bytes))
    assert any("run on the integers" in text for text in paired.assumptions)
    assert paired.parameters() == whole.parameters()


def test_two_layers_of_pairs_with_weights_laid_out_anew_run_on_integers():
    words = ["x", "v", "w"]
    nodes = [helper.make_node("DequantizeLinear", [word, "s", "z"], [f"{word}_wide"]) for word in words]
    nodes += [helper.make_node("Transpose", [f"{word}_wide"], [f"{word}_turned"], perm=[1, 0]) for word in "vw"]
    nodes += [helper.make_node("MatMul", ["x_wide", "v_turned"], ["y"]), helper.make_node("Relu", ["y"], ["r"])]
    nodes += [helper.make_node("QuantizeLinear", ["r", "s", "z"], ["q"])]
    nodes += [helper.make_node("DequantizeLinear", ["q", "s", "z"], ["q_wide"])]
    nodes += [helper.make_node("MatMul", ["q_wide", "w_turned"], ["p"])]
    nodes += [helper.make_node("QuantizeLinear", ["p", "s", "z"], ["o"])]
    weights = [weight("v", 32, 16, dtype=UINT8), weight("w", 8, 32, dtype=UINT8), *SCALES]
    traced = trace(model(nodes, [value("x", 4, 16, dtype=UINT8)], [value("o", dtype=UINT8)], weights))
    assert [_run("int8")(op) for op in traced.ops if op.name == "QLinearMatMul"] == [2 * 4 * 16 * 32, 2 * 4 * 32 * 8]
    assert not any(tensor.dtype == "fp32" and tensor.elements > 1 for op in traced.ops for tensor in op.reads)
    assert traced.bytes("minimal") == 4 * 16 + 32 * 16 + 8 * 32 + 4 * 8 + 5


def test_a_result_that_is_used_wide_too_is_written_wide():
    nodes = [helper.make_node("DequantizeLinear", [word, "s", "z"], [f"{word}_wide"]) for word in "xw"]
    nodes += [helper.make_node("MatMul", ["x_wide", "w_wide"], ["y"]), helper.make_node("Relu", ["y"], ["r"])]
    nodes += [
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["o"]),
        helper.make_node("Add", ["y", "x_wide"], ["p"]),
    ]
    given, weights = [value("x", 16, 16, dtype=UINT8)], [weight("w", 16, 16, dtype=UINT8), *SCALES]
    traced = trace(model(nodes, given, [value("o", dtype=UINT8), value("p")], weights))
    assert [op.name for op in traced.ops] == ["DequantizeLinear", "QLinearMatMul", "Relu", "QuantizeLinear", "Add"]
    assert (traced.ops[1].writes[0].dtype, _run("int8")(traced.ops[1])) == ("fp32", 2 * 16**3)


def test_weights_alone_in_integers_are_multiplied_as_the_file_does():
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["dw"]),
        helper.make_node("MatMul", ["x", "dw"], ["y"]),
    ]
    traced = trace(model(nodes, [value("x", 4, 16)], [value("y")], [weight("w", 16, 32, dtype=UINT8), *SCALES]))
    assert _run("fp32")(traced.ops[-1]) == 2 * 4 * 16 * 32
    assert any("a runtime may use integers" in text for text in traced.assumptions)
    assert traced.parameters() == 16 * 32 + 2


def test_products_between_pairs_keep_open_sizes():
    nodes = [helper.make_node("DequantizeLinear", [word, "s", "z"], [f"{word}_wide"]) for word in "xw"]
    nodes += [
        helper.make_node("MatMul", ["x_wide", "w_wide"], ["y"]),
        helper.make_node("QuantizeLinear", ["y", "s", "z"], ["o"]),
    ]
    given, weights = [value("x", "B", 16, dtype=UINT8)], [weight("w", 16, 32, dtype=UINT8), *SCALES]
    assert str(trace(model(nodes, given, [value("o", dtype=UINT8)], weights)).flops()) == "1024*B"


@pytest.mark.parametrize(("name", "bits"), [
    ("FLOAT8E4M3FN", 8), ("FLOAT8E5M2", 8), ("FLOAT8E4M3FNUZ", 8), ("FLOAT8E8M0", 8), ("FLOAT4E2M1", 4), ("INT4", 4),
    ("UINT4", 4), ("FLOAT16", 16), ("BFLOAT16", 16), ("DOUBLE", 64), ("COMPLEX64", 64), ("BOOL", 8),
])  # fmt: skip
def test_bytes_of_dtypes(name, bits):
    dtype = getattr(TensorProto, name, None)
    if dtype is None:
        assert name == "FLOAT8E8M0"  # newer than the oldest library that is supported
        return
    node = helper.make_node("Concat", ["x", "x"], ["y"], axis=0)
    (op,) = _one(node, [value("x", 4, 16, dtype=dtype)], opset=21, dtype=dtype).ops
    assert sum(t.traffic_bytes for t in op.reads) == 64 * bits // 8


def test_strings_have_no_size():
    node = helper.make_node("Concat", ["x", "x"], ["y"], axis=0)
    (gap,) = _one(node, [value("x", 4, dtype=TensorProto.STRING)], dtype=TensorProto.STRING).listed_gaps()
    assert gap.reason == "the shape or dtype of x is not known"


B, S, P, HEADS, KV, H = 2, 5, 7, 4, 2, 8


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("kept", [0, P])
def test_attention_of_opset_23(flat, causal, kept):
    """Causal: query i sees the cache and new keys 0 … i."""
    shapes = [(B, S, HEADS * H), (B, S, KV * H), (B, S, KV * H)] if flat else [(B, n, S, H) for n in (HEADS, KV, KV)]
    inputs = [value(name, *shape) for name, shape in zip("qkv", shapes, strict=True)]
    inputs += [value(name, B, KV, kept, H) for name in ("pk", "pv")] if kept else []
    names = ["q", "k", "v", *(["", "pk", "pv"] if kept else [])]
    outputs = ["y", "nk", "nv"] if kept else ["y"]
    heads = {"q_num_heads": HEADS, "kv_num_heads": KV} if flat else {}
    node = helper.make_node("Attention", names, outputs, is_causal=causal, **heads)
    (op,) = trace(model([node], inputs, [value(word) for word in outputs], opset=23)).ops
    seen = [(i, j) for i in range(S) for j in range(kept + S) if not causal or j <= kept + i]
    assert op.work.total("flops", "matrix") == 2 * B * HEADS * len(seen) * 2 * H
    assert unmasked_macs(op) == B * HEADS * S * (kept + S) * 2 * H
    caches = 2 * B * KV * (kept + (kept + S if kept else 0)) * H
    assert sum(t.traffic_bytes for t in (*op.reads, *op.writes)) == 4 * (
        2 * B * S * HEADS * H + 2 * B * S * KV * H + caches
    )


def test_a_cache_of_an_open_length_is_written_with_its_new_rows():
    """All of both caches is read and written again, one row longer; what has no shape is a gap, not nothing."""
    names = {"q": (2, 4, 1, 8), "k": (2, 4, 1, 8), "v": (2, 4, 1, 8), "pk": (2, 4, "P", 8), "pv": (2, 4, "P", 8)}
    node = helper.make_node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "nk", "nv"])
    given, results = [value(name, *dims) for name, dims in names.items()], [value(name) for name in ("y", "nk", "nv")]
    opened, fixed = (
        trace(model([node], given, results, opset=23)),
        trace(model([node], given, results, opset=23), sizes={"P": 6}),
    )
    assert fixed.bytes() == 4 * 2 * 4 * 8 * (4 * 1 + 2 * 6 + 2 * 7)
    assert opened.bytes().subs(dict.fromkeys(opened.bytes().free_symbols, 6)) == fixed.bytes()
    del given[4:]  # without keys of before there is nothing that the new ones could stand behind
    alone = helper.make_node("Attention", ["q", "k", "v", "", "pk"], ["y", "nk", "nv"])
    assert "the shape or dtype of nv is not known" in str(trace(model([alone], given, results, opset=23)).listed_gaps())


def test_cross_attention_that_is_causal_starts_at_the_first_key():
    inputs = [value("q", B, HEADS, S, H), value("k", B, KV, P, H), value("v", B, KV, P, H)]
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=1)
    (op,) = trace(model([node], inputs, [value("y")], opset=23)).ops
    assert op.work.total("flops", "matrix") == 2 * B * HEADS * sum(min(i + 1, P) for i in range(S)) * 2 * H


@pytest.mark.parametrize(("queries", "keys"), [(5, 9), (9, 5), (1, 7)])
def test_cross_attention_that_is_causal_is_a_formula_in_open_lengths(queries, keys):
    inputs = [value("q", B, HEADS, "S", H), value("k", B, KV, "T", H), value("v", B, KV, "T", H)]
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=1)
    formula = trace(model([node], inputs, [value("y")], opset=23)).flops()
    numbers = {name: {"S": queries, "T": keys}[str(name)] for name in formula.free_symbols}
    assert formula.subs(numbers) == 2 * B * HEADS * sum(min(i + 1, keys) for i in range(queries)) * 2 * H


def test_norm_and_rotary_of_opset_23():
    nodes = [
        helper.make_node("RMSNormalization", ["x", "g"], ["n"]),
        helper.make_node("RotaryEmbedding", ["n", "cos", "sin", "at"], ["y"], num_heads=HEADS),
    ]
    inputs = [value("x", B, S, HEADS * H), value("at", B, S, dtype=TensorProto.INT64)]
    tables = [weight("cos", 4096, H // 2), weight("sin", 4096, H // 2)]
    traced = trace(model(nodes, inputs, [value("y")], [weight("g", HEADS * H), *tables], opset=23))
    norm, rotary = traced.ops
    size = B * S * HEADS * H
    assert (norm.work.total("flops"), rotary.work.total("flops")) == (4 * size + 2 * B * S, 3 * size)
    assert [t.traffic_bytes for t in rotary.reads] == [4 * size, 8 * B * S, *[4 * B * S * (H // 2)] * 2]


def test_a_function_of_the_file_is_opened():
    body = [helper.make_node("MatMul", ["a", "b"], ["c"]), helper.make_node("Relu", ["c"], ["d"])]
    function = helper.make_function("own", "Layer", ["a", "b"], ["d"], body, [helper.make_opsetid("", 17)])
    nodes = [helper.make_node("Layer", ["x", "w"], ["h"], domain="own", name="/one/Layer"),
             helper.make_node("Layer", ["h", "w"], ["y"], domain="own", name="/two/Layer")]  # fmt: skip
    traced = trace(model(nodes, [value("x", 4, 16)], [value("y")], [weight("w", 16, 16)], functions=[function]))
    assert traced.macs() == 2 * 4 * 16 * 16
    assert traced.complete
    assert prod(traced.ops[-1].writes[0].dims) == 64
    twice = model(nodes, [value("x", 4, 16)], [value("y")], [weight("w", 16, 16)], functions=[function, function])
    with pytest.raises(InputError, match=r"functions of the ONNX file cannot be put in place: .*multiple local"):
        trace(twice)


@pytest.mark.parametrize(
    ("kind", "given", "more"),
    [
        ("QLinearMatMul", ["x", "1", "0", "u", "t", "tz", "1", "0"], 4 * 64 + 64),
        ("QLinearConv", ["im", "1", "0", "k", "c", "cz", "1", "0"], 4 * 8 + 8),
        ("QLinearAdd", ["x", "s4", "0", "x2", "s4", "0", "s4", "0"], 4),
        ("MatMulInteger", ["x", "u", "0", "tz"], 64),
        ("ConvInteger", ["im", "k", "0", "cz"], 8),
        ("QGemm", ["x", "1", "0", "u", "t", "tz"], 4 * 64 + 64),
        ("MatMulIntegerToFloat", ["x", "u", "1", "t", "0", "tz"], 4 * 64 + 64),
    ],
)
def test_scales_and_zero_points_are_read(kind, given, more):
    """One for each column or channel is read once; one number that the file holds moves nothing."""
    shapes = {"x": (4, 64), "x2": (4, 64), "u": (64, 64), "im": (1, 3, 10, 10), "k": (8, 3, 3, 3)}
    numbers = {"t": (64,), "c": (8,), "s4": (1,)}
    held = [helper.make_tensor("1", TensorProto.FLOAT, [], [0.5]), helper.make_tensor("0", UINT8, [], [3])]
    held += [weight(name, *shapes[name], dtype=UINT8) for name in ("u", "k")]
    held += [weight(name, *dims) for name, dims in numbers.items()]
    held += [weight(f"{name}z", *dims, dtype=UINT8) for name, dims in numbers.items()]
    inputs = [value(name, *shapes[name], dtype=UINT8) for name in ("x", "x2", "im") if name in given]
    domain = {"domain": "com.microsoft"} if kind in ("QLinearAdd", "QGemm", "MatMulIntegerToFloat") else {}
    node = helper.make_node(kind, given, ["y"], **domain)
    made = {"MatMulInteger": TensorProto.INT32, "ConvInteger": TensorProto.INT32}.get(kind, UINT8)
    made = TensorProto.FLOAT if kind in ("QGemm", "MatMulIntegerToFloat") else made
    traced = trace(
        model([node], inputs, [value("y", dtype=made)], [item for item in held if item.name in given], opset=17)
    )
    assert traced.complete
    plain = sum(prod(shapes[name]) for name in set(given) & shapes.keys())
    written = traced.ops[-1].writes[0].traffic_bytes
    assert traced.bytes("minimal") == traced.bytes() == plain + written + more


@pytest.mark.parametrize(
    ("kind", "given", "dtype", "made", "moved"),
    [
        ("QuantizeLinear", ["x", "s", "z"], TensorProto.FLOAT, UINT8, 5 * 4 * 64 + 4 + 1),
        ("DequantizeLinear", ["x", "s", "z"], UINT8, TensorProto.FLOAT, 5 * 4 * 64 + 4 + 1),
        ("QAttention", ["x", "w", "b", "s", "s", "", "z", "z"], UINT8, TensorProto.FLOAT,
         4 * 64 + 64 * 192 + 4 * 192 + 4 + 1 + 4 * 4 * 64),
    ],
)  # fmt: skip
def test_results_of_the_runtime_s_quantised_operators_have_their_own_format(kind, given, dtype, made, moved):
    held = [weight("w", 64, 192, dtype=UINT8), weight("b", 192), *SCALES]
    node = runtime(kind, given, **({"num_heads": 4} if kind == "QAttention" else {}))
    traced = trace_any(model([node], [value("x", 1, 4, 64, dtype=dtype)], [value("y", dtype=made)], held))
    assert traced.bytes("minimal") == moved
