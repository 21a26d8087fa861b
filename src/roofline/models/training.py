"""Training a model: the floor of a step on one chip of many, memory by part, how long a token budget takes.

>>> found = train("llama-3-70b", on="v5p:16x16x16", batch_tokens=2**22, fsdp=512, tensor=8, tokens=15 * 10**12)
>>> found.chips, round(found.bound.lower, 2), found.bound.kind, round(found.mfu, 2), round(found.days, 1)
(4096, 1.17, 'network-bound', 0.83, 48.3)
>>> found.least_chips
936
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from roofline import dtypes
from roofline.bounds.bound import Bound
from roofline.bounds.evaluate import evaluate
from roofline.bounds.footprint import Footprint
from roofline.bounds.traffic import traffic
from roofline.errors import InputError, SizeError, suggest
from roofline.hardware.machine import Machine
from roofline.hardware.rate import data_level, rate
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.operations import in_format, run
from roofline.models.parallel import divided, name_axes, split
from roofline.models.step import Step
from roofline.models.training_memory import at_work, kept, optimizer, states
from roofline.models.training_operations import Policy, backward, forward, layer_weights, loss, policy
from roofline.ops.collective import cost
from roofline.sizes import Size, ceil_div, check, is_array, is_symbol
from roofline.work import Key, Op, Tensor, Work

SCHEMA = "roofline/train/1"
DAY = 86400.0

#: Which bytes of a training step count.
POLICIES = ("minimal", "fused", "each-op")


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """One step of one chip, and what follows for all of them.

    ``model_flops`` are those of forward and backward of the whole batch, nothing run again, exact; ``six`` is
    6·parameters·tokens, the usual short form, of the parameters one token uses. ``mfu`` is ``model_flops`` over what
    the chips' peak could do in ``time``; ``time`` is the floor, or what a stated MFU makes of it.
    """

    model: Model
    bound: Bound
    chips: Size
    ways: dict[str, Size]
    batch_tokens: Size
    sequence: Size
    checkpoint: str
    model_flops: Size
    six: Size
    peak: float
    memory: Footprint
    fixed: Size
    stated: float | None = None
    tokens: Size | None = None
    price: float | None = None

    @property
    def time(self) -> Size:
        """Seconds of a step: the floor, or at the stated MFU."""
        if self.stated is None:
            return self.bound.lower
        return self.model_flops / (self.chips * self.peak * self.stated)

    @property
    def mfu(self) -> Size:
        """Model FLOPs over peak at :attr:`time`."""
        return self.model_flops / (self.chips * self.peak * self.time)

    @property
    def tokens_per_day(self) -> Size:
        """Tokens all chips train on in a day."""
        return self.batch_tokens / self.time * DAY

    @property
    def days(self) -> Size | None:
        """Days the token budget takes."""
        return None if self.tokens is None else self.tokens / self.tokens_per_day

    @property
    def cost(self) -> Size | None:
        """What the token budget costs at the stated price of a chip-hour."""
        return None if self.days is None or self.price is None else self.days * 24 * self.chips * self.price

    @property
    def least_chips(self) -> int | None:
        """The fewest chips the batch fits on, as many copies and splits as now; None where no number is enough."""
        total, capacity = self.memory.total, self.memory.capacity
        if capacity is None or not all(isinstance(value, int | float) for value in (total, self.fixed, self.chips)):
            return None
        if capacity <= self.fixed:
            return None
        copies, tensor = self.ways["data"], self.ways["tensor"]
        shared = (total - self.fixed) * self.chips / (copies * tensor)
        return int(ceil_div(shared, capacity - self.fixed) * copies * tensor)

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys in SI units (schema ``roofline/train/1``)."""
        return {
            "schema": SCHEMA,
            "model": self.model.name,
            "parameters": self.model.parameters,
            "chips": self.chips,
            "ways": dict(self.ways),
            "batch_tokens": _plain(self.batch_tokens),
            "sequence": _plain(self.sequence),
            "checkpoint": self.checkpoint,
            "model_flops": _plain(self.model_flops),
            "six_parameters_tokens": _plain(self.six),
            "time": _plain(self.time),
            "mfu": _plain(self.mfu),
            "stated_mfu": self.stated,
            "tokens_per_day": _plain(self.tokens_per_day),
            "days": _plain(self.days),
            "cost": _plain(self.cost),
            "memory": {
                "parts": {name: _plain(value) for name, value in self.memory.parts.items()},
                "total": _plain(self.memory.total),
                "capacity": self.memory.capacity,
                "fits": self.memory.fits,
            },
            "least_chips": self.least_chips,
            "step": self.bound.to_dict(),
        }


