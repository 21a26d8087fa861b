"""The conditions of scaling by name: a sharded line, its unknown, and what the answer is per.

>>> condition_named("tp").what
'F'

Sources: "How To Scale Your Model", chapters 5 (data, fully sharded, tensor and mixed parallelism, DCN), 7 (decoding)
and 12 (GPUs, experts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roofline.errors import InputError, SizeError, suggest
from roofline.sizes import check


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: a sharded line, its unknown, and what the answer is per.

    ``against`` is what communication is held against: ``flops``, or ``bytes`` where decoding is bound by loading
    weights. ``per`` lists the mesh axes whose chips share the unknown; ``link`` names the axis whose links count,
    where only one does. ``picked`` says that k of E experts get each token: given k, the answer is for all tokens.
    """

    says: str
    text: str
    unknown: str
    what: str
    per: tuple[str, ...] = ()
    mesh: tuple[str, ...] = ("X",)
    link: str = ""
    against: str = "flops"
    picked: bool = False


#: The conditions by name; ``{0}`` in a line is the dtype.
CONDITIONS: dict[str, Condition] = {
    "dp": Condition(
        "data parallelism: gradients of a layer are summed behind its backward pass",
        "dWo = h:{0}[B_X, F] * dOut:{0}[B_X, D] -> {0}[F, D]; dh = dOut * Wo:{0}[F, D] -> {0}[B_X, F]; "
        "dWi = x:{0}[B_X, D] * dh -> {0}[D, F]; dh * Wi:{0}[D, F] -> {0}[B_X, D]",
        "B",
        "tokens per chip",
        per=("X",),
    ),
    "fsdp": Condition(
        "fully sharded data parallelism: weights are gathered behind the forward pass",
        "In:{0}[B_X, D] * Wi:{0}[D_X, F] * Wo:{0}[F, D_X] -> Out:{0}[B_X, D]",
        "B",
        "tokens per chip",
        per=("X",),
    ),
    "tp": Condition(
        "tensor parallelism: activations are gathered and scattered around the layer",
        "In:{0}[B, D_Y] * Wi:{0}[D, F_Y] * Wo:{0}[F_Y, D] -> Out:{0}[B, D_Y]",
        "F",
        "F",
        mesh=("Y",),
    ),
    "dcn": Condition(
        "data parallelism between slices: gradients cross the data-centre network",
        "dWo = h:{0}[B_SX, F] * dOut:{0}[B_SX, D] -> {0}[F, D_X]; dh = dOut * Wo:{0}[F, D] -> {0}[B_SX, F]; "
        "dWi = x:{0}[B_SX, D] * dh -> {0}[D_X, F]; dh * Wi:{0}[D, F] -> {0}[B_SX, D]",
        "B",
        "tokens per slice",
        per=("S",),
        mesh=("X", "S"),
        link="S",
    ),
    "moe-dp": Condition(
        "data parallelism of E experts, k of them for each token: T tokens reach each expert",
        "dWo = h:{0}[E, T_X, F] * dOut:{0}[E, T_X, D] -> {0}[E, F, D]; dh = dOut * Wo:{0}[E, F, D] -> {0}[E, T_X, F]; "
        "dWi = x:{0}[E, T_X, D] * dh -> {0}[E, D, F]; dh * Wi:{0}[E, D, F] -> {0}[E, T_X, D]",
        "T",
        "tokens per expert and chip",
        per=("X",),
        picked=True,
    ),
    "ep": Condition(
        "expert parallelism: tokens go to the chips of their experts and back",
        "In:{0}[E, T_X, D] *_D Wi:{0}[E_X, D, F] *_F Wo:{0}[E_X, F, D] -> Out:{0}[E, T_X, D]",
        "F",
        "F",
    ),
    "decode-tp": Condition(
        "tensor parallelism of decoding: activations move while weights are loaded",
        "In:{0}[B, D_Y] * Wi:{0}[D, F_Y] * Wo:{0}[F_Y, D] -> Out:{0}[B, D_Y]",
        "Y",
        "ways",
        mesh=("Y",),
        against="bytes",
    ),
}


#: Conditions on how chips are split, which are worked out from more than one line.
SPLITS = {
    "mixed": ("FSDP over X and tensor parallelism over Y, both behind the forward pass", "tokens per chip"),
    "2d": ("weights in two dimensions send less than in one from so many chips on", "chips"),
}


def says_of_all() -> list[tuple[str, str, str]]:
    """Every condition with what it says and what its answer is."""
    lines = [(name, condition.says, condition.what) for name, condition in CONDITIONS.items()]
    return lines + [(name, *said) for name, said in SPLITS.items()]


def picks_of(picks: Any, experts: Any) -> Any:
    """Check how many experts each token goes to: no more than there are.

    >>> picks_of(2, 8), picks_of(2, None)
    (2, 2)
    """
    each = check("k", picks)
    if isinstance(each, int) and isinstance(experts, int) and each > experts:
        raise SizeError(f"k={each}, and there are E={experts} experts", hint=f"k of 1 to {experts}")
    return each


def condition_named(name: str) -> Condition:
    """Find a condition, or say which there are."""
    if name not in CONDITIONS:
        raise InputError(f"unknown condition {name!r}", hint=suggest(name, [*CONDITIONS, *SPLITS], what="conditions"))
    return CONDITIONS[name]
