"""The floor of serving: one prefill or decode step of a model on one chip, as a Bound.

>>> answer = serve_bound("llama-2-7b", "decode", on="a100", batch=8, context=1024, policy="streamed")
>>> sum(answer.bytes.values()), answer.bound_by
(17513316352, 'hbm')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline import dtypes
from roofline.answers import capability
from roofline.bounds.api import target
from roofline.bounds.bound import Bound
from roofline.bounds.conventions import OF_OPERATIONS, Conventions, taken_from
from roofline.errors import InputError, suggest
from roofline.hardware.machine import Machine
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.operations import check_options
from roofline.models.parallelism.layout import OPTIONS, Parallelism, has_several_layouts, take_layout_options
from roofline.models.parallelism.splitting import local_model, stack_layouts
from roofline.models.serving.pipeline import pipelined
from roofline.models.serving.step import PHASES, step_bound
from roofline.signatures import optional, renamed, takes
from roofline.sizes import BLOCK, Size, common_shape, is_array, plain_numbers


@plain_numbers
@takes(
    optional(prompt="Size", context="Size", chunk="Size", absorbed="bool", data="int"),
    *(taker for kind in PHASES.values() for taker in kind.takers),
    renamed(Parallelism, OPTIONS),
    renamed(Conventions, dict(zip(OF_OPERATIONS, OF_OPERATIONS, strict=True))),
)
def serve_bound(
    model: Model | str,
    phase: str,
    *,
    on: str | Machine,
    batch: Size = 1,
    set: dict[str, Any] | None = None,
    unit: str | None = None,
    over: str | None = None,
    files: Sequence[str] = (),
    achievable: bool = False,
    **options: Any,
) -> Bound:
    """How fast one step can be at best: ``prefill`` (with ``prompt``), ``decode`` (with ``context``) or ``mixed``.

    >>> answer = serve_bound("llama-2-7b", "prefill", on="a100", batch=8, prompt=1024)
    >>> round(answer.lower * 1e3, 3), answer.kind
    (347.135, 'compute-bound')
    >>> import numpy as np
    >>> many = serve_bound("llama-2-7b", "decode", on="h100", batch=np.array([1, 8, 64]), context=1024)
    >>> [round(float(t) * 1e3, 2) for t in many.lower]
    [4.1, 5.22, 14.2]

    ``policy`` says which bytes count: ``minimal`` (default), ``each-op``, ``fused``, ``tiled`` with a ``tile``, or
    ``streamed``, the convention most published floors are under; ``overlap`` and ``overhead`` add an estimate, as in
    :func:`roofline.bound`. A ``mixed`` step decodes with ``context`` and prefills a ``chunk``. What else a step
    takes (formats, ``past``, ``logits``, ``count`` …) is in :func:`roofline.models.prefill`,
    :func:`roofline.models.decode` and :func:`roofline.models.mixed`; the target's options are those of
    :func:`roofline.bound`. Over several chips (``tensor``, ``expert``, ``pipeline``, ``data``, ``context_parallel`` and
    the rest of :class:`roofline.models.Parallelism`) ``batch`` is that of all, and the answer one chip's;
    numbers of chips may be arrays that broadcast with the sizes. With ``pipeline`` it is that of the slowest stage, the
    times those of all (:class:`roofline.models.serving.pipeline.Pipelined`). The footprint holds weights, keys and
    values and the activations alive at once.
    """
    if has_several_layouts(options):
        chosen = {"set": set, "unit": unit, "over": over, "files": files, "achievable": achievable}
        return stack_layouts(serve_bound, {"batch": batch, **options}, model=model, phase=phase, on=on, **chosen)
    options |= {name: dtypes.get(options[name]).name for name in ("weights", "activations", "kv") if options.get(name)}
    asked = {"on": on, "set": set, "unit": unit, "over": over, "files": files, "achievable": achievable, **options}
    described = load(model)
    machine = target(on, unit=unit, over=over, set=set, files=files, achievable=achievable)
    if phase not in PHASES:
        raise InputError(f"no phase {phase!r}", hint=suggest(phase, PHASES, what="phases"))
    conventions = taken_from(options, "minimal")
    kind = PHASES[phase]
    for required in kind.required:
        if required not in options:
            raise InputError(f"{phase} needs {required}=", hint=f"for instance {required}=1024")
    batch = as_size(batch)
    options = {name: as_size(value) if name in kind.sizes else value for name, value in options.items()}
    sizes = {"batch": batch, **{name: options[name] for name in kind.sizes if name in options}}
    if sum(map(is_array, sizes.values())) > 1:
        common_shape(sizes)
    ways = Parallelism.on(machine, **take_layout_options(options))
    check_options(options, *kind.takers, also=OPTIONS)
    if kind.beside and ways.pipeline * ways.context > 1:
        raise InputError(
            "a mixed step over the stages of a pipeline or the parts of sequences is not modelled",
            hint="tensor, expert and data are",
        )
    if ways.pipeline > 1:
        return pipelined(described, phase, machine, ways, batch, conventions, options)
    if sum(value.size > BLOCK for value in sizes.values() if is_array(value)):
        found: Bound | None = capability("serve_bound.arrays")(described, phase, sizes, asked)
        if found is not None:
            return found
    local, machine = local_model(described, machine, ways)
    return step_bound(local, phase, machine, ways, batch, conventions, options)


def as_size(value: Size) -> Size:
    """Several sizes in a list as an array; anything else as it is."""
    if not isinstance(value, list | tuple | range):
        return value
    import numpy as np

    return np.asarray(value, dtype=np.float64)


__all__ = ["as_size", "serve_bound"]
