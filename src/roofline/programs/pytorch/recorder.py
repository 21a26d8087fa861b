"""Runs a PyTorch program on shapes alone and writes down every operation.

Data has a shape and no values (PyTorch's ``meta`` device). What a program makes out of nothing (positions, masks,
constants) is small and keeps its values, so that a mask can be looked at, and code that asks for such a value works.
Two context managers do it, one for functions as the user calls them and one for what the dispatcher runs underneath;
both end with the call.

The source location of an operation is the module path and the source line of the user, from the Python frames.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from roofline.errors import InputError, RooflineError, SizeError
from roofline.frozen import NamedTuple, replace
from roofline.ops import pricing
from roofline.ops.counting import count
from roofline.programs.precision import allowing, torch_products
from roofline.programs.pytorch import registry
from roofline.programs.pytorch.open_sizes import OpenElements, OpenSizes
from roofline.programs.pytorch.operators import (
    CONSTANT_FACTORIES,
    MIDDLES,
    SHAPED_LIKE,
    Autocast,
    OperatorTraits,
    opened,
    results_of,
    traits_of,
)
from roofline.programs.pytorch.registry import Call, PackedWeights, Priced, TensorOperand, operands_in
from roofline.programs.pytorch.tensors import (
    LARGEST_CONSTANT,
    TensorIdentities,
    dtype_name,
    holds_integers,
    is_open,
    layout_of,
    map_tensors,
    outside,
    tensors_in,
)
from roofline.programs.tensor_parts import MOST_PLACES, edges_of_places, with_views
from roofline.progress import tell
from roofline.work import Op, Tensor


class SourceLocation(NamedTuple):
    """Module path, source line (``model.py:12``), and phase: forward, backward or optimizer."""

    where: str = ""
    source: str = ""
    phase: str = "forward"


_TORCH = os.path.dirname(torch.__file__) + os.sep
_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_OPTIM = os.path.join(_TORCH, "optim") + os.sep
_CALLS = {torch.nn.Module._call_impl.__code__, torch.nn.Module._wrapped_call_impl.__code__}


class LocationFinder:
    """Finds the place of what is running now; remembers it by autograd node, for the backward pass."""

    def __init__(self, paths: Mapping[int, str]) -> None:
        self._paths = paths
        self._order = {path: number for number, path in enumerate(paths.values())}
        self._by_node: dict[int, SourceLocation] = {}

    def now(self) -> SourceLocation:
        """The place of the running operation."""
        found = self._from_frames()
        node = torch._C._current_autograd_node()
        if node is None:
            backward = torch._C._current_graph_task_id() != -1
            if not backward:
                self._by_node.setdefault(torch._C._autograd._get_sequence_nr() - 1, found)
                return found
            return found._replace(phase="backward")
        made = self._by_node.get(node._sequence_nr(), SourceLocation())
        return SourceLocation(found.where or made.where, made.source or found.source, "backward")

    def share_done(self, place: SourceLocation, backward: bool) -> tuple[float, float]:
        """How far a run is that passes modules in the order of their definition, and of how many steps.

        The backward pass goes through them in reverse.
        """
        every = max(len(self._order), 1)
        here = self._order.get(place.where, 0)
        passed = {"forward": here, "backward": 2 * every - here}.get(place.phase, 2 * every)
        return passed, (1 + backward) * every

    def remember(self) -> None:
        """Note the place for the backward pass; nothing is written down for what runs now."""
        if torch.is_grad_enabled():
            self.now()

    def line(self) -> str:
        """File and line of the user's code that runs now, the file's name in full."""
        users = (frame for frame, kind in _frames() if kind == "user")
        return next((f"{frame.f_code.co_filename}:{frame.f_lineno}" for frame in users), "")

    def is_user(self, code: CodeType) -> bool:
        """Whether code is the user's: neither torch's nor ours."""
        return _kind(code) == "user"

    def _from_frames(self) -> SourceLocation:
        where: str | None = None
        source, phase = "", "forward"
        for frame, kind in _frames():
            if source and where is not None:
                break
            if kind == "user":
                source = source or f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
            elif kind == "optimizer":
                phase = "optimizer"
            elif kind == "module" and where is None:
                where = self._paths.get(id(frame.f_locals.get("self")))
        return SourceLocation(where or "", source, phase)


def _frames() -> Iterator[tuple[FrameType, str]]:
    """The frames of what runs now with the kind of their code, the innermost first, up to the caller of ``trace``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (kind := _kind(frame.f_code)) != "stop":
        yield frame, kind
        frame = frame.f_back


@lru_cache(maxsize=4096)
def _kind(code: CodeType) -> str:
    if code in _CALLS:
        return "module"
    name = code.co_filename
    if name.startswith(_OPTIM):
        return "optimizer"
    if name.startswith(_HERE):
        return "stop" if code.co_name == _ENTRY else "ours"
    if name.startswith((_TORCH, "<frozen")):
        return "torch"
    return "user"


#: The function under which a program runs: frames below it belong to the caller of ``trace``.
_ENTRY = "run_program"


