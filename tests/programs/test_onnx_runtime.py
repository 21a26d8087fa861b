"""Operators of ONNX Runtime: the shapes they pass on, and counts worked out apart."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from roofline.ops.contraction import tiled_tensors
from roofline.programs import trace as trace_any
from tests.programs.onnx_models import model, runtime, value, weight

B, S, P, HEADS, KV, H = 2, 6, 10, 8, 2, 16
D = HEADS * H


def trace(program, **options):
    return trace_any(program, frontend="onnx", **options)


def _one(node, inputs, weights=(), **options):
    """A model of one node, and a copy of what it gives, whose shape is then known."""
    after = helper.make_node("Relu", [node.output[0]], ["z"])
    return trace(model([node, after], inputs, [value("z")], weights), **options)


def _seen(kept):
    """Pairs of a causal mask, counted one by one."""
    return sum(j <= kept + i for i in range(S) for j in range(kept + S))


def test_attention_with_its_projection():
    node = runtime("Attention", ["x", "w", "b"], num_heads=HEADS, unidirectional=1)
    traced = _one(node, [value("x", B, S, D)], [weight("w", D, 3 * D), weight("b", 3 * D)])
    project, scores = B * S * D * 3 * D, B * HEADS * _seen(0) * 2 * H
    assert traced.macs() == project + scores
    assert traced.flops("unmasked") == 2 * (project + B * HEADS * S * S * 2 * H)
    assert traced.parameters() == D * 3 * D + 3 * D
    assert traced.ops[-1].writes[0].dims == (B, S, D)


def test_attention_over_a_cache_with_other_sizes_of_values():
    node = runtime("Attention", ["x", "w", "", "", "past"], num_heads=HEADS, qkv_hidden_sizes=[D, D, 2 * D])
    inputs = [value("x", B, S, D), value("past", 2, B, HEADS, P, H)]
    traced = _one(node, inputs, [weight("w", D, 4 * D)])
    assert traced.macs() == B * S * D * 4 * D + B * HEADS * S * (P + S) * (H + 2 * H)
    assert traced.ops[-1].writes[0].dims == (B, S, 2 * D)


@pytest.mark.parametrize("shape", ["three tensors", "keys and values as one", "all as one", "heads apart"])
def test_multi_head_attention(shape):
    inputs = {
        "three tensors": [value("q", B, S, D), value("k", B, P, D), value("v", B, P, D)],
        "keys and values as one": [value("q", B, S, D), value("k", B, P, HEADS, 2, H)],
        "all as one": [value("q", B, S, HEADS, 3, H)],
        "heads apart": [value("q", B, S, D), value("k", B, HEADS, P, H), value("v", B, HEADS, P, H)],
    }[shape]
    keys = S if shape == "all as one" else P
    traced = _one(runtime("MultiHeadAttention", [item.name for item in inputs], num_heads=HEADS), inputs)
    assert traced.macs() == B * HEADS * S * keys * 2 * H
    assert traced.ops[-1].writes[0].dims == (B, S, D)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kept", [0, P])
def test_grouped_queries_over_a_cache(packed, kept):
    width = (HEADS + 2 * KV) * H if packed else D
    inputs = [value("q", B, S, width)]
    inputs += [] if packed else [value("k", B, S, KV * H), value("v", B, S, KV * H)]
    inputs += [value(name, B, KV, kept, H) for name in ("pk", "pv")] if kept else []
    names = ["q", *(["", ""] if packed else ["k", "v"]), *(["pk", "pv"] if kept else [])]
    traced = _one(runtime("GroupQueryAttention", names, num_heads=HEADS, kv_num_heads=KV), inputs)
    assert traced.macs() == B * HEADS * _seen(kept) * 2 * H
    assert traced.flops("unmasked") == 2 * B * HEADS * S * (kept + S) * 2 * H
    assert traced.ops[-1].writes[0].dims == (B, S, D)
    written = sum(t.traffic_bytes for op in traced.ops for t in op.writes if t.role == "kv")
    assert written == (2 * B * KV * S * H * 4 if kept else 0)


@pytest.mark.parametrize("window", [-1, 3])
def test_a_cache_shared_with_the_result_gets_new_rows_alone(window):
    """A result as long as the cache is the cache: the new keys lie in its last places, and what no query sees stays."""
    names, given = (
        ["q", "k", "v", "pk", "pv"],
        [value("q", B, 1, D), value("k", B, 1, KV * H), value("v", B, 1, KV * H)],
    )
    facts = {"num_heads": HEADS, "kv_num_heads": KV, "local_window_size": window}
    node = runtime("GroupQueryAttention", names, ["y", "nk", "nv"], **facts)
    past, seen = [value(name, B, KV, P, H) for name in ("pk", "pv")], P if window < 0 else window
    shared = trace(model([node], [*given, *past], [value("y"), *(value(n, B, KV, P, H) for n in ("nk", "nv"))]))
    assert shared.macs() == B * HEADS * seen * 2 * H
    row = 2 * B * KV * H * 4
    assert sum(t.traffic_bytes for op in shared.ops for t in op.writes if t.role == "kv") == row
    assert shared.bytes("minimal") == 2 * B * D * 4 + row * (seen - 1) + 2 * row
    apart = trace(model([node], [*given, *past], [value("y"), *(value(n, B, KV, P + 1, H) for n in ("nk", "nv"))]))
    assert apart.bytes("minimal") == 2 * B * D * 4 + row * P + row * (P + 1) + row  # copied whole
    node = runtime("MultiHeadAttention", ["q", "k", "v", "", "", "", "pk", "pv"], ["y", "nk", "nv"], num_heads=HEADS)
    inputs = [value(name, B, 1, D) for name in "qkv"] + [value(name, B, HEADS, P, H) for name in ("pk", "pv")]
    found = trace(model([node], inputs, [value("y"), *(value(n, B, HEADS, P, H) for n in ("nk", "nv"))]))
    assert sum(t.traffic_bytes for op in found.ops for t in op.writes if t.role == "kv") == 2 * B * D * 4


def test_a_window_and_turned_queries():
    names = ["q", "k", "v", "", "", "", "", "cos", "sin"]
    node = runtime("GroupQueryAttention", names, num_heads=HEADS, kv_num_heads=KV, do_rotary=1, local_window_size=3)
    inputs = [value("q", B, S, D), value("k", B, S, KV * H), value("v", B, S, KV * H)]
    traced = _one(node, inputs, [weight("cos", 4096, H // 2), weight("sin", 4096, H // 2)])
    assert traced.macs() == B * HEADS * sum(min(i + 1, 3) for i in range(S)) * 2 * H
    (rotary,) = traced.only(name="RotaryEmbedding").ops
    assert rotary.work.total("flops") == 3 * B * S * (HEADS + KV) * H  # 4 products and 2 sums for 2 elements
    assert [t.traffic_bytes for t in rotary.reads[-2:]] == [S * H // 2 * 4] * 2
    part = _one(node, inputs, [weight("cos", 4096, H // 4), weight("sin", 4096, H // 4)])
    assert part.only(name="RotaryEmbedding").flops("all") == 3 * B * S * (HEADS + KV) * H // 2


@pytest.mark.parametrize("bias", [False, True])
def test_a_norm_of_a_sum_that_is_given_back(bias):
    names = ["x", "skip", "scale", "shift", *(["b"] if bias else [])]
    node = runtime("SkipLayerNormalization", names, ["y", "", "", "sum"])
    twice = helper.make_node("Add", ["y", "sum"], ["z"])
    weights = [weight(name, D) for name in names[2:]]
    traced = trace(model([node, twice], [value("x", B, S, D), value("skip", B, S, D)], [value("z")], weights))
    norm = traced.ops[0]
    assert (norm.work.total("flops"), norm.kind) == ((7 + 1 + bias) * B * S * D + 2 * B * S, "norm")
    assert sum(t.traffic_bytes for t in (*norm.reads, *norm.writes)) == 4 * (4 * B * S * D + len(weights) * D)
    assert traced.complete


def test_the_embeddings_of_bert_touch_rows():
    node = runtime("EmbedLayerNormalization", ["ids", "types", "words", "places", "segments", "g", "b"], ["y", "mask"])
    ids = [value(name, B, S, dtype=TensorProto.INT32) for name in ("ids", "types")]
    tables = [weight("words", 30522, D), weight("places", 512, D), weight("segments", 2, D)]
    traced = _one(node, ids, [*tables, weight("g", D), weight("b", D)])
    read = 2 * B * S * 4 + 2 * B * S * D * 4 + 2 * D * 4 + 2 * D * 4  # the table of segments has two rows
    assert sum(t.traffic_bytes for t in traced.ops[0].reads) == read
    assert traced.complete


def test_products_either_side_transposed():
    node = runtime("FusedMatMul", ["a", "b"], transA=1, transB=1)
    traced = _one(node, [value("a", 3, 5, 7), value("b", 3, 4, 5)])
    assert traced.macs() == 3 * 7 * 5 * 4
    assert traced.ops[-1].writes[0].dims == (3, 7, 4)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_a_matrix_of_few_bits(bits):
    """Stored as N rows of K/32 blocks of 32 elements, and one scale for each block."""
    k, n = 128, 64
    node = runtime("MatMulNBits", ["x", "w", "scales"], K=k, N=n, bits=bits, block_size=32)
    weights = [weight("w", n, k // 32, 32 * bits // 8, dtype=TensorProto.UINT8), weight("scales", n * k // 32)]
    traced = _one(node, [value("x", B, S, k)], weights)
    assert traced.macs() == B * S * k * n
    op = traced.ops[0]
    assert op.work.total("flops", "vector") == 2 * k * n
    assert sum(t.traffic_bytes for t in op.reads if t.role == "weight") == n * k * bits // 8 + n * k // 32 * 4
    assert op.work.total("flops", "matrix") == 2 * B * S * k * n
    assert str(_one(node, [value("x", "b", k)], weights).macs()) == f"{k * n}*b"


#: x·½·(1 + erf(x·1/√2)); by tanh x·½·(1 + tanh(√(2/π)·(x + 0.044715·x·x·x))); x/(1 + exp(−x)); a bias is one more.
@pytest.mark.parametrize(("kind", "each"), [("Gelu", 5), ("BiasGelu", 5 + 1), ("FastGelu", 9 + 1), ("QuickGelu", 4)])
def test_activations(kind, each):
    names = ["x", "b"] if kind in ("FastGelu", "BiasGelu") else ["x"]
    traced = _one(runtime(kind, names), [value("x", B, S, D)], [weight("b", D)])
    assert traced.ops[0].work.total("flops") == each * B * S * D
    assert traced.complete


def test_experts_read_the_matrices_that_tokens_meet():
    inputs = [value("x", S, D), value("p", S, 32)]
    node = runtime("MoE", ["x", "p", "w1", "", "w2"], k=2, activation_type="silu")
    traced = _one(node, inputs, [weight("w1", 32, D, 4 * D), weight("w2", 32, 4 * D, D)])
    experts = traced.only(name="MoE").ops[0]
    assert traced.flops() == 2 * S * 2 * (2 * D * 4 * D)
    met = min(2 * S, 32) * D * 4 * D * 4
    assert [t.traffic_bytes for t in experts.reads if t.role == "weight"] == [met, met]
    again = {t.label: amount for t, amount in tiled_tensors(experts, 1, 4 * D)}
    assert again["w1"] == again["w2"] == 2 * S * D * 4 * D * 4  # a tile of one row each
    assert traced.parameters() == 2 * 32 * D * 4 * D
    assert traced.complete


def test_packed_experts_have_the_elements_of_their_bits():
    node = runtime("QMoE", ["x", "p", "w1", "s1", "", "w2", "s2"], k=1, expert_weight_bits=4)
    packed = [
        weight("w1", 8, 4 * D, D // 2, dtype=TensorProto.UINT8),
        weight("w2", 8, D, 2 * D, dtype=TensorProto.UINT8),
    ]
    scales = [weight("s1", 8, 4 * D), weight("s2", 8, D)]
    traced = _one(node, [value("x", S, D), value("p", S, 8)], [*packed, *scales])
    assert traced.flops() == 2 * S * 2 * D * 4 * D
    assert traced.complete


def test_operators_in_the_body_of_a_loop():
    body = helper.make_graph(
        [
            runtime("Attention", ["c", "w"], ["d"], num_heads=HEADS),
            runtime("FastGelu", ["d"], ["e"]),
            helper.make_node("MatMul", ["e", "o"], ["f"]),
            helper.make_node("Identity", ["on"], ["go"]),
        ],
        "body",
        [value("i", dtype=TensorProto.INT64), value("on", dtype=TensorProto.BOOL), value("c", B, S, D)],
        [value("go", dtype=TensorProto.BOOL), value("f", B, S, D)],
    )
    loop = helper.make_node("Loop", ["many", "", "x"], ["y"], body=body)
    many = helper.make_tensor("many", TensorProto.INT64, [], [6])
    weights = [many, weight("w", D, 3 * D), weight("o", D, D)]
    traced = trace(model([loop], [value("x", B, S, D)], [value("y", B, S, D)], weights))
    assert traced.macs() == 6 * (B * S * D * 4 * D + B * HEADS * S * S * 2 * H)
    assert traced.complete


def test_a_domain_nobody_knows_is_a_gap_even_where_a_name_is_known():
    node = helper.make_node("Attention", ["x"], ["y"], domain="own")
    after = helper.make_node("MatMul", ["y", "w"], ["z"])
    traced = trace(model([node, after], [value("x", S, D)], [value("z")], [weight("w", D, 4)]))
    assert [gap.name for gap in traced.listed_gaps()] == ["Attention", "MatMul"]
    stated = model([node, after], [value("x", "N", D)], [value("z")], [weight("w", D, 4)])
    stated.graph.value_info.append(value("y", "N", D))
    known = trace(stated, batch=S)
    assert [gap.name for gap in known.listed_gaps()] == ["Attention"]
    assert known.macs() == S * D * 4


def test_an_open_length_is_a_formula():
    node = runtime("GroupQueryAttention", ["q", "k", "v"], num_heads=HEADS, kv_num_heads=KV)
    inputs = [value("q", B, "S", D), value("k", B, "S", KV * H), value("v", B, "S", KV * H)]
    formula = _one(node, inputs).macs()
    (symbol,) = formula.free_symbols
    assert formula.subs(symbol, S) == B * HEADS * _seen(0) * 2 * H == _one(node, inputs, sizes={"S": S}).macs()


ROWS = 3


@pytest.mark.parametrize(("kind", "inputs", "options", "flops", "elements"), [
    ("NhwcConv", {"x": (1, 6, 6, 4), "w": (8, 3, 3, 4)}, {"strides": [2, 2], "pads": [1] * 4}, 2 * 8 * 9 * 36, 72),
    ("NhwcFusedConv", {"x": (1, 6, 6, 4), "w": (8, 3, 3, 4), "b": (8,), "z": (1, 4, 4, 8)}, {"activation": "Relu"},
     2 * 8 * 16 * 36 + 3 * 128, 128),
    ("FusedConv", {"x": (1, 4, 6, 6), "w": (8, 4, 3, 3), "b": (8,), "z": (1, 8, 4, 4)}, {"activation": "Relu"},
     2 * 8 * 16 * 36 + 3 * 128, 128),
    ("NhwcMaxPool", {"x": (1, 8, 8, 4)}, {"kernel_shape": [2, 2], "strides": [2, 2]}, 3 * 64, 64),
    ("GroupNorm", {"x": (1, 8, 8, 4), "g": (4,), "b": (4,)}, {"groups": 2, "activation": 1}, (7 + 4) * 256 + 4, 256),
    ("SkipGroupNorm", {"x": (1, 8, 8, 4), "g": (4,), "b": (4,), "skip": (1, 8, 8, 4), "bias": (4,)},
     {"groups": 2, "activation": 0}, 9 * 256 + 4, 256),
    ("BiasSplitGelu", {"x": (2, 3, 8), "b": (8,)}, {}, (2 + 5 + 1) * 24, 24),
    ("BiasSoftmax", {"x": (2, 4, 8), "b": (2, 1, 8)}, {"axis": 2}, 6 * 64, 64),
    ("Inverse", {"x": (2, 8, 8)}, {}, 2 * 2 * 8**3, 128),
    ("MatMulBnb4", {"x": (ROWS, 64), "w": ("u8", 512), "s": (16,)}, {"K": 64, "N": 16, "block_size": 64},
     (2 * ROWS + 1) * 64 * 16, ROWS * 16),
    ("MatMulNBits", {"x": (ROWS, 64), "w": ("u8", 16, 2, 16), "s": (16, 2), "": None, " ": None, "b": (16,)},
     {"K": 64, "N": 16, "bits": 4, "block_size": 32}, (2 * ROWS + 2) * 64 * 16 + ROWS * 16, ROWS * 16),
    ("GatherBlockQuantized", {"w": ("u8", 100, 16), "i": ("i64", ROWS), "s": (100, 1)},
     {"bits": 4, "block_size": 32, "gather_axis": 0, "quantize_axis": 1}, 2 * ROWS * 32, ROWS * 32),
    ("FusedGemm", {"x": (ROWS, 4), "w": (4, 5)}, {"activation": "Relu"}, ROWS * 5 * (8 + 1), ROWS * 5),
])  # fmt: skip
def test_operators_of_images_and_of_few_bits(kind, inputs, options, flops, elements):
    """FLOPs, and the shape that the library does not know; only the rows that indices name are read."""
    formats = {"u8": TensorProto.UINT8, "i64": TensorProto.INT64}
    given = [value(name, *dims[1:], dtype=formats[dims[0]]) if dims[0] in formats else value(name, *dims)
             for name, dims in inputs.items() if dims]  # fmt: skip
    names = [name if dims else "" for name, dims in inputs.items()]
    (op,) = trace(model([runtime(kind, names, **options)], given, [value("y")])).ops
    assert op.work.total("flops") == flops
    assert op.writes[0].elements == elements
    if kind == "GatherBlockQuantized":
        assert {t.ident: t.traffic_elements for t in op.reads} == {"w": ROWS * 16, "s": ROWS, "i": ROWS}
    else:
        assert {t.ident for t in op.reads} == {*filter(None, names)}
