"""Training a model: the floor of a step over all chips, memory by part, how long a token budget takes.

>>> found = train("llama-3-70b", on="v5p:16x16x16", batch_tokens=2**22, fsdp=512, tensor=8, tokens=15 * 10**12)
>>> found.chips, round(found.lower, 2), found.bound.kind, round(found.mfu, 2), round(found.days, 1)
(4096, 1.17, 'network-bound', 0.83, 48.2)
>>> found.least_chips
1024

Stages of a pipeline wait for each other, which the step's time holds; one microbatch a sequence:

>>> piped = train("llama-3-70b", on="h100:256", batch_tokens=2**20, tensor=8, pipeline=4, zero=1)
>>> piped.microbatches, round(piped.bubble, 3), [stage.numbers for stage in piped.stages]
(32, 0.081, [(0,), (1,), (2,), (3,)])
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from typing import Any

from roofline import dtypes, sizes
from roofline.answers import estimable
from roofline.bounds.api import target
from roofline.bounds.bound import Bound, one_after_another
from roofline.bounds.case import Case
from roofline.bounds.conventions import OF_OPERATIONS, Conventions, taken_from
from roofline.errors import InputError, LayoutError, SizeError
from roofline.frozen import replace
from roofline.hardware.figures import chip_power, hourly_price, is_tdp
from roofline.hardware.machine import Machine
from roofline.hardware.rate import rate
from roofline.models.blocks.collectives import PARTS_SENT
from roofline.models.blocks.encoder import refuse_encoder
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.idle import HAS, TRAINING, refuse_algorithm, refuse_idle
from roofline.models.operation_builder import ForwardPass
from roofline.models.operations import forward_pass, matrix_flops
from roofline.models.parallelism.block_splitting import check_experts, split_by_layout
from roofline.models.parallelism.layout import OPTIONS, Parallelism, axis_across_slices, name_axes, refuse_more
from roofline.models.parallelism.schedules import Schedule, check_schedule, schedule
from roofline.models.training import stage
from roofline.models.training.answer import Training
from roofline.models.training.passes import (
    Recomputation,
    above_gradients,
    adapters,
    check_modules,
    forward,
    is_frozen,
    layer_weights,
    policy,
)
from roofline.models.training.stage import Formats, Passes, Stage, StepPlan
from roofline.ops.attention import FUSED_ATTENTION
from roofline.ops.collectives.choice import Chooser
from roofline.quantity import Figure, figure, format_amount, given_amount
from roofline.signatures import call, renamed, setting, spelled, takes
from roofline.sizes import Size, check, exact_div, is_array, is_one, is_symbol, maximum, sums_by_name
from roofline.statements import Assumption, Gap, assume, missing
from roofline.work import Key, Op


def laid_out(asked: TrainingQuestion) -> Parallelism:
    """How one copy of the model is laid on chips, with the copies that share its experts."""
    tensor, context, expert = asked.tensor, asked.context_parallel, asked.expert
    numbers = {"tensor": tensor, "context_parallel": context, "expert": expert}
    several = next((name for name, ways in numbers.items() if not isinstance(ways, int)), None)
    if several is not None:
        grid = call("sweep", asked.model.name, phase="train")
        raise SizeError(f"{several} is not one number of chips", hint=f"one layout at a time; {grid} takes several")
    ways = {OPTIONS[name]: check(name, size) for name, size in numbers.items()}
    made = Parallelism(**ways, sequence=asked.sequence_parallel)
    check_experts(asked.model, expert)
    inside = tensor * context
    if expert > inside and expert % inside:
        raise LayoutError(f"experts on {expert} chips, of which {inside} run a copy", hint=f"a multiple of {inside}")
    if expert <= inside and expert not in (1, tensor, inside):
        raise LayoutError(f"experts on {expert} chips, of which {inside} run a copy", hint=f"1, {tensor} or more")
    exchange = asked.expert_exchange or ("all-to-all" if expert > tensor else "all-reduce")
    return replace(made, data=max(expert // inside, 1), exchange=exchange, algorithm=asked.algorithm).checked()


def over_chips(copy: Parallelism, machine: Machine, asked: TrainingQuestion) -> Parallelism:
    """How a step is laid on a target's chips, of which ``copy`` takes some."""
    stages, pieces = check("pipeline", asked.pipeline), check("chunks", asked.chunks)
    if stages * pieces > len(asked.model.layers):
        wrong = f"{len(asked.model.layers)} layers do not make {stages * pieces} pieces of a pipeline"
        raise SizeError(wrong, hint=f"at most {len(asked.model.layers)} stages")
    copies = None if asked.data is None else check("data", asked.data)
    same = {name: getattr(copy, name) for name in ("tensor", "sequence", "context", "expert", "exchange", "algorithm")}
    return Parallelism.on(machine, copies=copies, fsdp=asked.fsdp, pipeline=stages, **same)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TrainingQuestion:
    """A training step as a question; :func:`train` says what each field is. ``target`` holds options of the target.

    ``as_fits`` says that ``microbatches`` were not given, and are as many as fit: None where that is one, or none do,
    and of a pipeline.
    ``symbolic`` keeps the rates as symbols, for a closed form; else those of a form with open sizes are numbers, since
    days, dollars and joules follow from its times.
    """

    model: Model
    on: str | Machine
    batch_tokens: Size
    sequence: Size | None = None
    data: int | None = None
    pipeline: int = 1
    fsdp: int | None = None
    expert: int = 1
    expert_exchange: str | None = None
    context_parallel: int = 1
    tensor: int = 1
    sequence_parallel: bool = True
    schedule: str = "1f1b"
    chunks: int = 1
    microbatches: Size | None = None
    algorithm: str | None = None
    zero: int = 3
    checkpoint: str | int = "selective"
    saved_activations: str | None = None
    unfused: bool = False
    lora: int | None = None
    weights: str | None = None
    gradients: str | None = None
    optimizer: str = "adam"
    moments: str = "fp32"
    master: str | None = "fp32"
    tokens: Figure | None = None
    mfu: Figure | None = None
    measured: float | str | None = None
    price: Figure | None = None
    power: Figure | None = None
    count: str = "causal"
    conventions: Conventions = field(default_factory=lambda: Conventions(policy="minimal"))
    target: Mapping[str, Any] = field(default_factory=dict)
    symbolic: bool = False
    as_fits: bool = False

    @property
    def frozen(self) -> str | None:
        """The format of weights that are not trained, where it is not the model's own."""
        return None if self.lora is None or self.weights is None else dtypes.get(self.weights).name

    def vary(self, **changes: Any) -> TrainingQuestion:
        """The question with some of its fields, or of its conventions, replaced."""
        ours = {name: changes.pop(name) for name in OF_OPERATIONS if name in changes}
        return dataclasses.replace(self, conventions=replace(self.conventions, **ours), **changes)

    def answer(self) -> Training:
        """Work the step out."""
        took = None if self.measured is None else given_amount("measured", self.measured)
        plan = _planned(self, took)
        model, machine, layout = plan.model, plan.machine, plan.layout
        peak = rate(machine, Key("flops", "matrix", dtypes.get(model.dtype).arithmetic))
        if peak is None:
            wrong = f"{machine.name} has no peak for {model.dtype}"
            raise InputError(wrong, hint=f"give one: {setting(model.dtype)}")
        case, alike = _case(plan), dict[Any, Bound]()
        kinds, is_open = list(_kinds(plan)), _is_of_any_number(plan)
        work = {held: found for _, held, found in _kinds(_in_parts(plan, 1))} if is_open else {}
        stages = tuple(
            _stage(numbers, held, found, work.get(held), plan, case, alike) for numbers, held, found in kinds
        )
        short = sizes.Definitions()
        shorten: Any = short if self.symbolic else lambda name, form, most=0: form
        smallest, most = _smallest(plan) if is_open else (plan, plan.microbatches)
        each = {held: found for _, held, found in (kinds if smallest is plan else _kinds(smallest))}
        passes, run = [(each[held], work.get(held)) for _, held, _ in kinds], plan._replace(microbatches=most)
        lower, op_by_op, upper = _times(stages, passes, case, run, shorten)
        batch = exact_div(plan.total, plan.length)
        whole = replace(plan.step, batch=batch, group=None, context=1, ring=False, unfused=False)
        ops = _forward(model, whole, self.frozen)
        watts = chip_power(machine, self.power)
        price = hourly_price(machine, self.price)
        found = Training(
            model, stages, layout, plan.total, plan.length, plan.microbatches, plan.order.name, plan.policy.name,
            model_flops=_model_flops(ops, self.lora),
            flops=sum(s.bound.flops * len(s.numbers) for s in stages) * layout.chips / self.pipeline,
            six=_usual_flops(model, ops, self.lora) * plan.total,
            peak=float(peak.value), lower=lower, op_by_op=op_by_op, upper=upper, stated=self.mfu, measured=took,
            tokens=self.tokens, price=price, power=watts,
            question=self, definitions=short,
        )  # fmt: skip
        estimate = _estimate(found, self.conventions.overlap)
        if is_open and estimate is not None:  # of a schedule that can be run, whose memory it says
            estimate = self.vary(microbatches=plan.microbatches, measured=None).answer().estimate
        return replace(found, estimate=estimate)

    @property
    def fits(self) -> Any:
        """Whether a step without a pipeline fits the memory, without its times; None where that is not known."""
        plan = _planned(self, None)
        ((_, _, found),) = _kinds(plan)
        footprint = replace(_case(plan), memory=found.memory).footprint()
        return None if footprint is None else footprint.fits


