"""Trace an ONNX file: its graph with inferred shapes is walked node by node; no weights are read.

A symbolic size stays a symbol unless ``batch`` or ``sizes`` give it a number:

>>> from onnx import TensorProto, helper
>>> x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 512])
>>> w = helper.make_tensor_value_info("w", TensorProto.FLOAT, [512, 2048])
>>> y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
>>> graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "layer", [x, w], [y])
>>> model = helper.make_model(graph)
>>> trace(model).flops(), trace(model, batch=32).flops()
(2097152*N, 67108864)"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from roofline import dtypes
from roofline.errors import DTypeError, InputError, RooflineError, SizeError
from roofline.frozen import replace
from roofline.ops import pricing
from roofline.ops.counting import count
from roofline.programs import positions, tensor_parts
from roofline.programs.onnx.graph import LARGEST_MASK, dims_of, dtype_of, inferred, put, read, solved
from roofline.programs.onnx.needs import LEAST, needed_of
from roofline.programs.onnx.quantised import JOINED, on_integers
from roofline.programs.onnx.registry import GATHERS, PICKING, SCATTERS, UPDATES, Call, find, with_every_input
from roofline.programs.onnx.standins import DOMAIN, attributes_of, graphs_of, uses_in
from roofline.programs.positions import (
    Elements,
    Visible,
    converted,
    everywhere,
    joined,
    of_values,
    triangle,
    worked_out,
)
from roofline.programs.precision import ONNX_PRODUCTS, allowing
from roofline.programs.regions import HIDDEN, NOTHING, WHOLE, as_named, counted_from, elements_of, needed_at_most
from roofline.programs.rule_table import branch_cost, stated
from roofline.programs.tensor_parts import LoopSteps
from roofline.programs.traced import Traced, enter
from roofline.progress import counted, stopped
from roofline.quantity import format_amount as show
from roofline.signatures import either
from roofline.sizes import Size, grouped, is_symbol
from roofline.work import Op, Tensor

#: Operators whose result is their first input in another form, or under another name.
VIEWS = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Expand", "BitCast")
#: Domains whose operators go by their name alone.
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", DOMAIN)
#: Operators that work on shapes, which are known before anything runs.
OF_SHAPES = ("Shape", "Size", "Constant", "ConstantOfShape")
#: What decides branches, of numbers that the file or its sizes give.
_DECIDED: dict[str, Callable[..., bool]] = {
    "Not": operator.not_, "And": lambda a, b: bool(a and b), "Or": lambda a, b: bool(a or b), "Equal": operator.eq,
    "Xor": operator.ne, "Less": operator.lt, "LessOrEqual": operator.le, "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
}  # fmt: skip


def trace(
    program: Any,
    *inputs: Any,
    batch: int | None = None,
    sizes: Mapping[str, Size] | None = None,
    trips: int | Mapping[str, int] | None = None,
    dtype: str | None = None,
    name: str | None = None,
) -> Traced:
    """Find every operation of an ONNX file, or of a loaded ``onnx.ModelProto``.

    ``batch``  the first size of every input where the file leaves it open
    ``sizes``  other symbolic sizes by name
    ``dtype``  format in which the file's fp32 tensors are taken, as if it was converted
    ``trips``  how often a Loop runs whose trip count is not in the file; or one for each, by the name of its node
    """
    if inputs:
        asked = either("leave --input out, and say --batch 8 or S=128", "say batch=8 or sizes={'S': 128}")
        raise InputError("an ONNX file has inputs of its own", hint=f"{asked} for open sizes")
    with _damage("the ONNX graph"):
        model, named = inferred(read(program), batch, sizes or {})
        found = solved(model.graph, named)
        joined = on_integers(model.graph)
    walk = GraphWalker(trips, found, taken_as=_floating(dtype))
    if dtype is not None:
        walk.assumptions[f"fp32 tensors of the file are taken as {walk.taken_as}"] = None
    if joined:
        walk.assumptions[JOINED] = None
    held = {item.name for item in model.graph.initializer}
    given = [item for item in model.graph.input if item.name not in held]
    with _damage("the ONNX graph"):
        walk.graph(model.graph, "", 1)
        walk.written_out(model.graph)
        amounts = walk.amounts(model.graph)
    weights = [tensor for item in model.graph.initializer if (tensor := walk.known.get(item.name)) is not None]
    written = [walk.known[item.name] for item in given if item.name in walk.known]
    ops = walk.without_sizes(needed_at_most(walk.settled(), amounts), model.graph)
    return Traced(
        name or (Path(program).stem if isinstance(program, str | Path) else model.graph.name or "onnx"),
        tensor_parts.given_back(walk.without_passing(ops, model.graph), walk.results(model.graph), stacked=True),
        modules=walk.scopes,
        assumptions=tuple(walk.assumptions),
        inputs=tuple(f"{t.dtype}[{', '.join(map(str, t.dims))}]" for t in written),
        sizes=dict(sizes or {}),
        weights={tensor.ident: tensor.elements for tensor in weights},
    )


def _floating(dtype: str | None) -> str | None:
    """The name of a floating format that a file is taken in."""
    if dtype is None:
        return None
    found = dtypes.get(dtype)
    if found.family != "float":
        hint = "a floating format, as bf16; a quantised file has operators of its own"
        raise DTypeError(f"fp32 tensors cannot be taken as {found.name}", hint=hint)
    return found.name


@dataclass
class GraphWalker:
    """The state of one walk over a graph and the graphs inside it."""

    trips: int | Mapping[str, int] | None
    solved: Mapping[str, Size] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    assumptions: dict[str, None] = field(default_factory=dict)
    scopes: dict[str, str] = field(default_factory=dict)
    known: dict[str, Tensor] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    masks: dict[str, Any] = field(default_factory=dict)
    elements: dict[str, Elements] = field(default_factory=dict)
    shapes: dict[str, Sequence[Size]] = field(default_factory=dict)
    updated: set[str] = field(default_factory=set)
    outputs: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    buffers: set[str] = field(default_factory=set)
    scales: set[str] = field(default_factory=set)
    indices: set[str] = field(default_factory=set)
    scores: set[str] = field(default_factory=set)
    lengths: dict[str, int] = field(default_factory=dict)
    taken: dict[str, tuple[str, bool]] = field(default_factory=dict)
    steps: LoopSteps | None = None
    parts: set[str] = field(default_factory=set)
    held: dict[str, tuple[Size, ...]] = field(default_factory=dict)
    filled: set[str] = field(default_factory=set)
    measured: set[str] = field(default_factory=set)
    looked_at: set[str] = field(default_factory=set)
    taken_as: str | None = None

    def graph(self, graph: Any, scope: str, repeat: Size, given: Mapping[str, Tensor] = {}, apart: str = "") -> None:
        """Walk a graph: name its tensors, then price its nodes in order.

        ``given`` are inputs that are tensors from outside; ``apart`` tells other inputs and results from those of
        another walk.
        """
        own = {item.name for item in (*graph.input, *graph.output)} if apart else ()
        for item in (*graph.input, *graph.value_info, *graph.output):
            dims, dtype = dims_of(item), self.dtype(item.type.tensor_type.elem_type)
            if dims is not None and dtype is not None:
                ident = _ident(item.name) + (apart if item.name in own else "")
                self.known[item.name] = Tensor(ident, put(dims, self.solved), dtype)
        self.known |= given
        norms = [node for node in graph.node if node.op_type == "BatchNormalization"]
        self.buffers |= {word for node in norms for word in node.input[3:5]}
        self.scales |= {word for node in graph.node if node.op_type == "Resize" for word in node.input[2:3]}
        self.indices |= {
            word for node in graph.node if node.op_type in (*UPDATES, *GATHERS) for word in node.input[1:2]
        }
        self.scores |= {word for node in graph.node if node.op_type == "Attention" for word in node.input[3:4]}
        for item in graph.initializer:
            self._constant(item.name, item)
        first = len(self.ops)
        self.updated |= _updated(graph)
        self.outputs |= {item.name for item in graph.output}
        self.used.update(uses_in(graph))
        try:
            for node in counted(graph.node):
                with _damage(f"{node.name or ', '.join(node.output)}: the inputs or attributes of {node.op_type}"):
                    self.node(node, scope, repeat)
        except KeyboardInterrupt:
            if not self.ops:
                raise
            self.assumptions[f"{stopped(len(self.ops), None, 'operations')}: the rest is not counted"] = None
        softmaxes, products = masked(graph.node)
        if softmaxes:
            self._whole(softmaxes, [op for op in self.ops[first:] if op.options["source"] in products])

    def _whole(self, softmaxes: Sequence[str], ops: Sequence[Op]) -> None:
        """Say that scores which may be masked are counted whole."""
        several, lists = len(softmaxes) > 1, either("--flat", "to_dict()")
        more = f" and {len(softmaxes) - 1} more ({lists} lists them)" if several else ""
        note = (
            f"what is added to or chosen in scores before {softmaxes[0]}{more} may be a mask: they are counted whole, "
            f"as the file computes them; a kernel that knows the mask would skip its part of {show(count(ops), 'FLOP')}"
        )
        self.assumptions[note] = None

    def node(self, node: Any, scope: str, repeat: Size) -> None:
        """Price one node."""
        attributes = attributes_of(node)
        (self.measured if node.op_type in ("Shape", "Size") else self.looked_at).update(node.input)
        self._follow(node, attributes)
        if node.op_type in OF_SHAPES:
            if isinstance(attributes.get("value"), onnx.TensorProto) and node.op_type == "Constant":
                self._constant(node.output[0], attributes["value"])
            for word in ("value_float", "value_int", "value_floats", "value_ints"):
                if word in attributes:
                    self.values[node.output[0]] = attributes[word]
            self.filled |= {_ident(word) for word in node.output if node.op_type != "Constant"}
            self._sizes_of(node)
            return
        self._decide(node, attributes)
        source = self.known.get(node.input[0]) if node.input else None
        if node.op_type in VIEWS:
            if source is not None:
                self._alias(node, source)
            return
        place = _scope(node.name) or scope
        enter(self.scopes, place)
        inner = REGIONS.get(node.op_type)
        if inner is not None:
            inner(self, node, attributes, place, repeat)
            return
        if node.op_type in (*SCATTERS, *GATHERS):
            self._check_places(node, attributes)
        if node.op_type == "Attention" and node.domain != DOMAIN:
            self._append_cache(node)
        call = Call(
            node.op_type,
            attributes,
            tuple(self.known.get(word) for word in node.input),
            tuple(self.known.get(word) for word in node.output),
            tuple(self.values.get(word) for word in node.input),
            node.op_type in UPDATES and node.output[0] in self.updated,
            tuple(self.masks.get(word, self._visible(word)) for word in node.input),
        )
        chosen = find(f"{DOMAIN}.{node.op_type}") if node.domain == DOMAIN else None
        if chosen is None and node.domain in DOMAINS:
            chosen = find(node.op_type)
        named = [word for word in (*node.input, *node.output[:1]) if word]
        missing = [word for word in named if word not in self.known and word not in self.values]
        beside = [word for word in node.output[1:] if word and word in self.used and word not in self.known]
        if missing:
            self._list(missing[0], node, place, repeat, call.reads, call.writes)
        elif chosen is None:
            self._emit(pricing.unknown(node.op_type, call.reads, call.writes), node, place, repeat)
        else:
            priced = chosen(call) or ()
            ops = (priced,) if isinstance(priced, Op) else priced
            for op in with_every_input(call, ops) if ops else ():
                op = tensor_parts.with_views(op, zip(call.operands, node.input, strict=True))
                picked = call.operands if call.name in PICKING else ()
                for each, times in tensor_parts.shares_of_steps(op, picked, self.steps, repeat, self.parts):
                    self._emit(each, node, place, times)
            if beside and node.domain != DOMAIN:  # whose rules know what is written of a cache
                self._list(beside[0], node, place, repeat)
            if call.in_place and source is not None:
                self._alias(node, source)
        if self.steps is not None:
            self.steps.follow(call.name, call.operands, call.writes)

    def _append_cache(self, node: Any) -> None:
        """Name keys and values of an attention with the new ones behind: the onnx library adds no open sizes."""
        words = [*node.input, *[""] * 6]
        for present, past, new in zip(node.output[1:3], words[4:6], words[1:3], strict=False):
            before, more = self.known.get(past), self.known.get(new)
            if present not in ("", *self.known) and before is not None and more is not None:
                dims = (*before.dims[:2], before.dims[2] + more.dims[-2], before.dims[3])
                self.known[present] = replace(before, ident=_ident(present), dims=dims)

    def _check_places(self, node: Any, attributes: Mapping[str, Any]) -> None:
        """Refuse indices of a gather or a scatter that are known to be none of the tensor that they name parts of."""
        held = np.asarray(self.values.get(node.input[1], self.masks.get(node.input[1])))
        if (held.dtype.kind in "fbSU" and held.size) or any(isinstance(each, str | bytes) for each in held.flat):
            raise ValueError("the indices are not whole numbers")
        target, indices = (self.known.get(word) for word in node.input[:2])
        if target is None or indices is None:
            return
        rank, axis, by_rows = len(target.dims), attributes.get("axis", 0), node.op_type.endswith("ND")
        if not by_rows and not -max(1, rank) <= axis < max(1, rank):
            raise ValueError(f"axis {axis} of a tensor of rank {rank}")
        if held.dtype.kind not in "iu" or not held.size or any(map(is_symbol, indices.dims)):
            return
        along = target.dims[attributes.get("batch_dims", 0) :] if by_rows else target.dims[axis:][:1]
        columns = held.reshape(-1, indices.dims[-1] if by_rows and indices.dims else 1).T
        for places, size in zip(columns, along, strict=False):
            wrong = [] if is_symbol(size) else places[(places < -size) | (places >= size)]
            if len(wrong):
                raise ValueError(f"index {wrong[0]} of a dimension of size {size}")

    def written_out(self, graph: Any) -> None:
        """Write down results that no operation writes: constants, and inputs in another form or under another name."""
        made = {tensor.base for op in self.ops for tensor in op.writes}
        makers = {word: node for node in graph.node for word in node.output}
        for item in graph.output:
            tensor, node = self.known.get(item.name), makers.get(item.name)
            if tensor is None and node is not None and node.op_type in VIEWS and item.type.HasField("tensor_type"):
                self._list(item.name, node, _scope(node.name), 1)
            if tensor is None or node is None:
                continue
            if item.name in self.taken:
                word, constant, passed = item.name, False, set[str]()
                while word in self.taken and word not in passed:  # an inner result may have an outer one's name
                    passed.add(word)
                    word, constant = self.taken[word]
                held = self.known.get(word) or replace(tensor, ident=_ident(word))
                if held.base not in made:
                    out = Tensor(_ident(item.name), tensor.dims, tensor.dtype)
                    reads = () if constant else (held,)
                    self._emit(pricing.move("If", reads, (out,)), node, _scope(node.name), 1)
                continue
            if node.op_type in _WITH_GRAPHS:
                continue
            if tensor.touched is None and (tensor.ident in made or node.op_type == "Identity"):
                continue
            out = Tensor(_result(item.name), tensor.dims, tensor.dtype)
            reads = () if node.op_type in OF_SHAPES else (tensor,)
            self._emit(pricing.move(node.op_type, reads, (out,)), node, _scope(node.name), 1)

    def settled(self) -> tuple[Op, ...]:
        """The operations, with each part of a tensor under its name and each tensor as it is stored."""

        def stored(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
            return tuple(tensor_parts.as_stored(t, self.held.get(t.ident)) for t in tensors)

        return tuple(replace(op, reads=stored(op.reads)) for op in tensor_parts.named_apart(self.ops))

    def amounts(self, graph: Any) -> dict[str, Size]:
        """Elements of each input and weight that the file's results need, where these are not all of it.

        Of what the file makes of sizes alone, as tensors of one value, none are.
        """
        shapes = {word: tensor.dims for word, tensor in self.known.items()}
        needed = needed_of(graph, shapes, {**self.values, **self.masks})
        words = [item.name for item in (*graph.input, *graph.initializer) if item.name in shapes]
        pairs = [(word, needed.get(word, NOTHING)) for word in words]
        parts = ((word, region, counted_from(LEAST, shapes[word])) for word, region in pairs if region is not WHOLE)
        found = {_ident(word): as_named(elements_of(region, shape)) for word, region, shape in parts}
        return {**found, **dict.fromkeys(self.filled, 0)}

    def results(self, graph: Any) -> set[str]:
        """What the file gives back whole, under the names of the operations that write it."""
        held = {item.name: self.known[item.name] for item in graph.output if item.name in self.known}
        return {tensor.ident for tensor in held.values() if tensor.touched is None and "[" not in tensor.ident}

    def without_passing(self, ops: Sequence[Op], graph: Any) -> tuple[Op, ...]:
        """The operations; of inputs that are updated in place and are no results a floor counts no write."""
        passing = {_ident(item.name) for item in graph.input} - self._given_back(graph)

        def written(tensor: Tensor) -> Tensor:
            return replace(tensor, given=0) if tensor.updates in passing else tensor

        return tuple(replace(op, writes=tuple(map(written, op.writes))) for op in ops)

    def without_sizes(self, ops: Sequence[Op], graph: Any) -> tuple[Op, ...]:
        """The operations but those of which only shapes are made, on int64 or bool: known before the file runs.

        So are those on other tensors whose results nothing looks at but their shapes.
        """
        read = self._given_back(graph) | {_result(item.name) for item in graph.output}
        shaped = {_ident(word) for word in self.measured - self.looked_at}
        found: list[Op] = []
        for op in reversed(ops):
            used = any(
                t.base in read or t.ident != t.base or not (t.dtype in ("int64", "bool") or t.base in shaped)
                for t in op.writes
            )
            if used or not op.writes or op.kind == pricing.UNKNOWN:
                read |= {t.base for t in op.reads}
                found.append(op)
        return tuple(reversed(found))

    def _given_back(self, graph: Any) -> set[str]:
        """Tensors of which the file gives back all or a part."""
        names = {word for item in graph.output for word in self._names(item.name)}
        return {self.known[word].base for word in names if word in self.known}

    def _names(self, word: str) -> Sequence[str]:
        """A result's name, and those that it has inside the graphs of nodes."""
        found = {word: None}
        while word in self.taken and self.taken[word][0] not in found:  # an inner one may have an outer one's name
            word, _ = self.taken[word]
            found[word] = None
        return [*found]

    def branch(self, graph: Any, scope: str, repeat: Size) -> list[Op]:
        """GraphWalker a graph apart; give its operations."""
        kept, self.ops = self.ops, []
        self.graph(graph, scope, repeat)
        found, self.ops = self.ops, kept
        return found

    def _emit(self, op: Op, node: Any, scope: str, repeat: Size) -> None:
        amounts = [op.repeat, *(amount for _, amount in op.work.items())]
        if any(not is_symbol(amount) and amount < 0 for amount in amounts):
            raise ValueError("they give it less than no work")
        op = allowing(op, ONNX_PRODUCTS)
        options = {**op.options, "source": label(node)}
        self.ops.append(replace(op, where=scope, repeat=op.repeat * repeat, phase="forward", options=options))
        if op.note and op.kind != "unknown":
            self.assumptions[op.note] = None

    def _list(self, word: str, node: Any, scope: str, repeat: Size, *moved: Sequence[Tensor]) -> None:
        """List a node of which a tensor is not known."""
        reads, writes = moved or ((), ())
        reason = f"the shape or dtype of {word} is not known"
        self._emit(pricing.unknown(node.op_type, reads, writes, reason), node, scope, repeat)

    def _alias(self, node: Any, source: Tensor) -> None:
        out = self.known.get(node.output[0])
        if node.input[0] in self.values and node.op_type != "Expand":
            self.values[node.output[0]] = self.values[node.input[0]]
        if out is None:
            return
        held = source.traffic_elements
        self.known[node.output[0]] = replace(source, dims=out.dims, touched=None if held == out.elements else held)

    def _sizes_of(self, node: Any) -> None:
        """Keep the sizes that Shape gives, all or a part of them, and Size's number, where they are numbers."""
        held = self.known.get(node.input[0]) if node.op_type in ("Shape", "Size") and node.input else None
        if held is not None and all(isinstance(size, int) for size in held.dims):
            bounds = {item.name: item.i for item in node.attribute}
            part = list(held.dims)[bounds.get("start") : bounds.get("end")]
            self.values[node.output[0]] = part if node.op_type == "Shape" else prod(held.dims)

    def _follow(self, node: Any, attributes: Mapping[str, Any]) -> None:
        """Keep what a node makes of sizes and positions alone (``programs.positions``)."""
        out = self.known.get(node.output[0]) if len(node.output) == 1 else None
        given = [self._elements(word) for word in node.input]
        source = self.known.get(node.input[0]) if node.input else None
        if node.op_type == "Shape" and source is not None:
            self.shapes[node.output[0]] = source.dims[attributes.get("start", 0) : attributes.get("end")]
        elif node.op_type == "Gather" and node.input[0] in self.shapes and given[1] and given[1].number is not None:
            self.elements[node.output[0]] = Elements((), self.shapes[node.input[0]][int(given[1].number)])
        elif out is not None and given and node.domain in DOMAINS:
            found = made_of_positions(node.op_type, given, out, attributes)
            self.elements |= {} if found is None else {node.output[0]: found}

    def _elements(self, word: str) -> Elements | None:
        """The elements of an input, as far as they are known."""
        if word in self.elements or word not in (self.masks if word in self.masks else self.values):
            return self.elements.get(word)
        return of_values(self.masks[word] if word in self.masks else self.values[word])

    def _visible(self, word: str) -> Visible | None:
        """What a mask that the graph makes of positions lets see."""
        found = self.elements.get(word)
        return None if found is None else found.visible(is_added=self.known[word].dtype != "bool")

    def _decide(self, node: Any, attributes: Mapping[str, Any]) -> None:
        """Keep what a comparison of known numbers says, and a known size that is picked."""
        held = [self.values.get(word) for word in node.input]
        if any(value is None for value in held):
            return
        if node.op_type == "Gather" and len(held) == 2 and isinstance(held[0], list) and isinstance(held[1], int):
            self.values[node.output[0]] = held[0][held[1]]
        elif node.op_type in _DECIDED:
            ones = [value[0] if isinstance(value, list) and len(value) == 1 else value for value in held]
            if not any(isinstance(value, list) for value in ones):
                self.values[node.output[0]] = _DECIDED[node.op_type](*ones)

    def number(self, node: Any, place: int, default: Any = None) -> Any:
        """The number that an input is, of a list the first; None where it is not known, a default where none stands."""
        held = self.values.get(node.input[place]) if len(node.input) > place else default
        return held[0] if isinstance(held, list) else held

    def slices(self, node: Any, body: Any, first: int, times: Size, before: Size) -> dict[str, Tensor]:
        """The slices that so many steps of a Scan take of its inputs from the ``first`` on, as parts of them."""
        found = {}
        words = node.input[first:]
        axes = next((item.ints for item in node.attribute if item.name == "scan_input_axes"), [0] * len(words))
        for word, inside, axis in zip(words, body.input[len(body.input) - len(words) :], axes, strict=True):
            stack = self.known.get(word)
            if stack is None or stack.touched is not None or "[" in stack.ident:
                continue
            dims = [size for place, size in enumerate(stack.dims) if place != axis % len(stack.dims)]
            name = f"{stack.ident}[{before}:]" if is_symbol(before) or before else f"{stack.ident}[0]"
            self.held |= {stack.ident: stack.dims, name: (times, *dims)}
            found[inside.name] = replace(stack, ident=name, dims=tuple(dims))
        return found

    def take(self, node: Any, branch: Any) -> None:
        """Keep which results of a branch are those of an If, and which are constants."""
        constants = {word for inner in branch.node if inner.op_type in OF_SHAPES for word in inner.output}
        for word, item in zip(node.output, branch.output, strict=False):
            self.taken[word] = (item.name, item.name in constants)
            if item.name in self.known and item.name not in constants:
                self.known[word] = self.known[item.name]

    def dtype(self, number: int) -> str | None:
        """Our name of a format, the one that is asked for in place of fp32."""
        found = dtype_of(number)
        return self.taken_as if found == "fp32" and self.taken_as is not None else found

    def _constant(self, name: str, value: Any) -> None:
        dtype = self.dtype(value.data_type)
        if dtype is not None:
            is_buffer = name in self.buffers or dtype in ("int64", "bool")
            role = "state" if is_buffer else "weight"
            self.known[name] = Tensor(_ident(name), tuple(value.dims), dtype, role, None, name)
        self._hold(name, value)

    def _hold(self, name: str, value: Any) -> None:
        """Keep the value of a number, or of a list of sizes or scales, which moves nothing; a mask's and an index's."""
        listed = value.data_type in (6, 7) or name in self.scales
        small = prod(value.dims) == 1 or (len(value.dims) == 1 and value.dims[0] <= 16 and listed)
        if value.data_location == onnx.TensorProto.EXTERNAL:
            return
        if small:
            self.values[name] = onnx.numpy_helper.to_array(value).tolist()
        elif prod(value.dims) <= LARGEST_MASK:
            if value.data_type == onnx.TensorProto.BOOL or name in self.indices:
                self.masks[name] = onnx.numpy_helper.to_array(value)
            elif name in self.scores:  # a mask that is added
                self.masks[name] = onnx.numpy_helper.to_array(value) > HIDDEN


