"""Operations that move bytes and compute little: copies, fills, gathers, scatters, lookups, sorting.

Collectives of torch.distributed: which one, of how many bytes, between which ranks.

Ranks stand in process groups, so that these rules alone ask torch, which has made the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from roofline.frozen import replace
from roofline.ops import linear_algebra
from roofline.ops.convolution import Window, read_by_windows
from roofline.programs.positions import broadcast, worked_out
from roofline.programs.pytorch.registry import Call, Priced, TensorOperand, is_operand, operands_in, pricing, rule
from roofline.programs.rule_table import compared, levels_of, touching
from roofline.programs.tensor_parts import MOST_PLACES, once_each
from roofline.sizes import Size, exact_div, maximum, minimum, product
from roofline.work import Op, Tensor

# What goes in is read, what comes out is written: copies, tensors with a part of them replaced, and the gradients of
# views, which are zero outside it.
rule(
    "clone", "contiguous", "cat", "stack",
    "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
    "replication_pad1d", "replication_pad2d", "replication_pad3d", "roll", "flip", "repeat",
    "_reshape_copy", "view_copy", "permute_copy", "diag_embed", "unfold",
    "channel_shuffle", "pixel_shuffle", "pixel_unshuffle", "_pin_memory", "_conj_physical", "resolve_conj",
    "block_diag", "_chunk_cat",
    "repeat_interleave", "expand_copy", "_unsafe_index", "_to_dense",
    "to_dense", "_to_sparse", "_coalesce", "coalesce", "transpose_copy", "t_copy", "unsqueeze_copy", "squeeze_copy",
    "native_channel_shuffle", "rot90", "tile", "_foreach_copy", "_foreach_clone",
    "_sparse_coo_tensor_with_dims_and_tensors",
    "_sparse_csr_tensor_unsafe", "_sparse_compressed_tensor_unsafe", "to_sparse", "to_sparse_csr",
    "lift_fresh_copy", "alias_copy", "split_with_sizes_copy", "unbind_copy", "split_copy",
    "max_unpool2d", "max_unpool3d", "masked_scatter_backward",
    "_jagged_to_padded_dense_forward", "_padded_dense_to_jagged_forward", "lu_unpack",
    "slice_scatter", "select_scatter", "as_strided_scatter", "slice_backward", "select_backward",
    "diagonal_backward", "_reshape_alias", "as_strided_backward",
)(lambda call: call.move())  # fmt: skip


# Of what was padded only the shape is needed.
rule(*(f"{kind}_pad{d}d_backward" for kind in ("reflection", "replication") for d in (1, 2, 3)))(
    lambda call: call.move(reads=call.read(call.args[0]))
)


@rule("diagonal_copy", "slice_copy", "select_copy", "narrow_copy", "as_strided_copy", "unfold_copy")
def copied_part(call: Call) -> Priced:
    """Read and write the part that is taken."""
    return call.move(reads=touching(call.writes[0].elements, *call.reads))


@rule("diagonal_scatter")
def on_a_diagonal(call: Call) -> Priced:
    """A matrix is copied, but for its diagonal, which is another tensor."""
    matrix, diagonal = call.operands(0, 1)
    beside = (replace(t, needed=t.elements - diagonal.elements) for t in call.read(matrix))
    return call.move(reads=(*beside, *call.read(diagonal)))


@rule("tril", "triu")
def triangle(call: Call) -> Priced:
    """Read a triangle and write it among zeros; in place the zeros alone are written."""
    *batch, m, n = call.operands(0)[0].shape
    kept = product(batch) * linear_algebra.triangle(m, n, call.get("diagonal", 0), upper=call.name == "triu")
    if call.in_place:
        zeros = product(batch) * m * n - kept
        return call.move(reads=(), writes=tuple(_part(t, zeros) for t in call.writes))
    return call.move(reads=touching(kept, *call.reads))


@rule("constant_pad_nd")
def padded(call: Call) -> Priced:
    """Write a tensor among a constant. What a negative padding cuts off is not read."""
    (x,), pads = call.operands(0), call.get("pad", ())
    cut = {x.rank - 1 - place // 2: 0 for place in range(len(pads))}
    for place, pad in enumerate(pads):
        cut[x.rank - 1 - place // 2] += minimum(0, pad)
    kept = product(maximum(0, size + cut.get(place, 0)) for place, size in enumerate(x.shape))
    return call.move(reads=touching(kept, *call.reads))


@rule("im2col")
def windows_apart(call: Call) -> Priced:
    """Lay windows side by side; what lies between windows that stand apart is not read."""
    (x,), kernel = call.operands(0), call.args[1]
    dilation, pad, stride = (call.stated(word, (default,) * 2) for word, default in _IM2COL)
    places = []
    for d, size in enumerate(x.shape[-2:]):
        window = Window(kernel[d], stride[d], pad[d], dilation[d])
        places.append(window.reach(size, window.results(size)))
    return call.move(reads=read_by_windows(call.reads, places)[0])


# A view under another name.
rule("unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk", "_unsafe_view")(lambda call: None)

# A constant is written; nothing is read, not even the tensor after which the result is shaped.
rule(
    "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "fill",
    "zero", "arange", "linspace", "logspace", "eye", "scalar_tensor", "_efficientzerotensor", "tril_indices",
    "triu_indices", "hann_window", "hamming_window", "blackman_window", "bartlett_window", "kaiser_window",
    "_foreach_zero", "_new_zeros_with_same_feature_meta",
)(lambda call: call.move(reads=()))  # fmt: skip


@rule("_to_copy", "_nested_tensor_from_mask")
def converted(call: Call) -> Priced:
    """Convert to another dtype, or copy."""
    same = [t.dtype for t in call.reads] == [t.dtype for t in call.writes]
    return pricing.elementwise("copy" if same else "cast", call.reads, call.writes, name=None if same else "cast")


#: Options of windows that are laid side by side, and what they are where none is given.
_IM2COL = (("dilation", 1), ("padding", 0), ("stride", 1))

#: Random numbers whose probabilities or rates are a tensor.
_OF_CHANCES = ("bernoulli", "multinomial", "poisson", "binomial", "_standard_gamma", "_sample_dirichlet")


@rule(
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "uniform",
    "bernoulli", "exponential", "geometric", "log_normal", "cauchy", "random", "multinomial", "poisson",
    "binomial", "_standard_gamma", "_sample_dirichlet",
)  # fmt: skip
def drawn(call: Call) -> Priced:
    """Draw random numbers. The arithmetic of the generator is not counted; the note says so."""
    reads = call.reads if call.name in _OF_CHANCES else ()
    if call.name == "bernoulli" and "p" in call.names:  # the chance is stated: the tensor itself says only the shape
        reads = call.read(call.operand("p"))
    return call.move(reads=reads, note="the arithmetic of random numbers is not counted")


@rule("copy")
def copied_into(call: Call) -> Priced:
    """Write a tensor into another, all of it or a part."""
    (source,) = call.read(call.args[1])
    function = "copy" if source.dtype == call.writes[0].dtype else "cast"
    return pricing.elementwise(function, (source,), call.writes, name="copy")


@rule("index", "gather", "index_select", "take", "take_along_dim", "_unsafe_masked_index")
def gathered(call: Call) -> Priced:
    """Read the elements that indices name, at most the whole table."""
    (table, *rest), amount = call.reads, call.results[0].elements
    indices = list(operands_in(call.args[1:])) if call.name in ("index", "index_select") else []
    amount = _picked(amount, indices[0]) if len(indices) == 1 else amount
    return call.move(reads=(*touching(amount, table), *rest), kind="gather")


@rule("index_put", "_index_put_impl", "_unsafe_index_put", "_unsafe_masked_index_put_accumulate")
def put(call: Call) -> Priced:
    """Write values where indices name; accumulating reads what was there and adds."""
    target, *masks, indices, values = call.args[: 4 if call.name.startswith("_unsafe_masked") else 3]
    reads = call.read(values, *masks, *indices)
    adds = bool(call.get("accumulate")) or call.name.endswith("accumulate")
    return _scattered(call, reads, _indexed(target, indices), adds)


@rule("scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill", "masked_scatter", "put",
      "index_reduce")  # fmt: skip
def scattered(call: Call) -> Priced:
    """Write values where indices name; adding reads what was there and adds."""
    values = [value for value in call.args[1:] if is_operand(value)]
    sizes = [value.elements for value in (values[:1] if call.name.startswith("scatter") else values)]
    amount = maximum(*sizes) if values else call.results[0].elements  # of what is scattered as much as indices name
    if call.name == "index_fill":  # rows of one value
        target, axis, index = call.args[:3]
        amount = _indexed(target, [*[None] * (axis % max(1, target.rank)), index])
    if call.name.startswith("masked") and is_named(call):
        amount = nonzero_elements(call.args[1], call.results[0].elements)
    adds = call.name in ("scatter_add", "scatter_reduce", "index_add", "index_reduce") or bool(call.get("reduce"))
    reads = call.read(*values)
    if call.name.startswith("scatter"):
        reads = (*reads[:1], *touching(amount, *reads[1:]))
    return _scattered(call, reads, amount, adds)


#: FLOPs an element: a running count of what is chosen; where a histogram's bin lies (x − low)·scale, and its count.
_PICKED = {"masked_select": 1, "nonzero": 1, "nonzero_static": 1, "bincount": 1, "histc": 3, "histogram": 3}


@rule(*_PICKED, "_histogramdd_bin_edges", "_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors")
def selected(call: Call) -> Priced:
    """Read everything, write what is chosen."""
    each = _PICKED[call.name.removeprefix("_").split("dd_")[0]]
    op = call.for_each("gather", call.reads[0].elements, each)
    least = call.get("minlength") if call.name == "bincount" else 0
    return replace(op, note=f"bincount(minlength={least}) meets no value above {least - 1}") if least else op


_WHOLE = ("sort", "argsort", "msort", "unique_dim", "_unique2", "_unique", "unique_consecutive")


@rule(*_WHOLE, "topk", "kthvalue", "median", "nanmedian", "mode")
def sorted_(call: Call) -> Priced:
    """Compare: n·⌈log₂ n⌉ for rows of n sorted whole, n for each row of which only the largest are wanted."""
    (source,) = call.operands(0)
    dim = call.stated("dim", -1)
    n = source.elements if "unique" in call.name else source.shape[-1 if dim is None else dim] if source.rank else 1
    if call.name == "topk" and source.rank:
        return call.for_each("sort", source.elements, compared(n, call.results[0].shape[dim]))
    every = call.name in _WHOLE and call.name != "unique_consecutive"
    return call.for_each("sort", source.elements, levels_of(n) if every else 1)


@rule("searchsorted", "bucketize")
def looked_up(call: Call) -> Priced:
    """Find the place of each value among n that are sorted: ⌈log₂(n + 1)⌉ comparisons each, with as many elements."""
    row, values = call.args[:2] if call.name == "searchsorted" else (call.args[1], call.args[0])
    sought, levels = values.elements if is_operand(values) else 1, levels_of(row.shape[-1] + 1)
    sorted_rows = touching(sought * levels, *call.read(row, call.operand("sorter")))
    reads = (*sorted_rows, *(call.read(values) if is_operand(values) else ()))
    return call.for_each("sort", sought, levels, reads=reads)


def _indexed(target: TensorOperand, indices: Sequence[TensorOperand | None]) -> Size:
    """Elements that a list of indices (None for a whole dimension) names; all of them where it is a mask."""
    chosen = [index for index in indices if index is not None]
    if any(index.dtype in ("bool", "uint8") for index in chosen):
        return target.elements
    shape = broadcast(*(index.shape for index in chosen)) if chosen else ()
    kept = [n for place, n in enumerate(target.shape) if place >= len(indices) or indices[place] is None]
    return product(shape) * product(kept)


#: Operations that write elements, each at a place of its own.
OF_ELEMENTS = ("scatter", "scatter_add", "scatter_reduce", "put", "masked_scatter", "masked_fill")
#: Tensors of more elements are not looked at place by place.
_LARGEST_TARGET = 2**22


def is_replacing(call: Call) -> bool:
    """Whether what a call with indices writes is new, and nothing is read of what was there."""
    if call.name in ("scatter_reduce", "index_reduce"):
        return call.get("include_self") is False
    new = call.name in ("index_copy", "index_fill", "index_put", "scatter", "put", "masked_scatter", "masked_fill")
    return new and not (call.get("accumulate") or call.get("reduce"))


def known_places(indices: TensorOperand) -> Any:
    """Places that indices of the program's own name, in order; None where they are not known."""
    values = indices.values
    if values is None or not indices.is_constant or indices.dtype in ("bool", "uint8"):
        return None
    return None if product(values.shape) > MOST_PLACES else np.asarray(values).reshape(-1)