@lru_cache(maxsize=64)
def _stored_in(model: Model, dtype: str) -> Model:
    """The model as it is trained; the same value each time, so that what was made for it is found again."""
    return replace(model.in_format(dtype), dtype=dtype, quantisation=None)


@lru_cache(maxsize=128)
def _split(model: Model, copy: Parallelism, notes: tuple[str, ...], machine: Machine) -> Model:
    """One chip's part; advice asks for most of its steps in one layout. Notes are part of a key."""
    return split_by_layout(model, copy, machine)


def _forward(model: Model, step: ForwardPass, frozen: str | None) -> tuple[Op, ...]:
    """The operations of a forward pass; advice asks for most of its steps with the same passes."""
    parts = {each.name: getattr(step, each.name) for each in fields(step)}
    made = _forward_of.__wrapped__ if any(map(is_array, parts.values())) else _forward_of
    return made(model, frozen, **parts)


@lru_cache(maxsize=64, typed=True)
def _forward_of(model: Model, frozen: str | None, **parts: Any) -> tuple[Op, ...]:
    return forward(forward_pass(model, ForwardPass(**parts), frozen))


def _planned(asked: TrainingQuestion, took: float | None) -> StepPlan:
    """How a step is done, from what was asked; ``took`` are the seconds that it took in reality."""
    model, (chosen, order) = asked.model, _checked(asked)
    refuse_encoder(model, "training")
    if took is not None and asked.mfu is not None:
        raise InputError("mfu and measured both say how long a step takes", hint="leave one of them out")
    machine, copy = target(asked.on, **asked.target), laid_out(asked)
    layout = over_chips(copy, machine, asked)
    machine = name_axes(machine, layout.axes)
    rank = _rank(asked, layout)
    chosen_format = dtypes.get(asked.weights or model.dtype).name
    stored = chosen_format if not rank else model.dtype
    gradients = dtypes.get(asked.gradients or stored).name
    formats = Formats(stored, gradients, asked.moments, asked.master, asked.optimizer)
    model = _stored_in(model, stored)
    length = check("sequence", model.usual_length if asked.sequence is None else asked.sequence)
    total = check("batch_tokens", asked.batch_tokens)
    given = {"batch_tokens": total, "sequence": length, "microbatches": asked.microbatches}
    listed = {name: each for name, each in given.items() if is_array(each)}
    refuse_more(math.prod(sizes.common_shape(listed)), listed)
    if took is not None and any(is_array(size) or is_symbol(size) for size in given.values()):
        hint = "give batch_tokens, sequence and microbatches one number each"
        raise InputError("a measured time is of one step", hint=hint)
    local = _split(model, copy, copy.notes, machine) if copy.chips > 1 else model
    share = exact_div(exact_div(total, length), layout.parts)
    parts: Size = 1 if asked.pipeline == 1 else order.one_a_sequence(share, asked.pipeline)
    parts = parts if asked.microbatches is None else check("microbatches", asked.microbatches)
    check_schedule(order, stages=asked.pipeline, microbatches=parts, chunks=asked.chunks)
    step = replace(_forward_pass(asked, model, exact_div(share, parts), length, layout), rank=rank)
    return StepPlan(
        asked, model, local, machine, layout, total, length, share, parts, step, chosen, order, formats,
        Chooser(asked.algorithm, machine), local.weight_bytes(chosen_format) if rank else None,
    )  # fmt: skip