def _ident(name: str) -> str:
    """A tensor under its name in the file; a bracket in it is not that of a part (``programs.tensor_parts``)."""
    return name.replace("[", "(")


def _result(name: str) -> str:
    """A result that no operation writes, and that is written down in the end."""
    return f"{_ident(name)}(result)"


def _updated(graph: Any) -> set[str]:
    """Results of updates that can be done in place: of an input that nobody else reads, or of such an update."""
    read = Counter(word for node in graph.node for word in node.input)
    inside = {word for node in graph.node for each in graphs_of(node) for word in uses_in(each)}
    held = {item.name for item in graph.initializer}
    given = {item.name for item in graph.input} - held - inside
    found: set[str] = set()
    for node in graph.node:
        if node.op_type in UPDATES and read[node.input[0]] == 1 and node.input[0] in given | found:
            found.add(node.output[0])
    return found


def _if(walk: GraphWalker, node: Any, attributes: Mapping[str, Any], scope: str, repeat: Size) -> None:
    """The branch that is taken where the file decides, else the larger one."""
    which = walk.number(node, 0)
    if which is not None:
        taken = attributes["then_branch" if which else "else_branch"]
        walk.graph(taken, scope, repeat)
        walk.take(node, taken)
        return
    tried = [walk.branch(attributes[word], scope, repeat) for word in ("then_branch", "else_branch")]
    sizes = [branch_cost(ops) for ops in tried]
    larger = sizes.index(max(sizes))
    walk.ops += tried[larger]
    walk.take(node, attributes[("then_branch", "else_branch")[larger]])
    if sizes[0] != sizes[1]:
        walk.assumptions[f"{label(node)}: the larger branch of an If is counted"] = None