def known_mask(mask: Any) -> Any:
    """Which elements a mask of the program's own takes; None where that is not known."""
    known = isinstance(mask, TensorOperand) and mask.values is not None and mask.is_constant and mask.dtype == "bool"
    return np.asarray(mask.values) if known and mask.elements <= _LARGEST_TARGET else None


def named_elements(call: Call) -> Any:
    """Where a call writes element by element, as a mask of its result; None where the places are not known."""
    out = call.results[0]
    if call.name not in OF_ELEMENTS or not all(type(n) is int for n in out.shape) or not out.rank:
        return None
    if call.name.startswith("masked"):
        chosen = known_mask(call.args[1])
        return None if chosen is None else np.broadcast_to(chosen, out.shape)
    indices = call.args[1 if call.name == "put" else 2]
    places = known_places(indices)
    if places is None or out.elements > _LARGEST_TARGET:
        return None
    mask = np.zeros(out.shape, bool)
    if call.name == "put":
        mask.reshape(-1)[places % max(1, mask.size)] = True
    else:
        axis, at = call.args[1] % out.rank, list(np.indices(indices.shape))
        at[axis] = places.reshape(indices.shape)
        mask[tuple(at)] = True
    return mask


def is_named(call: Call) -> bool:
    """Whether it is known which elements a call with a mask writes, of an open size by formulas."""
    if named_elements(call) is not None:
        return True
    return getattr(call.args[1], "formulas", None) is not None and (
        nonzero_elements(call.args[1], call.results[0].elements) is not None
    )


