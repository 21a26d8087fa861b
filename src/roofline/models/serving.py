"""The floor of serving: one prefill or decode step of a model on one chip, as a Bound.

>>> answer = serve_bound("llama-2-7b", "decode", on="a100", batch=8, context=1024, policy="streamed")
>>> sum(answer.bytes.values()), answer.bound_by
(17513316352, 'hbm')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from roofline import dtypes
from roofline.bounds.bound import Bound
from roofline.bounds.evaluate import evaluate
from roofline.bounds.footprint import Footprint
from roofline.bounds.traffic import traffic
from roofline.errors import InputError, suggest
from roofline.hardware.machine import Machine
from roofline.hardware.overrides import describe_given
from roofline.hardware.rate import data_level, rate
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.mixed_step import mixed
from roofline.models.operations import activation_bytes, check_known, decode, prefill
from roofline.models.parallelism.layout import OPTIONS, Parallelism, has_several_layouts, take_layout_options
from roofline.models.parallelism.splitting import local_model
from roofline.sizes import Size, common_shape, is_array, is_symbol
from roofline.work import Op, Work


class Phase(NamedTuple):
    """A kind of step: what runs, the sizes it takes, and which of them must be given.

    ``new`` and ``past`` are a sequence's tokens; ``beside`` are the sizes of sequences that run beside it: how many
    tokens they have, then how many they are.
    """

    build: Callable[..., tuple[Op, ...]]
    new: str
    past: str
    required: tuple[str, ...]
    beside: tuple[str, ...] = ()

    @property
    def takers(self) -> tuple[Callable[..., Any], ...]:
        """The functions whose arguments the step takes."""
        return (self.build, decode) if self.beside else (self.build,)

    @property
    def sizes(self) -> tuple[str, ...]:
        """Every size the step takes but the batch."""
        return (self.new, self.past, *self.beside)

    def length(self, sizes: Mapping[str, Size]) -> Size:
        """Tokens each sequence of the batch keeps."""
        return sizes.get(self.new, 1) + sizes.get(self.past, 0)

    def kept_beside(self, sizes: Mapping[str, Size]) -> tuple[tuple[Size, Size], ...]:
        """Tokens of the sequences beside, and how many they are."""
        if not self.beside:
            return ()
        chunk, past, prompts = self.beside
        return ((sizes[chunk] + sizes.get(past, 0), sizes.get(prompts, 1)),)


#: Phases by name.
PHASES = {
    "prefill": Phase(prefill, "prompt", "past", ("prompt",)),
    "decode": Phase(decode, "tokens", "context", ("context",)),
    "mixed": Phase(mixed, "tokens", "context", ("chunk", "context"), ("chunk", "past", "prompts")),
}

#: What each byte policy means for a model.
POLICY_TEXT = {
    "each-op": "every operation reads its operands and writes its result",
    "fused": "elementwise operations run inside the kernel that made their operand; the rest read and write",
    "minimal": "weights, keys and values, states, inputs and outputs move once, intermediates nothing: the floor",
    "streamed": "only matrices' weights and keys and values move, once: no norms, activations, table rows or outputs",
}


_LOGITS = {"last": "logits of each sequence's last token", "all": "logits of every token", "none": "no logits"}


def serve_bound(
    model: Model | str,
    phase: str,
    *,
    on: str | Machine,
    batch: Size = 1,
    policy: str = "minimal",
    overlap: float | None = None,
    overhead: float | str | None = None,
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

    ``policy`` says which bytes count: ``minimal``, ``each-op``, ``fused``, or ``streamed``, the convention most
    published floors are under. A ``mixed`` step decodes with ``context`` and prefills a ``chunk``. What else a step
    takes (formats, ``past``, ``logits``, ``count`` …) is in :func:`roofline.models.prefill`,
    :func:`roofline.models.decode` and :func:`roofline.models.mixed`; the target's options are those of
    :func:`roofline.bound`. Over several chips (``tensor``, ``expert``, ``pipeline``, ``data``, ``context_parallel`` and
    the rest of :class:`roofline.models.Parallelism`) ``batch`` is that of all, and the answer one chip's;
    numbers of chips may be arrays that broadcast with the sizes. With ``pipeline`` it is that of the slowest stage, the
    times those of all (:class:`roofline.models.pipeline.Pipelined`). The footprint holds weights, keys and values and
    the activations alive at once.
    """
    from roofline.bounds.api import fraction, target
    from roofline.quantity import parse

    if has_several_layouts(options):
        from roofline.models.parallelism.stacking import stack_layouts

        every = {"model": model, "phase": phase, "on": on, "policy": policy, "overlap": overlap, "overhead": overhead,
                 "set": set, "unit": unit, "over": over, "files": files, "achievable": achievable}  # fmt: skip
        return stack_layouts(serve_bound, {"batch": batch, **options}, **every)
    options |= {name: dtypes.get(options[name]).name for name in ("weights", "activations", "kv") if options.get(name)}
    described = load(model)
    machine = target(on, unit=unit, over=over, set=set, files=files, achievable=achievable)
    if phase not in PHASES:
        raise InputError(f"no phase {phase!r}", hint=suggest(phase, PHASES, what="phases"))
    check_policy(policy)
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
    check_known(options, *kind.takers, also=OPTIONS)
    if kind.beside and ways.pipeline * ways.context > 1:
        raise InputError(
            "a mixed step over the stages of a pipeline or the parts of sequences is not modelled",
            hint="tensor, expert and data are",
        )
    spent = None if overhead is None else parse(overhead, "s")
    overlap = None if overlap is None else fraction(overlap)
    if ways.pipeline > 1:
        from roofline.models.pipeline import pipelined

        return pipelined(described, phase, machine, ways, batch, policy, overlap, spent, options)
    local, machine = local_model(described, machine, ways)
    return step_bound(local, phase, machine, ways, batch, policy, overlap, spent, options)


