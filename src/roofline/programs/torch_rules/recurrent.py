"""LSTM, GRU and plain recurrent layers, whole: two matmuls a step for every layer and direction."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from roofline.programs.torch_costs import CELLS
from roofline.programs.torch_recorder import Recorder
from roofline.programs.torch_registry import costs, function
from roofline.programs.torch_whole import Whole, run_whole
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
    tensors = [x, *state, *weights]
    directions = 2 if both else 1
    each = len(weights) // (layers * directions)
    width = weights[each - 1].shape[0] if name == "lstm" and each in (3, 5) else weights[1].shape[1]
    out_shape = (*x.shape[:-1], width * directions)
    outs = [(out_shape, x.dtype), *((item.shape, item.dtype) for item in state)]

    def ops(reads: Sequence[Tensor], writes: Sequence[Tensor], passes: int, suffix: str) -> list[Op]:
        found = []
        for index in range(layers * directions):
            own = weights[index * each : (index + 1) * each]
            layer = f"{name}{suffix}[{index // directions}{'' if not both else 'fb'[index % 2]}]"
            op = _cell(name, layer, own, steps, passes, each in (3, 5))
            before = _between(writes[0], index // directions - 1) if index >= directions else reads[0]
            after = writes if index >= (layers - 1) * directions else (_between(writes[0], index // directions),)
            inputs = [before, *(recorder.read(w) for w in own)]
            if index == 0:
                inputs += reads[1 : 1 + len(state)]
            found.append(Op(op.name, op.kind, op.work, tuple(inputs), tuple(after), op.dims, options=op.options))
        return found

    def forward(made: Sequence[Any]) -> list[Op]:
        return ops([recorder.read(t) for t in tensors], [recorder.wrote(t) for t in made], 1, "")

    def backward(saved: Sequence[Any], grads: Sequence[Any], made: Sequence[Any]) -> list[Op]:
        reads = [recorder.read(t) for t in (*grads, *saved)]
        return ops(reads, [recorder.wrote(t) for t in made] or reads[:1], 2, "_backward")

    made = run_whole(recorder, Whole(outs, forward, backward), tensors)
    return made


def _cell(name: str, label: str, weights: Sequence[Any], steps: int, passes: int, projected: bool) -> Op:
    """One layer in one direction over all steps of all sequences."""
    _, each = CELLS[name]
    kinds = weights[:2] if not projected else [*weights[:2], weights[-1]]
    macs = passes * steps * sum(w.shape[0] * w.shape[1] for w in kinds)
    rows = weights[0].shape[0]
    hidden = rows // CELLS[name][0]
    flat = Tensor("x", (steps, 1), costs_dtype(weights[0]))
    op = costs.matmul(label, (flat, flat), (flat,), m=steps, n=rows, k=weights[0].shape[1] + weights[1].shape[1])
    dtype = costs.arithmetic([flat])
    work = Work.flops("matrix", dtype, 2 * macs) + Work.flops("vector", dtype, passes * each * steps * hidden)
    return Op(label, op.kind, work, dims=op.dims, options={"macs": macs})


def costs_dtype(tensor: Any) -> str:
    """The dtype a layer computes in."""
    from roofline.programs.torch_tensors import dtype_name

    return dtype_name(tensor.dtype)


def _between(out: Tensor, layer: int) -> Tensor:
    """What one layer hands to the next."""
    return Tensor(f"{out.ident}.layer{layer}", out.dims, out.dtype)