def nonzero_elements(operand: Any, every: Size) -> Size | None:
    """How many of so many elements are not 0 in an operand that is spread over them; None where that is not known."""
    if is_operand(operand) and operand.formulas is not None:
        held = worked_out("not_equal", operand.formulas, 0)
        shown = held and held.visible()
        return shown and shown.elements(every)
    if not is_operand(operand) or operand.values is None or type(operand.elements) is not int:
        return None
    return int((operand.values != 0).sum()) * exact_div(every, maximum(1, operand.elements))


def _scattered(call: Call, reads: tuple[Tensor, ...], amount: Size, adds: bool) -> Op:
    """In place only what is named moves; otherwise the target is copied whole first."""
    target = call.read(call.args[0])[0]
    known = named_elements(call) if is_replacing(call) else None
    if known is not None:
        target = replace(target, needed=minimum(target.traffic_elements, int((~known).sum())))
    fresh = not call.in_place
    writes = call.writes if fresh else tuple(_part(t, amount) for t in call.writes)
    before = (target,) if fresh else touching(amount, target) if adds else ()
    size = amount if adds else 0
    return call.vector("scatter", size, amount, one_each=size, reads=(*before, *reads), writes=writes)


def _part(tensor: Tensor, amount: Size) -> Tensor:
    """The written part of a tensor. Of a tensor from outside the part is a tensor of its own."""
    (whole,) = touching(amount, tensor)
    return replace(whole, dims=(whole.touched,), touched=None) if tensor.updates else whole


