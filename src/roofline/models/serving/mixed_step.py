"""A mixed step: chunks of prompts are prefilled while other sequences decode, and both share each load of the weights.

What costs the same however the tokens are divided into sequences (matrices, norms, experts, collectives) runs once for
all of them; attention and states run for each part by itself, and are named for it.

>>> from roofline.models import load
>>> ops = mixed(load("llama-2-7b"), chunk=512, past=1024, batch=16, context=2048)
>>> [op.where for op in ops if "self_attn.attention" in op.where]
['layers.0-31.self_attn.attention (chunk)', 'layers.0-31.self_attn.attention (decode)']
>>> next(op.dims["m"] for op in ops if op.where.endswith("up_proj"))
528

Source: A. Agrawal et al., "Sarathi-Serve", arXiv:2403.02310.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.operations import decode, prefill, stepped
from roofline.sizes import Size, check, plain_numbers
from roofline.work import Op, Tensor

#: An operation's place, and how many before it have the same.
Place = tuple[str, int]


@plain_numbers
def mixed(
    model: Model | str,
    *,
    chunk: Size,
    context: Size,
    batch: Size = 1,
    past: Size = 0,
    prompts: Size = 1,
    last: bool = False,
    **options: Any,
) -> tuple[Op, ...]:
    """One step of ``batch`` sequences that decode after ``context`` tokens and a ``chunk`` of each of some ``prompts``.

    Parameters
        ``chunk``    new tokens of each prompt in this step, after ``past`` that earlier ones put in the cache
        ``prompts``  how many prompts have a chunk in this step; over copies of the model, as ``batch``, of all of them
        ``last``     the chunks end their prompts, so each gives a token; else none of them needs output

    ``options`` are those that :func:`roofline.models.prefill` and :func:`roofline.models.decode` share. Sizes may be
    numbers, arrays or symbols.
    """
    model = load(model)
    chunk, batch, prompts = check("chunk", chunk), check("batch", batch), check("prompts", prompts)
    absorbed = {} if "absorbed" not in options else {"absorbed": options.pop("absorbed")}
    first = prefill(model, batch=prompts, prompt=chunk, past=past, **absorbed, **options)
    other = decode(model, batch=batch, context=context, **absorbed, **options)
    return _merge(first, other, _together(model, batch, prompts, chunk, last, options))


def _together(
    model: Model, batch: Size, prompts: Size, chunk: Size, last: bool, options: dict[str, Any]
) -> tuple[Op, ...]:
    """All tokens of one chip as one sequence: right for what no sequence matters to."""
    deal = model.share
    groups = deal.group(batch), deal.group(prompts)
    ours, theirs = (deal.local(group) for group in groups)
    tokens = ours + theirs * chunk
    together = None if deal.sharing == 1 else groups[0] + groups[1] * chunk
    return stepped(model, batch=1, new=tokens, wanted=ours + theirs if last else ours, together=together, **options)


def _placed(ops: Sequence[Op]) -> list[tuple[Place, Op]]:
    seen: dict[str, int] = {}
    found = []
    for op in ops:
        found.append(((op.where, seen.get(op.where, 0)), op))
        seen[op.where] = seen.get(op.where, 0) + 1
    return found


def _merge(first: Sequence[Op], other: Sequence[Op], together: Sequence[Op]) -> tuple[Op, ...]:
    """The parts' own operations before each shared one, in the order of either."""
    common = [(place, op) for place, op in _placed(together) if not op.by_sequence]
    shared = {place for place, _ in common}
    touched = {t.ident: t for _, op in common for t in (*op.writes, *op.reads)}
    parts = {name: _between(_placed(ops), shared) for name, ops in (("chunk", first), ("decode", other))}
    merged: list[Op] = []
    for place, op in [*common, (None, None)]:
        for name, runs in parts.items():
            merged += [_part(each, name, touched) for each in runs.get(place, ())]
        if op is not None:
            merged.append(op)
    return tuple(merged)


def _between(placed: Sequence[tuple[Place, Op]], shared: Collection[Place]) -> dict[Place | None, list[Op]]:
    """Operations of a part by the shared one that follows them; None for those after the last."""
    found: dict[Place | None, list[Op]] = {}
    run: list[Op] = []
    for place, op in placed:
        if place in shared:
            found[place] = run
            run = []
        else:
            run.append(op)
    found[None] = run
    return found


def _part(op: Op, name: str, touched: dict[str, Tensor]) -> Op:
    """An operation of one part: named for it, with tensors of its own where the other part does not have them too."""

    def own(tensor: Tensor, *, written: bool) -> Tensor:
        whole = touched.get(tensor.ident)
        if tensor.role == "weight":
            return tensor
        if whole is None:
            return replace(tensor, ident=f"{tensor.ident} ({name})")
        # what both parts write side by side takes room for all tokens
        return replace(tensor, dims=whole.dims, touched=tensor.elements) if written else tensor

    return replace(
        op,
        where=f"{op.where} ({name})",
        reads=tuple(own(tensor, written=False) for tensor in op.reads),
        writes=tuple(own(tensor, written=True) for tensor in op.writes),
    )