def module_paths(roots: Mapping[str, Any]) -> tuple[dict[int, str], dict[str, str]]:
    """Paths by module and classes by path; a single root module has the empty path."""
    paths: dict[int, str] = {}
    classes: dict[str, str] = {}
    for name, root in roots.items():
        for path, module in root.named_modules():
            full = ".".join(part for part in (name, path) if part)
            paths.setdefault(id(module), full)
            classes[full] = type(module).__name__
    return paths, classes


_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
_META = torch.device("meta")
#: Operations that PyTorch refuses on operands of different dtypes, which it does not look at on shapes alone.
_OF_ONE_DTYPE = frozenset({"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "convolution"})
_DEVICES = frozenset({"cpu", "cuda", "mps", "xpu", "hpu", "xla", "npu"})
_FAKE = torch._C._TorchDispatchModeKey.FAKE
_FUNCTORCH = torch._C._functorch
_DEVICE = torch.Tensor.device.__get__
_SET_DATA = torch.Tensor.data.__set__
#: What PyTorch asks a tensor of open sizes for that works in numbers.
_CONCRETE = frozenset({"size", "stride", "storage_offset"})

#: What is said where PyTorch asks for them.
NEEDS_NUMBERS = "PyTorch needs the numbers of open sizes here"
#: What functions that look at values compare them by.
_TESTS = frozenset({"ge", "gt", "le", "lt", "ne"})
#: Lookups in a table, and the position of their indices.
_PICKS = {"aten.index": 1, "aten.index_select": 2, "aten.embedding": 1}
#: Functions that are given gradients, and how many arguments come before those.
_GRADIENTS = {torch.Tensor.backward: 1, torch.autograd.grad: 2}
#: Functions that ask a tensor for its values.
_ASK_FOR_VALUES = frozenset((
    torch.equal, torch.allclose, torch.is_nonzero,
    *(getattr(torch.Tensor, name) for name in (
        "item", "tolist", "numpy", "equal", "allclose", "is_nonzero", "__bool__", "__float__", "__int__", "__complex__",
        "__format__",
    )),
))  # fmt: skip
#: Values of tensors with a gradient are worked out by operations of no more FLOPs, which takes no longer than tracing.
_MOST_WORK = 2**28
#: Results of no more bytes are worked out however many there are.
_FEW_BYTES = 4096


class Recorder:
    """The operations of one run, in order."""

    def __init__(
        self,
        locations: LocationFinder,
        device: Any,
        recompute_attention: bool = True,
        float_constants: bool = True,
        backward: bool = False,
        leaf_values: bool = False,
        smaller: int = 1,
    ) -> None:
        self.locations = locations
        self.backward = backward
        self.leaf_values = leaf_values
        self.device = device
        self.recompute_attention = recompute_attention
        self.open = OpenSizes(locations.line, smaller)
        self.identities = TensorIdentities(self.open.beyond_least)
        self.elements = OpenElements(self.open.plain)
        self.ops: list[Op] = []
        self.quiet = 0
        self.answers = False
        self.constants = True
        self.float_constants = float_constants
        self.calls: dict[int, Call] = {}
        self._spoiled: set[int] = set()
        self._given: set[int] = set()
        self._standins: dict[int, Any] = {}
        self._keep: list[Any] = []
        self.leaves: dict[int, Any] = {}
        self.met_leaves = False
        self._worked_out: dict[int, tuple[Any, Any]] = {}
        self._worked_bytes = 0
        self._before: dict[int, tuple[Any, Any]] = {}
        self._stored: dict[int, tuple[Any, Any]] = {}

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Run something without writing its operations down: its caller writes one for all of it."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Answer what a function asks of values that there are none of: no number is too small, and none is zero."""
        self.answers = True
        try:
            yield
        finally:
            self.answers = False

    def on_one_device(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Call a function; one that refuses constants with values beside data gets them, and makes them, without."""
        before = len(self.ops)
        try:
            return func(*args, **kwargs)
        except (RuntimeError, AssertionError) as error:
            is_mixed = len({each.is_meta for each in tensors_in((args, kwargs))}) > 1  # as functorch does not say
            if not (is_mixed or "device" in str(error).lower()) or not self.constants:
                raise
        del self.ops[before:]
        self.constants = False
        try:
            return func(*map_tensors(args, self.shape_of), **map_tensors(kwargs, self.shape_of))
        finally:
            self.constants = True

    def emit(self, priced: Priced, place: SourceLocation | None = None, call: Call | None = None) -> None:
        """Write operations down with the place they come from, and the call that they are made of."""
        if priced is None:
            return
        where = place or self.locations.now()
        tell(*self.locations.share_done(where, self.backward), where.where)
        for op in [priced] if isinstance(priced, Op) else priced:
            op = allowing(op, torch_products(torch, op.kind))
            options = {**op.options, "source": where.source} if where.source else op.options
            placed = replace(op, where=op.where or where.where, phase=where.phase, options=options)
            placed = self.open.plain_op(placed) if self.open else placed
            self.calls.pop(len(self.ops), None)
            if call is not None:
                self.calls[len(self.ops)] = call
                placed = with_views(placed, [(each.tensor, each.layout) for each in operands_in(call.args)])
            self.ops.append(placed)

    def read(self, tensor: Any, role: str | None = None) -> Tensor:
        """Name a tensor that an operation reads."""
        return self.open.plain_tensor(self.identities.read(tensor, role))

    def wrote(self, tensor: Any, **how: bool) -> Tensor:
        """Name a tensor that an operation writes: a new one, or one that is written ``in_place`` or in ``part``."""
        return self.identities.wrote(tensor, _role(), **how)

    def outside_gradients(self, results: Sequence[Any]) -> list[Any]:
        """A gradient of each result: one for a loss, else a tensor from outside, which what comes after writes."""
        with self.silence():
            found = [None if result.dim() == 0 else torch.ones_like(result) for result in results]
        for gradient in (each for each in found if each is not None):
            self.identities.declare(gradient, "gradient", "gradient of the result")
        return [torch.ones_like(result) if g is None else g for g, result in zip(found, results, strict=True)]

    def call(self, name: str, args: Sequence[Any], outs: Sequence[Any] = (), names: Sequence[str] = ()) -> Call:
        """A function that the user called as the call that its rule takes; without results nothing is read yet."""
        operands = tuple(self.argument(value, is_read=bool(outs)) for value in args)
        results = tuple(self.operand(out, self.wrote(out)) for out in outs)
        return Call(f"aten.{name}", name, operands, tuple(names), results)

    def argument(self, value: Any, *, is_read: bool = True) -> Any:
        """An argument as a rule takes it: tensors as operands, open sizes as formulas."""
        if isinstance(value, torch.Tensor):
            return self.operand(value, self.read(value) if is_read else None)
        if isinstance(value, list | tuple):
            return tuple(self.argument(item, is_read=is_read) for item in value)
        if isinstance(value, torch.SymInt | torch.SymFloat):
            return self.open.plain(value)
        return value

    def operand(self, tensor: Any, moved: Tensor | None = None) -> TensorOperand:
        """A tensor as a rule takes it; its values only where they are known."""
        values = tensor if self.known(tensor) else None
        is_sparse, is_own = tensor.layout != torch.strided, values is not None and not self.is_given(tensor)
        is_laid = not is_sparse and not self.identities.is_copy(tensor)
        layout = layout_of(tensor, self.open.plain if self.open else int) if is_laid else None
        kind, formulas = dtype_name(tensor.dtype), self.elements.of(tensor)
        return TensorOperand(self.shape(tensor), kind, moved, is_sparse, values, is_own, layout, formulas=formulas)

    def shape(self, tensor: Any) -> tuple[Any, ...]:
        """The shape of a tensor, of open sizes the formulas."""
        return tuple(map(self.open.plain, tensor.shape)) if self.open else tuple(tensor.shape)

    def packed_weights(self, pack: Any) -> PackedWeights:
        """Weights that PyTorch has packed: they are asked what they hold, and those of a convolution for its window."""
        weight, bias = pack.unpack()
        self._keep.append(pack)  # its id names it for the whole trace

        def held(item: Any, ident: str) -> TensorOperand:
            return self.operand(item, Tensor(ident, tuple(item.shape), dtype_name(item.dtype), "weight"))

        window = packed_window(pack) if hasattr(pack, "stride") else {}
        added = None if bias is None else held(bias, f"pack{id(pack)}.bias")
        return PackedWeights(held(weight, f"pack{id(pack)}"), added, window)

    def known(self, tensor: Any) -> bool:
        """Whether a tensor has values: it is not data, and nothing unknown was written into it."""
        if tensor.is_meta:
            return False
        return not self._spoiled or _address(tensor) not in self._spoiled

    def shape_of(self, tensor: Any) -> Any:
        """The stand-in without values for a tensor that has them; views of one storage stay views of one storage."""
        if _FUNCTORCH.is_batchedtensor(tensor):  # as vmap wraps it
            with outside():
                inner = _FUNCTORCH.get_unwrapped(tensor)
                made = self.shape_of(inner if _FUNCTORCH.is_batchedtensor(inner) else self.leaf_of(inner).detach())
                place = _FUNCTORCH.maybe_get_bdim(tensor), _FUNCTORCH.maybe_get_level(tensor)
                return tensor if inner.is_meta else _FUNCTORCH._add_batch_dim(made, *place)
        if tensor.is_meta or tensor.layout != torch.strided or type(tensor) not in _PLAIN:
            return tensor
        address = _address(tensor)
        storage = self._standins.get(address)
        if storage is None:
            size = tensor.untyped_storage().nbytes()
            base = torch.empty(size, dtype=torch.uint8, device=_META)
            storage = self._standins[address] = base.untyped_storage()
            self._keep.append(tensor.untyped_storage())
            self.identities.alias(base, tensor)
        with outside():
            made = torch.empty(0, dtype=tensor.dtype, device=_META)
            return made.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())

    def leaf_of(self, tensor: Any) -> Any:
        """The stand-in for a module's tensor, or for one with values that has a gradient; others as they are."""
        if not _is_leaf_with_values(tensor):
            return self.leaves.get(id(tensor), tensor)
        self.met_leaves = True
        if id(tensor) not in self.leaves:
            with outside():
                self.leaves[id(tensor)] = self.shape_of(tensor.detach()).requires_grad_()
            self._keep.append(tensor)
            if self.leaf_values and tensor.nbytes <= LARGEST_CONSTANT:
                with outside():
                    values = tensor.detach().clone()
                self._worked_out[id(self.leaves[id(tensor)])] = (self.leaves[id(tensor)], values)
        return self.leaves[id(tensor)]

    def with_values(self, tensor: Any) -> Any:
        """The values of a tensor with a gradient where they were worked out; others as they are."""
        found = self._worked_out.get(id(tensor))
        return tensor if found is None or _address(tensor) in self._spoiled else found[1]

    def values_in(self, given: Any) -> Any:
        """Arguments with the values of all tensors, one with a gradient among them; None where one has none."""
        if not any(id(tensor) in self._worked_out for tensor in tensors_in(given)):
            return None
        held = {id(tensor): self.with_values(tensor) for tensor in tensors_in(given)}
        few = sum(tensor.nbytes for tensor in held.values()) <= LARGEST_CONSTANT
        if not few or not all(map(self.known, held.values())):
            return None
        with outside():
            return map_tensors(given, lambda t: held[id(t)].clone() if held[id(t)] is t else held[id(t)])

    def work_out(self, func: Any, given: Any, values: Any, result: Any, before: int) -> Any:
        """Work out what a function makes of values as well, so that a program can look at it; whole numbers have them.

        What it writes into has values again afterwards. Much work is left out, by the operations since ``before``, and
        large results, together too.
        """
        with outside():
            held = {_address(tensor) for tensor in tensors_in(given)}
            made = sum(tensor.nbytes for tensor in tensors_in(result) if _address(tensor) not in held)
        is_large = made > _FEW_BYTES and self._worked_bytes + made > LARGEST_CONSTANT
        if is_large or count(self.ops[before:]) > _MOST_WORK:
            return result
        self._worked_bytes += made
        with suppress(RuntimeError, TypeError, ValueError, NotImplementedError), outside(), torch.no_grad():
            with torch.random.fork_rng(devices=[]):
                found = func(*values[0], **values[1])
            for out, value in zip(tensors_in(result), tensors_in(found), strict=True):
                self._worked_out[id(out)] = (out, value)
            self._spoiled -= {_address(tensor) for tensor in tensors_in(given) if id(tensor) in self._worked_out}
            if isinstance(result, torch.Tensor) and result.is_meta and holds_integers(result):
                self.identities.alias(found, result)
                return found
        return result

    def remember(self, tensor: Any) -> None:
        """Keep what a tensor holds that the program has not made and is about to write into."""
        if not self.known(tensor) or not self.identities.is_from_outside(tensor) or id(tensor) in self._before:
            return
        with outside():
            address, before = _address(tensor), tensor.detach()
            if address not in self._stored:
                self._stored[address] = (before.untyped_storage(), before.untyped_storage().clone())
            self._before[id(tensor)] = (tensor, before)

    def give_back(self) -> None:
        """Give the tensors that were remembered the values that they had."""
        for storage, values in self._stored.values():
            if storage.nbytes() != values.nbytes():
                storage.resize_(values.nbytes())
            storage.copy_(values)
        for tensor, before in self._before.values():
            tensor.data = before

    def wrapped_on_shapes(self, wrap: Any) -> Any:
        """What functorch wraps tensors by before it differentiates a function of them, on shapes."""

        def shaped(tensor: Any) -> Any:
            if _FUNCTORCH.is_batchedtensor(tensor):
                return self.shape_of(tensor)
            plain = not tensor.is_floating_point() or _FUNCTORCH.is_functorch_wrapped_tensor(tensor)
            return tensor if plain else self.shape_of(self.leaf_of(tensor).detach())

        def wrapping(tree: Any, level: int) -> Any:
            with outside():
                tree = tree_map_only(torch.Tensor, shaped, tree)
            return wrap(tree, level)

        return wrapping

    def chosen(self, index: Any) -> Sequence[Any]:
        """An index, a mask with values as the places it lets through."""
        mask = index is not None and index.dtype in (torch.bool, torch.uint8) and self.known(index)
        return index.nonzero().unbind(1) if mask else (index,)

    def picked(self, name: str, args: Sequence[Any]) -> Sequence[Any]:
        """Arguments of a lookup; of the table the part alone that known indices pick, where it lies evenly."""
        if name not in _PICKS or len(args) <= (place := _PICKS[name]) or is_open(args[0]):
            return args
        chosen = [each for item in args[1] for each in self.chosen(item)] if name == "aten.index" else [args[place]]
        first = args[1] % max(1, args[0].dim()) if place == 2 else 0
        indices = {first + axis: index for axis, index in enumerate(chosen) if index is not None}
        own = [self.known(index) and not self.is_given(index) for index in indices.values()]
        if not all(own) or any(index.numel() > MOST_PLACES for index in indices.values()):
            return args
        table = args[0]
        edges = {axis: edges_of_places((index % table.shape[axis]).numpy()) for axis, index in indices.items()}
        several = [edge for edge in edges.values() if edge is None or edge[1] > edge[0] + 1]
        if None in several or (several and len(edges) > 1):
            return args
        part = [slice(*(edges.get(axis) or (None,))) for axis in range(table.dim())]
        return (table[tuple(part)], *args[1:])

    def give(self, tensors: Sequence[Any]) -> None:
        """Say that these, and what is worked out of them, are examples of what a program is given, values or not."""
        for tensor in tensors:
            if not tensor.is_meta:
                self._keep.append(tensor if tensor.layout != torch.strided else tensor.untyped_storage())
                self._given.add(_address(tensor))

    def is_given(self, tensor: Any) -> bool:
        """Whether a tensor's values are an example of what the program is given."""
        return bool(self._given) and _address(tensor) in self._given

    def own_values(self, tensor: Any) -> Any:
        """A tensor whose values are the program's own, None for any other."""
        return tensor if self.known(tensor) and not self.is_given(tensor) else None

    def fills_part(self, tensor: Any, mask: Any) -> bool:
        """Whether a mask of the program's own says which part of a tensor from outside is written."""
        is_told = self.own_values(mask) is not None or self.elements.of(mask) is not None
        return is_told and self.identities.is_from_outside(tensor)

    def spoil(self, tensor: Any) -> None:
        """Forget a tensor's values: data was written into it."""
        self._keep.append(tensor.untyped_storage())
        self._spoiled.add(_address(tensor))


def packed_window(pack: Any) -> dict[str, Any]:
    """Options of a convolution whose weights PyTorch has packed."""
    words = ("stride", "padding", "dilation", "groups", "output_padding")
    return {"transposed": bool(pack.transpose())} | {word: getattr(pack, word)() for word in words}


def _address(tensor: Any) -> int:
    if tensor.layout != torch.strided:
        return id(tensor)
    return int(tensor.untyped_storage()._cdata)


class DispatchWatcher(TorchDispatchMode):  # type: ignore[misc]
    """Sees every operation of the dispatcher, forward and backward."""

    supports_higher_order_operators = True

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch._C._get_dispatch_mode(_FAKE) is not None:  # shape propagation of a sharded tensor, not the program
            return func(*args, **kwargs)
        if any(kind not in _PLAIN for kind in types):
            return NotImplemented
        if not isinstance(func, torch._ops.OpOverload):
            return self._higher_order(func, args, kwargs)
        with torch._C.DisableTorchFunction():
            traits = traits_of(func)
            if traits.name in _CONCRETE:  # asked below Python, where there are no symbols
                raise SizeError(f"{self._here()}{NEEDS_NUMBERS}", hint="give them numbers")
            if self.recorder.open and registry.find(traits.full_name) is None and func._can_decompose():
                with self:  # with open sizes PyTorch hands over some operations before it takes them apart
                    parts = func.decompose(*args, **kwargs)
                if parts is not NotImplemented:
                    return parts
            return self._seen(traits, func, args, kwargs)

    def _seen(self, traits: OperatorTraits, func: Any, args: Any, kwargs: Any) -> Any:
        """Run one operation on shapes, or on values that are known, and write it down."""
        recorder = self.recorder
        tensors = tensors_in((args, kwargs))
        is_like = traits.name in SHAPED_LIKE and tensors[0].layout == torch.strided
        if tensors and all(recorder.known(tensor) for tensor in tensors):
            result = self._on_values(traits, func, args, kwargs, tensors)
        elif tensors and not is_like:
            result = self._on_shapes(traits, func, args, kwargs, tensors)
        else:
            result = self._from_nothing(traits, func, args, kwargs)
        if not is_like and any(map(recorder.is_given, tensors)):
            recorder.give(tensors_in(result))
        if recorder.open:
            given, written = dict(traits.bound(args, kwargs)), traits.written(args, kwargs)
            recorder.elements.follow(traits.name, given, written, result, recorder.own_values)
        if recorder.quiet:
            recorder.locations.remember()
            if traits.name == "clone":
                recorder.identities.copied(result, args[0])
        else:
            self._record(traits, args, kwargs, tensors, result)
        return result

    def _on_values(self, traits: OperatorTraits, func: Any, args: Any, kwargs: Any, tensors: Sequence[Any]) -> Any:
        """All values are known and few: work them out."""
        total = sum(tensor.nbytes if tensor.layout == torch.strided else 0 for tensor in tensors)
        if traits.value_asked:
            return func(*args, **kwargs)
        open_size = self.recorder.open and _has_open_sizes((args, kwargs))
        if traits.heavy or traits.random or total > LARGEST_CONSTANT or open_size or _is_backward():
            return self._on_shapes(traits, func, args, kwargs, tensors)
        if not traits.is_view and not traits.mutated and total > 4096:
            shapes = map_tensors((args, _on(kwargs, "meta")), self.recorder.shape_of)
            try:
                guess = func(*shapes[0], **shapes[1])
            except (RuntimeError, NotImplementedError):
                guess = None
            if guess is not None and sum(t.nbytes for t in tensors_in(guess)) > LARGEST_CONSTANT:
                return guess
        for value in tensors_in(list(traits.written(args, kwargs))):
            self.recorder.remember(value)
        return func(*args, **_on(kwargs, "cpu"))

    def _on_shapes(self, traits: OperatorTraits, func: Any, args: Any, kwargs: Any, tensors: Sequence[Any]) -> Any:
        """Some values are not known: only shapes go through."""
        recorder = self.recorder
        if traits.value_asked and recorder.locations.now().phase == "optimizer":  # a norm, which scales what follows
            recorder.emit(pricing.move(traits.name, [recorder.read(tensor) for tensor in tensors], ()))
            return 1.0
        if traits.value_asked:
            if recorder.answers:
                return next((op.name for op in reversed(recorder.ops) if op.name in _TESTS), "") in ("ge", "ne")
            raise self._needs_values(traits)
        if traits.name in _OF_ONE_DTYPE and len({t.dtype for t in tensors}) > 1:
            raise self._refused(traits, tensors, "operands of different dtypes", self._one_dtype(tensors))
        if traits.name == "index":
            args = (args[0], [place for item in args[1] for place in recorder.chosen(item)])
            tensors = tensors_in(args)
        written = [value for value in traits.written(args, kwargs) if value is not None]
        shaped_args, shaped_kwargs = map_tensors((args, _on(kwargs, "meta")), recorder.shape_of)
        made = registry.find_shape(traits.full_name)
        result = made(shaped_args, shaped_kwargs) if made is not None else NotImplemented
        if result is not NotImplemented:
            return result
        if traits.name == "masked_select" and recorder.known(args[1]):
            mask = args[1].broadcast_to(torch.broadcast_shapes(*(t.shape for t in tensors)))
            return shaped_args[0].new_empty(int(mask.sum()))
        by_values = traits.shape_from_values
        if by_values and traits.name == "index":  # with masks alone
            by_values = any(t.dtype in (torch.bool, torch.uint8) for t in tensors[1:])
        if by_values:
            raise self._needs_values(traits)
        try:
            if written or traits.is_view or recorder.open:
                result = func(*shaped_args, **shaped_kwargs)
            else:
                result = results_of(func, shaped_args, shaped_kwargs)
        except RooflineError:
            raise
        except (RuntimeError, NotImplementedError, ValueError, TypeError, IndexError, AssertionError) as error:
            raise self._failed(traits, tensors, error) from error
        for value in tensors_in(written):
            recorder.spoil(value)
        return traits.returned(result, args, kwargs) if written else result

    def _from_nothing(self, traits: OperatorTraits, func: Any, args: Any, kwargs: Any) -> Any:
        """A tensor out of nothing: a constant keeps its values if it is small."""
        if not traits.takes_device:
            return func(*args, **kwargs)
        recorder = self.recorder
        guess = func(*args, **_on(kwargs, "meta", force=True))
        is_float = recorder.float_constants and not traits.name.endswith("_like")  # as large as what they are like
        keeps_values = is_float or traits.name == "scalar_tensor" or holds_integers(guess)
        if not recorder.constants or not keeps_values:
            return guess
        is_unknown = recorder.open and (is_open(guess) or _has_open_sizes((args, kwargs)))
        if traits.name in MIDDLES and not is_unknown and guess.numel() == 1:
            return torch.full(guess.shape, MIDDLES[traits.name](args), dtype=guess.dtype)
        if traits.name not in CONSTANT_FACTORIES | SHAPED_LIKE or _is_backward() or is_unknown:
            return guess
        if sum(tensor.nbytes for tensor in tensors_in(guess)) <= LARGEST_CONSTANT:
            return func(*args, **_on(kwargs, "cpu", force=True))
        return guess

    def _record(self, traits: OperatorTraits, args: Any, kwargs: Any, tensors: Sequence[Any], result: Any) -> None:
        recorder = self.recorder
        outs = tensors_in(_wanted(traits, args, kwargs, result))
        if recorder.open and traits.name == "slice_backward" and recorder.shape(outs[0]) == recorder.shape(args[0]):
            recorder.identities.alias(outs[0], args[0])  # of all there is: PyTorch cuts nothing where it knows the size
            recorder.locations.remember()
            return
        if traits.is_view or traits.free or (traits.may_be_view and _shares(tensors, outs)):
            if "empty" in traits.name:
                recorder.identities.allocate(outs, _role())
            recorder.locations.remember()
            return
        given = recorder.picked(traits.full_name, args)
        operands = tuple(
            recorder.packed_weights(value)
            if traits.full_name.startswith("quantized.") and hasattr(value, "unpack")
            else recorder.argument(value, is_read=name not in traits.only_written)
            for name, value in traits.bound(given, kwargs)
        )
        mutated = {id(tensor) for tensor in tensors_in(list(traits.written(args, kwargs)))}
        targets = [*outs, *(tensor for tensor in tensors if id(tensor) in mutated - {id(out) for out in outs})]
        fills = traits.name == "masked_fill" and bool(mutated)
        in_parts = traits.in_parts or (fills and recorder.fills_part(*args[:2]))
        results = tuple(
            recorder.operand(out, recorder.wrote(out, in_place=id(out) in mutated, part=in_parts)) for out in targets
        )
        in_place = bool(targets and args) and targets[0] is args[0]
        pointwise = traits.pointwise
        call = Call(traits.full_name, traits.name, operands, traits.arguments, results, in_place, pointwise)
        priced = registry.price(call, pointwise=pointwise, reduction=traits.reduction)
        if given is not args:  # followed back through the whole table, of which the part is read
            part = next((t.tensor for t in operands[:1] if isinstance(t, TensorOperand)), None)
            call = replace(call, args=(recorder.operand(args[0], part), *operands[1:]))
        recorder.emit(priced, call=call)

    def _higher_order(self, func: Any, args: Any, kwargs: Any) -> Any:
        chosen = registry.find_function(func)
        with self:
            found = NotImplemented if chosen is None else chosen(self.recorder, func, args, kwargs)
        if found is not NotImplemented:
            return found
        hint = "call what it wraps directly, or trace its parts apart"
        raise InputError(f"{self._here()}the higher-order operation {func} has no rule", hint=hint)

    def _here(self) -> str:
        line = self.recorder.locations.line()
        return f"{line}: " if line else ""

    def _needs_values(self, traits: OperatorTraits) -> InputError:
        if traits.value_asked:
            said = "the program asks for the value of a tensor (item(), bool() or a Python number from it)"
            hint = "trace the branch that matters as a function of its own, or pass the value as a Python number"
        else:
            said = f"the shape of the result of {traits.name} depends on values"
            hint = "give integer inputs as real tensors, or trace with a function that states the size"
        return InputError(f"{self._here()}{said}, and only shapes are known", hint=hint)

    def _failed(self, traits: OperatorTraits, tensors: Sequence[Any], error: Exception) -> Exception:
        opened = self.recorder.open
        said = str(error).strip().splitlines()
        reason = opened.named(said[0]) if said else type(error).__name__
        hint = "check the shapes of the inputs"
        if isinstance(error, NotImplementedError) or "meta" in reason.lower():
            hint = "it has no rule for shapes alone; register one with torch.library.register_fake"
        return self._refused(traits, tensors, reason.rstrip("."), hint)

    def _one_dtype(self, tensors: Sequence[Any]) -> str:
        """What would make operands alike: that of them which stands alone takes the dtype of the others."""
        dtypes = [dtype_name(each.dtype) for each in tensors]
        alone = min(dtypes, key=dtypes.count)
        others = next(each for each in dtypes if each != alone)
        shape = [self.recorder.open.plain(n) for n in tensors[dtypes.index(alone)].shape]
        torch_name = str(tensors[dtypes.index(alone)].dtype)
        own = f"; or give the module that of the input, .to({torch_name})"
        return f"give the inputs the dtype of the weights, as in {others}{shape}{own}; or use torch.autocast"

    def _refused(self, traits: OperatorTraits, tensors: Sequence[Any], reason: str, hint: str) -> InputError:
        opened = self.recorder.open
        shapes = ", ".join(f"{dtype_name(t.dtype)}{[opened.plain(n) for n in t.shape]}" for t in tensors)
        return InputError(f"{self._here()}{traits.name}({shapes}) fails: {reason}", hint=hint)


_BY_INDEX = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)


class FunctionWatcher(TorchFunctionMode):  # type: ignore[misc]
    """Sees every function as the user calls it."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder
        self._inside: set[Any] = set()
        self._autocast = Autocast()

    def _device(self, caller: CodeType, func: Any, args: Any) -> Any:
        """What a tensor says its device is: the one the program thinks it runs on.

        Checkpointing compares with what it saw below this watcher, so it gets the truth; where it asks which autocast
        to keep, the device of that. Flex attention has no gradient on CPU, which is no concern of shapes.
        """
        if caller.co_name == "add_device_types" and torch.is_autocast_enabled("cuda"):
            return torch.device("cuda")
        if caller.co_filename.endswith("checkpoint.py"):
            return func(*args)
        if caller.co_name == "_validate_device" and self.recorder.device.type == "cpu":
            return torch.device("cuda")
        return self.recorder.device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func == _DEVICE:
            return self._device(sys._getframe(1).f_code, func, args)
        if func in _ASK_FOR_VALUES:
            args = map_tensors(args, self.recorder.with_values)
        elif any(self.recorder.leaf_of(tensor) is not tensor for tensor in tensors_in((args, kwargs))):
            args, kwargs = map_tensors((args, kwargs), self.recorder.leaf_of)
        if func == _SET_DATA:
            self.recorder.remember(args[0])
        is_outer = self.recorder.leaf_values and not self._inside
        values = self.recorder.values_in((args, kwargs)) if is_outer else None
        if values is None:
            return self._called(func, args, kwargs)
        before, of_functions = len(self.recorder.ops), any(map(callable, tree_leaves((args, kwargs))))
        self._inside |= set() if of_functions else {"values"}  # what it calls of its own is worked out with it
        try:
            result = self._called(func, args, kwargs)
        finally:
            self._inside.discard("values")
        return self.recorder.work_out(func, (args, kwargs), values, result, before)

    def _called(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """What a function gives on shapes."""
        if func is torch.Tensor.to:  # data is where it should be
            args = (args[0], *(args[0].device if _is_device(value) else value for value in args[1:]))
            kwargs = {**kwargs, "device": args[0].device} if kwargs.get("device") is not None else kwargs
        elif func in _BY_INDEX:  # lists, whose values PyTorch would put where the data is
            args = (args[0], _lists_as_tensors(args[1]), *args[2:])
        elif func in _GRADIENTS:  # given as a constant, a gradient has to be where the data is
            kept = _GRADIENTS[func]
            args = (*args[:kept], *map_tensors(args[kept:], self.recorder.shape_of))
            kwargs = {**kwargs, **map_tensors({k: v for k, v in kwargs.items() if "grad" in k}, self.recorder.shape_of)}
        elif _is_device(kwargs.get("device")):
            kwargs = {**kwargs, "device": torch.device("cpu")}
        args, kwargs = self._autocast.arguments(func, args, kwargs)
        chosen = registry.find_function(func)
        if chosen is not None and not self.recorder.quiet and not _transformed() and _plain((args, kwargs)):
            with self:
                found = chosen(self.recorder, func, args, kwargs)
            if found is not NotImplemented:
                return found
        inner = opened(func) if func not in self._inside else None
        if inner is None:
            return self.recorder.on_one_device(func, args, kwargs)
        self._inside.add(func)
        try:
            with self:
                return inner(*args, **kwargs)
        finally:
            self._inside.discard(func)


def _lists_as_tensors(index: Any) -> Any:
    """An index with tensors for lists of whole numbers."""
    if isinstance(index, tuple):
        return tuple(map(_lists_as_tensors, index))
    is_numbers = isinstance(index, list) and index and all(type(each) is int for each in index)
    return torch.tensor(index) if is_numbers else index


def _has_open_sizes(given: Any) -> bool:
    return any(isinstance(value, torch.SymInt) for value in tree_leaves(given))


def _is_backward() -> bool:
    """Whether gradients are worked out now."""
    return bool(torch._C._current_graph_task_id() != -1)


def _role() -> str:
    """What a tensor is that the program makes now."""
    return "gradient" if _is_backward() else "activation"


def _is_leaf_with_values(tensor: Any) -> bool:
    return bool(tensor.requires_grad and tensor.is_leaf and not tensor.is_meta and type(tensor) in _PLAIN)


def _plain(value: Any) -> bool:
    """Whether all tensors are ordinary ones, or causal masks: a sharded one is left to show its local operations."""
    return all(type(tensor) in _PLAIN or type(tensor).__name__ == "CausalBias" for tensor in tensors_in(value))


def _transformed() -> bool:
    """Whether a functorch transformation is in progress, in which a call cannot be taken whole."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def _is_device(value: Any) -> bool:
    """Whether a device is named that PyTorch would look for."""
    named = value.partition(":")[0] if isinstance(value, str) else getattr(value, "type", None)
    return named in _DEVICES


def _on(kwargs: dict[str, Any], device: str, force: bool = False) -> dict[str, Any]:
    """The same keyword arguments with another device."""
    if not force and kwargs.get("device") is None:
        return kwargs
    changed = {**kwargs, "device": torch.device(device)}
    changed.pop("pin_memory", None)
    return changed


def _wanted(traits: OperatorTraits, args: Any, kwargs: Any, result: Any) -> Any:
    """A result without the gradients that nobody asks for, of which shapes alone may be made all the same."""
    mask = dict(traits.bound(args, kwargs)).get("output_mask") if "output_mask" in traits.arguments else None
    if not mask or not isinstance(result, tuple) or len(mask) != len(result):
        return result
    return [each for each, is_wanted in zip(result, mask, strict=True) if is_wanted]


def _shares(inputs: Sequence[Any], outs: Sequence[Any]) -> bool:
    """Whether everything that came out shares a storage with what went in: a view under another name."""
    if not outs or any(t.layout != torch.strided for t in (*inputs, *outs)):
        return False
    held = {t.untyped_storage()._cdata for t in inputs}
    return all(out.untyped_storage()._cdata in held for out in outs)


class WholeOperation(NamedTuple):
    """An operation taken whole: what comes out, what its forward and backward passes cost, and the call that it is."""

    outs: Sequence[tuple[Sequence[int], Any]]
    forward: Callable[[Sequence[Any]], Priced]
    backward: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Priced]
    called: Callable[[Sequence[Any]], Call] | None = None


def run_whole(recorder: Recorder, whole: WholeOperation, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Give the results of an operation that is not taken apart; its gradient is one operation too."""
    place = recorder.locations.now()
    found: tuple[Any, ...] = _WholeFunction.apply(recorder, whole, place, *tensors)
    return found


class _WholeFunction(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, recorder: Recorder, whole: WholeOperation, place: SourceLocation, *tensors: Any) -> Any:
        outs = tuple(torch.empty(tuple(shape), dtype=dtype, device=_META) for shape, dtype in whole.outs)
        recorder.emit(whole.forward(outs), place, whole.called(outs) if whole.called else None)
        ctx.recorder, ctx.whole, ctx.place = recorder, whole, place
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        return outs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        tensors = ctx.saved_tensors
        needed = ctx.needs_input_grad[3:]
        made = [torch.empty_like(t, device=_META) if need else None for t, need in zip(tensors, needed, strict=True)]
        given = [grad for grad in grads if grad is not None]
        place = ctx.place._replace(phase="backward")
        ctx.recorder.emit(ctx.whole.backward(tensors, given, [m for m in made if m is not None]), place)
        return (None, None, None, *made)
