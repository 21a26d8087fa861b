"""Fourier transforms: 5·n·log₂ n real FLOPs for n complex points, half of it where one side is real."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from roofline.programs.torch_recorder import Recorder
from roofline.programs.torch_registry import Call, Priced, costs, function, rule
from roofline.programs.torch_symbols import log2
from roofline.programs.torch_values import map_tensors


@function(torch._VF.stft, torch._VF.istft)
def windowed(recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A window that was made here is data like any other; what is inside shows itself."""
    with torch._C.DisableTorchFunction():
        return func(*map_tensors(args, recorder.shape_of), **map_tensors(kwargs, recorder.shape_of))


@rule("_fft_c2c", "_fft_r2c", "_fft_c2r")
def transform(call: Call) -> Priced:
    """Transform over some dimensions."""
    x, dims = call.args[0], call.args[1]
    whole = x if call.name != "_fft_c2r" else call.outs[0]
    n = prod(whole.shape[d] for d in dims)
    rows = whole.numel() // max(1, n)
    real = call.name != "_fft_c2c"
    return costs.fourier(
        call.name.strip("_"), call.reads, call.writes, rows=rows, n=n, levels=log2(n) if n > 1 else 0, real=real
    )
