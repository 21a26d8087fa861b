"""Layers that are taken whole: products, norms, poolings, dropout, recurrent layers, packed sequences, transforms.

Control flow as one operation: torch.cond, while_loop, scan and map run what they hold, as often as it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, pi, prod
from typing import Any

import torch
import torch._higher_order_ops.map
import torch._higher_order_ops.scan
import torch.nn.functional as F
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.scan import scan_op
from torch.utils._python_dispatch import _disable_current_modes

from roofline.errors import InputError
from roofline.frozen import replace
from roofline.ops import pricing
from roofline.ops.einsum import einsum_operations, operand_letters
from roofline.programs.pytorch.recorder import Recorder, WholeOperation, run_whole
from roofline.programs.pytorch.registry import Call, function, price
from roofline.programs.pytorch.rules.sequences import forward as recurrent_forward
from roofline.programs.pytorch.rules.sequences import recurrence_of
from roofline.programs.pytorch.tensors import map_tensors, tensors_in
from roofline.programs.rule_table import branch_cost
from roofline.sizes import product
from roofline.work import Op, Tensor

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
    """A sum over products of one or two operands whole; more go pair by pair as PyTorch orders them."""
    operands = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
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
    dtype = x.dtype if weight is None else torch.promote_types(x.dtype, weight.dtype)

    def called(outs: Sequence[Any]) -> Call:
        return recorder.call("rms_norm", [x, lengths, weight], outs, names)

    def backward(saved: Sequence[Any], grads: Sequence[Any], made: Sequence[Any]) -> Op:
        reads = [recorder.read(t) for t in (*grads, *saved)]
        writes = [recorder.wrote(t) for t in made]
        return pricing.norm_backward("rms_norm_backward", reads, writes, elements=x.numel())

    whole = WholeOperation([(x.shape, dtype)], lambda outs: price(called(outs)), backward, called)
    return run_whole(recorder, whole, tensors)[0]


@function(torch.max_pool1d, torch.max_pool2d, torch.max_pool3d, F.max_pool1d, F.max_pool2d, F.max_pool3d,
          F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)  # fmt: skip
def max_pool(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Without a gradient the indices of the largest elements are not written."""
    x = args[0] if args else kwargs["input"]
    if x.requires_grad and torch.is_grad_enabled():
        return NotImplemented
    before = len(recorder.ops)
    with torch._C.DisableTorchFunction():
        out = func(*args, **kwargs)
    recorder.ops[before:] = [replace(op, writes=op.writes[:1]) for op in recorder.ops[before:]]
    return out


@function(F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)
def adaptive_mean_pool(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Adaptive pooling to one element is a mean to PyTorch; here it stays what the user called."""
    return _whole(recorder, func, args, kwargs, func.__name__, [args[0] if args else kwargs["input"]])


@function(torch.dropout, torch.feature_dropout, torch.alpha_dropout, torch.feature_alpha_dropout)
def dropout(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Outside training dropout gives what it got, and costs nothing; while training it is one kernel."""
    given = dict(zip(("input", "p", "train"), args, strict=False)) | kwargs
    if not given["train"]:
        return given["input"]
    plain = func is torch.dropout and 0 < given["p"] < 1 and not recorder.known(given["input"])
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


@function(F.gaussian_nll_loss)
def gaussian_nll_loss(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """½·(log v + (x − t)²/v), without PyTorch's look at the values of v."""
    names = ("input", "target", "var", "full", "eps", "reduction")
    given: dict[str, Any] = {"full": False, "eps": 1e-6, "reduction": "mean"}
    given |= dict(zip(names, args, strict=False)) | kwargs
    x, target, variance = given["input"], given["target"], given["var"]
    if not isinstance(variance, torch.Tensor):
        return NotImplemented
    if variance.dim() and variance.shape != x.shape and variance.dim() == x.dim() - 1:
        variance = variance.unsqueeze(-1)
    variance = variance.clone()
    with torch.no_grad():
        variance.clamp_(min=given["eps"])
    loss = 0.5 * (torch.log(variance) + (x - target) ** 2 / variance)
    loss = loss + 0.5 * log(2 * pi) if given["full"] else loss
    if given["reduction"] == "none":
        return loss
    return loss.mean() if given["reduction"] == "mean" else loss.sum()


@function(torch.cov)
def covariance(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Weighted, without PyTorch's look at whether the weights are all at least 0."""
    given = dict(zip(("input", "correction", "fweights", "aweights"), args, strict=False)) | kwargs
    weights = [given[word] for word in ("fweights", "aweights") if given.get(word) is not None]
    if not weights:
        return NotImplemented
    x, weight = given["input"], prod(weights[1:], start=weights[0])
    x = x if x.dim() > 1 else x[None]
    away = x - (x * weight).sum(1, keepdim=True) / weight.sum()
    return ((away * weight) @ away.mH / (weight.sum() - given.get("correction", 1))).squeeze()


@function(torch._VF.stft)
def stft(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Pass the window as a shape; the operations inside are recorded one by one."""
    with torch._C.DisableTorchFunction():
        return func(*map_tensors(args, recorder.shape_of), **map_tensors(kwargs, recorder.shape_of))


@function(torch._VF.istft)
def istft(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Transform back, weight each window, add them where they overlap, divide by what the weights add up to.

    PyTorch looks at the values of that sum before it divides; here the steps are its own without the look.
    """
    names = ("input", "n_fft", "hop_length", "win_length", "window", "center", "normalized", "onesided", "length")
    given = dict(zip(names, args, strict=False)) | kwargs
    x, n = given["input"], given["n_fft"]
    if given.get("return_complex") or given.get("onesided") is False or not x.is_complex():
        return NotImplemented
    hop, width = given.get("hop_length") or n // 4, given.get("win_length") or n
    window = given.get("window")
    window = torch.ones(width) if window is None else window
    window = F.pad(window, ((n - width) // 2, n - width - (n - width) // 2)) if width < n else window
    total, first = n + hop * (x.shape[-1] - 1), n // 2 if given.get("center", True) else 0
    wanted = given.get("length") or total - 2 * first

    def added(parts: Any) -> Any:
        whole = F.fold(parts.transpose(-1, -2), (1, total), (1, n), stride=(1, hop)).flatten(-3)
        return whole[..., first : first + wanted]

    frames = torch.fft.irfft(x.transpose(-1, -2), n=n, norm="ortho" if given.get("normalized") else "backward")
    result = added(frames * window) / added((window**2).expand(x.shape[-1], n))
    return F.pad(result, (0, wanted - result.shape[-1])) if result.shape[-1] < wanted else result


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
            hint = "count its steps in an integer that starts as a constant, or write a for loop"
            raise InputError(said, hint=hint)
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