def _is_of_any_number(plan: StepPlan) -> bool:
    """Whether microbatches over stages are of any number, as none is stated."""
    return plan.asked.microbatches is None and plan.asked.pipeline > 1


def _in_parts(plan: StepPlan, parts: Size) -> StepPlan:
    """The step in another number of microbatches."""
    step = _forward_pass(plan.asked, plan.model, exact_div(plan.share, parts), plan.length, plan.layout)
    return plan._replace(step=replace(step, rank=plan.step.rank), microbatches=parts)


def _smallest(plan: StepPlan) -> tuple[StepPlan, Size]:
    """The step in microbatches of no more than a sequence, and how many there are in the fullest copy at most.

    A copy has whole sequences, more or fewer than on average. In a closed form all have as many.
    """
    if is_symbol(plan.share):
        return plan, plan.microbatches
    parts = maximum(plan.share, plan.microbatches)
    is_same = is_one(exact_div(parts, plan.microbatches))
    return plan if is_same else _in_parts(plan, parts), sizes.ceil_div(parts, 1)


def _case(plan: StepPlan) -> Case:
    """What all stages have in common; each adds its operations and its memory."""
    conventions = plan.asked.conventions
    vision = "the vision tower is not in it: the language part is trained"
    gaps = [*missing("field", plan.local.gaps), *([Gap("model", vision)] if plan.model.vision else [])]
    more = {name: size for name, size in plan.layout.axes.items() if not is_one(size)}
    return Case(
        (),
        plan.machine,
        conventions,
        name=f"{plan.model.name} training step",
        sizes={"batch_tokens": plan.total, "sequence": plan.length, **more},
        assumptions=_assumptions(plan),
        gaps=(*gaps, *_unsplit(plan)),
        request={"policy": conventions.policy, "checkpoint": plan.policy.name, **conventions.changes()},
    )


