"""One step on one chip, as a Case: its operations, the memory it needs, what it takes for granted.

In a mixed step chunks of prompts are prefilled while other sequences decode, and both share each load of the weights.

What costs the same however the tokens are divided into sequences (matrices, norms, experts, collectives) runs once for
all of them; attention and states run for each part by itself, and are named for it.

>>> from roofline.models import load
>>> ops = mixed(load("llama-2-7b"), chunk=512, past=1024, batch=16, context=2048)
>>> [op.where for op in ops if "self_attn.attention" in op.where]
['layers.0-31.self_attn.attention (chunk)', 'layers.0-31.self_attn.attention (decode)']
>>> next(op.dims["m"] for op in ops if op.where.endswith("up_proj"))
528

Source: A. Agrawal et al., "Sarathi-Serve", arXiv:2403.02310.

A model as it is served: adapters beside it, its cache in blocks, parts of it in the host's memory.

>>> options = {"lora": 16, "adapters": 8, "kv_block": 16, "policy": "streamed"}
>>> served = served_model(load("llama-3-8b"), options)
>>> str(served.adapters), served.kv_block, options
('8 adapters of rank 16 (LoRA)', 16, {'policy': 'streamed'})
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any

from roofline import dtypes
from roofline.bounds.bound import Bound
from roofline.bounds.case import Case
from roofline.bounds.conventions import Conventions
from roofline.bounds.memory import Footprint
from roofline.errors import InputError, SizeError, check_one_of
from roofline.frozen import NamedTuple, dataclass, replace
from roofline.hardware.machine import Machine
from roofline.lazy import np
from roofline.models.blocks.attention import attention_format_said, selection_said
from roofline.models.blocks.encoder import refuse_encoder, source_said, with_source
from roofline.models.config import load
from roofline.models.description import Model, converts_all
from roofline.models.idle import SERVING, refuse_idle
from roofline.models.operations import activation_bytes, decode, prefill, stepped
from roofline.models.parallelism.layout import Parallelism, is_several
from roofline.models.parallelism.splitting import stack_parts
from roofline.models.weights import ServedAdapters
from roofline.quantity import format_amount, in_a_row
from roofline.signatures import optional, spelled, takes
from roofline.sizes import TIE, Size, check, common_shape, is_array, is_number, is_symbol, is_zero
from roofline.statements import Assumption, assume, missing
from roofline.work import Op, Tensor

#: Options of a step that say what is served and where it lies.
SERVED = optional(source="Size", lora="int", adapters="int", kv_block="int", host_layers="int", host_kv="bool")


def served_model(model: Model, options: dict[str, Any]) -> Model:
    """The model with what ``options`` say of how it is served, which they lose.

    ``source`` is what an encoder reads of each sequence; ``lora`` the rank of ``adapters`` that are served beside the
    model; ``kv_block`` the tokens of a block of a paged cache, of which a sequence takes whole ones; ``host_layers``
    the last layers, whose weights stay in the host's memory, and ``host_kv`` leaves keys, values and states there.
    """
    given = {each.name: options.pop(each.name, None) for each in SERVED}
    found = with_source(model, given["source"])
    if given["kv_block"] is not None:
        found = replace(found, kv_block=_one_number("kv_block", given["kv_block"]))
    if given["lora"] is not None:
        rank, count = (_one_number(name, 1 if given[name] is None else given[name]) for name in ("lora", "adapters"))
        found = replace(found, adapters=ServedAdapters(rank, count))
    if given["host_layers"] is not None and not is_zero(given["host_layers"]):
        found = with_host_layers(found, _one_number("host_layers", given["host_layers"], least=0))
    return replace(found, kv_memory="host") if given["host_kv"] else found


def asked_model(model: Model | str, options: dict[str, Any], *more: Mapping[str, Any]) -> Model:
    """The model of a name, where an option without effect is refused; ``more`` are those of further steps."""
    described = load(model)
    refuse_idle(options, SERVING, described, *more)
    return served_model(described, options)


def with_host_layers(model: Model, count: int) -> Model:
    """The model with the weights of its last layers in the host's memory, from which each step reads them."""
    layers = model.layers
    if count > len(layers):
        wrong = f"{model.name} has {len(layers)} layers, and {count:,} are to stay with the host"
        raise SizeError(wrong, hint=f"{len(layers)} at most")
    moved = {id(layer): replace(layer, memory="host") for layer in layers}
    return replace(model, layers=(*layers[:-count], *(moved[id(layer)] for layer in layers[-count:])))