def step_bound(
    described: Model,
    phase: str,
    machine: Machine,
    ways: Parallelism,
    batch: Size,
    policy: str,
    overlap: float | None,
    overhead: float | None,
    options: dict[str, Any],
) -> Bound:
    """Price one step of what a chip runs, ``described``, on a machine whose mesh is that of ``ways``."""
    kind = PHASES[phase]
    ops = kind.build(described, batch=batch, **options)
    moved = streamed(ops) if policy == "streamed" else traffic(ops, policy)
    length, beside = kind.length(options), kind.kept_beside(options)
    where = data_level(machine)
    capacity = where.capacity.value if where.capacity else None
    needed = replace(needs(described, ops, length, batch, options, beside), level=where.name, capacity=capacity)
    rate_of: Any = rate
    sizes = {"batch": batch, **{name: options[name] for name in kind.sizes if name in options}}
    if any(is_symbol(value) for value in sizes.values()):
        from roofline.bounds.closed import symbolic_rate

        rate_of = symbolic_rate
    sizes |= ways.sizes()
    found = evaluate(
        ops,
        moved,
        machine,
        expression=f"{described.name} {phase}",
        sizes=sizes,
        footprint=needed,
        overlap=overlap,
        overhead=overhead,
        assumptions=_assumptions(described, ops, phase, policy, options, needed, machine),
        request={"policy": policy, **{k: v for k, v in options.items() if k not in kind.sizes}},
        rate_of=rate_of,
    )
    uneven = ways.uneven(batch)
    found = found if uneven is None else replace(found, assumptions=(*found.assumptions, uneven))
    gaps = (*described.gaps, *(described.vision.missing(options.get("images", 0)) if described.vision else ()))
    return replace(found, incomplete=(*gaps, *found.incomplete)) if gaps else found


def as_size(value: Size) -> Size:
    """Several sizes in a list as an array; anything else as it is."""
    if not isinstance(value, list | tuple | range):
        return value
    import numpy as np

    return np.asarray(value, dtype=np.float64)


def check_policy(policy: str) -> None:
    """Say which byte policies a model's step takes, where it is given another."""
    if policy not in POLICY_TEXT:
        raise InputError(f"unknown byte policy {policy!r}", hint=suggest(policy, POLICY_TEXT, what="byte policies"))


def streamed(ops: Sequence[Op]) -> list[Work]:
    """Bytes under the convention of most published floors: weights of matrices, and keys and values, once.

    An embedding table is only gathered from, so it does not count; new keys and values count once, where they are
    written, cached ones where they are read. The arithmetic that goes with it is the matrix unit's.
    """
    seen: dict[str, None] = {}
    moved = []
    for op in ops:
        total: Size = 0
        tensors = [t for t in op.reads if t.role == "weight" and op.kind == "contraction" and not _is_vector(t.dims)]
        tensors += [t for t in op.reads if t.role == "kv" and t.ident not in seen]
        written = [t for t in op.writes if t.role == "kv"]
        seen.update(dict.fromkeys(t.ident for t in (*tensors, *written)))
        for tensor in (*tensors, *written):
            total = total + tensor.traffic_bytes
        moved.append(Work() if isinstance(total, int) and total == 0 else Work.bytes("main", total))
    return moved