def train(
    model: Model | str,
    *,
    on: str | Machine,
    batch_tokens: Size,
    sequence: Size | None = None,
    data: int = 1,
    fsdp: int | None = None,
    tensor: int = 1,
    sequence_parallel: bool = True,
    zero: int = 3,
    checkpoint: str | int = "selective",
    weights: str | None = None,
    gradients: str | None = None,
    using: str = "adam",
    moments: str = "fp32",
    master: str | None = "fp32",
    tokens: Size | None = None,
    mfu: float | None = None,
    price: float | None = None,
    count: str = "causal",
    policy: str = "minimal",
    overlap: float | None = None,
    overhead: float | str | None = None,
    **target_options: Any,
) -> Training:
    """Work out one training step of ``batch_tokens`` tokens over all chips, in sequences of ``sequence`` (4096).

    >>> alone = train("llama-3-8b", on="h100", batch_tokens=8192)
    >>> alone.model_flops / alone.six                          # attention and the head beside the parameters
    1.0014195264198706
    >>> alone.memory.fits, alone.least_chips
    (False, 2)

    Parameters
        ``data``, ``fsdp``, ``tensor``  chips by use: their product is the target's; ``fsdp`` takes what is left.
                       ``fsdp`` chips share weights, gradients and states by ``zero`` stage, ``data`` chips copy them
        ``sequence_parallel``  with ``tensor``: the hidden state between blocks is split by tokens
        ``checkpoint``  ``none``, ``selective``, ``matmuls``, ``full``, or how many hidden states a layer keeps
        ``weights``, ``gradients``, ``moments``, ``master``  formats; gradients are as weights, ``master`` may be None
        ``using``      the optimizer: adam, lion, momentum, sgd
        ``tokens``, ``price``, ``mfu``  a token budget; dollars for a chip-hour; a stated model FLOPs utilisation
        ``policy``     which bytes count: ``minimal``, ``fused``, ``each-op``

    Sizes of the batch may be numbers, arrays or symbols; numbers of chips are numbers.
    """
    from roofline.bounds.api import target
    from roofline.quantity import parse

    described = load(model) if isinstance(model, str) else model
    chosen, trained_by = _policy(checkpoint), optimizer(using)
    _check(described, policy, mfu, price)
    machine = target(on, **target_options)
    ways = _ways(machine, data, fsdp, tensor)
    machine = name_axes(machine, ways)
    stored = dtypes.get(weights or described.dtype).name
    of_gradients = dtypes.get(gradients or stored).name
    described = replace(in_format(described, stored), dtype=stored, quantisation=None)
    length = check("sequence", min(4096, described.context or 4096) if sequence is None else sequence)
    total = check("batch_tokens", batch_tokens)
    local = split(described, _axes(machine, "tensor"), sequence=sequence_parallel) if tensor > 1 else described
    step = _step(described, total, length, ways["data"] * ways["fsdp"], count)
    whole = forward(run(described, replace(step, batch=divided(total, length))))
    once = forward(run(local, step))
    stream = _stream(local, step, tensor if sequence_parallel else 1)
    last = loss(once[-1].writes[0])
    there = [*once, last]
    back = backward(once, chosen, of_gradients, machine.mesh)
    shared = _shared(once, machine, zero, stored, of_gradients)
    sizes = {"weights": stored, "gradients": of_gradients, "moments": moments, "master": master}
    held = states(
        local.parameters, weights=stored, gradients=of_gradients, using=using, moments=moments, master=master,
        shards=ways["fsdp"], zero=zero,
    )  # fmt: skip
    update = _update(local, ways["fsdp"] if zero else 1, trained_by.flops, held)
    ops = [*there, *back, *shared, update]
    passing = max(count * dtypes.get(stored).bits / 8 for count, _ in layer_weights(once).values())
    gathered = passing if zero == 3 and ways["fsdp"] > 1 else 0
    renewed = at_work(once) if chosen.name not in ("none", "selective") else 0
    where = data_level(machine)
    capacity = where.capacity.value if where.capacity else None
    parts = {**held, "activations": kept(once, chosen, stream), "a layer at work": gathered + renewed}
    needed = Footprint(parts, where.name, capacity)
    bound = evaluate(
        ops,
        traffic(ops, policy),
        machine,
        expression=f"{described.name} training step",
        sizes={"batch_tokens": total, "sequence": length, **{name: n for name, n in ways.items() if n > 1}},
        footprint=needed,
        overlap=overlap,
        overhead=None if overhead is None else parse(overhead, "s"),
        assumptions=_assumptions(local, chosen, ways, zero, sizes, using, policy, count, step, machine),
        request={"policy": policy, "checkpoint": chosen.name},
    )
    peak = rate(machine, Key("flops", "matrix", dtypes.get(stored).arithmetic))
    if peak is None:
        raise InputError(f"{machine.name} has no peak for {stored}", hint=f"give one: set {stored}=… FLOP/s")
    return Training(
        model=described,
        bound=replace(bound, incomplete=(*local.gaps, *_unsplit(step), *bound.incomplete)),
        chips=ways["data"] * ways["fsdp"] * ways["tensor"],
        ways=ways,
        batch_tokens=total,
        sequence=length,
        checkpoint=chosen.name,
        model_flops=3 * _sum(op.work.total("flops", "matrix") * op.repeat for op in whole),
        six=6 * described.active_parameters * total,
        peak=float(peak.value),
        memory=needed,
        fixed=gathered + sum(held[name] for name, stage in _STAGES.items() if zero < stage),
        stated=mfu,
        tokens=tokens,
        price=price,
    )