#: What is said of a lookup.
_ROWS_NOTE = "an embedding reads the rows its indices name, not the whole table"


@rule("embedding")
def embedding(call: Call) -> Priced:
    """Gather one row of a table for every index."""
    table, indices = call.operands(0, 1)
    reads = (*_rows(call.read(table), indices), *call.read(indices))
    return pricing.move("embedding", reads, call.writes, kind="embedding", note=_ROWS_NOTE)


@rule("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag")
def embedding_bag(call: Call) -> Priced:
    """Gather rows and add them up: n − 1 sums for a bag of n, a product each with weights; a mean divides."""
    table, indices = call.operands(0, 1)
    bags = 0 if call.get("mode", 0) == 1 else call.results[0].shape[0]
    weighted = indices.elements if call.operand("per_sample_weights") is not None else 0
    flops = maximum(0, indices.elements - bags + weighted) * table.shape[-1]
    reads = (*_rows(call.read(table), indices), *call.read_without(table))
    bag = replace(call, name="embedding_bag")
    return bag.for_each("embedding", flops, reads=reads, writes=call.writes, note=_ROWS_NOTE)


# Every gradient is added to its row; the dense gradient is written whole.
rule(
    "embedding_dense_backward", "_embedding_bag_dense_backward", "_embedding_bag_backward", "embedding_backward",
)(lambda call: call.for_each("embedding", call.operands(0)[0].elements))  # fmt: skip


@rule("_embedding_bag_per_sample_weights_backward")
def of_sample_weights(call: Call) -> Priced:
    """Each weight's gradient is the product of its row with the gradient of its bag."""
    grad, table, indices = call.operands(0, 1, 2)
    reads = (*call.read(grad), *_rows(call.read(table), indices), *call.read_without(grad, table))
    return call.for_each("embedding", indices.elements * table.shape[-1], 2, reads=reads)


def _rows(tables: Sequence[Tensor], indices: TensorOperand) -> tuple[Tensor, ...]:
    return touching(_picked(indices.elements * (tables[0].dims[-1] if tables[0].dims else 1), indices), *tables)


