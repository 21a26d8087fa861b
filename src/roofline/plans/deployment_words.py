"""A deployment in words, as far as they say it, and the best of all that they may mean.

>>> from roofline.models import load
>>> from roofline.plans.question import Limits, Load, PlanQuestion
>>> asked = PlanQuestion(load("llama-3-8b"), Load(4, 1024, 128), Limits(), ("h100",), (1, 2), objective="chips")
>>> exact = DeploymentWords.read("h100:2 tensor 2 fp8, batch 64", asked)
>>> exact.formats, exact.most, [str(each) for each in exact.replicas(asked)]
('fp8', 64, ['h100:2 tensor 2 fp8'])
>>> [str(each) for each in DeploymentWords.read("h100:2 bf16", asked).replicas(asked)]
['h100 bf16', 'h100:2 tensor 2 bf16', 'h100:2 pipeline 2 bf16']
>>> DeploymentWords.read("h100", asked).counts(asked)
(1, 2)

It is written as options of serving engines too (``engines.toml``): our reading of their documentation, to be checked
against your version.

>>> from roofline.plans.replicas import Replica
>>> from roofline.plans.search import Deployment
>>> four = Deployment(Replica("h100", "fp8 kv fp8", tensor=4), 2, 2048, 128)
>>> print(engine_settings(four, "MODEL", 2304, 0.9)["vllm"])
vllm serve MODEL --tensor-parallel-size 4 --max-num-seqs 128 --max-num-batched-tokens 2176 --max-model-len 2304 \
--gpu-memory-utilization 0.9 --quantization fp8 --kv-cache-dtype fp8 --enable-chunked-prefill

Copies of attention beside shared experts are ranks of their own in vLLM, and parts of one tensor group in the others:

>>> experts = Deployment(Replica("h100", "stored", expert=8), 1, 2048, 256)
>>> commands = engine_settings(experts, "MODEL", 4096, 0.9)
>>> commands["vllm"].partition(" --gpu")[0]
'vllm serve MODEL --enable-expert-parallel --max-num-seqs 32 --max-num-batched-tokens 2080 --max-model-len 4096'
>>> commands["sglang"].partition("MODEL ")[2].partition(" --context")[0]
'--tp-size 8 --ep-size 8 --max-running-requests 256 --chunked-prefill-size 16384'
>>> print(engine_settings(four, "MODEL", 2304, 0.9)["tensorrt-llm"].partition("fraction")[2])
 0.9 --config options.yaml  # with {kv_cache_config: {dtype: fp8}, enable_chunked_prefill: true}
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from roofline.bounds.crossing import first_where
from roofline.errors import InputError, check_one_of
from roofline.files import read_toml
from roofline.frozen import dataclass, field, replace
from roofline.plans.question import PlanQuestion
from roofline.plans.replicas import FORMATS, Replica, replicas
from roofline.plans.search import Assessment, Deployment, Search
from roofline.quantity import whole_number

#: How many times as many replicas as serve the rate are tried at most, where fewer do not keep the limits.
MOST_TIMES = 16
#: Words with a number behind them.
_NUMBERED = ("tensor", "pipeline", "context", "expert", "draft", "batch", "chunk", "chunks")


@dataclass(frozen=True, slots=True)
class DeploymentWords:
    """What words say of a deployment; the plan chooses the rest.

    It chooses any ``chip`` where this is empty, any number of ``chips`` where this is 0, any ``layout`` and ``formats``
    where they are empty, any draft and way of taking prompts where ``draft`` and ``chunk`` are -1, any number of
    sequences where ``most`` is 0. Words with formats and without a draft have none. ``prefill`` are the words of the
    chips that only prefill.
    """

    chip: str
    chips: int = 0
    layout: Mapping[str, int] = field(default_factory=dict)
    formats: str = ""
    draft: int = -1
    chunk: int = -1
    most: int = 0
    prefill: DeploymentWords | None = None

    @classmethod
    def read(cls, text: str, asked: PlanQuestion) -> DeploymentWords:
        """Read ``h100:8 tensor 8 fp8``, then ``chunk 2048``, ``whole``, ``batch 64``; ``draft 4`` speculates.

        Pools are read as ``prefill h100:4 fp8, decode h200:2 fp8``.
        """
        first, both, later = text.partition(", decode ")
        if both:
            pools = [cls.read(each, asked) for each in (first.removeprefix("prefill "), later)]
            for pool in pools:
                if not pool.chips:
                    wrong = f"pool {pool.chip!r} has no number of chips"
                    raise InputError(wrong, hint=f"as in {pool.chip or asked.chips[0]}:8")
            return replace(pools[1], chunk=0, prefill=pools[0])
        target, *words = text.replace(",", "").split() or [""]
        if target in (*_NUMBERED, "whole", *(each.split()[0] for each in FORMATS)):
            target, words = "", [target, *words]
        name, colon, shape = target.partition(":")
        chips = whole_number(shape) if colon else 0
        if name not in (asked.chips if target or not words else ("",)) or chips is None or (colon and not chips):
            hint = f"a chip of the plan first, as in {asked.chips[0]}, or a number of them, as in {asked.chips[0]}:8"
            raise InputError(f"{target!r} is no chip of the plan, nor a number of one", hint=hint)
        found: dict[str, Any] = {}
        ways: dict[str, int] = {}
        formats = []
        while words:
            word = words.pop(0)
            if word in _NUMBERED:
                if words and words[0] == "of":
                    words.pop(0)
                number = whole_number(words.pop(0)) if words else None
                if number is None or (not number and word != "draft"):
                    raise InputError(f"{word} without a number in {text!r}", hint=f"for instance {word} 8")
                plain = {"batch": "most", "chunks": "chunk"}.get(word, word)
                (found if plain in ("most", "chunk", "draft") else ways)[plain] = number
            elif word == "whole":
                found["chunk"] = 0
            else:
                formats.append(word)
        named = " ".join(formats)
        if named:
            check_one_of(f"{named!r} in {text!r} is not understood", named, FORMATS, "formats")
            found.setdefault("draft", 0)
        layout = Replica(name, named, **ways)
        if chips and chips % layout.chips:
            wrong = f"{chips} chips are no whole number of {layout.layout}"
            raise InputError(wrong, hint=f"a multiple of {layout.chips}")
        return cls(name, chips, ways, named, **found)

    def counts(self, asked: PlanQuestion) -> tuple[int, ...]:
        """Numbers of chips that the words allow, the least first."""
        return (self.chips,) if self.chips else tuple(sorted(set(asked.counts)))

    def replicas(self, asked: PlanQuestion) -> tuple[Replica, ...]:
        """Replicas that the words may mean, fewer chips first."""
        narrowed = replace(
            asked, chips=(self.chip,) if self.chip else asked.chips, counts=self.counts(asked),
            formats=(self.formats,) if self.formats else asked.formats,
            drafts=asked.drafts if self.draft < 0 else replace(asked.drafts, lengths=(self.draft,) * (self.draft > 0)),
        )  # fmt: skip
        tried: Iterable[Replica] = replicas(narrowed)
        if self.layout:
            plain: dict[str, Any] = {"tensor": 1, "pipeline": 1, "context": 1, "expert": 1, **self.layout}
            tried = (replace(each, **plain) for each in tried)
        drafted = (each for each in dict.fromkeys(tried) if self.draft in (-1, each.draft))
        return tuple(each for each in drafted if any(count % each.chips == 0 for count in narrowed.counts))

    def said_of_replicas(self, asked: PlanQuestion) -> str:
        """What of a number of chips that no layout of the plan takes as one replica is tried; nothing of others."""
        most = max((each.chips for each in self.replicas(asked)), default=0)
        if self.layout or self.prefill or most >= self.chips:
            return ""
        many = f"{self.chips // most} replicas of {most} chip{'s' if most > 1 else ''}"
        said = f"; layouts are tried of 1, 2, 4 … chips, so {self.chips} chips are {many} at the largest"
        return f"{said}: name another, as in 'tensor {self.chips}'"

    def deployments(self, asked: PlanQuestion, count: int) -> Iterator[Deployment]:
        """Deployments of so many chips that the words may mean."""
        for each in self.replicas(asked):
            if count % each.chips == 0:
                yield Deployment(each, count // each.chips, self.chunk, self.most)

    def pairs(self, asked: PlanQuestion) -> Iterator[Deployment]:
        """Pairs of pools that the words may mean; both keep keys and values alike, and draft alike, where they can."""
        assert self.prefill is not None
        befores = self.prefill.deployments(asked, self.prefill.chips)
        pairs = list(itertools.product(befores, self.deployments(asked, self.chips)))
        alike = [(before, after) for before, after in pairs if _kept(before.replica) == _kept(after.replica)]
        for before, after in alike or pairs:
            yield replace(after, prefill=before.replica, prefill_copies=before.copies)


def _kept(replica: Replica) -> tuple[str | None, int]:
    return FORMATS[replica.formats].get("kv"), replica.draft


def best_of_words(words: DeploymentWords, search: Search) -> Assessment:
    """The best deployment of all that words may mean, asked afresh; where none meets the limits, the nearest miss."""
    asked = search.asked
    if words.prefill is not None:
        return best_of_ways(words.pairs(asked), search)
    if words.chunk < 0 and not words.most:
        narrowed = search.afresh()
        narrowed.asked, narrowed.replicas = replace(asked, counts=words.counts(asked)), words.replicas(asked)
        found = narrowed.best_of(narrowed.replicas) or narrowed.nearest_miss()
        if found is not None:
            return found
    found = None
    for count in words.counts(asked):
        deployments = list(words.deployments(asked, count))
        best = best_of_ways(deployments, search) if deployments else None
        if best is not None and (found is None or best.miss < found.miss):
            found = best
        if best is not None and best.reason is None:
            break  # more chips of a kind cost more
    if found is None:
        each = Replica(words.chip or asked.chips[0], words.formats, **words.layout)
        said = f"no number of chips of the plan is a multiple of {each.chips}, those of {each.layout}"
        raise InputError(said, hint=f"name a number, as in {each.target}")
    return found


def best_of_ways(deployments: Iterable[Deployment], search: Search) -> Assessment:
    """The best of deployments in the ways that they leave open, asked afresh; or the nearest miss."""
    fresh = search.afresh()
    found = (each for deployment in deployments for each in _ways(deployment, fresh))
    return min(found, key=lambda each: (each.miss[:2], each.order))


def enough_copies(search: Search, missed: Assessment) -> Assessment | None:
    """The fewest replicas with which a deployment that missed keeps the limits; None where no number tried does."""
    one, copies = missed.deployment, missed.deployment.copies
    if missed.reason is None or missed.reason.kind not in ("rate", "load") or one.prefill is not None:
        return None
    tried: dict[int, Assessment] = {}

    def keeps(number: int) -> bool:
        tried[number] = best_of_ways([replace(one, copies=number, chunk=-1, most=0)], search)
        return tried[number].reason is None

    least = max(copies, int(copies * search.asked.load.rate / missed.largest_rate) if missed.largest_rate else 0) + 1
    low, high = least - 1, least
    while not keeps(high):
        low, high = high, 3 * high - 2 * low
        if high > MOST_TIMES * least:
            return None
    return tried[first_where(keeps, low, high)]


def _ways(wanted: Deployment, search: Search) -> Iterator[Assessment]:
    """A deployment in the ways of taking prompts and numbers of sequences that are left open."""
    times = search.priced(wanted.replica)
    if isinstance(times, str) or times.most < 1:
        yield search.assess(wanted)
        return
    apart = wanted.prefill is not None
    for chunk in (*times.chunks, 0) if wanted.chunk < 0 else (wanted.chunk,):
        server = times.server(chunk, apart=apart)
        places = (min(wanted.most, times.most),) if wanted.most else search.places(times, server)
        yield from (search.assess(replace(wanted, chunk=chunk, most=most)) for most in places)


@cache
def _engines() -> dict[str, dict[str, Any]]:
    """What each engine calls what a deployment sets."""
    return read_toml(os.path.join(os.path.dirname(__file__), "engines.toml"), "file of constants")


def engine_settings(
    deployment: Deployment, model: str, length: int, memory: float, drafts_by: str | None = None
) -> dict[str, str]:
    """The command of one replica for each engine; ``length`` tokens are a sequence's most, ``memory`` the share.

    ``drafts_by`` names the model that drafts, ``mtp`` its own layers; None: it has no name.
    """
    return {name: _command(name, deployment, model, length, memory, drafts_by) for name in _engines()}


def _command(name: str, deployment: Deployment, model: str, length: int, memory: float, drafts_by: str | None) -> str:
    replica, copies, engine = deployment.replica, deployment.replica.copies, _engines()[name]
    formats = FORMATS[replica.formats]
    most = -(-deployment.most // copies)
    decoded = most * (replica.draft + 1)
    tokens = deployment.chunk + decoded if deployment.chunk else max(length, decoded)
    if engine.get("chunk_alone"):
        tokens = deployment.chunk or -1
    counts = {"tensor": replica.tensor, "sequences": most, "tokens": tokens}
    counts.update({each: counts[each] * copies for each in engine.get("spans", ()) if counts[each] > 0})
    kv, compute = formats.get("kv"), formats.get("compute")
    own = drafts_by == "mtp"
    drafts = {"length": replica.draft, "checked": replica.draft + 1, "model": drafts_by or "DRAFT"}

    def said(**values: Any) -> list[str]:
        """The engine's words for each option that has a value."""
        given = ((engine.get(option, ""), value) for option, value in values.items() if value is not None)
        return [words.format(value, **drafts) for words, value in given if words]

    def several(ways: int) -> int | None:
        return ways if ways > 1 else None

    flags = said(
        command=model, tensor=several(counts["tensor"]), pipeline=several(replica.pipeline),
        context=several(replica.context), expert=several(replica.expert), sequences=counts["sequences"] or None,
        tokens=counts["tokens"], length=length, memory=memory, weights=compute if compute == "fp8" else None,
    )  # fmt: skip
    settings = said(
        data=several(copies), kv=engine.get("kv_words", {}).get(kv, kv),
        chunked="" if deployment.chunk else None, whole=None if deployment.chunk else "",
        own_draft="" if own and replica.draft else None, draft="" if replica.draft and not own else None,
        half=compute if compute == "fp16" else None,
    )  # fmt: skip
    if "in_file" in engine and settings:
        settings = said(in_file=", ".join(settings))
    if replica.context > 1 and "context" not in engine:
        settings.append(f"# we know of no option for context {replica.context}")
    return " ".join([*flags, *settings])
