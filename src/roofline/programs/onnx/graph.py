"""An ONNX file with its shapes: read, its sizes filled in, shapes inferred by the onnx library."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnx.inliner
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper

from roofline import dtypes
from roofline.errors import InputError, NotationError, SizeError, suggest
from roofline.files import read_bytes
from roofline.ops.formula import formula, formula_names
from roofline.programs.onnx.standins import copies, replace_all, restored, standing_in
from roofline.programs.specs import one_size
from roofline.sizes import Size, is_symbol, product, symbol


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
        model = onnx.load_model_from_string(read_bytes(path, "ONNX file"))
    except (DecodeError, ValueError, RuntimeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not an ONNX file, or is cut short", hint="export or download it again") from error
    if not model.graph.node or not model.opset_import:
        raise InputError(f"{path} holds no graph", hint="export or download it again")
    return model


def inferred(model: Any, batch: int | None, sizes: Mapping[str, Size]) -> tuple[Any, dict[str, Size]]:
    """Fill sizes into the inputs and infer every shape; also give what names of sizes stand for."""
    batch = None if batch is None else one_size("batch", batch)
    sizes = {name: one_size(name, value) for name, value in sizes.items()}
    _check_sizes(model.graph)
    held = {item.name for item in model.graph.initializer}
    inputs = [item for item in model.graph.input if item.name not in held]
    used = _fill(inputs, batch, sizes)
    unused = [name for name in sizes if name not in used]
    if unused:
        names = [name for name in used if name]
        raise SizeError(
            f"no input has a size {unused[0]!r}", hint=suggest(unused[0], names, what="sizes of the inputs")
        )
    if batch is not None and "" not in used:
        first = ", ".join(f"{item.name}[{', '.join(_word(dim) for dim in _dims(item))}]" for item in inputs)
        raise SizeError(f"no input's first size is free to be the batch: {first}", hint="leave the batch out")
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    written = copies((*model.graph.value_info, *model.graph.output))
    formulas = {item.name: _in_sizes(item, used) for item in written}
    stated = [item for item in written if _holds(item, used)]
    del model.graph.value_info[:]
    for item in model.graph.output:
        if item.type.HasField("tensor_type"):
            item.type.tensor_type.ClearField("shape")
    standing = standing_in(model)
    inputs, weights = _set_aside(standing.graph)
    found = _shapes(standing)
    known = {item.name for item in (*found.graph.value_info, *found.graph.output) if dims_of(item) is not None}
    missing = [item for item in stated if item.name not in known]
    if missing:
        standing.graph.value_info.extend(missing)
        found = _shapes(standing)
    found = settled(standing, found, _shapes)
    named = {name: value for name, value in used.items() if is_symbol(value)}
    named |= _as_stated(found.graph, formulas)
    replace_all(found.graph, "input", inputs)
    found.graph.initializer.extend(weights)
    return restored(found, model), named


def _check_sizes(graph: Any) -> None:
    """Raise where a weight or a result is stated with a size below 1. A list of no values is none that is given."""
    for item in graph.initializer:
        if any(n < 0 for n in item.dims) or (0 in item.dims and len(item.dims) > 1):
            raise SizeError(f"the weight {item.name!r} has the sizes {list(item.dims)}", hint=_SIZES)
    for item in graph.output:
        sizes = [dim.dim_value for dim in _dims(item) if dim.HasField("dim_value")]
        if any(n < 1 for n in sizes):
            raise SizeError(f"the output {item.name!r} has a size of {min(sizes)}", hint=_SIZES)


_SIZES = "a size is a whole number of at least 1; only an input may leave one open"


def _set_aside(graph: Any) -> tuple[list[Any], list[Any]]:
    """Make large weights, and those in other files, inputs while shapes are inferred: nothing reads their values.

    Gives the graph's own inputs, and the weights without their values, to be put back.
    """
    inputs = copies(graph.input)
    outside = onnx.TensorProto.EXTERNAL
    large = [item for item in graph.initializer if item.data_location == outside or product(item.dims) > LARGEST]
    weights = [
        onnx.TensorProto(name=item.name, dims=item.dims, data_type=item.data_type, data_location=outside)
        for item in large
    ]
    names = {item.name for item in weights}
    replace_all(graph, "initializer", [item for item in graph.initializer if item.name not in names])
    replace_all(graph, "input", [item for item in graph.input if item.name not in names])
    graph.input.extend(helper.make_tensor_value_info(item.name, item.data_type, item.dims) for item in weights)
    return inputs, weights


def _holds(item: Any, given: Mapping[str, Size]) -> bool:
    """Whether a shape that the file states still holds; its names become the sizes given, and none may be left over."""
    for dim in _dims(item):
        value = given.get(dim.dim_param) if dim.dim_param else None
        if value is not None and not is_symbol(value):
            dim.dim_value = int(value)
        elif not dim.HasField("dim_value") and dim.dim_param not in given:
            return False
    return bool(item.type.tensor_type.HasField("shape"))


def _in_sizes(item: Any, used: Mapping[str, Size]) -> list[Size | None]:
    """A shape that the file states, if sizes of the inputs stand in it: others may be those of another export."""
    dims = [(dim, _size(dim.dim_param, used)) for dim in _dims(item)]
    if all(value is None for _, value in dims):
        return []
    return [int(dim.dim_value) if dim.HasField("dim_value") else value for dim, value in dims]


def _as_stated(graph: Any, stated: Mapping[str, Sequence[Size | None]]) -> dict[str, Size]:
    """Sizes that the library has no name for, as the file states them."""
    found: dict[str, Size] = {}
    for item in (*graph.value_info, *graph.output):
        dims, own = _dims(item), stated.get(item.name, [])
        pairs = zip(dims, own, strict=True) if len(dims) == len(own) else ()
        found |= {dim.dim_param: n for dim, n in pairs if dim.dim_param.startswith(UNKNOWN) and n is not None}
    return found


def _size(text: str, used: Mapping[str, Size]) -> Size | None:
    """A size by its name, or by a formula of names: ``past + sequence``, ``Min(512, S)``; None for any other text."""
    if text and text in used:
        return used[text]
    words = re.sub(r"\b(Max|Min)\(", lambda found: found[0].lower(), text)
    names = formula_names(words)
    if not names or not used.keys() >= set(names):  # a name may have a sign: "B-S"
        return None
    try:
        found = formula(words, used)
    except NotationError:
        return None
    return found if is_symbol(found) or found == int(found) else None


def _inferred(model: Any, *, strict: bool) -> Any:
    return onnx.shape_inference.infer_shapes(model, strict_mode=strict, data_prop=True)


def _shapes(model: Any) -> Any:
    """Infer every shape that the onnx library can."""
    try:
        return _inferred(model, strict=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError) as error:
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        said = lines[-1] if lines else type(error).__name__
        if "instead is null" in said:  # behind an operator that the library does not know: what is left are gaps
            return _inferred(model, strict=False)
        raise InputError(f"the shapes of the ONNX graph do not fit: {said}", hint="check the sizes given") from error


def dims_of(item: Any) -> tuple[Size, ...] | None:
    """Dimensions of a value, None where they are not known."""
    kind = item.type.tensor_type
    if not item.type.HasField("tensor_type") or not kind.HasField("shape"):
        return None
    found: list[Size] = []
    for dim in kind.shape.dim:
        if dim.HasField("dim_value"):
            if dim.dim_value < 0:
                raise SizeError(f"{item.name!r} has a size of {dim.dim_value}", hint=_SIZES)
            found.append(int(dim.dim_value))
        elif dim.dim_param:
            found.append(symbol(dim.dim_param))
        else:
            return None
    return tuple(found)


#: ONNX's names of dtypes where they are not ours.
_DTYPES = {"float8e4m3fn": "fp8_e4m3", "float8e4m3fnuz": "fp8_e4m3", "float8e5m2": "fp8_e5m2",
           "float8e5m2fnuz": "fp8_e5m2", "float8e8m0": "fp8_e8m0", "float4e2m1": "fp4_e2m1", "uint2": "int2",
           "float6e2m3": "fp6_e2m3", "float6e3m2": "fp6_e3m2"}  # fmt: skip


def dtype_of(kind: int) -> str | None:
    """Our name of a tensor's element type; None for what is not a number (strings)."""
    name = onnx.TensorProto.DataType.Name(kind).lower()
    name = _DTYPES.get(name, name)
    return dtypes.get(name).name if dtypes.is_dtype(name) else None