def _one_number(name: str, value: Any, least: int = 1) -> int:
    if is_several(value):
        hint = f"a whole one, as in {spelled(name, 16)}; sweep takes several"
        raise InputError(f"{spelled(name)} is one number", hint=hint)
    if is_number(value) and not (value >= least and value == int(value)):
        raise SizeError(f"{spelled(name)} is {value}", hint=f"a whole number of at least {least}")
    found = check(name, value)
    if not isinstance(found, int):
        raise InputError(f"{spelled(name)} is one number", hint=f"a whole one, as in {spelled(name, 16)}")
    return found


#: An operation's place, and how many before it have the same.
Place = tuple[str, int]


@takes()
def mixed(
    model: Model | str,
    *,
    chunk: Size,
    context: Size,
    batch: Size = 1,
    past: Size = 0,
    prompts: Size = 1,
    last: bool = False,
    tokens: Size = 1,
    **options: Any,
) -> tuple[Op, ...]:
    """One step of ``batch`` sequences that decode after ``context`` tokens and a ``chunk`` of each of some ``prompts``.

    Parameters
        ``chunk``    new tokens of each prompt in this step, after ``past`` that earlier ones put in the cache
        ``prompts``  how many prompts have a chunk in this step; over copies of the model, as ``batch``, of all of them
        ``last``     the chunks end their prompts, so each gives a token; else none of them needs output
        ``tokens``   new tokens of each sequence that decodes: more than 1 check a draft

    ``options`` are those that :func:`roofline.models.prefill` and :func:`roofline.models.decode` share. Sizes may be
    numbers, arrays or symbols.
    """
    model = load(model)
    refuse_encoder(model, "a mixed step")
    chunk, batch, prompts = check("chunk", chunk), check("batch", batch), check("prompts", prompts)
    tokens = check("tokens", tokens)
    absorbed = {} if "absorbed" not in options else {"absorbed": options.pop("absorbed")}
    first = prefill(model, batch=prompts, prompt=chunk, past=past, **absorbed, **options)
    other = decode(model, batch=batch, context=context, tokens=tokens, **absorbed, **options)
    # all tokens of one chip as one sequence: right for what no sequence matters to
    deal = model.share
    groups = deal.group(batch), deal.group(prompts)
    ours, theirs = deal.local(groups[0]) * tokens, deal.local(groups[1])
    together = None if deal.sharing == 1 else groups[0] * tokens + groups[1] * chunk
    wanted = ours + theirs if last else ours
    run = deal.local(groups[0]) + theirs
    every = stepped(
        model, batch=1, new=ours + theirs * chunk, wanted=wanted, together=together, sequences=run, **options
    )
    return _merge(first, other, every)


def _placed(ops: Sequence[Op]) -> list[tuple[Place, Op]]:
    seen = defaultdict[str, Iterator[int]](count)
    return [((op.where, next(seen[op.where])), op) for op in ops]


def _merge(first: Sequence[Op], other: Sequence[Op], together: Sequence[Op]) -> tuple[Op, ...]:
    """The parts' own operations before each shared one, in the order of either."""
    common = [(place, op) for place, op in _placed(together) if not op.by_sequence]
    shared = {place for place, _ in common}
    touched = {t.ident: t for _, op in common for t in (*op.writes, *op.reads)}
    placed = {"chunk": _placed(first), "decode": _placed(other)}
    parts = {name: _between(ops, shared) for name, ops in placed.items()}
    alone = defaultdict[Place | None, list[Op]](list)
    for where, each in chain(*placed.values()):
        alone[where].append(each)
    merged: list[Op] = []
    for place, op in [*common, (None, None)]:
        for name, runs in parts.items():
            merged += [_part(each, name, touched) for each in runs.get(place, ())]
        if op is not None:
            merged.append(_giving(op, alone[place]))
    return tuple(merged)


def _giving(op: Op, parts: Sequence[Op]) -> Op:
    """The operation of all tokens, which leaves in the cache what those of the parts leave there."""

    def all_of(tensor: Tensor, number: int) -> Tensor:
        if tensor.role != "kv":
            return tensor
        kept = (part.writes[number].given for part in parts)
        return replace(tensor, given=sum(each for each in kept if each is not None))

    return replace(op, writes=tuple(map(all_of, op.writes, count())))


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

    def own(tensor: Tensor, *, written: bool = False) -> Tensor:
        whole = touched.get(tensor.ident)
        if tensor.role == "weight":
            return tensor
        if whole is None:
            return replace(tensor, ident=f"{tensor.ident} ({name})")
        # what both parts write side by side takes room for all tokens
        return replace(tensor, dims=whole.dims, touched=tensor.elements) if written else tensor

    reads, writes = tuple(map(own, op.reads)), tuple(own(tensor, written=True) for tensor in op.writes)
    return replace(op, where=f"{op.where} ({name})", reads=reads, writes=writes)


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