@takes(
    TrainingQuestion,
    target,
    renamed(Conventions, dict(zip(OF_OPERATIONS, OF_OPERATIONS, strict=True))),
    but=("conventions", "target"),
)
def training_question(model: Model | str, *, on: str | Machine, batch_tokens: Size, **options: Any) -> TrainingQuestion:
    """What :func:`train` is asked, before it is worked out; a closed form asks it with ``symbolic``."""
    described, conventions = load(model), taken_from(options, "minimal")
    known = {each.name for each in fields(TrainingQuestion)}
    chosen = {name: options.pop(name) for name in list(options) if name in known}
    if is_tdp(chosen.get("power")):  # as without it
        chosen["power"] = None
    units = {"mfu": "", "power": "W"}
    chosen |= {name: figure(chosen[name], unit) for name, unit in units.items() if name in chosen}
    asked = TrainingQuestion(
        model=described, on=on, batch_tokens=batch_tokens, conventions=conventions, target=options, **chosen
    )
    laid_out(asked)  # what is wrong with a layout is said in its own words, not by the kind of an argument
    return asked


@estimable
@takes(training_question, but=("symbolic", "as_fits"))
def train(model: Model | str, *, on: str | Machine, batch_tokens: Size, **options: Any) -> Training:
    """Work out one training step of ``batch_tokens`` tokens over all chips, in sequences of ``sequence`` (4096).

    >>> alone = train("llama-3-8b", on="h100", batch_tokens=8192)
    >>> alone.model_flops / alone.six  # attention and the head beside the parameters
    1.0014195264198706
    >>> alone.memory.fits, alone.least_chips
    (False, 2)

    Parameters
        ``on``         chips and how many of them, as in ``h100:64``
        ``data``, ``pipeline``, ``fsdp``, ``tensor``  chips by use: their product is the target's; ``fsdp`` takes what
                       is left, ``data`` is the number of slices, or what a given ``fsdp`` leaves. ``fsdp`` chips share
                       weights, gradients and states by ``zero`` stage, ``data`` chips copy them, ``pipeline`` stages
                       hold some layers each, ``tensor`` chips split every layer
        ``expert``     chips that hold whole experts each and send each other tokens: all ``tensor`` and
                       ``context_parallel`` chips of some copies, which have their own part of the batch;
                       ``expert_exchange`` is all-to-all, per-expert or all-reduce, as in serving
        ``context_parallel``  chips that share each sequence and pass keys and values round a ring
        ``sequence_parallel``  with ``tensor``: the hidden state between blocks is split by tokens
        ``schedule``   of the pipeline: ``gpipe``, ``1f1b``, ``interleaved`` with ``chunks`` pieces a stage, ``zb-h1``,
                       ``zb-h2``
        ``microbatches``  parts of each copy's batch that run one after the other and add up their gradients; with a
                       pipeline one a sequence, else 1
        ``algorithm``  of the collectives, as in :func:`roofline.comm`; the fastest at each size unless given
        ``checkpoint``  ``none``, ``selective``, ``matmuls``, ``full``, how many hidden states a layer keeps, or the
                       modules that are run again (``"layernorm,mla_up_proj"``, Megatron's names or the model's own)
        ``saved_activations``  format that activations wait in for the backward pass, by default their own
        ``unfused``    attention writes its scores and probabilities to memory, and the policy ``none`` keeps these
        ``lora``       rank of adapters beside each matrix of a layer, which are trained alone (LoRA); ``weights`` are
                       then those that are frozen, ``nf4`` for instance (QLoRA), and activations stay in the model's own
        ``weights``, ``gradients``, ``moments``, ``master``  formats; gradients are as weights, ``master`` may be None
        ``optimizer``  adam (adamw), adafactor, lion, momentum, muon, sgd
        ``tokens``, ``price``, ``power``, ``mfu``  a token budget; dollars for a chip-hour; watts of a chip (the data
                       sheet's); a stated model FLOPs utilisation
        ``measured``   seconds that a step takes in reality: what it reached, and how far it is from the floor
        ``policy``, ``tile``  which bytes count: ``minimal`` (default), ``fused``, ``each-op``, ``tiled``, ``streamed``
        ``overlap``, ``overhead``  a share of times that overlap, a time for every operation started: an estimate

    The rest are options of the target, as in :func:`roofline.bound`.

    Sizes of the batch may be numbers, arrays or symbols; numbers of chips are numbers.
    """
    refuse_idle(options, TRAINING, load(model))
    found = training_question(model, on=on, batch_tokens=batch_tokens, **options).answer()
    layout = found.layout
    if options.get("zero", 3) != 3 and is_one(layout.sharing_states):
        copies = layout.copies
        instead = f"{spelled('fsdp', copies)} in place of {spelled('data', copies)} shares over the copies; or "
        hint = f"{'' if is_one(copies) else instead}leave it out"
        raise InputError(f"{spelled('zero')} says nothing where fsdp is 1: no chips share a copy", hint=hint)
    refuse_algorithm(options, [tuple(layout.axes.values())])
    return found