def _fill(inputs: list[Any], batch: int | None, sizes: Mapping[str, Size]) -> dict[str, Size]:
    """Write sizes into the inputs; give them by name, the batch by "", open ones as symbols."""
    used: dict[str, Size] = {}
    for item in inputs:
        for dim in _dims(item):
            if dim.HasField("dim_value") and dim.dim_value < 1:  # exporters write 0 or -1 for an open size
                dim.ClearField("dim_value")
    if batch is not None:
        for item in inputs:
            for dim in _dims(item)[:1]:
                if not dim.HasField("dim_value"):
                    used |= {"": batch, dim.dim_param or "": batch}
                    dim.dim_value = batch
    formulas = []
    for item in inputs:
        for place, dim in enumerate(_dims(item)):
            name = dim.dim_param
            if dim.HasField("dim_value"):
                continue
            if not name:
                dim.dim_param = f"{item.name.replace('.', '_')}_{place}"
            elif name.isidentifier() or name in sizes:
                _put(dim, sizes[name] if name in sizes else used.get(name, symbol(name)), used)
            else:
                formulas.append(dim)
    for dim in formulas:
        value = _size(dim.dim_param, used)
        _put(dim, symbol(dim.dim_param) if value is None else value, used)
    return used


def _put(dim: Any, value: Size, used: dict[str, Size]) -> None:
    used[dim.dim_param] = value
    if not is_symbol(value):
        dim.dim_value = int(value)


def _dims(item: Any) -> list[Any]:
    return list(item.type.tensor_type.shape.dim)


def _word(dim: Any) -> str:
    return str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?"


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
        made = _fold(model.graph, _known_dims(found.graph), known, originals)
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


def _known_dims(graph: Any) -> dict[str, Any]:
    """Dimensions by name, numbers where they are known."""
    found: dict[str, Any] = {}
    for item in (*graph.input, *graph.value_info, *graph.output):
        kind = item.type.tensor_type
        if item.type.HasField("tensor_type") and kind.HasField("shape"):
            found[item.name] = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in kind.shape.dim]
    return found | {item.name: list(item.dims) for item in graph.initializer}


def _is_open(graph: Any) -> bool:
    """Whether a size has no number and no name of the file's own, or a result no shape."""
    dims = _known_dims(graph)
    unknown = any(isinstance(size, str) and (not size or size.startswith(UNKNOWN)) for n in dims.values() for size in n)
    return unknown or any(word and word not in dims for node in graph.node for word in node.output)


def _small(dims: Any) -> bool:
    size = 1
    for n in dims:
        size *= n
    return size <= LARGEST
