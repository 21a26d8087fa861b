"""ONNX models for tests: nodes, inputs and weights that have shapes and no values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import TensorProto, helper

MICROSOFT = "com.microsoft"


def value(name: str, *dims: int | str, dtype: int = TensorProto.FLOAT) -> Any:
    """An input or a result; without dimensions they are left open."""
    return helper.make_tensor_value_info(name, dtype, list(dims) if dims else None)


def weight(name: str, *dims: int, dtype: int = TensorProto.FLOAT) -> Any:
    """A weight in another file, which nobody has."""
    held = TensorProto(name=name, data_type=dtype, dims=dims, data_location=TensorProto.EXTERNAL)
    held.external_data.add(key="location", value="weights.bin")
    return held


def model(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], weights: Sequence[Any] = (),
          opset: int = 17, functions: Sequence[Any] = ()) -> Any:  # fmt: skip
    graph = helper.make_graph(list(nodes), "net", list(inputs), list(outputs), list(weights))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions))


def runtime(kind: str, inputs: Sequence[str], outputs: Sequence[str] = ("y",), **attributes: Any) -> Any:
    """A node of ONNX Runtime."""
    return helper.make_node(kind, list(inputs), list(outputs), domain=MICROSOFT, **attributes)