def _checked(asked: TrainingQuestion) -> tuple[Recomputation, Schedule]:
    mfu, power = asked.mfu, asked.power
    chosen, scheduled = policy(asked.checkpoint), schedule(asked.schedule)
    stage.optimizer_named(asked.optimizer)
    if asked.gradients == "none":
        hint = f"leave it out: {spelled('memory')} alone is without gradients"
        raise InputError(f"{spelled('gradients', 'none')}: a step adds up gradients, which have a format", hint=hint)
    stage.check_trained(weights=None if asked.lora else asked.weights, gradients=asked.gradients, master=asked.master)
    if not asked.model.width:
        hint = f"name a model, as in llama-3-8b; {spelled('memory')} and {spelled('tokens')} alone take a number"
        raise InputError(f"a step is of a model's layers, and {asked.model.name} have none", hint=hint)
    if not asked.model.head:
        raise InputError(f"{asked.model.name} has no output head to train", hint="a model that predicts tokens")
    if mfu is not None and not 1e-6 <= mfu <= 1:  # below, times have no number
        raise InputError(f"mfu {mfu} is not a fraction", hint="0.4 is 40% of the chips' peak")
    if asked.tokens is not None:
        check("tokens", asked.tokens)
    if power is not None and power <= 0:
        raise InputError(f"power {power} is not above 0", hint="watts of one chip, as in 700")
    return chosen, scheduled


