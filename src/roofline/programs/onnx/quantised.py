"""Products between DequantizeLinear and QuantizeLinear on the integers, as runtimes run them.

A tool that quantises a network writes each product in floating point, behind a DequantizeLinear of each operand and
before a QuantizeLinear of its result. ONNX Runtime and TensorRT run the three as one product of integers (ONNX Runtime,
"Quantize ONNX models", representation with QDQ; TensorRT, "Working with quantized types"). Here such a product becomes
the operator of the other representation, which takes the integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from onnx import TensorProto, helper

from roofline.programs.onnx.standins import DOMAIN, copies, graphs_of, replace_all, uses_in

#: What a product of floating point becomes on integers.
ON_INTEGERS = {"MatMul": ("QLinearMatMul", ""), "Conv": ("QLinearConv", ""), "Gemm": ("QGemm", DOMAIN)}

#: What lays the elements of its first operand out anew.
LAID_OUT = ("Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")

#: What the answer says where a product was joined with the pairs around it.
JOINED = (
    "products between DequantizeLinear and QuantizeLinear run on the integers, as ONNX Runtime and TensorRT run them"
)

#: What may stand between a product and the QuantizeLinear of its result: the bounds of the integers hold it.
BOUNDED = ("Relu", "Clip")

#: The formats that products take on the integers.
NARROW = {TensorProto.INT8, TensorProto.UINT8, TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT8E4M3FN,
          TensorProto.FLOAT8E5M2}  # fmt: skip


def on_integers(graph: Any, outside: Mapping[str, Any] = {}) -> int:
    """Put products of integers in place of those between pairs, in a graph and those inside it; say how many.

    ``outside`` are the DequantizeLinear nodes around a graph, by their result.

    >>> pair = [helper.make_node("DequantizeLinear", [word, "s"], [f"{word}_wide"]) for word in ("x", "w")]
    >>> nodes = [*pair, helper.make_node("MatMul", ["x_wide", "w_wide"], ["y"])]
    >>> values = [helper.make_tensor_value_info(word, TensorProto.INT8, [8, 8]) for word in ("x", "w")]
    >>> graph = helper.make_graph(nodes, "g", values, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 8])])
    >>> on_integers(graph), [node.op_type for node in graph.node]
    (1, ['QLinearMatMul'])
    """
    kinds = {item.name: item.data_type for item in graph.initializer}
    kinds |= {item.name: item.type.tensor_type.elem_type for item in (*graph.input, *graph.value_info)}
    widened = dict(outside) | {
        node.output[0]: node for node in graph.node
        if node.op_type == "DequantizeLinear" and kinds.get(node.input[0]) in NARROW | {TensorProto.INT32}
    }  # fmt: skip
    narrow = {word for word, node in widened.items() if kinds.get(node.input[0]) in NARROW}
    joined: dict[int, Any] = {}
    dropped: set[str] = set()
    _moved_before(graph, kinds, widened, narrow)
    nodes, uses = list(graph.node), Counter(uses_in(graph))
    users = {word: node for node in nodes for word in node.input}
    for node in nodes:
        if node.op_type not in ON_INTEGERS or node.domain not in ("", "ai.onnx") or not {*node.input[:2]} <= narrow:
            continue
        last, between = node, [node]
        while len(between) < 4 and uses[last.output[0]] == 1 and (following := users.get(last.output[0])) is not None:
            between.append(following)
            last = following
            if following.op_type not in BOUNDED:
                break
        ends = last.op_type == "QuantizeLinear"
        name, domain = ON_INTEGERS[node.op_type]
        result = last if ends else node
        made = _joined(node, widened, result if ends else None, name, domain)
        joined[id(result)] = made
        dropped |= {each.output[0] for each in between[:-1]} if ends else set()
    inside = sum(on_integers(each, widened) for node in graph.node for each in graphs_of(node))
    if joined:
        kept = [joined.get(id(node), node) for node in nodes if node.output[0] not in dropped]
        replace_all(graph, "node", kept)
        used = {*uses_in(graph)}
        left = [node for node in graph.node if node.op_type != "DequantizeLinear" or node.output[0] in used]
        replace_all(graph, "node", left)
    return len(joined) + inside


def _moved_before(graph: Any, kinds: dict[str, int], widened: dict[str, Any], narrow: set[str]) -> None:
    """Let what only lays elements out anew come before the DequantizeLinear of its operand: it takes the integers."""
    shapes = {item.name: item for item in graph.value_info}
    nodes = []
    for node in graph.node:
        wide = node.input[0] if node.input else ""
        if node.op_type not in LAID_OUT or wide not in narrow or node.output[0] not in shapes:
            nodes.append(node)
            continue
        pair, word = widened[wide], f"{node.output[0]}_narrow"
        moved, laid = copies((node,)), shapes[node.output[0]].type.tensor_type
        moved[0].input[0], moved[0].output[0] = pair.input[0], word
        kinds[word] = kinds[pair.input[0]]
        held = graph.value_info.add(name=word)
        held.type.tensor_type.CopyFrom(laid)
        held.type.tensor_type.elem_type = kinds[word]
        again = helper.make_node("DequantizeLinear", [word, *pair.input[1:]], [node.output[0]], pair.name)
        again.attribute.extend(pair.attribute)
        widened[node.output[0]] = again
        narrow.add(node.output[0])
        nodes += [*moved, again]
    if len(nodes) > len(graph.node):
        replace_all(graph, "node", nodes)


def _joined(node: Any, widened: Mapping[str, Any], last: Any, name: str, domain: str) -> Any:
    """The product on integers: each operand with its scale and zero, those of the result, and what is added."""
    words = [word for operand in node.input[:2] for word in [*widened[operand].input, ""][:3]]
    added = [widened[word].input[0] if word in widened else word for word in node.input[2:3]]
    scale = ["", ""] if last is None else [*last.input[1:3], ""][:2]
    words += [*(added or [""]), *scale] if name == "QGemm" else [*scale, *added]
    made = helper.make_node(name, words, [(node if last is None else last).output[0]], node.name, domain=domain)
    made.attribute.extend(node.attribute)
    return made