def _loop(walk: GraphWalker, node: Any, attributes: Mapping[str, Any], scope: str, repeat: Size) -> None:
    """The body as often as the file or ``trips`` says."""
    name = label(node)
    found = walk.number(node, 0)
    unknown = found is None or found > 2**31  # exporters write the largest integer for "until told"
    times = stated(walk.trips, name, "how often this Loop runs is not in the file") if unknown else found
    _repeat(walk, node, attributes["body"], (2, 2, len(node.input)), times, scope, repeat)
    walk.assumptions[f"{name}: a Loop runs {times} times"] = None


def _scan(walk: GraphWalker, node: Any, attributes: Mapping[str, Any], scope: str, repeat: Size) -> None:
    """The body once for every slice."""
    scanned = walk.known.get(node.input[-1])
    if scanned is None:
        raise InputError(f"{label(node)}: the length of this Scan is not known", hint="give the sizes")
    if len(node.input) > len(attributes["body"].input):  # lengths, and a batch around each sequence
        raise InputError(f"{label(node)}: a Scan of operator set 8 has a batch", hint="write it in set 9, without one")
    axes = attributes.get("scan_input_axes") or [0]
    carried = len(node.input) - attributes["num_scan_inputs"]
    _repeat(walk, node, attributes["body"], (0, 0, carried), scanned.dims[axes[-1]], scope, repeat)


