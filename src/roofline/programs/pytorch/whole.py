"""Operations that are not taken apart: attention, a recurrent layer. Their gradient is one operation too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from roofline.programs.pytorch.recorder import Recorder
from roofline.programs.pytorch.registry import Priced
from roofline.programs.pytorch.source_location import Place

_META = torch.device("meta")


class Whole(NamedTuple):
    """An operation taken whole: what comes out, and what its forward and backward passes cost."""

    outs: Sequence[tuple[Sequence[int], Any]]
    forward: Callable[[Sequence[Any]], Priced]
    backward: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Priced]


def run_whole(recorder: Recorder, whole: Whole, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Give the results of an operation that is not taken apart; its gradient is one operation too."""
    place = recorder.places.now()
    found: tuple[Any, ...] = _WholeFunction.apply(recorder, whole, place, *tensors)
    return found


class _WholeFunction(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, recorder: Recorder, whole: Whole, place: Place, *tensors: Any) -> Any:
        outs = tuple(torch.empty(tuple(shape), dtype=dtype, device=_META) for shape, dtype in whole.outs)
        recorder.emit(whole.forward(outs), place)
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
