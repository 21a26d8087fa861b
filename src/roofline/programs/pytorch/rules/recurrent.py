"""LSTM, GRU and plain recurrent layers, whole: two matmuls a step for every layer and direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch

from roofline.programs.pytorch.price_tables import CELLS
from roofline.programs.pytorch.recorder import Recorder
from roofline.programs.pytorch.registry import function
from roofline.programs.pytorch.whole import Whole, run_whole
from roofline.work import Op, Tensor, Work


@function(torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu, torch._VF.lstm, torch._VF.gru)
def recurrent(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A recurrent layer over a sequence; the lengths of a packed one are its batch sizes."""
    name = func.__name__
    is_packed = isinstance(args[3], list | tuple)
    x = args[0]
    if is_packed:
        hidden, weights, _, layers, _, _, both = args[2:9]
        steps = x.shape[0]
    else:
        hidden, weights, _, layers, _, _, both = args[1:8]
        steps = prod(x.shape[:-1])
    state = list(hidden) if isinstance(hidden, list | tuple) else [hidden]
    directions = 2 if both else 1
    each = len(weights) // (layers * directions)
    width = weights[each - 1].shape[0] if name == "lstm" and each in (3, 5) else weights[1].shape[1]
    out_shape = (*x.shape[:-1], width * directions)
    outs = [(out_shape, x.dtype), *((item.shape, item.dtype) for item in state)]

    held: list[Tensor] = []

    def parts(index: int) -> tuple[str, int, Sequence[Any]]:
        return (f"{index // directions}{'fb'[index % 2] if both else ''}", index // directions,
                weights[index * each : (index + 1) * each])  # fmt: skip

    def forward(made: Sequence[Any]) -> list[Op]:
        given, *begun = [recorder.read(t) for t in (x, *state)]
        out, *ends = [recorder.wrote(t) for t in made]
        held[:] = [given, *(_between(out, layer) for layer in range(layers - 1)), out]
        last = [_part(end, prod(t.shape[1:])) for end, t in zip(ends, state, strict=True)]
        found = []
        for index in range(layers * directions):
            label, layer, own = parts(index)
            reads = (held[layer], *map(recorder.read, own), *(begun if index == 0 else ()))
            cost = _cell(name, f"{name}[{label}]", own, steps, _forward(own, projected))
            found.append(replace(cost, reads=reads, writes=(_half(held[layer + 1]), *last)))
        return found

    def backward(saved: Sequence[Any], grads: Sequence[Any], made: Sequence[Any]) -> list[Op]:
        wanted = [t.requires_grad for t in saved]
        fresh = iter(made)
        out = {i: recorder.wrote(next(fresh)) for i, need in enumerate(wanted) if need}
        first = 1 + len(state)
        given = [recorder.read(t) for t in grads]
        found = []
        for index in reversed(range(layers * directions)):
            label, layer, own = parts(index)
            place = first + index * each
            below = wanted[0] if layer == 0 else any(wanted[: first + layer * directions * each])
            above = given if layer == layers - 1 else [_between(held[-1], layer, "_gradient")]
            writes = [out[i] for i in range(place, place + each) if i in out]
            if below and layer:
                writes.append(_half(_between(held[-1], layer - 1, "_gradient")))
            elif below and index == 0:
                writes.append(out[0])
            writes += [_part(out[i], prod(saved[i].shape[1:])) for i in range(1, first) if i in out]
            reads = (*above, *map(recorder.read, own), *dict.fromkeys((held[layer + 1], held[layer])))
            macs = _backward(own, wanted[place : place + each], below, projected)
            cost = _cell(name, f"{name}_backward[{label}]", own, steps, macs, passes=2)
            found.append(replace(cost, reads=reads, writes=tuple(writes)))
        return found

    def _half(tensor: Tensor) -> Tensor:
        return _part(tensor, prod(x.shape[:-1]) * width) if both else tensor

    projected = each in (3, 5)
    return run_whole(recorder, Whole(outs, forward, backward), [x, *state, *weights])


def _products(weights: Sequence[Any], projected: bool) -> list[int]:
    """Which weights are multiplied with: of the input, of the hidden state, of the projection."""
    return [0, 1, len(weights) - 1] if projected else [0, 1]


def _forward(weights: Sequence[Any], projected: bool) -> int:
    """Multiply-adds of a step: each weight once."""
    return sum(weights[i].numel() for i in _products(weights, projected))


def _backward(weights: Sequence[Any], wanted: Sequence[bool], below: bool, projected: bool) -> int:
    """Multiply-adds of a step: the gradients of the weights and of what they met, where they are wanted."""
    places = _products(weights, projected)
    return sum(weights[i].numel() * (int(wanted[i]) + int(below if i == 0 else True)) for i in places)


def _cell(name: str, label: str, weights: Sequence[Any], steps: int, macs: int, passes: int = 1) -> Op:
    """One layer in one direction over all steps of all sequences, ``macs`` multiply-adds a step."""
    gates, each = CELLS[name]
    rows = weights[0].shape[0]
    dtype = costs_dtype(weights[0])
    work = Work.flops("matrix", dtype, 2 * steps * macs)
    work += Work.flops("vector", dtype, passes * each * steps * (rows // gates))
    dims = {"m": steps, "n": rows, "k": weights[0].shape[1] + weights[1].shape[1], "batch": 1}
    return Op(label, "contraction", work, dims=dims, options={"macs": steps * macs})


def _between(out: Tensor, layer: int, what: str = "") -> Tensor:
    """What one layer hands to the next, or its gradient."""
    return Tensor(f"{out.ident}.layer{layer}{what}", out.dims, out.dtype)


def _part(tensor: Tensor, amount: Any) -> Tensor:
    """A tensor of which one layer and direction writes its share."""
    return replace(tensor, touched=amount)


def costs_dtype(tensor: Any) -> str:
    """The dtype a layer computes in."""
    from roofline.programs.pytorch.tensors import dtype_name

    return dtype_name(tensor.dtype)