def _picked(amount: Size, indices: TensorOperand) -> Size:
    """Of so many elements that indices pick those that differ: by those the program knows, or that stand there once."""
    places, strides = known_places(indices), indices.layout[0] if indices.layout else ()
    if places is not None:
        return once_each(amount, places)
    return exact_div(amount, product(size for size, step in zip(indices.shape, strides, strict=False) if step == 0))


#: What each operation does; receiving sends nothing.
KINDS: dict[str, str | None] = {
    **dict.fromkeys(("all_reduce", "allreduce"), "AllReduce"),
    **dict.fromkeys(("all_gather_into_tensor", "allgather", "_allgather_base"), "AllGather"),
    **dict.fromkeys(("reduce_scatter_tensor", "_reduce_scatter_base", "reduce_scatter"), "ReduceScatter"),
    **dict.fromkeys(("all_to_all_single", "alltoall_base", "alltoall"), "AllToAll"),
    "broadcast": "Broadcast", "reduce": "Reduce", "gather": "Gather", "scatter": "Scatter", "send": "Permute",
    "recv": None,
}  # fmt: skip


def _names() -> list[str]:
    plain = [name for name in KINDS if not name.startswith("_")]
    functional = [f"{space}.{name}" for space in ("_c10d_functional", "_c10d_functional_autograd") for name in plain]
    return [*functional, *(f"_c10d_functional.{name}_coalesced" for name in plain), *(f"c10d.{name}" for name in KINDS)]


@rule(*_names())
def collective(call: Call) -> Priced:
    """One collective."""
    name = call.name.removesuffix("_coalesced")
    devices, ranks = members(call.get("group_name", call.get("process_group")))
    devices = size if isinstance(size := call.get("group_size"), int) else devices
    taken = next((call.get(word) for word in _GIVEN if call.get(word) is not None), None)
    reads = call.reads if taken is None else call.read(*operands_in(taken))  # not the results, which are given too
    writes = call.writes or call.read(*operands_in(call.get("output_tensors", call.get("tensors"))))
    does = KINDS[name]
    if does is None or devices == 1:
        return pricing.least_collective(name, reads, writes, does="Permute", nbytes=0, devices=devices)
    given, made = (sum(t.traffic_bytes for t in each) for each in (reads, writes))
    parts = {"AllToAll": max(given, made) * devices, "Gather": given * devices, "Scatter": made * devices}
    nbytes, groups = parts.get(does, max(given, made)), groups_of(devices, ranks)
    return pricing.least_collective(name, reads, writes, does=does, nbytes=nbytes, devices=devices, groups=groups)


#: Names of the input of collectives that write into given tensors.
_GIVEN = ("input_tensor", "input_tensors", "input")


@rule("fsdp.all_gather_copy_in", "fsdp.split_with_sizes_copy", "fsdp.chunk_cat", "fsdp.chunk_cat_mixed_dtype")
def packed(call: Call) -> Priced:
    """Shards of several weights put into one buffer, or taken out of it."""
    writes = call.writes[:1] if call.name == "all_gather_copy_in" else call.writes
    return call.move(reads=call.read(*operands_in(call.args[0])), writes=writes)


# Waiting moves nothing.
rule(
    "_c10d_functional.wait_tensor", "_c10d_functional._wrap_tensor_autograd", "_c10d_functional_autograd.wait_tensor",
    "c10d.barrier", "c10d.monitored_barrier_",
)(lambda call: None)  # fmt: skip


def members(group: Any) -> tuple[int, list[int]]:
    """How many devices a process group (or its name) has, and their ranks where they are known."""
    import torch.distributed as dist

    if isinstance(group, str):
        from torch.distributed.distributed_c10d import _resolve_process_group

        group = _resolve_process_group(group)
    elif group is not None and not isinstance(group, dist.ProcessGroup):
        try:
            group = dist.ProcessGroup.unbox(group)
        except (AttributeError, RuntimeError, TypeError):
            group = None
    size = group.size() if group is not None else dist.get_world_size() if dist.is_initialized() else 1
    try:
        return size, list(dist.get_process_group_ranks(group))
    except (KeyError, RuntimeError, ValueError):
        return size, []


def groups_of(devices: int, ranks: list[int]) -> list[tuple[str, int, int]]:
    """Ranks with one stride as a group; no group for other ranks, or where not all are known."""
    steps = {after - before for before, after in pairwise(sorted(ranks))}
    return [("", len(ranks), steps.pop())] if len(ranks) == devices and len(steps) == 1 else []
