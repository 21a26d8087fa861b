"""A training step as operations: forward, what is run again, backward, the sharded weights' collectives, the update.

::

    y = x·w         backward: dx = dy·wᵀ and dw = xᵀ·dy, as many FLOPs each as forward
    attention       fused: scores are made again, then four products: five in place of two, no probabilities kept;
                    unfused: four, from probabilities that are kept or made again
    vector work     backward: twice forward; softmax of attention 4 FLOPs a pair
    AllGather       backward: ReduceScatter, and the other way round; AllReduce: AllReduce

Sources: Dao, "FlashAttention-2", arXiv:2307.08691, section 3 (backward pass of fused attention); "How To Scale Your
Model", chapter 4.

A policy says which of a layer's operations are run again in the backward pass, so that their results need not be kept.

>>> policy("selective").says, policy("full").count
('no probabilities of attention are kept', 1)

Sources: Korthikanti et al., arXiv:2205.05198, sections 3 to 5; Megatron-LM's ``--recompute-modules``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from roofline import dtypes
from roofline.errors import InputError, quoted, suggest
from roofline.frozen import NamedTuple, dataclass, replace
from roofline.hardware.machine import Mesh
from roofline.models.blocks.collectives import Algorithm, collective_operation
from roofline.ops.collectives.routing import TopKRouting
from roofline.ops.reduction import SOFTMAX_PER_ELEMENT, norm_backward
from roofline.quantity import agree, in_a_row
from roofline.signatures import either
from roofline.sizes import LARGEST, Size, exact_div, is_zero
from roofline.work import Op, Tensor, Work, with_tensors


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


def adds_up(op: Op) -> bool:
    """Whether an operation puts results of products together: chips' parts, or a matrix's and its adapter's."""
    return op.kind == "collective" or op.where.endswith(".lora_add")


