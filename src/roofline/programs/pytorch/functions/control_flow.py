"""Control flow as one operation: torch.cond, while_loop, scan and map run what they hold, as often as it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch._higher_order_ops.map
import torch._higher_order_ops.scan
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op

from roofline.errors import InputError
from roofline.programs.pytorch.recorder import Recorder
from roofline.programs.pytorch.registry import function
from roofline.programs.pytorch.tensors import tensors_in
from roofline.programs.rule_table import branch_cost

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
            raise InputError(
                f"{recorder.locations.line()}: how often this while_loop runs depends on its data",
                hint="count its steps in an integer that starts as a constant, or write a for loop",
            )
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
