"""Sequences of different lengths: packed step by step and padded again; their lengths have to be known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from roofline.programs.pytorch.recorder import Recorder
from roofline.programs.pytorch.registry import function, pricing
from roofline.programs.pytorch.whole import Whole, run_whole
from roofline.work import Op


@function(torch._VF._pack_padded_sequence)
def packed(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
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
def padded(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The same the other way: every sequence as long as the longest, and how long each is."""
    x, sizes, batch_first, _, total = args
    if not recorder.known(sizes):
        return NotImplemented
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        lengths = (sizes[:, None] > torch.arange(int(sizes[0]))[None, :]).sum(0)
        steps = len(sizes)
        if 0 < total < steps:
            return NotImplemented
        lead = (max(total, steps), int(sizes[0]))
    shape = (*(reversed(lead) if batch_first else lead), *x.shape[1:])
    return _moved(recorder, "pad_packed_sequence", x, shape, x.numel()), lengths


@function(torch._nested_tensor_from_mask_left_aligned)
def left_aligned(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """The encoder asks whether it may leave padding out, in a form that exists with values alone: it may not."""
    return False


def _moved(recorder: Recorder, name: str, x: Any, shape: Sequence[int], amount: int) -> Any:
    """Copy ``amount`` elements of x into a new shape; its gradient goes the same way back."""

    def forward(outs: Sequence[Any]) -> Op:
        read = recorder.read(x)
        return pricing.move(
            name, [replace(read, touched=min(amount, read.elements))], [recorder.wrote(o) for o in outs]
        )

    def back(saved: Sequence[Any], grads: Sequence[Any], made: Sequence[Any]) -> Op:
        reads = [recorder.read(grad) for grad in grads]
        return pricing.move(f"{name}_backward", reads, [recorder.wrote(t) for t in made])

    return run_whole(recorder, Whole([(shape, x.dtype)], forward, back), [x])[0]