def _repeat(
    walk: GraphWalker, node: Any, body: Any, places: tuple[int, int, int], times: Size, scope: str, repeat: Size
) -> None:
    """Walk a body ``times`` times: a step reads what the one before wrote, the first what the loop is given.

    ``places`` are where what is carried begins among the inputs of the body and of the node, and where it ends there.
    The first and the last step are written apart, so that the floor counts what all steps read once, and what is given
    back once.
    """
    inside, outside, end = places
    given = node.input[outside:end]
    into = [item.name for item in body.input[inside : inside + len(given)]]
    back = [item.name for item in body.output[inside // 2 : inside // 2 + len(given)]]
    carried = [walk.known.get(word) for word in given]
    counts = [1, times - 2, 1] if is_symbol(times) or times > 2 else [1] * int(times)
    rows: set[str] = set()
    first, outer = len(walk.ops), walk.steps
    for place, steps in enumerate(counts):
        starts = {name: tensor for name, tensor in zip(into, carried, strict=True) if tensor is not None}
        starts |= walk.slices(node, body, end, steps, (0, 1, times - 1)[place])
        before, apart = len(walk.ops), f"({place})" if place else ""
        walk.steps = None
        if place:
            own = {_ident(item.name) + apart for item in body.input} | {t.ident for t in starts.values()}
            again = is_symbol(repeat) or repeat > 1
            walk.steps = LoopSteps(steps, (0, 1, times - 1)[place], own, set(), again)
        walk.graph(body, scope, repeat * steps, starts, apart)
        carried = [walk.known.get(name) for name in back]
        names = [item.name for item in body.output[inside // 2 + len(given) :]]
        pairs = [*zip_longest(names, node.output[len(given) :])]
        made = {tensor.base for op in walk.ops[before:] for tensor in op.writes}
        for name, word in pairs:  # a row that the body gives on as it is
            if word and (held := walk.known.get(name)) is not None and held.base not in made:
                walk.known[name] = Tensor(f"{_ident(word)}(row){apart}", held.dims, held.dtype)
                move = pricing.move(node.op_type, (held,), (walk.known[name],))
                walk._emit(move, node, scope, repeat * steps)
        stacks = {t.ident: word for name, word in pairs if (t := walk.known.get(name))}
        if walk.steps is not None:
            walk.ops[first:] = [tensor_parts.first_part(op, PICKING, walk.steps) for op in walk.ops[first:]]
        handed_on = {t.ident for t in carried if t is not None}
        rows = {ident for ident, word in stacks.items() if word in walk.outputs}
        unused = stacks.keys() - rows - handed_on
        if place == len(counts) - 1:  # nobody goes on from what the last step hands on
            asked = walk.used | walk.outputs
            ends = {t.ident: word for word, t in zip(node.output, carried, strict=False) if t is not None}
            unused |= {ident for ident, word in ends.items() if word not in asked} - rows
        walk.ops[before:] = [_kept(op, rows & handed_on, unused) for op in walk.ops[before:]]
        rows &= handed_on
    walk.steps = outer
    for ident, word in stacks.items():  # what reads the rows reads what the steps have written
        if word in walk.known and word not in walk.outputs:
            walk.known[word] = replace(walk.known[word], ident=ident)
    for word, tensor in zip(node.output, carried, strict=False):
        if tensor is not None and tensor.ident in rows and word in walk.outputs:
            result = replace(tensor, ident=_ident(word))
            walk._emit(pricing.move(node.op_type, (tensor,), (result,)), node, scope, repeat)
        elif tensor is not None:
            walk.known[word] = tensor


def _kept(op: Op, rows: Set[str], unused: Set[str]) -> Op:
    """An operation with results marked that the next step reads and the loop gives back too, or that nobody uses."""

    def marked(tensor: Tensor) -> Tensor:
        if tensor.ident in rows:
            return replace(tensor, role="state")
        return replace(tensor, given=0) if tensor.ident in unused else tensor

    return replace(op, writes=tuple(map(marked, op.writes)))


def _dropout(walk: GraphWalker, node: Any, attributes: Mapping[str, Any], scope: str, repeat: Size) -> None:
    """While training, what is left scaled; else its input under another name, and a mask of ones where one is asked."""
    training, source = walk.number(node, 2, False), walk.known.get(node.input[0])
    outs = tuple(walk.known.get(word) for word in node.output if word)
    call = Call("Dropout", attributes, (source,), outs, (None,))
    if training:
        op = pricing.elementwise("dropout", call.reads, call.writes, name="Dropout")
        walk._emit(replace(op, note="the arithmetic of random numbers is not counted"), node, scope, repeat)
        return
    if training is None:
        walk.assumptions[f"{label(node)}: Dropout is not in training mode"] = None
    if len(call.writes) > 1:
        walk._emit(pricing.move("Dropout", (), call.writes[1:]), node, scope, repeat)
    if source is not None:
        walk._alias(node, source)


def _sequence(walk: GraphWalker, node: Any, attributes: Mapping[str, Any], scope: str, repeat: Size) -> None:
    """Sequences and optionals hold tensors as they are: putting in and taking out moves nothing."""
    given, out = walk.lengths.get(node.input[0]) if node.input else None, node.output[0]
    changes = {"SequenceInsert": 1, "SequenceErase": -1, "Optional": 0, "OptionalGetElement": 0, "Identity": 0}
    if node.op_type in ("SequenceEmpty", "SequenceConstruct"):
        walk.lengths[out] = len(node.input)
    elif node.op_type in changes and given is not None:
        walk.lengths[out] = given + changes[node.op_type]
    elif node.op_type == "SequenceLength" and given is not None:
        walk.values[out] = given
    source = walk.known.get(node.input[0]) if node.input else None
    if node.op_type in ("Optional", "OptionalGetElement") and source is not None:
        walk._alias(node, source)


def _cut(walk: GraphWalker, node: Any, attributes: Mapping[str, Any], scope: str, repeat: Size) -> None:
    """Read a tensor, write its parts."""
    source, out = walk.known.get(node.input[0]), node.output[0]
    if source is None:
        return walk._list(node.input[0], node, scope, repeat)
    size, held = source.dims[attributes.get("axis", 0)], walk.values.get(node.input[1]) if len(node.input) > 1 else 1
    if isinstance(held, list):
        walk.lengths[out] = len(held)
    elif isinstance(size, int) and held:
        walk.lengths[out] = -(-size // int(held))
    walk._emit(pricing.move(node.op_type, (source,), (replace(source, ident=_ident(out)),)), node, scope, repeat)


def _joined(walk: GraphWalker, node: Any, attributes: Mapping[str, Any], scope: str, repeat: Size) -> None:
    """Read as much as is written."""
    out = walk.known.get(node.output[0])
    if out is None:
        return walk._list(node.output[0], node, scope, repeat)
    parts = replace(out, ident=_ident(node.input[0]))
    walk._emit(pricing.move(node.op_type, (parts,), (out,)), node, scope, repeat)


def _mapped(walk: GraphWalker, node: Any, attributes: Mapping[str, Any], scope: str, repeat: Size) -> None:
    """The body once for every element of the first sequence."""
    times = walk.lengths.get(node.input[0])
    if times is None:
        times = stated(walk.trips, label(node), "how long the sequence of this SequenceMap is is not in the file")
    walk.graph(attributes["body"], scope, repeat * times)
    walk.lengths |= dict.fromkeys(node.output, times)


_OF_SEQUENCES = ("SequenceEmpty", "SequenceConstruct", "SequenceInsert", "SequenceErase", "SequenceAt",
                 "SequenceLength", "Optional", "OptionalGetElement", "OptionalHasElement")  # fmt: skip

#: Operators whose results are written by the graphs they hold.
_WITH_GRAPHS = ("If", "Loop", "Scan", "SequenceMap")

#: Operators that hold graphs, or give what is no tensor.
REGIONS = {
    "If": _if, "Loop": _loop, "Scan": _scan, "Dropout": _dropout, **dict.fromkeys(_OF_SEQUENCES, _sequence),
    "SplitToSequence": _cut, "ConcatFromSequence": _joined, "SequenceMap": _mapped,
}  # fmt: skip

#: What Python says in its own words where a node lacks an attribute that its operator's definition demands.
_MISSING = "one is missing, or of another kind than the definition says"


@contextmanager
def _damage(what: str) -> Iterator[None]:
    """What a damaged file, or a node that its operator's definition does not allow, makes fail: one clear error."""
    try:
        yield
    except RooflineError:
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        hint = "onnx.checker.check_model says more; export the file again"
        kind = type(error).__name__
        if "truth value of Relational" in str(error):  # as sympy says of a comparison of open sizes
            raise SizeError(f"{what} need the numbers of open sizes", hint="give batch= or sizes=") from error
        said = _MISSING if kind in ("TypeError", "AttributeError") else f"{kind}: {error}"
        raise InputError(f"{what} cannot be read: {said}", hint=hint) from error


def _scope(name: str) -> str:
    """``/layers.0/attn/MatMul_1`` is at layers.0.attn."""
    return ".".join(part for part in name.split("/")[:-1] if part)


_PRODUCTS = ("MatMul", "Einsum", "Gemm", "FusedMatMul", "MatMulInteger", "QLinearMatMul")
_MASKS = ("Add", "Where", "Sum", "Min")
#: What scores and weights go through one for one, beside what masks them.
_THROUGH = ("Cast", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Mul", "Div", "Clip",
            "QuantizeLinear", "DequantizeLinear", "Tanh")  # fmt: skip


def masked(nodes: Sequence[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the softmaxes of scores that may be masked, and the products that make the scores and use the weights."""
    makers = {word: node for node in nodes for word in node.output}
    users = grouped((word, node) for node in nodes for word in node.input)
    softmaxes: list[str] = []
    products: dict[str, None] = {}
    for node in nodes:
        if node.op_type != "Softmax":
            continue
        back = list(_before(node, makers))
        made = [found for found, masks in back if masks]
        used = [after for after in _after(node, users) if after.op_type in _PRODUCTS]
        if made and used:
            softmaxes.append(label(node))
            products |= dict.fromkeys(label(product) for product in (*made, *used))
    return tuple(softmaxes), tuple(products)


def label(node: Any) -> str:
    """What a node is called: its name, else its first result."""
    return str(node.name or (node.output[0] if node.output else ""))


def _before(node: Any, makers: dict[str, Any]) -> Iterator[tuple[Any, bool]]:
    """Products that lead to a softmax, and whether something masks them on the way."""
    left, seen = [(word, False) for word in node.input[:1]], set()
    while left:
        word, hidden = left.pop()
        maker = makers.get(word)
        if maker is None or word in seen:
            continue
        seen.add(word)
        if maker.op_type in _PRODUCTS:
            yield maker, hidden
        elif maker.op_type in _THROUGH or maker.op_type in _MASKS:
            left += [(given, hidden or maker.op_type in _MASKS) for given in maker.input]


def _after(node: Any, users: dict[str, list[Any]]) -> Iterator[Any]:
    """Products that use the weights of a softmax."""
    left, seen = list(node.output), set()
    while left:
        word = left.pop()
        if word in seen:
            continue
        seen.add(word)
        for user in users.get(word, ()):
            yield user
            if user.op_type in _THROUGH or user.op_type == "Where":
                left += user.output


def made_of_positions(
    name: str, given: Sequence[Elements | None], out: Tensor, attributes: Mapping[str, Any]
) -> Elements | None:
    """The elements that an operator makes of others, or of numbers."""
    first = given[0]
    if name == "ConstantOfShape":
        value = attributes.get("value")
        number = of_values([0] if value is None else onnx.numpy_helper.to_array(value).reshape(-1)[:1])
        return everywhere(number, out.dims)
    if first is None:
        return None
    if name == "Div":
        found = worked_out("true_divide", *given)
        return None if found is None else converted(found, out.dtype)
    if name == "Cast":
        return converted(first, out.dtype)
    if name == "Range":
        start, step = first.number, given[2] and given[2].number
        return (
            None if start is None or step is None else Elements(out.dims, start + step * positions.place(-1, out.dims))
        )
    if name == "Trilu":
        shift = given[1].number if len(given) > 1 and given[1] else 0
        return None if shift is None else triangle(first, shift, bool(attributes.get("upper", 1)))
    if name == "Concat" and None not in given:
        rank = len(out.dims)
        return joined([each for each in given if each is not None], attributes["axis"] % rank - rank)
    if name == "Transpose":
        return first.transposed(attributes.get("perm", range(len(out.dims))[::-1]))
    if name == "Expand":
        return first.spread(out.dims)
    if name in ("Reshape", "Unsqueeze", "Squeeze", "Flatten"):
        return first.reshaped(out.dims)
    is_other = attributes.get("fmod") or (name in ("Min", "Max") and len(given) != 2)
    return None if is_other else worked_out(name, *given)
