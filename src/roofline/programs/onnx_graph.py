"""An ONNX file with its shapes: read, its sizes filled in, shapes inferred by the onnx library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from roofline import dtypes
from roofline.errors import InputError, SizeError, suggest
from roofline.sizes import Size, is_symbol, symbol


def read(program: Any) -> Any:
    """Load a file without its external weights; a model that is loaded already is copied."""
    if isinstance(program, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(program)
        return model
    path = Path(program)
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}", hint="give the path of a .onnx file")
    try:
        model = onnx.load(path, load_external_data=False)
    except (DecodeError, ValueError, RuntimeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not an ONNX file, or is cut short", hint="export or download it again") from error
    if not model.graph.node or not model.opset_import:
        raise InputError(f"{path} holds no graph", hint="export or download it again")
    return model


def inferred(model: Any, batch: int | None, sizes: Mapping[str, Size]) -> Any:
    """Fill sizes into the inputs and infer every shape."""
    held = {item.name for item in model.graph.initializer}
    inputs = [item for item in model.graph.input if item.name not in held]
    used = _fill(inputs, batch, sizes)
    unused = [name for name in sizes if name not in used]
    if unused:
        names = [dim.dim_param for item in inputs for dim in _dims(item) if dim.dim_param]
        raise SizeError(
            f"no input has a size {unused[0]!r}", hint=suggest(unused[0], [*used, *names], what="sizes of the inputs")
        )
    if batch is not None and "" not in used:
        first = ", ".join(f"{item.name}[{', '.join(_word(dim) for dim in _dims(item))}]" for item in inputs)
        raise SizeError(f"no input's first size is free to be the batch: {first}", hint="leave the batch out")
    del model.graph.value_info[:]
    for item in model.graph.output:
        item.type.tensor_type.ClearField("shape")
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    try:
        return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError) as error:
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        said = lines[-1] if lines else type(error).__name__
        raise InputError(f"the shapes of the ONNX graph do not fit: {said}", hint="check the sizes given") from error


def dims_of(item: Any) -> tuple[Size, ...] | None:
    """Dimensions of a value, None where they are not known."""
    kind = item.type.tensor_type
    if not item.type.HasField("tensor_type") or not kind.HasField("shape"):
        return None
    found: list[Size] = []
    for dim in kind.shape.dim:
        if dim.HasField("dim_value"):
            found.append(int(dim.dim_value))
        elif dim.dim_param:
            found.append(symbol(dim.dim_param))
        else:
            return None
    return tuple(found)


def dtype_of(kind: int) -> str:
    """Our name of a tensor's element type."""
    name = onnx.TensorProto.DataType.Name(kind).lower()
    return dtypes.get(name).name if dtypes.is_dtype(name) else "uint8"


def _fill(inputs: list[Any], batch: int | None, sizes: Mapping[str, Size]) -> set[str]:
    """Write sizes into the inputs; give the names that were used, "" for the batch."""
    used: set[str] = set()
    free: set[str] = set()
    if batch is not None:
        for item in inputs:
            for dim in _dims(item)[:1]:
                if not dim.HasField("dim_value"):
                    used.add("")
                    free.add(dim.dim_param)
                    dim.dim_value = batch
    for item in inputs:
        for place, dim in enumerate(_dims(item)):
            if dim.HasField("dim_value"):
                continue
            name = dim.dim_param
            if name in sizes:
                used.add(name)
                if not is_symbol(sizes[name]):
                    dim.dim_value = int(sizes[name])
            elif name and name in free and batch is not None:
                dim.dim_value = batch
            elif not name:
                dim.dim_param = f"{item.name.replace('.', '_')}_{place}"
    return used


def _dims(item: Any) -> list[Any]:
    return list(item.type.tensor_type.shape.dim)


def _word(dim: Any) -> str:
    return str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"
