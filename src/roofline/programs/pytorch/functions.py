"""Functions as a user calls them, taken before PyTorch takes them apart, and shapes PyTorch cannot say.

Attention as the user calls it: whole, whichever kernel would run, and its gradient as one operation too.

Layers that are taken whole: products, norms, poolings, dropout, recurrent layers, packed sequences, transforms.

Control flow as one operation: torch.cond, while_loop, scan and map run what they hold, as often as it runs.

Shapes of results, for operations that PyTorch cannot run on shapes alone.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from math import prod
from typing import Any
from unittest import mock

import torch
import torch._higher_order_ops.map
import torch._higher_order_ops.scan
import torch.nn.functional as F
from torch._decomp.decompositions import upsample_compute_output_size
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.scan import scan_op
from torch.nested._internal import sdpa as nested_attention
from torch.nested._internal.nested_tensor import NestedTensor, nested_view_from_values_offsets_lengths
from torch.utils._python_dispatch import _disable_current_modes

from roofline.errors import InputError
from roofline.frozen import replace
from roofline.ops import pricing
from roofline.ops.attention import AttentionSizes, attention
from roofline.ops.einsum import einsum_operations, operand_letters
from roofline.ops.masks import CAUSAL
from roofline.programs.pytorch.operators import opened
from roofline.programs.pytorch.recorder import Recorder, WholeOperation, packed_window, run_whole
from roofline.programs.pytorch.registry import ATTENTION_BACKWARD, Call, function, price, shape
from roofline.programs.pytorch.rules.sequences import (
    UNKNOWN_NOTE,
    attention_sizes,
    keys_seen,
    let_through,
    recurrence_of,
    with_mask,
)
from roofline.programs.pytorch.rules.sequences import forward as recurrent_forward
from roofline.programs.pytorch.tensors import always, dtype_name, is_open, map_tensors, outside, tensors_in
from roofline.programs.rule_table import branch_cost
from roofline.sizes import Size, exact_div, maximum, product
from roofline.work import Op, Tensor, Work

#: The largest square of queries and keys that a mask function is asked about.
LARGEST_MASK = 2**27


def attend(
    recorder: Recorder,
    name: str,
    tensors: Sequence[Any],
    sizes: AttentionSizes,
    outs: Any,
    mask: Any = None,
    causal: bool = False,
) -> Any:
    """Run one attention whole, its gradient too: 5 matmuls, or 4 where its probabilities are written and kept.

    A bias that is learned has a gradient: those of the scores, added up over what it is the same for.
    """
    learned = [mask] if isinstance(mask, torch.Tensor) and mask.requires_grad else []
    extra = [recorder.read(mask)] if mask is not None else []
    keeps = not recorder.recompute_attention and torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    dtype = dtype_name(tensors[0].dtype)
    kept = [Tensor(f"probabilities{len(recorder.ops)}", (sizes.pairs,), dtype, "activation")] if keeps else []

    def forward(made: Sequence[Any]) -> Op:
        q, k, v = tensors[:3]
        reads = (recorder.read(q), recorder.read(k, "kv"), recorder.read(v, "kv"), *extra)
        return attention(name, reads, [*map(recorder.wrote, made), *kept], sizes)

    def backward(saved: Sequence[Any], grads: Sequence[Any], made: Sequence[Any]) -> Op:
        grad, q, k, v, *rest = [recorder.read(t) for t in (*grads, *saved)]
        matmuls = ATTENTION_BACKWARD if recorder.recompute_attention else ATTENTION_BACKWARD - 1
        reads = (q, k, v, grad, *rest, *([] if learned else extra), *kept)
        op = attention(f"{name}_backward", reads, [recorder.wrote(t) for t in made], sizes, matmuls=matmuls)
        sums = sum(maximum(0, sizes.pairs - product(recorder.shape(bias))) for bias in learned)
        return replace(op, work=op.work + Work.flops("vector", dtype, sums)) if learned else op

    def called(made: Sequence[Any]) -> Call:
        given = [*tensors, *([] if mask is None else [mask]), causal]
        return recorder.call(name, given, made[:1], (*(str(at) for at in range(len(given) - 1)), "is_causal"))

    return run_whole(recorder, WholeOperation(outs, forward, backward, called), [*tensors, *learned])


@function(F.scaled_dot_product_attention, torch.ops.aten.scaled_dot_product_attention.default)
def sdpa(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Attention whole, whichever kernel would run."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = dict(zip(names, args, strict=False)) | kwargs
    q, k, v, mask = given["query"], given["key"], given["value"], given.get("attn_mask")
    bias = mask if type(mask).__name__ == "CausalBias" else None
    if bias is not None:
        given["is_causal"], mask = bias.variant.name == "UPPER_LEFT", None
    causal = bool(given.get("is_causal"))
    _check(recorder, func, q, k, v, given)
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        looked_at = None if mask is None else recorder.operand(mask)
        sizes = attention_sizes([recorder.shape(item) for item in (q, k, v)], looked_at, causal)
    if bias is not None and not causal:
        pairs = sizes.batch * sizes.heads * CAUSAL.pairs(sizes.q_length, sizes.kv_length)
        sizes = sizes._replace(pairs=pairs, note="causal attention, the last query at the last key")
    shape = (*torch.broadcast_shapes(q.shape[:-3], k.shape[:-3]), *q.shape[-3:-1], v.shape[-1])
    shape = shape if q.dim() > 2 else (q.shape[0], v.shape[-1])
    outs = [(shape, q.dtype)]
    return attend(recorder, "scaled_dot_product_attention", (q, k, v), sizes, outs, mask, causal)[0]


@function(torch.ops.higher_order.flex_attention)
def flex(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Flex attention: the pairs its mask function lets through; what its score function does is not counted."""
    q, k, v, score, block, *_ = args
    sizes = attention_sizes([recorder.shape(item) for item in (q, k, v)])
    pairs, keys, note = _block_pairs(recorder, block, q.shape[-2], k.shape[-2], sizes)
    if score is not None and getattr(score, "__name__", "") != "_identity":
        note += ("; " if note else "") + "the score function of flex attention is not counted, nor what it reads"
    sizes = sizes._replace(pairs=pairs, keys=keys, note=note)
    stats = (q.shape[:-1], torch.float32)
    outs = [((*q.shape[:-1], v.shape[-1]), q.dtype), stats, stats]
    return attend(recorder, "flex_attention", (q, k, v), sizes, outs)