def needs(
    model: Model,
    ops: Sequence[Op],
    length: Size,
    batch: Size,
    options: Mapping[str, Any],
    beside: Sequence[tuple[Size, Size]] = (),
) -> Footprint:
    """Memory of a step: weights, keys and values and states of all sequences, activations alive at once.

    ``beside`` lists the lengths and numbers of further sequences.
    """
    model = model.in_format(options.get("activations") or model.dtype)
    return Footprint(
        {
            "weights": model.weight_bytes(options.get("weights")),
            "kv": _added(
                model.cache_bytes(tokens, batch=count, dtype=options.get("kv"))
                for tokens, count in ((length, batch), *beside)
            ),
            "activations": activation_bytes(ops),
        }
    )


def _added(values: Iterable[Size]) -> Size:
    first, *rest = values
    return sum(rest, first)


def _is_vector(dims: tuple[Size, ...]) -> bool:
    return len(dims) < 2


def _assumptions(
    model: Model,
    ops: Sequence[Op],
    phase: str,
    policy: str,
    options: dict[str, Any],
    needed: Footprint,
    machine: Machine,
) -> list[str]:
    from roofline.quantity import format_quantity

    alone = machine.mesh is None or not any(op.kind == "collective" for op in ops)
    chips = "one chip, no network" if alone else f"one of the chips {', '.join(map(str, machine.mesh or ()))}"
    # the chips of a pool are among the machine's notes
    said = ["2 FLOPs per multiply-add", *([chips] if machine.pooled == 1 else []), POLICY_TEXT[policy]]
    said.append(
        "measured fractions where known" if machine.use_achievable else "dense data-sheet peaks and one-way bandwidths"
    )
    section = model.quantisation
    activations = options.get("activations") or model.dtype
    stored = f"as the {section.method} section says" if section else model.dtype
    if options.get("weights"):
        ends = [name for name, is_there in (("embedding", model.embeds), ("head", model.head)) if is_there]
        kept = f" ({' and '.join(ends)} {model.dtype})" if ends and options["weights"] != model.dtype else ""
        stored = f"{options['weights']}{kept}"
    kv = options.get("kv") or (section.kv if section else None) or activations
    attends = any(op.kind == "attention" for op in ops)
    formats = [f"weights {stored}", f"activations {activations}", *([f"keys and values {kv}"] if attends else [])]
    states = {t.dtype for op in ops if op.kind == "recurrence" for t in op.writes if t.role == "state"}
    said.append(", ".join([*formats, *(f"states {dtype}" for dtype in sorted(states))]))
    if model.causal and attends:
        every = options.get("count") == "full"
        said.append(
            "every pair of query and key is counted, masked or not"
            if every
            else "causal attention: each token sees itself and what came before"
        )
    said += dict.fromkeys(op.note for op in ops if op.kind == "collective" and op.note)
    if phase == "prefill" and model.head:
        said.append(_LOGITS[options.get("logits", "last")])
    if any("groups" in op.dims for op in ops):
        said.append(
            "experts touched: E·(1 − (1 − k/E)^tokens)"
            if not options.get("skew")
            else "experts touched by the skew given"
        )
    if any(".absorb_key" in op.where for op in ops):
        said.append("latent attention is absorbed: it works on the cached latents")
    if model.vision is not None and phase == "prefill":
        said.append(model.vision.said(options.get("images", 0), options.get("image_size"), not alone))
    elif model.vision is not None:
        said.append("the vision tower runs in prefill alone; its weights are in memory")
    said += model.notes
    said += describe_given(machine)
    said += machine.notes
    total, capacity = needed.total, needed.capacity
    if capacity is not None and not is_array(total) and not is_symbol(total) and total > capacity:
        over = format_quantity(float(total) - capacity, "B")
        said.append(
            f"does not fit: it needs {format_quantity(float(total), 'B')}, {over} more than the "
            f"{format_quantity(capacity, 'B')} of {needed.level}"
        )
    return list(dict.fromkeys(said))


__all__ = ["PHASES", "POLICY_TEXT", "check_policy", "needs", "serve_bound", "step_bound", "streamed"]