#: The ZeRO stage from which each part is shared.
_STAGES = {"optimizer": 1, "gradients": 2, "weights": 3}


def _policy(checkpoint: str | int) -> Policy:
    return policy(checkpoint)


def _check(model: Model, byte_policy: str, mfu: float | None, price: float | None) -> None:
    if byte_policy not in POLICIES:
        raise InputError(
            f"unknown byte policy {byte_policy!r}", hint=suggest(byte_policy, POLICIES, what="byte policies")
        )
    if not model.head:
        raise InputError(f"{model.name} has no output head to train", hint="a model that predicts tokens")
    if mfu is not None and not 0 < mfu <= 1:
        raise InputError(f"mfu {mfu} is not a fraction", hint="0.4 is 40% of the chips' peak")
    if price is not None and price < 0:
        raise InputError(f"price {price} is negative", hint="dollars for a chip-hour")


def _ways(machine: Machine, data: int, fsdp: int | None, tensor: int) -> dict[str, Size]:
    """Chips by use; what is not given goes to ``fsdp``."""
    chips = machine.slices
    for size in machine.shape:
        chips *= size
    given = {"data": check("data", data), "tensor": check("tensor", tensor)}
    if fsdp is None:
        rest, over = divmod(chips, data * tensor)
        if over and machine.shape:
            raise SizeError(f"{chips} chips are no multiple of data {data} · tensor {tensor}")
        fsdp = max(rest, 1) if machine.shape else 1
    return {"data": given["data"], "fsdp": check("fsdp", fsdp), "tensor": given["tensor"]}


def _axes(machine: Machine, *names: str) -> Any:
    if machine.mesh is None:
        return ()
    return tuple(axis for axis in machine.mesh if axis.name in names)


def _step(model: Model, tokens: Size, length: Size, groups: Size, count: str) -> Step:
    if count not in ("causal", "full"):
        raise InputError(f"count {count!r} is not understood", hint="'causal' or 'full'")
    if model.context is not None and isinstance(length, int) and length > model.context:
        raise SizeError(f"{model.name} takes sequences of up to {model.context} tokens, not {length}")
    batch = divided(divided(tokens, length), groups)
    return Step(batch, length, wanted=length, activations=model.dtype, kv=model.dtype, full=count == "full")


def _unsplit(step: Step) -> list[str]:
    if is_array(step.batch) or is_symbol(step.batch) or step.batch >= 1:
        return []
    return [
        f"{step.batch:.3g} sequences for each copy of the model: to split one over chips is not modelled; "
        "fewer copies, shorter sequences or a larger batch would do"
    ]