CHECKPOINT_POLICIES: Mapping[str, Recomputation] = {
    "none": Recomputation("none", lambda op: False, "everything that backward reads is kept"),
    "selective": Recomputation("selective", is_unfused, "no probabilities of attention are kept"),
    "matmuls": Recomputation(
        "matmuls", lambda op: op.kind != "contraction" and not adds_up(op),
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
        says = (
            f"{in_a_row(modules)} {agree(len(modules), 'are')} run again and their results not kept, the rest is kept"
        )
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


#: Operations of one group of layers stand together.
_GROUP = attrgetter("group")

#: The collective that takes a gradient back through another.
TRANSPOSED = {
    "AllGather": "ReduceScatter",
    "ReduceScatter": "AllGather",
    "AllReduce": "AllReduce",
    "AllToAll": "AllToAll",
}


def forward(ops: Sequence[Op]) -> tuple[Op, ...]:
    """A pass over whole sequences, in which keys and values are activations like any other."""

    def plain(tensor: Tensor) -> Tensor:
        return replace(tensor, role="activation", given=None) if tensor.role == "kv" else tensor

    return tuple(with_tensors(op, plain, phase="forward") for op in ops)


def loss(logits: Tensor) -> Op:
    """Cross-entropy and its gradient: softmax, less 1 at the right token, over the number of tokens.

    5 FLOPs a logit: the sum of a row is multiplied by the number of tokens once, and 1 is taken from one of its tokens.
    """
    work = Work.flops("vector", "fp32", SOFTMAX_PER_ELEMENT * logits.elements)
    dims = {"elements": logits.elements}
    return Op("loss", "softmax", work, (logits,), (_gradient(logits),), dims, where="loss", phase="forward")


class GradientFormat(NamedTuple):
    """How gradients are stored (``dtype``), and how they travel: the chips' mesh and the collectives' algorithm.

    ``trained`` names the weights that have gradients; None: all have.
    """

    dtype: str
    mesh: Mesh | None = None
    algorithm: Algorithm = None
    trained: frozenset[str] | None = None

    def trains(self, weight: Tensor) -> bool:
        """Whether a weight has a gradient."""
        return self.trained is None or weight.ident in self.trained


def adapters(ops: Sequence[Op]) -> frozenset[str]:
    """Names of the weights of adapters, which are trained in place of all others."""
    return frozenset(t.ident for op in ops if op.role == "adapter" for t in op.reads if t.role == "weight")


def is_frozen(op: Op, trained: frozenset[str] | None) -> bool:
    """Whether an operation is the product with a matrix that is not trained."""
    weights = [tensor for tensor in op.reads[1:2] if tensor.role == "weight"]
    return trained is not None and op.kind == "contraction" and any(t.ident not in trained for t in weights)


def above_gradients(ops: Sequence[Op], trained: frozenset[str] | None) -> frozenset[tuple[str, str]]:
    """Where nothing that is read depends on trained weights, by group and place: no gradient of it is needed.

    These are operations ahead of the layers, and those of the first layer up to its first adapters.
    """
    found: set[tuple[str, str]] = set()
    depends = set(trained or ())
    for _, group in groupby(ops, key=_GROUP) if trained is not None else ():
        for op in group:
            if depends.isdisjoint(tensor.ident for tensor in op.reads if tensor.role != "weight"):
                found.add((op.group, op.where))
            if not depends.isdisjoint(tensor.ident for tensor in op.reads):
                depends |= {tensor.ident for tensor in op.writes}
        if len(depends) > len(trained or ()):
            break
    return frozenset(found)


def backward(ops: Sequence[Op], chosen: Recomputation, gradients: GradientFormat) -> tuple[Op, ...]:
    """The backward pass of ``ops``: groups in reverse, each after what the policy runs again of it."""
    found: list[Op] = []
    above = above_gradients(ops, gradients.trained)
    for group in reversed([list(run) for _, run in groupby(ops, key=_GROUP)]):
        inside = bool(group[0].group)
        # what was gathered is gathered again: each chip kept its own tokens alone
        again = [op for op in group if inside and (chosen.again(op) or op.options.get("collective") == "AllGather")]
        renewed = {tensor.ident for op in again for tensor in op.writes}
        for op in again:
            reads, writes = _named(op.reads, renewed), _named(op.writes, renewed)
            found.append(replace(op, where=f"{op.where} again", phase="recompute", reads=reads, writes=writes))
        for op in reversed(group):
            rule = RULES.get(op.kind, _twice)
            is_above = (op.group, op.where) in above
            for each in rule(replace(op, phase="backward"), gradients):
                each = replace(each, reads=_named(each.reads, renewed))
                if is_above and each.role != "weight gradient":  # the first layer needs no gradient of its input
                    each = replace(each, repeat=each.repeat - 1)
                found += [] if is_zero(each.repeat) else [each]
    return tuple(found)


def _named(tensors: Sequence[Tensor], renewed: set[str]) -> tuple[Tensor, ...]:
    return tuple(replace(t, ident=f"{t.ident} again") if t.ident in renewed else t for t in tensors)


def _gradient(tensor: Tensor, dtype: str = "") -> Tensor:
    role = "gradient" if tensor.role == "weight" else tensor.role
    # of a weight that layers share, each adds to one gradient
    dtype = dtype if role == "gradient" else tensor.dtype
    return replace(tensor, ident=f"{tensor.ident} gradient", role=role, dtype=dtype, given=tensor.needed)


def _product(op: Op, gradients: GradientFormat) -> list[Op]:
    x, weight, *more = op.reads
    y = _gradient(op.writes[0])
    m, n, k = (op.dims[name] for name in ("m", "n", "k"))
    products = Work({key: amount for key, amount in op.work.items() if key.place == "matrix"})
    others = Work({key: amount for key, amount in op.work.items() if key.place != "matrix"})
    biases = tuple(_gradient(t, gradients.dtype) for t in more if t.role == "weight")
    to_input = replace(
        op, work=products, reads=(y, weight, *more), writes=(_gradient(x, gradients.dtype),),
        dims={**op.dims, "n": k, "k": n}, where=f"{op.where} input gradient", role="input gradient",
    )  # fmt: skip
    to_weight = replace(
        op, work=products + others, reads=(x, y), writes=(_gradient(weight, gradients.dtype), *biases),
        dims={**op.dims, "m": k, "k": m}, where=f"{op.where} weight gradient", role="weight gradient",
    )  # fmt: skip
    return [to_input] if is_frozen(op, gradients.trained) else [to_input, to_weight]


def _attention(op: Op, gradients: GradientFormat) -> list[Op]:
    """dV = Pᵀ·dO, dP = dO·Vᵀ, dQ = dS·K, dK = dSᵀ·Q; fused, S = Q·Kᵀ again before them."""
    if "v_head_size" not in op.dims:
        return _twice(op, gradients)
    key, value = op.dims["head_size"], op.dims["v_head_size"]
    products = 2 if is_unfused(op) else 2 + exact_div(key, key + value)
    vector = 4 * op.dims["transcendentals"]
    work = Work({of: products * v if of.place == "matrix" else vector for of, v in op.work.items()})
    return [replace(_twice(op, gradients)[0], work=work)]


def _collective(op: Op, gradients: GradientFormat) -> list[Op]:
    if gradients.mesh is None:
        return []
    kind = TRANSPOSED[op.options["collective"]]
    axes = gradients.mesh.select(op.options["axes"])
    reads, out = tuple(map(_gradient, op.writes)), _gradient(op.reads[0]) if op.reads else None
    density = op.options["density"]
    if isinstance(density, TopKRouting):  # gradients go to every chip that had a copy
        density = replace(density, copies=1)
    found = collective_operation(kind, axes, op.dims["bytes"], reads[0], out, gradients.algorithm, density)
    where = f"{op.where} gradient"
    return [replace(found, reads=reads, where=where, repeat=op.repeat, group=op.group, phase="backward")]


def _lookup(op: Op, gradients: GradientFormat) -> list[Op]:
    table, index = op.reads
    if not gradients.trains(table):
        return []
    y = _gradient(op.writes[0])
    work = Work.flops("vector", dtypes.get(y.dtype).arithmetic, y.elements)
    where = f"{op.where} gradient"
    return [replace(op, work=work, reads=(y, index), writes=(_gradient(table, gradients.dtype),), where=where)]


def _norm(op: Op, gradients: GradientFormat) -> list[Op]:
    (made,), function = _twice(op, gradients), op.options.get("function")
    if function is None:
        return [made]
    elements = op.dims["elements"]
    flops = norm_backward(function, "", made.reads, made.writes, elements=elements, of_input=True).work.total("flops")
    return [replace(made, work=Work(dict.fromkeys(op.work, flops)))]


def _twice(op: Op, gradients: GradientFormat) -> list[Op]:
    """Twice the forward work, of what was read and the gradient; what is linear takes the gradient alone, once."""
    is_linear = op.role == "linear"
    reads = (*(t for t in op.reads if t.role != "index" and not is_linear), *map(_gradient, op.writes))
    through = [t for t in op.reads if t.role == "activation" or (t.role == "weight" and gradients.trains(t))]
    writes = tuple(_gradient(t, gradients.dtype) for t in through)
    work = op.work * (1 if is_linear else 2)
    return [replace(op, work=work, reads=reads, writes=writes, where=f"{op.where} gradient")]


#: The backward pass of each kind of operation; any other takes twice its forward work, what is linear once.
RULES: Mapping[str, Callable[[Op, GradientFormat], list[Op]]] = {
    "contraction": _product,
    "attention": _attention,
    "norm": _norm,
    "collective": _collective,
    "embedding": _lookup,
}


def layer_weights(
    ops: Sequence[Op], *, experts: bool | None = None, trained: frozenset[str] | None = None, in_bytes: bool = False
) -> dict[str, tuple[Size, Size]]:
    """Weights by group of layers: elements of one layer, and how many layers there are; ``experts`` alone or without.

    Weights that the layers of a group share are one by themselves, and so are a table and the head tied to it. Of
    experts' weights those that are touched are read, which tells them from others. ``trained`` leaves the others out;
    ``in_bytes`` counts the bytes of each in its own format.
    """
    seen: dict[str, dict[str, Tensor]] = {}
    repeats: dict[str, Size] = {}
    known: set[str] = set()
    for op in ops:
        group = op.group
        for tensor in op.reads:
            routed = bool(group) and tensor.touched is not None
            if trained is not None and tensor.ident not in trained:
                continue
            ident = op.options.get("same", {}).get(tensor.ident, tensor.ident)
            if tensor.role == "weight" and ident not in known and experts in (None, routed):
                known.add(ident)
                shared = tensor.needed is not None
                place = f"{group}, shared" if shared else group
                seen.setdefault(place, {})[tensor.ident] = tensor
                repeats[place] = 1 if shared else op.repeat

    def amount(tensor: Tensor) -> Size:
        return dtypes.get(tensor.dtype).nbytes(tensor.elements) if in_bytes else tensor.elements

    return {group: (sum(map(amount, found.values())), repeats[group]) for group, found in seen.items()}
