"""Which of a layer's operations are run again in the backward pass, so that their results need not be kept: policies.

>>> policy("selective").says, policy("full").count
('no probabilities of attention are kept', 1)

Sources: Korthikanti et al., arXiv:2205.05198, sections 3 to 5; Megatron-LM's ``--recompute-modules``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from roofline.errors import InputError, quoted, suggest
from roofline.frozen import dataclass
from roofline.signatures import either
from roofline.sizes import LARGEST
from roofline.work import Op


@dataclass(frozen=True, slots=True)
class Recomputation:
    """Which of a layer's operations are run again in the backward pass, and what is said of it.

    ``count`` is how many tensors of the hidden state a layer keeps, where that is what defines the policy; ``modules``
    are names of modules that are run again, where those define it.
    """

    name: str
    again: Callable[[Op], bool]
    says: str
    count: int | None = None
    modules: tuple[str, ...] = ()


def is_unfused(op: Op) -> bool:
    """Whether attention writes its scores and probabilities to memory."""
    return op.kind == "attention" and len(op.writes) > 1


CHECKPOINT_POLICIES: Mapping[str, Recomputation] = {
    "none": Recomputation("none", lambda op: False, "everything that backward reads is kept"),
    "selective": Recomputation("selective", is_unfused, "no probabilities of attention are kept"),
    "matmuls": Recomputation(
        "matmuls", lambda op: op.kind not in ("contraction", "collective"),
        "the results of matrix products are kept, the rest is run again",
    ),
    "full": Recomputation("full", lambda op: True, "each layer keeps its input alone and is run again", 1),
}  # fmt: skip

#: Names of kinds of module, as Megatron-LM has them, beside a model's own names.
MODULES: Mapping[str, Callable[[Op], bool]] = {
    "core_attn": lambda op: op.kind == "attention",
    "layernorm": lambda op: op.kind == "norm",
    "mla_up_proj": lambda op: {"q_b_proj", "kv_b_proj"}.intersection(op.where.split(".")) != set(),
    "mlp_act": lambda op: op.where.endswith(".act"),
    "moe_act": lambda op: op.block == "MixtureOfExperts" and op.name.startswith("experts") and op.name.endswith(".act"),
    "moe": lambda op: op.block == "MixtureOfExperts",
}


def _inside(modules: Sequence[str]) -> Callable[[Op], bool]:
    """Whether an operation is part of one of the modules."""

    def found(op: Op) -> bool:
        parts = op.where.split(".")
        return any(MODULES[name](op) if name in MODULES else name in parts for name in modules)

    return found


def policy(name: str | int) -> Recomputation:
    """Find a checkpointing policy: by name, by modules, or by a number of hidden-state tensors to keep of each layer.

    >>> policy("full").count, policy(4).says
    (1, 'each layer keeps 4 tensors of the hidden state and is run again')
    >>> policy("layernorm,mla_up_proj").says
    'layernorm and mla_up_proj are run again and their results not kept, the rest is kept'
    """
    if isinstance(name, int) and not isinstance(name, bool) and 0 < name <= LARGEST:
        says = f"each layer keeps {name} tensors of the hidden state and is run again"
        return Recomputation(str(name), lambda op: True, says, name)
    modules = tuple(filter(None, (part.strip() for part in str(name).split(","))))
    if len(modules) > 1 and any(part in CHECKPOINT_POLICIES for part in modules):
        wrong = f"checkpointing policies {quoted(name)} are several, and a step has one"
        lists = either(f"roofline sweep MODEL … --checkpoint {name}", f"sweep(…, checkpoint={[*modules]})")
        raise InputError(wrong, hint=f"sweep takes several, one row each: {lists}")
    if len(modules) > 1 or (modules and modules[0] in MODULES):
        said = f"{', '.join(modules[:-1])} and {modules[-1]} are" if len(modules) > 1 else f"{modules[0]} is"
        says = f"{said} run again and their results not kept, the rest is kept"
        return Recomputation(",".join(modules), _inside(modules), says, modules=modules)
    if name not in CHECKPOINT_POLICIES:
        hint = suggest(str(name), [*CHECKPOINT_POLICIES, *MODULES], what="checkpointing policies")
        more = "or modules with commas between them, or how many tensors a layer keeps"
        raise InputError(f"no checkpointing policy {quoted(name)}", hint=f"{hint} ({more})")
    return CHECKPOINT_POLICIES[str(name)]


def check_modules(chosen: Recomputation, ops: Sequence[Op]) -> None:
    """Refuse a module that no operation of a layer is part of."""
    for name in chosen.modules:
        if not any(_inside((name,))(op) for op in ops if op.group):
            known = dict.fromkeys(part for op in ops if op.group for part in op.where.split(".")[2:])
            wrong = f"no module of a layer is called {name!r}"
            raise InputError(wrong, hint=suggest(name, [*known, *MODULES], what="modules"))