def _stream(model: Model, step: Step, ways: int) -> Tensor:
    """The hidden state between two layers, as one chip holds it."""
    return Tensor("hidden state", (divided(step.tokens, ways), model.width), step.activations)


def _shared(ops: Sequence[Op], machine: Machine, zero: int, weights: str, gradients: str) -> list[Op]:
    """Collectives of weights and gradients by group of layers: what chips share they gather, what differs they add."""
    found: list[Op] = []
    sharing, copying = _axes(machine, "fsdp"), _axes(machine, "data")
    calls: list[tuple[str, str, Any, str, Size]] = []
    if sharing and zero == 3:
        calls += [(f"weights for {pass_}", "AllGather", sharing, weights, 1) for pass_ in ("forward", "backward")]
    elif sharing and zero:
        calls.append(("updated weights", "AllGather", sharing, weights, 1))
    if sharing:
        calls.append(("gradients", "ReduceScatter" if zero else "AllReduce", sharing, gradients, 1))
    ways = sharing[0].size if sharing and zero else 1
    if copying:
        calls.append(("gradients of copies", "AllReduce", copying, gradients, ways))
    for group, (elements, repeat) in layer_weights(ops).items():
        for name, kind, axes, dtype, parts in calls:
            nbytes = dtypes.get(dtype).nbytes(divided(elements, parts))
            priced = cost(kind, axes, nbytes)
            found.append(
                Op(
                    name=name, kind="collective", work=priced.work, dims={"bytes": nbytes, "chips": priced.chips},
                    repeat=repeat, where=f"{group or 'other weights'}: {name}", note=priced.note,
                )
            )  # fmt: skip
    return found


def _update(model: Model, shards: Size, flops: int, held: dict[str, Size]) -> Op:
    """The optimizer's step on the parameters a chip looks after: everything it holds of them is read and written."""
    count = divided(model.parameters, shards)
    state = Tensor("optimizer states", (held["optimizer"],), "int8", "state")
    new = Tensor("new optimizer states", (held["optimizer"],), "int8", "state")
    written = Tensor("new weights", (count,), model.dtype, "weight")
    moved = (state,) if held["optimizer"] else ()
    return Op(
        "optimizer", "elementwise", Work.flops("vector", "fp32", flops * count), moved,
        (written, new) if moved else (written,), {"elements": count}, where="optimizer",
    )  # fmt: skip


def _assumptions(
    model: Model, chosen: Policy, ways: dict[str, Size], zero: int, sizes: dict[str, Any], using: str, policy: str,
    count: str, step: Step, machine: Machine,
) -> list[str]:  # fmt: skip
    from roofline.models.serving import POLICY_TEXT

    said = ["2 FLOPs per multiply-add", POLICY_TEXT[policy]]
    said.append(
        "measured fractions where known" if machine.use_achievable else "dense data-sheet peaks and one-way bandwidths"
    )
    said.append(f"checkpointing {chosen.name}: {chosen.says}")
    said.append("every pair of query and key" if count == "full" else "causal attention")
    formats = ", ".join(f"{name} {dtype}" for name, dtype in sizes.items() if dtype)
    said.append(f"{using}; {formats}")
    said.append("vector operations count twice in the backward pass; a softmax of attention 4 FLOPs a pair")
    if ways["fsdp"] > 1:
        said.append(f"{ways['fsdp']} chips share by ZeRO stage {zero}")
    if ways["fsdp"] > 1 or ways["data"] > 1:
        batch = step.batch
        if not (is_array(batch) or is_symbol(batch)) and batch != int(batch):
            said.append(f"{batch:.4g} sequences for each copy of the model: an average, as sequences do not divide")
    said += model.notes
    if machine.mesh is not None:
        said += [f"chips are laid out as {', '.join(map(str, machine.mesh))}", *machine.mesh.notes]
    said += [f"given by the caller: {item}" for item in machine.given]
    return list(dict.fromkeys(said))


def _sum(values: Any) -> Size:
    listed = list(values)
    return sum(listed[1:], listed[0])


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


__all__ = ["Training", "train"]