def check_phase(phase: str, *more: str) -> None:
    """Refuse a kind of step that is none of serving's, nor of ``more``."""
    known = (*PHASES, *more)
    check_one_of(f"no phase {phase!r}", str(phase), known, "phases")


def check_sizes_of(phase: str, options: Iterable[str]) -> None:
    """Refuse a size that only steps of another phase have."""
    known = ("batch", *PHASES[phase].sizes)
    others = {name for kind in PHASES.values() for name in kind.sizes}.difference(known)
    wrong = next((name for name in options if name in others), None)
    if wrong is not None:
        raise InputError(f"{wrong} is no size of a {phase} step", hint=f"its sizes are {', '.join(known)}")


#: What is said of latent attention, by the role of its operations.
LATENT = {
    "expand": "latent attention is expanded: keys and values are made from the cached latents",
    "absorb": "latent attention is absorbed: it works on the cached latents",
}
ADAPTERS = (
    ", beside each matrix of a layer but experts', in the format of activations; sequences use as many different ones "
    "as there are, and each is read once a step"
)
SHARDED_ADAPTERS = (
    "; chips that split a matrix hold and read equal parts of its adapters (fully sharded): what they send each other "
    "for that, as many values a token as the rank, goes with the layer's collectives and is not counted; chips that "
    "hold A or B whole read more"
)
_FASTER = "the faster of absorbed and expanded here"
_LOGITS = {"last": "logits of each sequence's last token", "all": "logits of every token", "none": "no logits"}


@dataclass(frozen=True, slots=True, eq=False)
class ServingStep:
    """A step of serving: ``model`` is what a chip runs, ``ways`` the layout, ``options`` its sizes and what it takes.

    ``machine`` has the mesh of ``ways``. Rates of a ``symbolic`` one are symbols though its sizes are numbers.
    """

    model: Model
    phase: str
    machine: Machine
    ways: Parallelism
    conventions: Conventions
    options: Mapping[str, Any]
    symbolic: bool = False

    @property
    def sizes(self) -> dict[str, Size]:
        """Its batch and its numbers of tokens."""
        return {name: self.options[name] for name in ("batch", *PHASES[self.phase].sizes) if name in self.options}

    def vary(self, **options: Any) -> ServingStep:
        """The step with other options."""
        return replace(self, options={**self.options, **options})

    def bound(self) -> Bound:
        """Price it. Latent attention that may run absorbed or expanded takes the way that is faster on this machine."""
        ways = latent_attention_ways(self.model, self.phase, self.options)
        found = [self.vary(**way).as_asked() for way in ways]
        usual = found[0]
        if len(found) == 1:
            return usual
        if is_symbol(usual.lower):
            return _said_of_latents(usual, "sizes that are given decide whether the other way is faster")
        fastest = first_fastest([bound.lower for bound in found])
        if (fastest == fastest.flat[0]).all():
            return _said_of_latents(found[fastest.flat[0]], _FASTER)
        shape = common_shape({name: size for name, size in self.sizes.items() if is_array(size)})
        return self._each_in(ways, np.broadcast_to(fastest, shape))

    def _each_in(self, ways: Sequence[dict[str, Any]], fastest: Any) -> Bound:
        """Price each entry of an array of steps in the way of latent attention that is its fastest."""
        alike = fastest == fastest.flat[0]
        if alike.all():
            return _said_of_latents(self.vary(**ways[fastest.flat[0]]).as_asked(), _FASTER)
        parts = iter((fastest[alike], fastest[~alike]))
        share = self.model.share

        def some(turns: Size, **sizes: Size) -> Bound:
            step = replace(self.vary(**sizes), model=replace(self.model, share=share._replace(turns=turns)))
            return step._each_in(ways, next(parts))

        # a stage's turns follow from its batch
        return stack_parts(some, {**self.sizes, "turns": share.turns}, alike)

    def as_asked(self) -> Bound:
        """Price it, latent attention in the way that the options say."""
        model, options, kind = self.model, self.options, PHASES[self.phase]
        ops = kind.build(model, **options)
        uneven = self.ways.uneven(options["batch"])
        unseen = model.vision.gaps(options.get("images", 0)) if model.vision else ()
        beside = kind.kept_beside(options)
        others = {name: value for name, value in options.items() if name not in ("batch", *kind.sizes)}
        return Case(
            ops,
            self.machine,
            self.conventions,
            name=f"{model.name} {self.phase}",
            sizes={**self.sizes, **self.ways.sizes()},
            memory=needs(model, ops, kind.length(options), options["batch"], options, beside).parts,
            assumptions=[*_assumptions(self, ops), *assume("layout", () if uneven is None else (uneven,))],
            gaps=[*missing("field", model.gaps), *missing("model", unseen)],
            request={"policy": self.conventions.policy, **self.conventions.changes(), **others},
        ).answer(symbolic=self.symbolic or None)


