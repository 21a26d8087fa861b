"""Memory of training: weights, gradients and optimizer states by format and ZeRO stage; activations by policy.

>>> states(70e9, gradients=None, master=None)                        # Adam's moments in fp32, no copies
{'weights': 140000000000.0, 'gradients': 0, 'optimizer': 560000000000.0}
>>> sum(states(10**9).values()) / 1e9, sum(states(10**9, shards=64).values()) / 1e9       # bytes a parameter
(16.0, 0.25)
>>> kept_bytes(4e6, 8192, 64, checkpoint="full") / 1e12
4.194304

Source: Rajbhandari et al., "ZeRO", arXiv:1910.02054, section 3; "How To Scale Your Model", chapters 4 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from roofline import dtypes
from roofline.errors import InputError, suggest
from roofline.models.step import divided
from roofline.models.training_operations import Policy, policy
from roofline.sizes import Size, is_one, maximum, product
from roofline.work import Op, Tensor


class Optimizer(NamedTuple):
    """How many numbers an optimizer keeps for each parameter, and the FLOPs of updating it."""

    moments: int
    flops: int


#: Decayed weights included. Adam: Kingma and Ba, arXiv:1412.6980; Lion: arXiv:2302.06675.
OPTIMIZERS: Mapping[str, Optimizer] = {
    "adam": Optimizer(2, 16),
    "lion": Optimizer(1, 9),
    "momentum": Optimizer(1, 6),
    "sgd": Optimizer(0, 4),
}


def optimizer(name: str) -> Optimizer:
    """Find an optimizer by name."""
    if name not in OPTIMIZERS:
        raise InputError(f"no optimizer {name!r}", hint=suggest(name, OPTIMIZERS, what="optimizers"))
    return OPTIMIZERS[name]


def states(
    parameters: Size,
    *,
    weights: str = "bf16",
    gradients: str | None = "bf16",
    using: str = "adam",
    moments: str = "fp32",
    master: str | None = "fp32",
    shards: Size = 1,
    zero: int = 3,
) -> dict[str, Size]:
    """Bytes that ``parameters`` take while they are trained; ``shards`` chips share them by ZeRO stage.

    ``master`` is a second copy of the weights for the optimizer, or None; stage 1 shares the optimizer's states, 2
    gradients as well, 3 weights as well, 0 nothing.
    """
    if zero not in (0, 1, 2, 3):
        raise InputError(f"no ZeRO stage {zero!r}", hint="0 shares nothing, 1 states, 2 gradients too, 3 weights too")

    def held(dtype: str | None, stage: int, copies: int = 1) -> Size:
        if dtype is None or not copies:
            return 0
        count = parameters if zero < stage or is_one(shards) else divided(parameters, shards)
        return dtypes.get(dtype).nbytes(count) * copies

    return {
        "weights": held(weights, 3),
        "gradients": held(gradients, 2),
        "optimizer": held(moments, 1, optimizer(using).moments) + held(master, 1),
    }


@dataclass(frozen=True, slots=True)
class Formats:
    """What is kept of each parameter while it is trained, and in which formats."""

    weights: str
    gradients: str
    moments: str
    master: str | None
    using: str

    @property
    def optimizer(self) -> Optimizer:
        """What the optimizer keeps and does."""
        return optimizer(self.using)

    def states(self, parameters: Size, shards: Size, zero: int) -> dict[str, Size]:
        """Bytes of weights, gradients and optimizer states on one chip."""
        return states(
            parameters, weights=self.weights, gradients=self.gradients, using=self.using, moments=self.moments,
            master=self.master, shards=shards, zero=zero,
        )  # fmt: skip

    def __str__(self) -> str:
        named = {name: getattr(self, name) for name in ("weights", "gradients", "moments", "master")}
        return f"{self.using}; {', '.join(f'{name} {dtype}' for name, dtype in named.items() if dtype)}"


def kept_bytes(tokens: Size, width: Size, layers: int, *, checkpoint: str | int = "full", dtype: str = "bf16") -> Size:
    """Bytes of hidden states kept of ``tokens`` tokens in ``layers`` layers, by a policy that counts them.

    >>> kept_bytes(4e6, 8192, 64, checkpoint=20) / 1e12
    83.88608
    """
    count = policy(checkpoint).count
    if count is None:
        hint = "'full', or how many tensors a layer keeps; roofline.models.train counts the others on the model"
        raise InputError(f"what {checkpoint!r} keeps depends on the layers", hint=hint)
    return dtypes.get(dtype).nbytes(tokens * width * layers) * count


def kept(ops: Sequence[Op], chosen: Policy, stream: Tensor) -> Size:
    """Bytes of activations that wait for the backward pass; ``stream`` is the hidden state between two layers."""
    inside = [op for op in ops if op.group]
    outside = [op for op in ops if not op.group]
    total: Size = _once(outside, _saved(outside, ops))
    if outside and outside[-1] is ops[-1]:
        total = total + outside[-1].writes[0].capacity_bytes
    if chosen.count is not None:
        layers = sum(repeat for repeat in {op.group: op.repeat for op in inside}.values())
        return total + stream.capacity_bytes * layers * chosen.count
    if chosen.name == "matmuls":
        held = [(op, t) for op in inside if op.kind == "contraction" for t in op.writes]
        return total + _once(inside, [(op, _after(t, inside)) for op, t in held])
    total = total + _once(inside, _saved(inside, ops))
    return total + (_probabilities(inside) if chosen.name == "none" else 0)


def at_work(ops: Sequence[Op]) -> Size:
    """Bytes of activations alive while one layer that was not kept is run again: the largest group's."""
    groups: dict[str, list[Op]] = {}
    for op in ops:
        if op.group:
            groups.setdefault(op.group, []).append(op)
    sizes = [_once(found, _saved(found, ops), once=True) for found in groups.values()]
    return maximum(*sizes) if len(sizes) > 1 else sizes[0]


def _saved(ops: Sequence[Op], every: Sequence[Op]) -> list[tuple[Op, Tensor]]:
    """What each operation's backward pass reads of forward; a tensor that was gathered is kept as each chip's part."""
    gathers = [op for op in every if op.options.get("collective") == "AllGather" and op.writes]
    shards = {op.writes[0].ident: op.reads[0] for op in gathers if op.reads}
    # keys and values that other chips pass on are passed again
    passed = {op.writes[0].ident for op in gathers if not op.reads}
    found = []
    for op in ops:
        if op.kind in ("collective", "embedding") or op.role == "linear":
            continue
        read = [t for t in op.reads if t.role == "activation" and t.ident not in passed]
        found += [(op, shards.get(t.ident, t)) for t in read]
    return found


def _after(tensor: Tensor, ops: Sequence[Op]) -> Tensor:
    """A partial sum is kept as what the collective makes of it."""
    summed = (op for op in ops if op.kind == "collective" and op.reads)
    return next((op.writes[0] for op in summed if op.reads[0].ident == tensor.ident), tensor)


def _once(ops: Sequence[Op], tensors: Sequence[tuple[Op, Tensor]], once: bool = False) -> Size:
    """Bytes of tensors, each counted once for every layer of its group."""
    found = {tensor.ident: tensor.capacity_bytes * (1 if once else op.repeat) for op, tensor in tensors}
    return sum(found.values())


def _probabilities(ops: Sequence[Op]) -> Size:
    total: Size = 0
    for op in ops:
        if op.kind == "attention" and "v_head_size" in op.dims:
            square = product(op.dims[name] for name in ("batch", "heads", "q_length", "kv_length"))
            total = total + dtypes.get(op.reads[0].dtype).nbytes(square) * op.repeat
    return total