def _forward_pass(asked: TrainingQuestion, model: Model, batch: Size, length: Size, layout: Parallelism) -> ForwardPass:
    if asked.count not in ("causal", "full"):
        raise InputError(f"count {asked.count!r} is not understood", hint="'causal' or 'full'")
    return ForwardPass(
        batch, length, wanted=None, activations=model.dtype, kv=model.dtype, full=asked.count == "full",
        group=batch * layout.sharing if layout.sharing > 1 else None, context=layout.context, ring=layout.context > 1,
        unfused=asked.unfused,
    )  # fmt: skip


def _unsplit(plan: StepPlan) -> list[Gap]:
    batch = plan.step.batch
    if is_array(batch) or is_symbol(batch) or batch >= 1:
        return []
    where, instead = "copy of the model", "fewer copies"
    if not is_one(plan.microbatches):  # where no number is stated they are interleaved, as many as stages
        where, instead = "microbatch", "another schedule" if _is_of_any_number(plan) else "fewer microbatches"
    text = f"{batch:.3g} sequences for each {where}: to split one over chips is not modelled; "
    return [Gap("model", f"{text}{instead}, shorter sequences or a larger batch would do")]


def _rank(asked: TrainingQuestion, layout: Parallelism) -> int:
    """The rank of adapters; 0 where all weights are trained."""
    if asked.lora is None:
        return 0
    several = next((name for name in ("pipeline", "expert") if not is_one(layout.axes[name])), None)
    if several is not None:
        raise InputError(f"{spelled('lora')} with {spelled(several)} is not modelled", hint=f"leave {several} out")
    return int(check("lora", asked.lora))


def _model_flops(ops: Sequence[Op], rank: int | None) -> Size:
    """FLOPs of matrix products, forward and backward.

    A product with a frozen matrix has no gradient of the matrix, and ahead of all adapters none of its input.
    """
    total = 3 * matrix_flops(ops)
    if rank is None:
        return total
    trained = adapters(ops)
    above = above_gradients(ops, trained)
    less = matrix_flops(op for op in ops if is_frozen(op, trained))
    return total - less - sum(op.work.total("flops", "matrix") for op in ops if (op.group, op.where) in above)


def _usual_flops(model: Model, ops: Sequence[Op], rank: int | None) -> Size:
    """The usual FLOPs of a token: 6 for each parameter, of those that are frozen 4."""
    if rank is None:
        return 6 * model.active_parameters
    count = sum(count * repeat for count, repeat in layer_weights(ops, trained=adapters(ops)).values())
    return 4 * model.active_parameters + 6 * count


def _kinds(plan: StepPlan) -> Iterable[tuple[tuple[int, ...], tuple[Any, ...], Passes]]:
    """The kinds of stage there are: which stages, what one of them holds and exchanges, what it does."""
    asked, model, stages = plan.asked, plan.local, plan.asked.pipeline
    ops = _forward(model, plan.step, asked.frozen)
    check_modules(plan.policy, ops)
    held = stage.cut(model, stages, asked.chunks)
    exchanged = stage.held_by_several(model, held)
    alike: dict[Any, tuple[Size, list[int]]] = {}
    counts = {"stages": stages, "microbatches": plan.microbatches, "chunks": asked.chunks}
    for number, layers in enumerate(held):
        ends = (number == 0, number == stages - 1)
        waiting = plan.order.microbatches_in_flight(number, **counts)
        same = tuple(model.layers[i] for i in layers), ends, exchanged[number]
        alike.setdefault((same, str(waiting)), (waiting, []))[1].append(number)
    known: dict[Any, Callable[[Size], Passes]] = {}  # of stages that differ in memory alone
    for (same, _), (waiting, numbers) in alike.items():
        if same not in known:
            layers, (_, ends, sent) = held[numbers[0]], same
            mine = stage.operations_of(model, ops, layers, *ends)
            parameters = stage.parameters_held(plan, layers, ends)
            added = stage.added_up_by_tensor_chips(plan, layers, ends)
            known[same] = stage.passes(plan, mine, parameters, ends, sent, added)
        yield tuple(numbers), same, known[same](waiting)


