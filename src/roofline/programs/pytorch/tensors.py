"""Tensors of a traced program: those inside arguments, and which is which.

Views share a storage, writing in place makes a version, and dimensions of stride 0 count once.
Of views of one storage it is known which bytes each reaches, so that an operation reads each of them once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from operator import le
from types import MappingProxyType
from typing import Any

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes

from roofline import dtypes
from roofline.frozen import replace
from roofline.programs.pytorch.needs import needed_bytes
from roofline.programs.pytorch.open_sizes import hinted_size
from roofline.programs.regions import as_named, elements_of_stretches, picked_together
from roofline.programs.tensor_parts import Pieces, Stretches, in_one_stretch, pieces
from roofline.sizes import Size, exact_div, floor_div, grouped, is_surely, minimum, product
from roofline.work import Op, Tensor

#: What a program makes out of nothing, and whole numbers that a module holds, keep their values up to this size.
LARGEST_CONSTANT = 64 * 2**20


def tensors_in(value: Any) -> list[Any]:
    """All tensors, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors_in(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_in(item)]
    return []


def map_tensors(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same with every tensor changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(map_tensors(item, change) for item in value)
    if isinstance(value, dict):
        return {key: map_tensors(item, change) for key, item in value.items()}
    return value


def always(answer: Any) -> Callable[..., Any]:
    """What stands in for a function and gives one answer; a mock is slow to make."""
    return lambda *_, **__: answer


def holds_integers(value: Any) -> bool:
    """Whether a result holds whole numbers, which have no gradient."""
    return not any(tensor.is_floating_point() or tensor.is_complex() for tensor in tensors_in(value))


@contextmanager
def outside() -> Iterator[None]:
    """Outside of what watches a program and of functorch's transformations, where a stand-in is made."""
    with temporarily_clear_interpreter_stack(), torch._C.DisableTorchFunction(), _disable_current_modes():
        yield


def is_open(value: Any) -> bool:
    """Whether a size of a result has no number."""
    return any(isinstance(size, torch.SymInt) for tensor in tensors_in(value) for size in tensor.shape)


def tensors_given_back(value: Any, depth: int = 3) -> list[Any]:
    """The plain tensors that a program gives back, those that objects of its own hold (caches) among them."""
    if isinstance(value, torch.Tensor):
        return [value] if type(value) is torch.Tensor else []
    if isinstance(value, list | tuple | set):
        return [tensor for item in value for tensor in tensors_given_back(item, depth)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_given_back(item, depth)]
    held = getattr(value, "__dict__", None)
    if depth == 0 or not isinstance(held, dict) or isinstance(value, torch.nn.Module | type) or callable(value):
        return []
    return tensors_given_back(dict(held), depth - 1)


def dtype_name(dtype: Any) -> str:
    """The name of a torch dtype; one without a name here goes by its width (``uint8`` for ``bits8``)."""
    name = str(dtype).removeprefix("torch.")
    plain = {"qint8": "int8", "quint8": "uint8", "qint32": "int32"}.get(name, name)
    return dtypes.get(plain).name if dtypes.is_dtype(plain) else f"uint{8 * min(dtype.itemsize, 8)}"


@dataclass(slots=True)
class _Storage:
    """What is known of one storage. ``holder`` keeps it alive, so that its address names it for the whole trace."""

    number: int
    holder: Any
    role: str
    label: str
    made: bool
    outside: bool = False
    version: int = 0
    parts: int = 0
    elements: Any = None

    @property
    def base(self) -> str:
        return f"t{self.number}"

    @property
    def ident(self) -> str:
        return self.base + (f".{self.version}" if self.version else "")


class TensorIdentities:
    """Names tensors by storage. Knows which came from outside, and which views of them were read."""

    def __init__(self, plain: Callable[[Any], Size] = hinted_size) -> None:
        self._storages: dict[int, _Storage] = {}
        self._odd: dict[int, tuple[Any, Tensor]] = {}
        self._copies: dict[int, tuple[Any, Any]] = {}
        self._plain = plain
        self._views = ViewsRead(plain)
        self._count = 0

    def declare(self, tensor: Any, role: str, label: str) -> None:
        """Say what a tensor from outside is before anything reads it."""
        found = self._of(tensor)
        if found is not None:
            found.role, found.label, found.elements = role, label, tensor.numel()

    def allocate(self, tensors: Sequence[Any], role: str) -> None:
        """Say that the program made memory, for what it is, that nothing is written to yet."""
        for tensor in tensors:
            self._of(tensor, made=True, role=role)

    def is_from_outside(self, tensor: Any) -> bool:
        """Whether the program did not make the memory of a tensor."""
        try:
            found = self._storages.get(tensor.untyped_storage()._cdata)
        except (NotImplementedError, RuntimeError):
            return False
        return found is None or found.outside

    def weights(self) -> dict[str, Any]:
        """Elements of every parameter that was declared, by the name of its memory."""
        declared = {s.base: s.elements for s in self._storages.values() if s.role == "weight"}
        return {base: elements for base, elements in declared.items() if elements is not None}

    def alias(self, new: Any, old: Any) -> None:
        """Make the storage of ``new`` another handle on that of ``old``."""
        found = self._of(old)
        if found is not None:
            self._storages[new.untyped_storage()._cdata] = found
            found.holder = (found.holder, new.untyped_storage())

    def copied(self, copy: Any, source: Any) -> None:
        """Say that a copy is made inside a function that is taken whole: who reads it later reads its source."""
        if copy.layout == torch.strided:
            storage = copy.untyped_storage()
            self._copies[storage._cdata] = (storage, self._source(source))

    def is_copy(self, tensor: Any) -> bool:
        """Whether a tensor is a copy that a function taken whole made."""
        return self._source(tensor) is not tensor

    def _source(self, tensor: Any) -> Any:
        """What a tensor is a copy of, where a function taken whole made it; else the tensor itself."""
        if not self._copies or tensor.layout != torch.strided:
            return tensor
        return self._copies.get(tensor.untyped_storage()._cdata, (None, tensor))[1]

    def read(self, tensor: Any, role: str | None = None) -> Tensor:
        """Name a tensor that is read."""
        tensor = self._source(tensor)
        found = self._of(tensor)
        if found is None:
            return self._sparse(tensor)
        if role is not None and not found.made and found.role == "activation":
            found.role = role
        ident = found.ident
        if not _covers(tensor):
            ident = self._views.name(ident, tensor, found.made)
        return self._tensor(tensor, ident, found)

    def wrote(self, tensor: Any, role: str = "activation", in_place: bool = False, part: bool = False) -> Tensor:
        """Name a tensor that is written: a new one, a new version of the whole, or a part (of all of it too)."""
        found = self._of(tensor, made=True, role=role)
        if found is None:
            return self._sparse(tensor)
        self._copies.pop(tensor.untyped_storage()._cdata, None)  # the result of a function that is taken whole
        if in_place and not part and _covers(tensor):
            found.version += 1
            found.made = True
        elif in_place and not found.made:
            found.parts += 1
            return self._tensor(tensor, found.ident, found).updated(found.parts - 1)
        written = self._tensor(tensor, found.ident, found)
        if in_place and not part and found.made and not _covers(tensor):  # all of a view is a part of what it shows
            return replace(written, touched=product(written.dims))
        return written

    def made_whole(self, tensors: Sequence[Any]) -> set[str]:
        """Names of the tensors that the program made and of which one of these shows all."""
        return {name for name, views in self._made(tensors).items() if any(map(_covers, views))}

    def made_in_part(self, tensors: Sequence[Any]) -> dict[str, Tensor]:
        """By the name of each other tensor that the program made: as many elements as these show of it."""
        made = {name: views for name, views in self._inner(tensors).items() if not any(map(_covers, views))}
        shown = {name: _shown(views) for name, views in made.items()}
        return {name: Tensor(name, dims, dtype_name(made[name][0].dtype)) for name, dims in shown.items() if dims}

    def gradients_of(self, leaves: Iterable[Any]) -> set[str]:
        """Names of the gradients that these tensors hold, all or a part of which the program made."""
        found = [leaf.grad for leaf in leaves if leaf.is_leaf and leaf.grad is not None]
        return {*self._made([getattr(gradient, "_local_tensor", gradient) for gradient in found])}

    def _made(self, tensors: Sequence[Any]) -> Mapping[str, list[Any]]:
        """The tensors by the name of what they show, where the program made it."""
        held = [(self._of(tensor) if tensor.layout == torch.strided else None, tensor) for tensor in tensors]
        return grouped((storage.ident, tensor) for storage, tensor in held if storage is not None and storage.made)

    def _inner(self, tensors: Sequence[Any]) -> Mapping[str, list[Any]]:
        """The same without what the program writes into tensors from outside: all of that stays."""
        outside = {s.ident for s in self._storages.values() if s.outside}
        return {name: views for name, views in self._made(tensors).items() if name not in outside}

    def needed(
        self,
        ops: Sequence[Op],
        calls: Mapping[int, Any],
        tensors: Sequence[Any],
        results: Set[str],
        least: Mapping[str, int] = MappingProxyType({}),
    ) -> tuple[dict[str, Size], dict[int, Size]]:
        """Elements that are needed of tensors from outside, and those given back that an operation writes in place.

        Results show all or a part of these tensors; the ``results`` are given back whole. ``least`` is what open sizes
        are at least.
        """
        shown: dict[str, list[Stretches]] = {
            name: [region_of(v, self._plain) for v in views] for name, views in self._inner(tensors).items()
        }
        replaced = {f"{s.base}.{n}" if n else s.base for s in self._storages.values() for n in range(s.version)}
        shown |= {name: [] for name in replaced if name not in shown}  # all of it is written again
        outside = {s.base for s in self._storages.values() if not s.made or s.outside}
        written = {s.ident for s in self._storages.values() if s.outside and s.version}
        with torch._C.DisableTorchFunction(), _disable_current_modes():  # masks are looked at, which is no operation
            found = needed_bytes(ops, calls, self._views.region, results | written, shown, outside, least)
        formats: dict[str, set[str]] = defaultdict(set)
        for tensor in (tensor for op in ops for tensor in op.reads):
            formats[tensor.base].add(tensor.dtype)
        needed = {
            name: _elements(found.of_tensors[name], next(iter(kinds)))
            for name, kinds in formats.items()
            if name in outside & found.of_tensors.keys() and len(kinds) == 1
        }
        return needed, {place: _elements(nbytes, ops[place].writes[0].dtype) for place, nbytes in found.given.items()}

    def settle(
        self, ops: Sequence[Op], results: Set[str] = frozenset(), given: Mapping[int, Size] = MappingProxyType({})
    ) -> tuple[Op, ...]:
        """Say what each operation reads of a tensor through its views, and give its last version a role that stays.

        Of what operations write in place, by their places, so many elements are ``given`` back.

        What a norm, dropout and a bag of rows keep for a gradient is written where something reads it or it is among
        the ``results``.
        """
        ops = self._views.settled(ops)
        asked = results | {t.ident for op in ops for t in op.reads}
        storages = {id(s): s for s in self._storages.values()}.values()
        kept = {s.ident for s in storages if s.outside and s.version}
        whole = {t.ident for op in ops for t in op.writes if t.touched is None}
        passing = {f"{s.base}.{n}" for s in storages if s.role == "state" for n in range(1, s.version)}
        before = {f"{s.base}.{n}" if n else s.base for s in storages for n in range(s.version)} - asked

        def written(t: Tensor) -> Tensor:
            t = replace(t, given=0) if t.ident in before else t  # all of it is written again, and nothing read it
            if t.ident not in kept | passing:
                return t
            again = t.touched is not None and t.ident in whole  # a part of what is written whole is not written twice
            return replace(t, role="state" if t.ident in kept else "activation", given=0 if again else t.given)

        def wanted(op: Op) -> Sequence[Tensor]:
            whole = (op.kind != "norm" and op.name not in _KEEPING) or op.name.endswith("backward")
            return (*op.writes[:1], *(t for t in op.writes[1:] if whole or t.ident in asked | kept))

        ops = [_giving(op, given.get(place)) for place, op in enumerate(ops)]
        return tuple(replace(op, writes=tuple(map(written, wanted(op)))) for op in ops)

    def _of(self, tensor: Any, made: bool = False, role: str = "activation") -> _Storage | None:
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return None
        found = self._storages.get(storage._cdata)
        if found is None:
            found = _Storage(self._count, storage, role, "", made, not made)
            self._count += 1
            self._storages[storage._cdata] = found
        return found

    def _tensor(self, tensor: Any, ident: str, found: _Storage) -> Tensor:
        dims = tuple(1 if stride == 0 else size for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        if "float4" in str(tensor.dtype) and dims:
            dims = (*dims[:-1], dims[-1] * 2)
        held = tensor.untyped_storage().nbytes() // max(1, tensor.element_size())
        touched = held if product(dims) > held > 0 else None
        held_in = found.base if ident.startswith(f"{found.base}.") else ""
        return Tensor(ident, dims, dtype_name(tensor.dtype), found.role, touched, found.label, held_in)

    def _sparse(self, tensor: Any) -> Tensor:
        """A tensor without one storage (sparse layouts): its stored values and their indices."""
        if id(tensor) not in self._odd:
            name = f"t{self._count}"
            self._count += 1
            stored = _stored(tensor)
            made = Tensor(name, (stored,), dtype_name(tensor.dtype), "activation", None, f"{tensor.layout}")
            self._odd[id(tensor)] = (tensor, made)
        return self._odd[id(tensor)][1]


#: Operations besides norms whose results behind the first one are for a gradient alone.
_KEEPING = ("native_dropout", "embedding_bag")


def _elements(nbytes: Size, dtype: str) -> Size:
    """As many elements of a format as so many bytes hold."""
    return as_named(floor_div(nbytes * 8, int(dtypes.get(dtype).bits)))


def _giving(op: Op, given: Size | None) -> Op:
    """The operation, so many elements of what it writes given back."""
    first = op.writes[0] if op.writes else None
    if first is None or given is None:
        return op
    return replace(op, writes=(replace(first, given=minimum(given, first.traffic_elements)), *op.writes[1:]))


def _stored(tensor: Any) -> int:
    """Stored values and their indices, in elements of the values' width."""
    held = (
        [tensor._values(), tensor._indices()]
        if tensor.layout == torch.sparse_coo
        else [tensor.values(), *(getattr(tensor, name)() for name in _INDICES[tensor.layout])]
    )
    return int(-(-sum(item.numel() * item.element_size() for item in held) // tensor.element_size()))


#: Where compressed layouts keep their indices.
_INDICES = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}


def _covers(tensor: Any) -> bool:
    """Whether a view reaches every element of its storage."""
    held = tensor.untyped_storage().nbytes() // max(1, tensor.element_size())
    reached = product(n for n, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride != 0)
    return bool(reached >= held)


def _shown(views: Sequence[Any]) -> tuple[Size, ...]:
    """Sizes of what views of one tensor show together; none where several have open sizes."""
    regions = {region_of(view): view for view in views}
    if len(regions) == 1:
        return tuple(n for n, stride in zip(views[0].shape, views[0].stride(), strict=True) if stride != 0) or (1,)
    if is_open(views):
        return ()
    cut = pieces(list(regions))
    reached = max(region.size for region in regions) if cut is None else cut.union(range(len(regions)))
    return (reached // views[0].element_size(),)


def region_of(tensor: Any, plain: Callable[[Any], Size] = hinted_size) -> Stretches:
    """The bytes that a view reaches in its storage; an open size counts as PyTorch takes it, or ``plain`` says."""
    width = tensor.element_size()
    shape, strides = map(plain, tensor.shape), map(plain, tensor.stride())
    pairs = zip(shape, strides, strict=True)
    steps = [(n, stride * width) for n, stride in pairs if not is_surely(le, n, 1) and stride != 0]
    with suppress(TypeError):  # strides of open sizes whose order depends on them
        steps.sort(key=lambda step: -step[1])
    return Stretches(plain(tensor.storage_offset()) * width, (*steps, (width, 1)))


def layout_of(tensor: Any, plain: Callable[[Any], Size] = int) -> tuple[tuple[Size, ...], Size, int]:
    """Where the elements of a tensor lie in its storage: strides, start and width in bytes."""
    width = tensor.element_size()
    return tuple(plain(stride) * width for stride in tensor.stride()), plain(tensor.storage_offset()) * width, width


@dataclass(slots=True)
class _Seen:
    """The views of one tensor that were read, and whether the program made it; ``plain`` are those of open sizes."""

    made: bool
    numbers: dict[Stretches, int] = field(default_factory=dict)
    plain: list[Stretches] = field(default_factory=list)


class ViewsRead:
    """Names the views that a program reads, and says at its end what each operation reads of a tensor."""

    def __init__(self, plain: Callable[[Any], Size] = hinted_size) -> None:
        self._seen: dict[str, _Seen] = {}
        self._plain = plain

    def name(self, ident: str, tensor: Any, made: bool) -> str:
        """The name of a view that reaches a part of the tensor ``ident``."""
        seen = self._seen.setdefault(ident, _Seen(made))
        number = seen.numbers.setdefault(region_of(tensor), len(seen.numbers))
        if number == len(seen.plain):
            seen.plain.append(region_of(tensor, self._plain))
        return f"{ident}[{number}]"

    def region(self, ident: str) -> Stretches | None:
        """The bytes of a view by its name, None for a tensor as a whole."""
        base, bracket, number = ident.partition("[")
        seen = self._seen.get(base)
        if not bracket or seen is None or not number[:-1].isdigit():
            return None
        return seen.plain[int(number[:-1])]

    def settled(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        """The operations; parts of an outside tensor under names of their own, all others under that of the whole.

        What an operation reads of one tensor through several views moves once. Parts of an outside tensor that overlap
        are read as the pieces they have in common and those they have not, unless something reads the tensor whole.
        """
        readers = grouped(pair for op in ops for pair in _by_tensor(op.reads).items())
        change: dict[str, _Whole] = {}
        together: dict[str, Size] = {}
        for ident, seen in self._seen.items():
            read = readers.get(ident, [])
            if seen.made and all(len(views) == 1 for views in read):
                change[ident] = _Whole(ident)
                continue
            cut = pieces(list(seen.numbers))
            apart = cut.apart if cut else not in_one_stretch(list(seen.numbers))
            whole = any(t.ident == ident for views in read for t in views)
            if seen.made or whole or not apart:
                fixed = cut is not None and all(_fixed(t) for views in read for t in views)
                in_pieces = fixed and not seen.made and not whole and len(read) > 1
                plain = seen.plain if seen.plain != list(seen.numbers) else []
                change[ident] = _Whole(ident, list(seen.numbers), cut, in_pieces, apart, not seen.made, plain)
                if plain and not seen.made and not whole and all(t.touched is None for views in read for t in views):
                    together[ident] = change[ident].elements()
        if not change:
            return tuple(ops)
        return picked_together([replace(op, reads=_changed(op.reads, change)) for op in ops], together)


def _by_tensor(reads: Sequence[Tensor]) -> dict[str, list[Tensor]]:
    """What an operation reads by the tensor that it is a view of."""
    return grouped((tensor.base, tensor) for tensor in reads)


def _fixed(tensor: Tensor) -> bool:
    """Whether a number of elements moves, all that the view reaches."""
    return type(tensor.elements) is int and tensor.touched is None


def _changed(reads: Sequence[Tensor], change: Mapping[str, _Whole]) -> tuple[Tensor, ...]:
    """What an operation reads, the views of each tensor together."""
    become = {base: iter(change[base].read(held)) for base, held in _by_tensor(reads).items() if base in change}
    return tuple(
        made for tensor in reads for made in (next(become[tensor.base]) if tensor.base in become else (tensor,))
    )


@dataclass(frozen=True, slots=True)
class _Whole:
    """What an operation reads of one tensor through its views."""

    ident: str
    regions: Sequence[Stretches] = ()
    cut: Pieces | None = None
    in_pieces: bool = False
    apart: bool = False
    outside: bool = False
    plain: Sequence[Stretches] = ()

    def read(self, views: Sequence[Tensor]) -> Sequence[Sequence[Tensor]]:
        """For each of the views that an operation reads, what moves: the bytes of all of them once."""
        numbers = {t.ident: int(t.ident.partition("[")[2][:-1]) for t in views if t.ident != self.ident}
        if self.in_pieces:
            return [self._pieces(views[0], list(numbers.values())), *((),) * (len(views) - 1)]
        named = [replace(t, ident=self.ident) for t in views]
        if len(views) == 1 or not numbers:
            return [(_part(t) if numbers and self.outside else t,) for t in named]
        whole = next((t for t in views if t.ident == self.ident), None)
        if whole is not None:
            return [(_touching(t, whole.traffic_elements),) for t in named]
        if self.cut is not None and all(map(_fixed, views)):
            nbytes = self.cut.union(list(numbers.values()))
            held = [self.regions[numbers[t.ident]].size for t in views]
            moved = [_touching(t, nbytes * t.elements // own) for t, own in zip(named, held, strict=True)]
            return [(_part(t) if self.outside else t,) for t in moved]
        if self.apart:
            amounts = {t.ident: t.traffic_elements for t in views}
            return [(replace(t, touched=sum(amounts.values())),) for t in named]
        if self.plain:
            elements = self.elements(list(numbers.values()))
            return [(replace(t, touched=elements),) for t in named]
        return [(t,) for t in named]

    def elements(self, numbers: Sequence[int] | None = None) -> Size:
        """Elements that views of open sizes reach together, all of them or those of these ``numbers``."""
        read = list(self.plain) if numbers is None else [self.plain[number] for number in numbers]
        return exact_div(as_named(elements_of_stretches(read)), read[0].steps[-1][0])

    def _pieces(self, like: Tensor, views: Sequence[int]) -> Sequence[Tensor]:
        assert self.cut is not None
        own = self.regions[views[0]].size
        return [
            replace(like, ident=f"{self.ident}[{piece}]", dims=(self.cut.sizes[piece] * like.elements // own,))
            for piece in sorted({piece for view in views for piece in self.cut.of[view]})
        ]


def _part(tensor: Tensor) -> Tensor:
    """The tensor as a part of one that is read whole elsewhere."""
    return replace(tensor, touched=tensor.traffic_elements)


def _touching(tensor: Tensor, elements: Size) -> Tensor:
    """The tensor with so many elements of it moved."""
    plain = type(elements) is int and type(tensor.elements) is int and elements == tensor.elements
    return tensor if plain and tensor.touched is None else replace(tensor, touched=elements)