def _check(recorder: Recorder, func: Any, q: Any, k: Any, v: Any, given: dict[str, Any]) -> None:
    """Let PyTorch refuse shapes that do not fit."""
    shared = q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2]
    grouped = given.get("enable_gqa") or q.dim() < 3 or k.dim() < 3 or k.shape[-3] in (1, q.shape[-3])
    if shared and grouped and q.dtype == k.dtype == v.dtype:
        return
    with recorder.silence():
        func(q, k, v, enable_gqa=bool(given.get("enable_gqa")))


@contextmanager
def on_shapes() -> Iterator[None]:
    """Let a program make causal biases and attend over nested tensors, which PyTorch does not do while it is watched.

    A nested tensor (``torch.jagged``) takes the kernel for packed sequences, as it does on a GPU. Where its sequences
    end are values, which its data has none of: PyTorch is told that both are on one device.
    """
    bias = getattr(sys.modules.get("torch.nn.attention.bias"), "CausalBias", None)

    def new(cls: Any, *args: Any) -> Any:
        with _disable_current_modes():
            return torch.Tensor._make_subclass(cls, torch.empty(0))

    make = NestedTensor.__new__

    def nested(cls: Any, *args: Any, **kwargs: Any) -> Any:
        with mock.patch.object(torch.Tensor, "device", property(lambda tensor: torch.device("meta")), create=True):
            return make(cls, *args, **kwargs)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(NestedTensor, "__new__", nested))
        if bias is not None:
            stack.enter_context(mock.patch.object(bias, "__new__", new))
        stack.enter_context(mock.patch.object(nested_attention, "_is_computing_meta_flops", always(True)))
        stack.enter_context(mock.patch.object(nested_attention, "_select_sdp_backend", always(None)))
        yield


_NOT_LOOKED_AT = "the mask of flex attention depends on data: every score is counted"
_LOOKED_AT = "the mask of flex attention is looked at: scores it lets through count"


def _block_pairs(
    recorder: Recorder, block: Sequence[Any], S: Any, T: Any, sizes: AttentionSizes
) -> tuple[Size, Size, str]:
    """Ask the mask function of a flex attention about every pair, one batch entry and head at a time.

    Gives the pairs, the keys of one head that some query sees on average, and what is to be said.
    """
    full, is_visible, counts = sizes.pairs, block[-1], block[2]
    batches, heads = (counts.shape[0], counts.shape[1]) if counts is not None else (1, 1)
    if any(isinstance(size, torch.SymInt) for size in (S, T, batches, heads)):  # formulas say it of positions
        chosen = None
        with recorder.silence(), suppress(RuntimeError, NotImplementedError, IndexError):
            if (batches, heads) == (1, 1):
                first = torch.zeros((), dtype=torch.int64)
                seen = is_visible(first, first, torch.arange(S)[:, None], torch.arange(T)[None, :])
                chosen = let_through(recorder.operand(seen))
        under = sizes._replace(note=UNKNOWN_NOTE) if chosen is None else with_mask(sizes, chosen)
        said = {"": "", UNKNOWN_NOTE: _NOT_LOOKED_AT}.get(under.note, _LOOKED_AT)
        return under.pairs, sizes.kv_length if under.keys is None else under.keys, said
    if not callable(is_visible) or S * T > LARGEST_MASK:
        return full, T, "the mask of flex attention is too large to look at: every score is counted"
    total, read = 0, []
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        rows, columns = torch.arange(S)[:, None], torch.arange(T)[None, :]
        try:
            for b in range(batches):
                for h in range(heads):
                    seen = is_visible(torch.tensor(b), torch.tensor(h), rows, columns)
                    seen = torch.broadcast_to(seen, (S, T))
                    total += int(seen.sum().item())
                    read.append(seen.any(0))
        except (RuntimeError, NotImplementedError, IndexError):
            return full, T, _NOT_LOOKED_AT
        keys = keys_seen(torch.stack(read).unflatten(0, (batches, heads)).numpy(), sizes.heads, sizes.kv_heads, T)
    found = total * exact_div(sizes.batch, batches) * exact_div(sizes.heads, heads)
    return found, keys, "" if found == full else _LOOKED_AT