def _stage(
    numbers: tuple[int, ...], held: tuple[Any, ...], found: Passes, whole: Passes | None, plan: StepPlan, case: Case,
    alike: dict[Any, Bound],
) -> Stage:  # fmt: skip
    """Price what one stage does; ``case`` is that of all stages, without operations.

    ``found`` are the passes of a microbatch, ``whole`` those of the whole batch as one, where any number may be taken.
    ``alike`` are the bounds of stages by what they hold: others that hold the same differ in memory alone.
    """
    known = alike.get(held)
    if known is None:
        done, times = (found, plan.microbatches) if whole is None else (whole, 1)
        each = stage.repeated([*done.forward, *done.inputs, *done.weights], times)
        bound = replace(case, ops=[*each, *done.once], memory=found.memory).answer(symbolic=plan.asked.symbolic)
        alike[held] = bound
    else:
        bound = replace(case, ops=[part.op for part in known.ops], memory=found.memory).again(known)
    assert bound.footprint is not None
    return Stage(numbers, len(held[0]), bound, bound.footprint, found.fixed)


def _times(
    stages: Sequence[Stage], found: Sequence[tuple[Passes, Passes | None]], case: Case, plan: StepPlan,
    shorten: Callable[..., Size],
) -> tuple[Size, Size, Size]:  # fmt: skip
    """The three times of a step with the waits of the pipeline; ``shorten`` gives long forms symbols of their own."""
    asked, order = plan.asked, plan.order
    if asked.pipeline == 1:
        bound = stages[0].bound
        return bound.lower, bound.op_by_op, bound.upper
    made: dict[int, tuple[Mapping[str, _Slot], Mapping[str, _Slot]]] = {}
    known: dict[int, tuple[Mapping[str, _Slot], Mapping[str, _Slot]]] = {}
    for one, (each, whole) in zip(stages, found, strict=True):
        alike = id(one.bound.ops)
        if alike not in known:
            own = _of_microbatch(one.bound, whole or each, 1 if whole else plan.microbatches, order.fills, shorten)
            smallest = own
            if whole is not None:
                ops = [*each.forward, *each.inputs, *each.weights]
                bound = replace(case, ops=ops, memory=each.memory).answer(symbolic=asked.symbolic)
                smallest = _of_microbatch(bound, each, 1, order.fills, shorten)
            known[alike] = smallest, own
        made.update(dict.fromkeys(one.numbers, known[alike]))
    numbers, rest = range(asked.pipeline), {"microbatches": plan.microbatches, "chunks": asked.chunks}

    def step(form: str) -> Size:
        none = (0, 0, 0), 0
        passes = [made[number][0].get(form, none)[0] for number in numbers]
        work, once = zip(*(made[number][1].get(form, none) for number in numbers), strict=True)
        return order.step(
            passes, once=once, whole=() if found[0][1] is None else work, **rest, shorten=partial(shorten, most=0)
        )

    times = {form: step(form) for form in dict.fromkeys(form for _, each in made.values() for form in each)}
    op_by_op, upper = times.pop("op by op"), times.pop("upper")
    return maximum(*times.values()), op_by_op, upper


#: Times of the three passes of a microbatch, and the rest of a step.
_Slot = tuple[tuple[Size, Size, Size], Size]


def _of_microbatch(
    bound: Bound, found: Passes, many: Size, fills: bool, shorten: Callable[[str, Size], Size]
) -> Mapping[str, _Slot]:
    """For each form of a step's time, those of a microbatch's passes, and the rest of a step.

    Passes that overlap are one slot at the floor. Where weight gradients fill waits (``fills``) each counts by itself:
    the floor is then the longest of those of each resource, as if all others took no time.
    """
    ends = (0, *accumulate(map(len, (found.forward, found.inputs, found.weights))))
    parts = [bound.ops[a:b] for a, b in pairwise(ends)]
    each = [sums_by_name(use for part in ops for use in part.times.items()) for ops in parts]
    slot = sums_by_name(use for times in each for use in times.items())
    if fills:
        forms = {name: ([times.get(name, 0) for times in each], total) for name, total in bound.times.items()}
    else:
        forms = {"lower": ([maximum(0, *slot.values()), 0, 0], bound.lower)}
    forms["op by op"] = [one_after_another(ops) for ops in parts], bound.op_by_op
    forms["upper"] = [sum(times.values()) for times in each], bound.upper

    def short(passes: Sequence[Size], total: Size) -> _Slot:
        ahead, back, weights = (shorten("pass", time / many) for time in passes)
        return (ahead, back, weights), shorten("rest", total - sum(passes))

    return {form: short(*sizes) for form, sizes in forms.items()}