def first_fastest(times: Sequence[Any]) -> Any:
    """Which of several ways is the fastest, entry by entry; of those that differ by rounding alone the first.

    >>> first_fastest([[1.0, 2.0, 3.0], [1.0 - 1e-15, 1.0, 3.1]]).tolist()
    [0, 1, 0]
    """
    each = np.stack([np.asarray(time) for time in times])
    return np.argmax(each <= each.min(axis=0) * (1 + TIE), axis=0)


def latent_attention_ways(model: Model, phase: str, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Options that run latent attention in each way that may be the fastest, the usual one first.

    Without tokens in the cache expanding is never slower, and with one new token absorbing is never slower.
    """
    usual, size, unless = {"decode": (True, "tokens", 1)}.get(phase, (False, "past", 0))
    given = options.get(size, unless)
    if "absorbed" in options or (phase != "mixed" and isinstance(given, int) and given == unless):
        return [{}]
    if not any(block.is_latent for block in model.layer_blocks):
        return [{}]
    # by default a mixed step expands for its chunks and absorbs for the sequences that decode
    return [{}, *({"absorbed": way} for way in (True, False) if phase == "mixed" or way is not usual)]


def _said_of_latents(found: Bound, more: str) -> Bound:
    """The answer, which says more about the way of its latent attention."""
    said = [Assumption("model", f"{line}; {more}") if line in LATENT.values() else line for line in found.assumptions]
    return replace(found, assumptions=tuple(said))


def needs(
    model: Model, ops: Sequence[Op], length: Size, batch: Size, options: Mapping[str, Any],
    beside: Sequence[tuple[Size, Size]] = (),
) -> Footprint:  # fmt: skip
    """Memory of a step: weights, keys and values and states of all sequences, activations alive at once.

    ``beside`` lists the lengths and numbers of further sequences.
    """
    activations = options.get("activations")
    model = model.in_format(activations or model.dtype)
    formats = {"dtype": options.get("kv"), "activations": activations}
    first, *rest = (model.cache_bytes(tokens, batch=count, **formats) for tokens, count in ((length, batch), *beside))
    weights = model.weight_bytes(options.get("weights"))
    cached = sum(rest, first) if model.kv_memory == "main" else 0
    return Footprint({"weights": weights, "kv": cached, "activations": activation_bytes(ops)})


def said_of_host(model: Model, weights: str | None) -> list[str]:
    """What of a model stays in the host's memory: weights of some layers, in their format, and the cache.

    >>> from roofline.models.serving.step import served_model
    >>> said_of_host(served_model(load("llama-3-8b"), {"host_layers": 8}), "fp8")
    ["the weights of 8 of 32 layers stay in the host's memory: 1.74 GB, read over its link where they are used"]
    """
    said = []
    if held := model.host_bytes(weights):
        layers = sum(layer.memory == "host" for layer in model.layers)
        kept = f"the weights of {layers} of {len(model.layers)} layers stay in the host's memory"
        said.append(f"{kept}: {format_amount(held, 'B')}, read over its link where they are used")
    if model.kv_memory == "host":
        said.append(
            "keys, values and states stay in the host's memory, read and written over its link; it has room for them"
        )
    return said


def said_of_adapters(model: Model) -> list[str]:
    """The adapters that are served beside a model, and how a step reads them."""
    if model.adapters is None:
        return []
    return [f"{model.adapters} in memory{ADAPTERS}{SHARDED_ADAPTERS if model.adapters.sides else ''}"]


def _assumptions(step: ServingStep, ops: Sequence[Op]) -> list[Assumption]:
    model, phase, options, machine = step.model, step.phase, step.options, step.machine
    mesh = machine.mesh if step.ways.pipeline > 1 or any(op.kind == "collective" for op in ops) else None
    chips = "one chip, no network" if mesh is None else f"operations and memory are {mesh.of_one_chip}"
    counting, rates, moved = step.conventions.said(machine, of_model=True)
    pooled = f"{machine.pooled} chips share everything evenly, and what joins them costs nothing"
    said = [counting, Assumption("plan", chips) if machine.pooled == 1 else Assumption("machine", pooled)]
    said += [moved, rates]
    attends = any(op.kind == "attention" for op in ops)
    said.append(Assumption("formats", formats_in_words(model, ops, options, attends)))
    if model.causal and attends:
        every, seen = options.get("count") == "full", "each token sees itself and what came before"
        counted = "every pair of query and key is counted, masked or not" if every else f"causal attention: {seen}"
        said.append(Assumption("counting", counted))
    said += assume("collective", dict.fromkeys(op.note for op in ops if op.kind == "collective" and op.note))
    if phase == "prefill" and model.head:
        said.append(Assumption("model", _LOGITS[options.get("logits", "last")]))
    for length in (PHASES[phase].length(options), *(n for n, _ in PHASES[phase].kept_beside(options))):
        said += assume("model", model.beyond_training(length))
    if any("groups" in op.dims for op in ops):
        even = ": E·(1 − (1 − k/E)^tokens), the mean of an even choice; tokens that prefer some experts read fewer"
        said.append(Assumption("model", "experts touched" + (" by the skew given" if options.get("skew") else even)))
    if phase == "prefill" and not is_zero(options.get("past", 0)) and any(op.role == "selection" for op in ops):
        text = "keys in the cache: as many as new tokens can choose; tokens that choose the same ones read fewer"
        said.append(Assumption("model", text))
    said += assume("formats", [*selection_said(ops), *attention_format_said(ops, machine)])
    roles = {op.role for op in ops}
    said += assume("model", [text for role, text in LATENT.items() if role in roles])
    if said_of_source := source_said(model):
        said.append(Assumption("model", said_of_source))
    said += assume("model", said_of_host(model, options.get("weights")))
    if model.kv_block > 1:
        blocks = f"memory holds keys and values in whole blocks of {model.kv_block:,} tokens"
        said.append(Assumption("model", f"{blocks}; attention reads its tokens"))
    said += assume("model", said_of_adapters(model))
    if model.vision is not None:
        seen = model.vision.describe(options.get("images", 0), options.get("image_size"), mesh is not None)
        text = seen if phase == "prefill" else "the vision tower runs in prefill alone; its weights are in memory"
        said.append(Assumption("model", text))
    return [*said, *assume("model", model.notes)]


def formats_in_words(model: Model, ops: Sequence[Op], options: Mapping[str, Any], attends: bool) -> str:
    """How weights, activations, keys and values, and states are stored, and what products other than these run in."""
    named = stored_formats(model, options)
    section, activations, kv = model.quantisation, named["activations"], _without_scales(named["kv"])
    stored = f"as the {section.method} section says" if section else model.dtype
    wanted = options.get("weights")
    if wanted and section and section.has(dtypes.get(wanted).name):
        stored += "" if section.is_all(dtypes.get(wanted).name) else f", and {wanted} for its other formats"
    elif wanted:
        ends = [name for name, is_there in (("embedding", model.embeds), ("head", model.head)) if is_there]
        kept = f" ({in_a_row(ends)} {model.dtype})" if ends and not converts_all(wanted) else ""
        stored = f"{_without_scales(wanted)}{kept}"
    formats = [f"weights {stored}", f"activations {activations}", *([f"keys and values {kv}"] if attends else [])]
    products = {key.dtype for op in ops for key, _ in op.work.items() if key.place == "matrix"}
    if products - {activations}:
        formats.append(f"products in {in_a_row(sorted(products))}")
    elif wanted and dtypes.get(wanted).bits == 8 < dtypes.get(activations).bits:
        formats.append(
            f"products in {activations}: only weights are {wanted} (W8A8 has {spelled('activations', wanted)} too)"
        )
    states = {t.dtype for op in ops if op.kind == "recurrence" for t in op.writes if t.role == "state"}
    return ", ".join([*formats, *(f"states {dtype}" for dtype in sorted(states))])


def stored_formats(model: Model, options: Mapping[str, Any]) -> dict[str, str]:
    """The format of weights (of a quantised checkpoint its method), of activations, and of keys and values."""
    section = model.quantisation
    activations = options.get("activations") or model.dtype
    weights = options.get("weights") or (section.method if section else model.dtype)
    return {
        "weights": weights,
        "activations": activations,
        "kv": options.get("kv") or (section.kv if section else None) or activations,
    }


def _without_scales(name: str) -> str:
    """A format of 4 bits and fewer as assumptions name it: whether the bits alone are counted."""
    found = dtypes.get(name)
    return f"{name} without scales" if found.bits <= 4 and not found.scale_bits else name