def nested_input(values: Any, given: Any) -> Any:
    """A nested tensor over other values, its sequences as long as those of the one that is given."""
    lengths = {"lengths": given.lengths(), "ragged_idx": given._ragged_idx}
    with on_shapes():
        return nested_view_from_values_offsets_lengths(values, given.offsets(), **lengths)


# Every tensor of a trace is already where it should be.
function(torch.Tensor.cuda, torch.Tensor.cpu)(lambda recorder, func, args, kwargs: args[0])

# The encoder's question whether it may skip padding: it may not, since that needs values.
function(torch._nested_tensor_from_mask_left_aligned)(lambda recorder, func, args, kwargs: False)


@function(F.linear)
def linear(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A linear layer whole; with a sparse weight it is the products the dispatcher runs."""
    names = ("input", "weight", "bias")
    given = dict(zip(names, args, strict=False)) | kwargs
    operands = [given.get(name) for name in names]
    return NotImplemented if _is_sparse(*operands) else _whole(recorder, func, args, kwargs, "linear", operands, names)


def _whole(
    recorder: Recorder, func: Any, args: Any, kwargs: Any, name: str, operands: Sequence[Any],
    names: Sequence[str] = (), shown: str = "",
) -> Any:  # fmt: skip
    """Run a function and write one operation down for all of it, under its name or the one that is ``shown``."""
    with recorder.silence():
        out = func(*args, **kwargs)
    call = recorder.call(name, operands, [out], names)
    op = price(call)
    recorder.emit(replace(op, name=shown) if shown and isinstance(op, Op) else op, call=call)
    return out


@function(
    torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.mm, torch.Tensor.mm, torch.bmm, torch.Tensor.bmm
)
def matmul(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A matrix product whole: broadcasting copies nothing."""
    two = "out" not in kwargs and len(args) == 2 and all(isinstance(item, torch.Tensor) for item in args)
    if not two or _is_sparse(*args):
        return NotImplemented
    return _whole(recorder, func, args, kwargs, "matmul", args, shown=func.__name__.strip("_"))


@function(torch.einsum)
def einsum(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A sum over products of one or two operands whole; more go pair by pair as PyTorch orders them.

    Of open sizes each choice of an order is a branch of the program.
    """
    operands = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
    chosen = torch.backends.opt_einsum
    if len(operands) > 2 and isinstance(args[0], str) and recorder.open and chosen.is_available() and chosen.enabled:
        words, result = operand_letters(args[0], [item.dim() for item in operands])
        sizes = defaultdict[str, Any](lambda: 1)
        for word, item in zip(words, operands, strict=True):
            sizes.update((label, size) for label, size in zip(word, item.shape, strict=True) if size != 1)
        order = chosen.get_opt_einsum().paths.get_path_fn(chosen.strategy)
        pairs = order([*map(frozenset, words)], frozenset(result), sizes)
        return torch._VF.einsum(args[0], operands, path=[place for pair in pairs for place in pair])
    if len(operands) > 2 or not isinstance(args[0], str) or _is_sparse(*operands):
        return NotImplemented
    with recorder.silence():
        out = func(*args, **kwargs)
    words, _ = operand_letters(args[0], [item.dim() for item in operands])
    shares = any(out.untyped_storage()._cdata == item.untyped_storage()._cdata for item in operands)
    if any(len(set(word)) != len(word) for word in words) or shares:  # a diagonal, or a view: letters in another order
        return NotImplemented
    call = recorder.call("einsum", [args[0], *operands], [out])
    ops = einsum_operations("einsum", args[0], [recorder.read(item) for item in operands], call.writes)
    recorder.emit(ops[0] if len(ops) == 1 else ops, call=call)
    return out


@function(torch.linalg.multi_dot, torch.chain_matmul)
def chain(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Products of matrices in the cheapest order; of open sizes each choice of one is a branch of the program."""
    tensors = list(args[0] if isinstance(args[0], list | tuple) else args)
    if not (recorder.open and any(map(is_open, tensors))):
        return NotImplemented
    ends = [tensor.dim() == 1 for tensor in (tensors[0], tensors[-1])]
    tensors[0] = tensors[0][None] if ends[0] else tensors[0]
    tensors[-1] = tensors[-1][:, None] if ends[1] else tensors[-1]
    sizes = [tensors[0].shape[0], *(tensor.shape[1] for tensor in tensors)]

    @cache
    def cheapest(first: int, last: int) -> tuple[Any, Callable[[], Any]]:
        """Multiplications of the product of some of them, and how it is made."""
        if first == last:
            return 0, lambda: tensors[first]
        halves = [(cheapest(first, at), cheapest(at + 1, last), sizes[at + 1]) for at in range(first, last)]
        ways = [(one[0] + other[0] + sizes[first] * n * sizes[last + 1], one[1], other[1]) for one, other, n in halves]
        cost, one, other = min(ways, key=lambda way: way[0])
        return cost, lambda: torch.mm(one(), other())

    found = cheapest(0, len(tensors) - 1)[1]()
    found = found[:, 0] if ends[1] else found
    return found[0] if ends[0] else found


@function(torch.kron)
def kron(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Each element of one tensor times another, as PyTorch does it where sizes have numbers."""
    if not (recorder.open and any(map(is_open, args))):
        return NotImplemented
    rank = max(tensor.dim() for tensor in args)
    shapes = [[1] * (rank - tensor.dim()) + list(tensor.shape) for tensor in args]
    outer, inner = ([own for n in shape for own in ((n, 1), (1, n))[at]] for at, shape in enumerate(shapes))
    pairs = zip(*shapes, strict=True)
    return (args[0].reshape(outer) * args[1].reshape(inner)).reshape([one * other for one, other in pairs])


@function(F.one_hot)
def one_hot(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Without PyTorch's checks of the values, which it makes on shapes where a size is open."""
    index, classes = args[0], kwargs.get("num_classes", args[1] if len(args) > 1 else -1)
    if not is_open(index) or classes < 1:
        return NotImplemented
    return (index[..., None] == torch.arange(classes)).long()


@function(out_dtype)
def widened(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A product of bytes added up in 32 bits, as torchao asks for it."""
    called, dtype, *given = args
    of_bytes = called is torch.ops.aten.mm.default and all(item.dtype == torch.int8 for item in given)
    return torch._int_mm(*given) if of_bytes and dtype == torch.int32 else NotImplemented


def _is_sparse(*operands: Any) -> bool:
    return any(item is not None and item.layout != torch.strided for item in operands)


@function(F.rms_norm, torch.rms_norm)
def rms_norm(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """An RMS norm whole, where PyTorch has no kernel of its own for it."""
    names = ("input", "normalized_shape", "weight", "eps")
    given = dict(zip(names, args, strict=False)) | kwargs
    x, shape, weight = given["input"], given["normalized_shape"], given.get("weight")
    lengths = (shape,) if isinstance(shape, int) else tuple(shape) if isinstance(shape, list | tuple) else None
    if lengths is None or tuple(x.shape[-len(lengths) :]) != lengths:
        return NotImplemented
    tensors = [x] if weight is None else [x, weight]

    def called(outs: Sequence[Any]) -> Call:
        return recorder.call("rms_norm", [x, lengths, weight], outs, names)

    def backward(saved: Sequence[Any], grads: Sequence[Any], made: Sequence[Any]) -> Op:
        reads = [recorder.read(t) for t in (*grads, *saved)]
        writes = [recorder.wrote(t) for t in made]
        asked = {"elements": x.numel(), "of_input": x.requires_grad and made[0].shape == x.shape}
        return pricing.norm_backward("rms_norm", "rms_norm_backward", reads, writes, **asked)

    whole = WholeOperation([(x.shape, x.dtype)], lambda outs: price(called(outs)), backward, called)
    return run_whole(recorder, whole, tensors)[0]


@function(torch.max_pool1d, torch.max_pool2d, torch.max_pool3d, F.max_pool1d, F.max_pool2d, F.max_pool3d,
          F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)  # fmt: skip
def max_pool(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Without a gradient the indices of the largest elements are not written."""
    x = args[0] if args else kwargs["input"]
    if recorder.open and func in (torch.max_pool1d, F.max_pool1d):
        return _pooled_in_a_row(x, *args[1:], **{name: value for name, value in kwargs.items() if name != "input"})
    if x.requires_grad and torch.is_grad_enabled():
        return NotImplemented
    before = len(recorder.ops)
    with torch._C.DisableTorchFunction():
        out = func(*args, **kwargs)
    recorder.ops[before:] = [replace(op, writes=op.writes[:1]) for op in recorder.ops[before:]]
    return out


def _pooled_in_a_row(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """Pooling along one dimension as an image of one row: of open sizes PyTorch's own takes the numbers."""
    sizes = (kernel_size, stride or kernel_size, padding, dilation)
    single = [size if isinstance(size, int) else size[0] for size in sizes]
    size, step, pad, apart = ((beside, own) for beside, own in zip((1, 1, 0, 1), single, strict=True))
    return F.max_pool2d(x.unsqueeze(-2), size, step, pad, apart, ceil_mode=ceil_mode).squeeze(-2)


@function(F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
def adaptive_mean_pool(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Adaptive pooling to one element is a mean to PyTorch; here it stays what the user called."""
    return _whole(recorder, func, args, kwargs, func.__name__, [args[0] if args else kwargs["input"]])


#: Functions that resample, and take sizes or factors.
_RESAMPLING = [name for name in dir(torch._C._nn) if re.fullmatch(r"_?upsample_\w+\dd(_aa)?", name)]


@function(*(getattr(torch._C._nn, name) for name in _RESAMPLING))
def upsample(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Resampling whole where sizes are open: PyTorch takes it apart then, into lookups of every neighbour."""
    if not recorder.open or kwargs or len(args) < 3 or not isinstance(args[-1], list | tuple | None):
        return NotImplemented
    x, size, name = args[0], upsample_compute_output_size(args[0].shape, args[1], args[-1]), func.__name__

    def called(outs: Sequence[Any]) -> Call:
        return recorder.call(name, [x], outs)

    def backward(saved: Sequence[Any], grads: Sequence[Any], made: Sequence[Any]) -> Any:
        return price(recorder.call(f"{name}_backward", list(grads), made))

    whole = WholeOperation([((*x.shape[:2], *size), x.dtype)], lambda outs: price(called(outs)), backward, called)
    return run_whole(recorder, whole, [x])[0]


@function(torch.dropout, torch.feature_dropout, torch.alpha_dropout, torch.feature_alpha_dropout)
def dropout(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Outside training, or with p = 0, dropout gives what it got at no cost; while training it is one kernel."""
    given = dict(zip(("input", "p", "train"), args, strict=False)) | kwargs
    if not given["train"] or given["p"] == 0:
        return given["input"]
    plain = func is torch.dropout and given["p"] < 1 and not recorder.known(given["input"])
    return torch.native_dropout(given["input"], given["p"], True)[0] if plain else NotImplemented


@function(torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu, torch._VF.lstm, torch._VF.gru)
def recurrent(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A recurrent layer over a sequence; the lengths of a packed one are its batch sizes."""
    is_packed = isinstance(args[3], list | tuple)
    state, weights = args[2:4] if is_packed else args[1:3]
    state = list(state) if isinstance(state, list | tuple) else [state]
    x, first = args[0], 1 + len(state)
    layer = recurrence_of(recorder.call(func.__name__, args))
    width = weights[layer.parts - 1].shape[0] if layer.is_projected else weights[1].shape[1]  # in PyTorch's own sizes
    shapes = ((*x.shape[:-1], width * layer.directions), *(t.shape for t in state))
    outs = list(zip(shapes, (x.dtype, *(item.dtype for item in state)), strict=True))
    held: list[Tensor] = []
    calls: list[Call] = []

    def forward(made: Sequence[Any]) -> list[Op]:
        call = recorder.call(func.__name__, args, made)
        calls.append(call)
        held[:] = layer.layer_inputs(call.read(call.args[0])[0], call.writes[0])
        return recurrent_forward(call, recurrence_of(call))

    def backward(saved: Sequence[Any], grads: Sequence[Any], made: Sequence[Any]) -> list[Op]:
        wanted = [t.requires_grad for t in saved]
        fresh = iter(made)
        out = {i: recorder.wrote(next(fresh)) for i, need in enumerate(wanted) if need}
        given = [recorder.read(t) for t in grads]
        found = []
        for index in reversed(range(layer.layers * layer.directions)):
            own, number = layer.own(index), index // layer.directions
            place = first + index * layer.parts
            below = wanted[0] if number == 0 else any(wanted[: first + number * layer.directions * layer.parts])
            above = given if number == layer.layers - 1 else [layer.between(held[-1], number, "_gradient")]
            writes = [out[i] for i in range(place, place + layer.parts) if i in out]
            if below and number:
                writes.append(layer.half(layer.between(held[-1], number - 1, "_gradient")))
            elif below and index == 0:
                writes.append(out[0])
            writes += [replace(out[i], touched=product(saved[i].shape[1:])) for i in range(1, first) if i in out]
            reads = (*above, *(recorder.read(saved[i]) for i in range(place, place + layer.parts)))
            macs = sum(own[i].elements * (int(wanted[place + i]) + int(below or i > 0)) for i in layer.products())
            cost = layer.cell(f"{layer.kind}_backward[{layer.label(index)}]", own, macs, passes=2)
            both = dict.fromkeys((held[number + 1], held[number]))
            found.append(replace(cost, reads=(*reads, *both), writes=tuple(writes)))
        return found

    whole = WholeOperation(outs, forward, backward, lambda _: calls[-1])
    return run_whole(recorder, whole, [x, *state, *weights])


@function(torch._VF._pack_padded_sequence)
def pack_padded_sequence(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Rows of sequences, longest first, step by step, and how many sequences each step has."""
    x, lengths, batch_first = args
    if not recorder.known(lengths):
        return NotImplemented
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        if (lengths < 1).any() or (lengths.diff() > 0).any() or lengths.max() > x.shape[1 if batch_first else 0]:
            return NotImplemented
        sizes = (lengths[None, :] > torch.arange(int(lengths.max()))[:, None]).sum(1)
        shape = (int(lengths.sum()), *x.shape[2:])
    return _moved(recorder, "pack_padded_sequence", x, shape, prod(shape)), sizes


@function(torch._VF._pad_packed_sequence)
def pad_packed_sequence(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The inverse: a padded tensor, and the length of each sequence."""
    x, sizes, batch_first, _, total = args
    if not recorder.known(sizes):
        return NotImplemented
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        lengths = (sizes[:, None] > torch.arange(int(sizes[0]))[None, :]).sum(0)
        count = len(sizes)
        if 0 < total < count:
            return NotImplemented
        lead = (max(total, count), int(sizes[0]))
    shape = (*(reversed(lead) if batch_first else lead), *x.shape[1:])
    return _moved(recorder, "pad_packed_sequence", x, shape, x.numel()), lengths


def _moved(recorder: Recorder, name: str, x: Any, shape: Sequence[int], amount: int) -> Any:
    """Copy ``amount`` elements of x into a new shape; its gradient goes the same way back."""

    def forward(outs: Sequence[Any]) -> Op:
        read = recorder.read(x)
        writes = [recorder.wrote(out) for out in outs]
        return pricing.move(name, [replace(read, touched=min(amount, read.elements))], writes)

    def backward(saved: Sequence[Any], grads: Sequence[Any], made: Sequence[Any]) -> Op:
        reads = [recorder.read(grad) for grad in grads]
        return pricing.move(f"{name}_backward", reads, [recorder.wrote(t) for t in made])

    return run_whole(recorder, WholeOperation([(shape, x.dtype)], forward, backward), [x])[0]


@function(F.gaussian_nll_loss, torch.cov, torch.Tensor.cov, torch._VF.stft, torch._VF.istft)
def checked(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Functions that refuse some values, which they look at: none is refused. Windows go in as shapes."""
    inner = opened(func)
    with recorder.answering():
        if inner is not None:
            return inner(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            return func(*map_tensors(args, recorder.shape_of), **map_tensors(kwargs, recorder.shape_of))


@function(torch.ctc_loss)
def ctc_loss(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Lengths that are known go in as numbers, which PyTorch looks at; a mean is of losses over lengths of targets."""
    names = ("log_probs", "targets", "input_lengths", "target_lengths", "blank", "reduction", "zero_infinity")
    given = {"blank": 0, "reduction": 0, "zero_infinity": False} | dict(zip(names, args, strict=False)) | kwargs
    scores, targets, *lengths, blank, reduction, zeroed = map(given.get, names)
    if not all(
        recorder.known(each) if isinstance(each, torch.Tensor) else isinstance(each, list | tuple) for each in lengths
    ):
        return NotImplemented
    with outside():
        steps, labels = (torch.as_tensor(each).reshape(-1).tolist() for each in lengths)
    if reduction != 1:
        is_plain = [steps, labels] == lengths
        return NotImplemented if is_plain else func(scores, targets, steps, labels, blank, reduction, zeroed)
    losses = func(scores, targets, steps, labels, blank, 0, zeroed)
    return (losses / torch.tensor(labels, dtype=losses.dtype).clamp(min=1)).mean()


_LARGER = "the larger branch of torch.cond is counted where its condition is not known"


@function(torch.ops.higher_order.cond)
def cond(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The branch that is taken where the condition is known, else the larger one."""
    chosen, yes, no, operands = args
    if not isinstance(chosen, torch.Tensor) or recorder.known(chosen):
        return (yes if chosen else no)(*operands)
    before = len(recorder.ops)
    tried = []
    for branch in (yes, no):
        result = branch(*operands)
        tried.append((recorder.ops[before:], result))
        del recorder.ops[before:]
    ops, result = max(tried, key=lambda found: branch_cost(found[0]))
    if ops:
        recorder.ops += [replace(ops[0], note=ops[0].note or _LARGER), *ops[1:]]
    return result


@function(torch.ops.higher_order.while_loop)
def while_loop(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The body as often as a condition on known values holds."""
    test, body, carried, others = (*args, ())[:4]
    carried = tuple(carried)
    while True:
        more = test(*carried, *others)
        if isinstance(more, torch.Tensor) and not recorder.known(more):
            said = f"{recorder.locations.line()}: how often this while_loop runs depends on its data"
            raise InputError(said, hint="count its steps in an integer that starts as a constant, or write a for loop")
        if not more:
            return carried
        carried = tuple(body(*carried, *others))


@function(scan_op)
def scan(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The body once for every slice; what each step gives is put together."""
    step, carried, sliced, others = (*args, ())[:4]
    carried, gathered = list(carried), []
    for place in range(tensors_in(sliced)[0].shape[0]):
        made = step(*carried, *(x[place] for x in sliced), *others)
        carried, given = list(made[: len(carried)]), made[len(carried) :]
        gathered.append(given)
    return (*carried, *(torch.stack(list(parts)) for parts in zip(*gathered, strict=True)))


@function(map_impl)
def mapped(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The body once for every slice."""
    body, sliced, others = args
    steps = range(tensors_in(sliced)[0].shape[0])
    gathered = [body(*(x[place] for x in sliced), *others) for place in steps]
    if isinstance(gathered[0], torch.Tensor):
        return torch.stack(gathered)
    return tuple(torch.stack(list(parts)) for parts in zip(*gathered, strict=True))


# The same shape: a number for each chance or rate, functions of quantised numbers.
shape(
    "binomial", "_sample_dirichlet",
    *(f"quantized.{name}" for name in (
        "add_scalar", "mul_scalar", "add_scalar_relu", "mul_scalar_relu", "sigmoid", "hardswish", "leaky_relu", "elu",
        "celu", "relu6", "prelu", "clamp", "threshold", "softmax", "layer_norm", "group_norm", "instance_norm",
        "dropout", *(f"batch_norm{n}{post}" for n in ("", "1d", "2d", "3d") for post in ("", "_relu")))),
)(lambda args, kwargs: torch.empty_like(args[0]))  # fmt: skip

# The same shape, and where it was clipped.
shape(
    "fake_quantize_per_tensor_affine_cachemask", "fake_quantize_per_channel_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
)(lambda args, kwargs: (torch.empty_like(args[0]), torch.empty_like(args[0], dtype=torch.bool)))  # fmt: skip

# Floating point of the same shape.
shape("dequantize")(lambda args, kwargs: torch.empty(args[0].shape, dtype=torch.float32, device="meta"))

# [m, k] by a matrix packed in tiles of 8 columns.
shape("_weight_int4pack_mm")(lambda args, kwargs: args[0].new_empty((args[0].shape[0], args[1].shape[0] * 8)))

# [.., n] for a packed weight of n rows.
shape(
    "quantized.linear", "quantized.linear_relu", "quantized.linear_leaky_relu", "quantized.linear_tanh",
    "quantized.linear_dynamic", "quantized.linear_relu_dynamic", "quantized.linear_dynamic_fp16",
    "quantized.linear_relu_dynamic_fp16",
)(lambda args, kwargs: args[0].new_empty((*args[0].shape[:-1], args[1].unpack()[0].shape[0])))  # fmt: skip

# What the first matrix stores.
shape("sparse_sampled_addmm")(lambda args, kwargs: args[0].clone())

# The edges of the bins of each dimension.
shape("_histogramdd_bin_edges")(lambda args, kwargs: [args[0].new_empty(many + 1) for many in args[1]])

# A gradient for every score, or element.
shape("_ctc_loss_backward", "multi_margin_loss_backward", "multilabel_margin_loss_backward",
      "fractional_max_pool3d_backward")(lambda args, kwargs: torch.empty_like(args[1]))  # fmt: skip

# Nothing comes out. Whether a gradient is not finite keeps the value it had: it is taken not to be.
shape("_fused_sgd", "_fused_adagrad", "_amp_foreach_non_finite_check_and_unscale")(lambda args, kwargs: None)


@shape("bincount")
def counts(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """As many as are asked for at least, as of the tokens of each expert; without that number it depends on values."""
    given = dict(zip(("input", "weights", "minlength"), args, strict=False)) | kwargs
    weights, least = given.get("weights"), given.get("minlength", 0)
    summed = torch.float32 if weights is not None and weights.dtype == torch.float32 else torch.float64
    return args[0].new_empty(least, dtype=torch.int64 if weights is None else summed) if least else NotImplemented


@shape("_grouped_mm")
def grouped_result(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """PyTorch looks at shapes of bf16 alone, though it multiplies other formats too."""
    a, b, ends, _, wanted = (*args, *(None,) * 5)[:5]
    ends, wanted = kwargs.get("offs", ends), kwargs.get("out_dtype", wanted)
    batched = a.dim() == b.dim() == 3
    fits = a.shape[-1] == b.shape[-2] and (a.shape[0] == b.shape[0] if batched else ends is not None)
    if not fits or a.dtype != b.dtype or a.dtype not in (torch.float32, torch.float16):
        return NotImplemented
    lead: Sequence[int] = ()
    if a.dim() == b.dim():
        lead = a.shape[:1] if a.dim() == 3 else ends.shape
    return torch.empty((*lead, a.shape[-2], b.shape[-1]), dtype=wanted or a.dtype, device="meta")


@shape("mul", "div")
def scaled(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A sparse tensor times a dense one, or a number, stores the same elements."""
    left, right = args[:2]
    if left.layout == torch.strided or (isinstance(right, torch.Tensor) and right.layout != torch.strided):
        return NotImplemented
    return left.clone()


@shape("mm", "_sparse_mm", "addmm", "_sparse_addmm", "mv")
def dense_result(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A product of a sparse and a dense operand is dense."""
    if all(item.layout == torch.strided for item in args if isinstance(item, torch.Tensor)):
        return NotImplemented
    left, right = [item for item in args if isinstance(item, torch.Tensor)][-2:]
    dims = (left.shape[0], right.shape[1]) if right.dim() > 1 else (left.shape[0],)
    return torch.empty(dims, dtype=left.dtype, device="meta")


#: What functions of quantised tensors are of floating point, and how many of their first arguments that takes.
_OF_REALS: dict[str, tuple[Any, int | None]] = {
    **{name: (getattr(torch.ops.aten, name), None)
       for name in ("mean", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")},
    **dict.fromkeys(("quantized.cat", "quantized.cat_relu"), (torch.cat, 2)),
    **dict.fromkeys(("quantized.add", "quantized.mul", "quantized.add_relu", "quantized.mul_relu"), (torch.add, 2)),
    "quantized.matmul": (torch.matmul, 2), "quantized.max_pool1d": (torch.max_pool1d, None),
    "quantized.max_pool2d": (torch.max_pool2d, None),
}  # fmt: skip


def _as_of_reals(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """As large as of floating point, in the format of what goes in: integers that quantised tensors stand for."""
    (function, many), given = _OF_REALS[name], [leaf for leaf in tensors_in(args) if leaf.dtype in _INTEGERS.values()]
    if not given:
        return NotImplemented
    plain = map_tensors(args[:many], lambda leaf: torch.empty(leaf.shape, device="meta"))
    return torch.empty_like(function(*plain, **({} if many else kwargs)), dtype=given[0].dtype)


for _name in _OF_REALS:
    shape(_name)(partial(_as_of_reals, _name))

#: The plain integers that quantised tensors stand for.
_INTEGERS = {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}


@shape("quantize_per_tensor", "quantize_per_channel")
def integers(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Integers of the same shape, without their scale."""
    wanted = kwargs.get("dtype", args[-1])
    return torch.empty(args[0].shape, dtype=_INTEGERS.get(wanted, torch.uint8), device="meta")


@shape(*(f"quantized.conv{turned}{n}d{post}" for n in (1, 2, 3) for turned in ("", "_transpose")
         for post in ("", "_relu", "_dynamic")), "quantized.conv2d_add", "quantized.conv2d_add_relu")  # fmt: skip
def convolved(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """As the convolution of floating point that the packed weights are for."""
    x, pack = args[0], args[1] if hasattr(args[1], "unpack") else args[2]
    x, weight = (torch.empty(item.shape, device="meta") for item in (x, pack.unpack()[0]))
    window = packed_window(pack)
    order = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    made = torch.ops.aten.convolution(x, weight, None, *(window[word] for word in order))
    return torch.empty_like(made, dtype=args[0].dtype)


@shape("_sparse_mm_reduce_impl")
def reduced_product(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Dense, and which terms were chosen."""
    made = args[1].new_empty((args[0].shape[0], args[1].shape[1]))
    return made, torch.empty_like(made, dtype=torch.int64)


@shape("histogram")
def counted(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The counts, and the edges of the bins."""
    bins = args[1] if len(args) > 1 else kwargs.get("bins", 100)
    many = bins if isinstance(bins, int) else bins.numel() - 1
    return args[0].new_empty(many), args[0].new_empty(many + 1)


# A count for each bin.
shape("_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors")(
    lambda args, kwargs: args[0].new_empty([n if isinstance(n, int) else n.numel() - 1 for n in args[1]])
)


@shape("geqrf")
def reflections(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The triangle over the reflections, and a factor for each."""
    (a,) = args
    return torch.empty_like(a), a.new_empty((*a.shape[:-2], min(a.shape[-2:])))


@shape("linalg_lstsq")
def least_squares(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The solution and the singular values; what depends on the rank is left empty."""
    a, b = args[:2]
    m, n = a.shape[-2:]
    solution = b.new_empty((*b.shape[:-2], n, b.shape[-1]) if b.dim() == a.dim() else (*b.shape[:-1], n))
    rank, values = a.new_empty(a.shape[:-2], dtype=torch.int64), a.new_empty((*a.shape[:-2], min(m, n)))
    return solution, b.new_empty(0), rank, values


@shape("_ctc_loss", "ctc_loss")
def paths_shape(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A loss for each sequence, and a table of steps by states; targets in one row have to say how long they are."""
    scores, targets, _, lengths = args[:4]
    if targets.dim() == 1 and isinstance(lengths, torch.Tensor):
        return NotImplemented
    longest = max(lengths, default=0) if targets.dim() == 1 else targets.shape[1]
    table = (scores.shape[1], scores.shape[0], 2 * longest + 1)
    return tuple(torch.empty(dims, dtype=scores.dtype, device="meta") for dims in (table[:1], table))