def _estimate(found: Training, overlap: float | None) -> Size | None:
    """The slowest stage's estimate, and its waits with the same share of overlap."""
    own = found.bound.estimate
    if own is None:
        return None
    exposed = 0 if overlap is None else 1 - overlap
    unhidden = found.upper - found.bound.upper
    return own + found.idle + exposed * (unhidden - found.idle)


def _adapters_said(plan: StepPlan) -> str:
    """What is trained, and what is not."""
    asked, formats = plan.asked, replace(plan.formats, weights="none")
    beside = f"adapters of rank {asked.lora} beside each matrix of a layer are trained (experts have none)"
    frozen = f"all other weights are frozen in {asked.frozen or plan.model.dtype}"
    through = "gradients go through them down to the first adapters, and none is kept of them"
    return f"{beside}, {formats}; {frozen}: {through}"


#: How often weights are read, by whether the number of microbatches is stated.
_WEIGHTS_READ = {
    True: "weights are read for each",
    False: "memory and any estimate are of so many, the floor of any number up to these: weights are read once",
}


def _assumptions(plan: StepPlan) -> list[Assumption]:
    asked, model, layout, machine = plan.asked, plan.local, plan.layout, plan.machine
    counting, rates, moved = asked.conventions.said(machine, of_model=True)
    usual = [counting, moved, rates]
    said = [f"checkpointing {plan.policy.name}: {plan.policy.says}"]
    softmax = ""
    if HAS["attention"](plan.model):
        fused = "scores and probabilities of attention are in memory" if asked.unfused else FUSED_ATTENTION
        said += [fused, "every pair of query and key" if asked.count == "full" else "causal attention"]
        softmax = "; a softmax of attention 4 FLOPs a pair"
    if plan.saved:
        said.append(f"activations of layers wait for the backward pass in {plan.saved}; converting them is not counted")
    said.append(str(plan.formats) if asked.lora is None else _adapters_said(plan))
    said.append(f"vector operations count twice in the backward pass{softmax}")
    if not is_one(plan.shards()):
        turns = ": layers are gathered forward and backward, the table and the head once" if asked.zero == 3 else ""
        said.append(f"{plan.shards()} chips share by ZeRO stage {asked.zero}{turns}")
    if plan.shards(experts=True) != plan.shards():
        shards = plan.shards(experts=True)
        said.append("each expert is on one chip" if is_one(shards) else f"of the experts {shards} chips share one copy")
    if layout.pipeline > 1:
        pieces = f", {asked.chunks} pieces on each" if asked.chunks > 1 else ""
        said.append(f"{layout.pipeline} stages{pieces}, {plan.order.name}: {plan.order.says}")
        said.append("stages wait for each other as in the published schedule; sends are not waited for")
        if plan.alike > 1:
            said.append(f"{plan.alike} chips {PARTS_SENT}")
        if model.tied:
            said.append("the tied table is held by the first and the last stage, which exchange its gradients")
        if any(layer.shared for layer, _ in model.layer_counts()):
            said.append("stages whose layers share weights hold them each, and exchange their gradients")
    if not is_one(plan.microbatches):
        parts = format_amount(plan.microbatches) if is_array(plan.microbatches) else plan.microbatches
        several = "" if is_symbol(plan.microbatches) else f"{parts} "
        said.append(f"{several}microbatches one after the other: {_WEIGHTS_READ[not _is_of_any_number(plan)]}")
    if not (is_array(plan.share) or is_symbol(plan.share)) and plan.share != int(plan.share):
        on_average = f"{plan.share:.4g} sequences for each copy of the model on average"
        said.append(f"{on_average}; memory is that of {math.ceil(plan.share):,} whole ones")
    across = axis_across_slices(machine, layout.axes)
    if across is not None:
        said.append(f"{across} {layout.axes[across]:,} runs over the {machine.slices} slices")
    said += [*model.beyond_training(plan.length), *model.notes]
    if machine.mesh is not None:
        said += [f"chips are laid out as {', '.join(map(str, machine.mesh))}", *machine.mesh.notes]
    return [*usual, *assume("model", said)]
