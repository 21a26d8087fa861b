"""Sizes that an ONNX file works out from shapes, node by node, where shape inference gives up.

Exporters write what a program does with sizes as nodes: the shape of a tensor, an element of it, a sum, a slice up to
there. Once inputs have numbers all of that is numbers too. Here it is worked out by the onnx library's own reference
implementation, and the shapes behind it are inferred anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from onnx import helper, numpy_helper

#: Values of more elements are data, not sizes.
LARGEST = 4096
#: Names that the onnx library gives to sizes it does not know.
UNKNOWN = "unk__"


def settled(model: Any, found: Any, infer: Callable[[Any], Any]) -> Any:
    """Shapes of a model in which sizes that depend on nothing but shapes are numbers.

    ``model`` is changed; its own nodes stand in the result.
    """
    originals: dict[str, Any] = {}
    held = [item for item in model.graph.initializer if item.data_location != onnx.TensorProto.EXTERNAL]
    known = {item.name: numpy_helper.to_array(item) for item in held if _small(item.dims)}
    while _is_open(found.graph):
        made = _fold(model.graph, _dims(found.graph), known, originals)
        if not made:
            break
        found = infer(model)
    for node in found.graph.node:
        if len(node.output) == 1 and node.output[0] in originals:
            node.CopyFrom(originals[node.output[0]])
    return found


def _fold(graph: Any, dims: dict[str, Any], known: dict[str, Any], originals: dict[str, Any]) -> bool:
    """Put constants in place of nodes whose results are ``known`` by now; whether there were any."""
    fresh = False
    for node in graph.node:
        if len(node.output) != 1 or node.output[0] in known or node.domain not in ("", "ai.onnx"):
            continue
        name = node.output[0]
        result = _result(node, known, dims)
        if result is None or result.size > LARGEST:
            continue
        known[name] = result
        if node.op_type != "Constant":
            originals[name] = onnx.NodeProto.FromString(node.SerializeToString())
            node.CopyFrom(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(result)))
            fresh = True
    return fresh


def _result(node: Any, known: dict[str, Any], dims: dict[str, Any]) -> Any:
    """The value of a node, None where it is not known."""
    if node.op_type == "Shape":
        return _shape(node, dims.get(node.input[0]))
    inside = any(item.type == onnx.AttributeProto.GRAPH for item in node.attribute)
    if inside or node.op_type.startswith("Random") or not all(word in known for word in node.input if word):
        return None
    if not node.input and node.op_type != "Constant":
        return None
    from onnx.reference import ReferenceEvaluator

    try:
        (result,) = ReferenceEvaluator(node).run(None, {word: known[word] for word in node.input if word})
    except Exception:  # what the reference does not do stays open
        return None
    return result if hasattr(result, "dtype") else None


def _shape(node: Any, dims: Any) -> Any:
    import numpy as np

    if dims is None:
        return None
    limits = {item.name: item.i for item in node.attribute}
    asked = dims[limits.get("start", 0) : limits.get("end", len(dims))]
    return np.array(asked, dtype=np.int64) if all(isinstance(size, int) for size in asked) else None


def _dims(graph: Any) -> dict[str, Any]:
    """Dimensions by name, numbers where they are known."""
    found: dict[str, Any] = {}
    for item in (*graph.input, *graph.value_info, *graph.output):
        kind = item.type.tensor_type
        if item.type.HasField("tensor_type") and kind.HasField("shape"):
            found[item.name] = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in kind.shape.dim]
    return found | {item.name: list(item.dims) for item in graph.initializer}


def _is_open(graph: Any) -> bool:
    """Whether a size has no number and no name of the file's own, or a result no shape."""
    dims = _dims(graph)
    unknown = any(isinstance(size, str) and (not size or size.startswith(UNKNOWN)) for n in dims.values() for size in n)
    return unknown or any(word and word not in dims for node in graph.node for word in node.output)


def _small(dims: Any) -> bool:
    size = 1
    for n in dims:
        size *= n
    return size <= LARGEST
