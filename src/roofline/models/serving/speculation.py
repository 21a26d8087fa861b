"""Speculative decoding: a cheap draft proposes tokens, one step of the model checks them all.

With a draft of γ tokens, each accepted with probability α if all before it in the draft are, a check gives on average

    E(γ, α) = (1 − α^(γ + 1)) / (1 − α)                     tokens; γ + 1 where α = 1

in one step of γ + 1 tokens a sequence, after γ draft steps.

>>> round(expected_tokens(4, 0.8), 4), expected_tokens(4, 1), expected_tokens(4, 0)
(3.3616, 5, 1.0)
>>> found = speculate("llama-3-70b", on="h200:8", tensor=8, context=4096, acceptance=0.8, draft=4, by="llama-3-8b")
>>> round(found.speedup, 2), found.best.length
(2.33, 5)

Source: Y. Leviathan, M. Kalman, Y. Matias, "Fast inference from transformers via speculative decoding",
arXiv:2211.17192, equation 1 and theorem 3.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.answers import Answer, attributes
from roofline.bounds.memory import Footprint
from roofline.errors import InputError, quoted
from roofline.frozen import dataclass, field, replace
from roofline.models.blocks.residual import Norm
from roofline.models.config import load
from roofline.models.description import Layer, Model
from roofline.models.parallelism.layout import check_one_layout
from roofline.models.serving import serve_bound, step_bound
from roofline.models.serving.generation import FORM_TEXT, check_form, single_size, time_in_form
from roofline.models.serving.step import asked_model
from roofline.quantity import figure, format_amount, format_number, format_percent, format_times
from roofline.sections import BLANK, Amount, Headline, Row, Section, Sentences, Table, figures, paragraph
from roofline.signatures import spelled, takes
from roofline.sizes import Size, array_of, check

#: Blocks around a prediction layer: two norms and the projection before it, a norm after.
_AROUND = 4

_EXPERTS = ("expert", "expert_exchange", "dispatch", "combine", "shared_experts")

#: The longest draft that is tried for the best one, and the longest that can be asked for: each length is priced.
LONGEST, MOST_DRAFTED = 32, 128


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft of ``length`` tokens: seconds to make it, to check it, and the tokens that come of it on average."""

    length: int
    drafting: float
    checking: float
    tokens: float

    @property
    def time_per_token(self) -> float:
        """Mean seconds a token of each sequence."""
        return (self.drafting + self.checking) / self.tokens


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Speculation(Answer):
    """A draft of the length asked for, the best one, and a plain decode step, at the floor.

    ``by`` says what drafts; ``drafts`` are those of every length up to the longest that was tried. ``memory`` is what
    a chip keeps where a model drafts, or the model's own layers for further tokens: both.
    """

    batch: int
    acceptance: float
    by: str
    form: str
    plain: float
    asked: Draft
    drafts: tuple[Draft, ...]
    memory: Footprint | None = None

    @property
    def best(self) -> Draft:
        """The draft with the least time a token. Its length is 0 where plain decoding is the fastest."""
        return min(self.drafts, key=lambda draft: draft.time_per_token)

    @property
    def fits(self) -> bool:
        """Whether both models fit together, as far as is known."""
        return self.memory is None or self.memory.fits is not False

    @property
    def speedup(self) -> float:
        """How many times faster than plain decoding the draft asked for is."""
        return self.plain / self.asked.time_per_token

    @property
    def best_speedup(self) -> float:
        """How many times faster than plain decoding the best draft is; 1 where none helps."""
        return self.plain / self.best.time_per_token

    def one_line(self) -> str:
        """What the draft gains, and the best length."""
        times = format_times(self.speedup)
        return f"Speculation by {self.by}: {self.asked.length} tokens {times}, best {self.best.length}"

    def sections(self) -> tuple[Section, ...]:
        """The draft asked for, the best one, and plain decoding."""
        asked, best = self.asked, self.best
        drafting, checking = format_amount(asked.drafting, "s"), format_amount(asked.checking, "s")
        each, plain = format_amount(asked.time_per_token, "s"), format_amount(self.plain, "s")
        many = "1 token" if asked.length == 1 else f"{asked.length} tokens"
        lines = [
            f"{many} by {self.by}, each accepted with probability {format_percent(self.acceptance)} "
            "if all before it are",
            f"{format_number(asked.tokens)} tokens a check on average, the model's own among them, for {drafting} of "
            f"drafting and {checking} of checking",
            f"{each} a token, {self.speedup:.2f} times as fast as {plain} ({FORM_TEXT[self.form]})",
            "no draft helps at this batch",
        ]
        if best.length:
            time = format_amount(best.time_per_token, "s")
            lines[-1] = f"best with {best.length}: {time} a token, {self.best_speedup:.2f} times"
        if self.memory is not None:
            lines.append(self.memory.in_words())
        return paragraph("speculative decoding", lines)

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys, in SI units."""
        named = ("length", "drafting", "checking", "tokens", "time_per_token")
        return {
            **attributes(self, "batch", "acceptance", "by", "form", "plain"),
            "draft": attributes(self.asked, *named),
            "speedup": self.speedup,
            "best": attributes(self.best, *named),
            **attributes(self, "best_speedup", "memory"),
        }


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SpeculationByBatch(Answer):
    """Speculation at several batches: ``each`` is that of one, in their order."""

    each: tuple[Speculation, ...]

    def one_line(self) -> str:
        """What the draft gains at each batch."""
        return f"Speculation by {self.each[0].by}: {self.said}"

    @property
    def said(self) -> str:
        """How many times as fast as plain decoding the draft asked for is at each batch, in words."""
        found = [
            f"{each.speedup:.2f} times as fast at batch {each.batch:,}"
            + (", WHERE IT DOES NOT FIT with the draft model" if not each.fits else "")
            for each in self.each
        ]
        return ", ".join(found if len(found) < 4 else [found[0], f"{found[-1]}, and between"])

    def sections(self) -> tuple[Section, ...]:
        """A row a batch: plain decoding, the draft asked for, and the best length."""
        first = self.each[0]
        accepted = f"{format_percent(first.acceptance)} accepted"
        head = f"{first.asked.length} by {first.by}, {accepted}, {FORM_TEXT[first.form]}"
        names = figures("batch", "plain", "with drafts", "times as fast", "best length", "a token then", "times then")

        def row(each: Speculation) -> Row:
            return Row((
                Amount(each.batch, ""), Amount(each.plain, "s"), Amount(each.asked.time_per_token, "s"),
                Amount(each.speedup, "", format_times(each.speedup)), Amount(each.best.length, ""),
                Amount(each.best.time_per_token, "s"), Amount(each.best_speedup, "", format_times(each.best_speedup)),
            ), "" if each.fits else "quiet")  # fmt: skip

        table = Table(names, list(map(row, self.each)), "speculation", indent=4)
        over = [f"{each.batch:,}" for each in self.each if not each.fits]
        said = [Sentences([f"does not fit with the draft model at batch {', '.join(over)}"], "alert", indent=4)]
        return (BLANK, Headline("speculative decoding", head, level=2), table, *said * bool(over))

    def to_dict(self) -> dict[str, Any]:
        """Each batch's under the keys of one."""
        return {"batches": [each.to_dict() for each in self.each]}


def check_acceptance(acceptance: float) -> None:
    """Refuse a chance of accepting a token that is none."""
    if not 0 <= acceptance <= 1:
        raise InputError(f"an acceptance of {acceptance} is no probability", hint="from 0 to 1, as in 0.8")


@takes()
def expected_tokens(length: Size, acceptance: Size) -> Size:
    """Mean tokens a check of ``length`` drafted ones gives, the model's own included.

    ``acceptance`` is the chance that one of them is accepted if all before it are, from 0 to 1.

    >>> round(sum(0.7**accepted for accepted in range(6)), 9) == round(expected_tokens(5, 0.7), 9)
    True
    """
    length = check("length", length) if isinstance(length, str | list | tuple | range) else length
    acceptance = figure(acceptance, "") if isinstance(acceptance, str) else acceptance
    acceptance = array_of("acceptance", acceptance) if isinstance(acceptance, list | tuple | range) else acceptance
    if isinstance(acceptance, int | float):
        check_acceptance(acceptance)
        if acceptance == 1:
            return length + 1
    return (1 - acceptance ** (length + 1)) / (1 - acceptance)


@takes(serve_bound, but=("chunk", "prompts", "last", "tokens", "prompt"))
def speculate(
    model: Model | str,
    *,
    context: int,
    acceptance: float,
    draft: int,
    by: Model | str | float,
    batch: int = 1,
    form: str = "lower",
    longest: int = LONGEST,
    draft_weights: str | None = None,
    **options: Any,
) -> Speculation:
    """Time tokens with a ``draft`` of so many tokens, and find the length that is best.

    ``by`` makes the draft: another model (a name, a configuration), which runs on the same chips in its own formats, or
    with its matrices in ``draft_weights``; a fraction of the model's own step; or ``mtp``, the model's own layers for
    further tokens, used one after another.
    ``acceptance`` is the chance that a drafted token is accepted if all before it in the draft are.
    Drafts of up to ``longest`` tokens are tried, as far as the model's context reaches. ``options`` are those of
    :func:`roofline.models.serve_bound`.
    """
    described = asked_model(model, options)
    check_one_layout(options)
    batch, context, draft = single_size("batch", batch), single_size("context", context), single_size("draft", draft)
    form = check_form(form, options)
    check_acceptance(acceptance)
    check_draft(max(draft, longest))
    if longest < 0:
        raise InputError(f"longest is {quoted(longest)}", hint="the longest draft that is tried: 0 or more")

    def step(runs: Model, after: int, tokens: int = 1, **formats: Any) -> float:
        if tokens > 1:
            formats["tokens"] = tokens
        return float(time_in_form(step_bound(runs, "decode", batch=batch, context=after, **formats), form))

    plain = step(described, context, **options)
    if described.context is not None and described.context > context + 1:
        longest = min(longest, described.context - context - 1)
    drafts_by = drafter(described, by, options, draft_weights, draft)
    drafts, drafting, own = [Draft(0, 0.0, plain, 1.0)], 0.0, drafts_by.model
    for length in range(1, max(draft, longest) + 1):
        drafting += drafts_by.share * plain if own is None else step(own, context + length - 1, **drafts_by.options)
        checking = step(described, context, length + 1, **options)
        drafts.append(Draft(length, drafting, checking, float(expected_tokens(length, acceptance))))
    memory = None
    if drafts_by.held is not None:
        check: dict[str, Any] = {"context": context, "tokens": draft + 1, **options}
        last: dict[str, Any] = {"context": context + draft - 1, **drafts_by.options}
        needed = step_bound(described, "decode", batch=batch, **check).footprint
        beside = step_bound(drafts_by.held, "decode", batch=batch, **last).footprint
        if needed is not None and beside is not None:
            parts = {described.name: needed.total, drafts_by.held.name: beside.total}
            memory = Footprint(parts, needed.level, needed.capacity)
    tried = tuple(drafts[: longest + 1])
    return Speculation(batch, acceptance, drafts_by.said, form, plain, drafts[draft], tried, memory)


def check_draft(length: int) -> None:
    """Refuse a draft of no tokens, or of more than anything drafts.

    >>> check_draft(1000)
    Traceback (most recent call last):
    roofline.errors.InputError: a draft of 1,000 tokens; from 1 to 128, as in draft=4
    """
    if not 1 <= length <= MOST_DRAFTED:
        raise InputError(f"a draft of {length:,} tokens", hint=f"from 1 to {MOST_DRAFTED}, as in {spelled('draft', 4)}")


@dataclass(frozen=True, slots=True)
class Drafter:
    """What drafts: a ``model`` with the ``options`` of its steps, or a ``share`` of the model's own step.

    ``held`` is what of the model lies in memory beside the one that checks.
    """

    said: str
    model: Model | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    share: float = 0.0
    held: Model | None = None


def drafter(
    model: Model, by: Model | str | float, options: Mapping[str, Any], weights: str | None = None, length: int = 1
) -> Drafter:
    """Find what drafts for a model: another model, ``mtp``, or a share of a step; ``options`` are the model's own.

    A draft of ``length`` tokens takes as many of the model's own layers, as far as it has them.

    >>> drafter(load("llama-3-70b"), "llama-3-8b", {"tensor": 8, "weights": "fp8"}).options
    {'tensor': 8}
    """
    if weights is not None and (by == "mtp" or isinstance(by, int | float)):
        raise InputError("a format of a draft's weights is that of a model that drafts", hint="name one, by=…")
    if isinstance(by, int | float):
        if not 0 <= by < float("inf"):
            raise InputError(f"a draft step of {by} of the model's own", hint="a fraction, as in 0.1")
        return Drafter(f"a draft of {by:g} of a step", share=float(by))
    if by == "mtp":
        if options.get("pipeline") not in (None, 1):
            wrong = "prediction layers stand on the last stage of a pipeline alone, and a draft there is not modelled"
            raise InputError(wrong, hint="leave pipeline out, or name a draft model")
        own = prediction_layer(model)
        # its table and its head are those of the model
        layers = own.layers * min(length, _modules(model))
        held = replace(own, layers=layers, after=(), head=False, receives=own.width)
        return Drafter("its own prediction layers", own, dict(options), held=held)
    other = load(by)
    # a draft model has formats of its own
    of_the_model = ("weights", "activations", "skew", *_EXPERTS)
    shared = {name: value for name, value in options.items() if name not in of_the_model}
    if weights is None:
        return Drafter(other.name, other, shared, held=other)
    return Drafter(f"{other.name} in {weights}", other, {**shared, "weights": weights}, held=other)


def prediction_layer(model: Model) -> Model:
    """The layer that predicts a further token as a model: its projection, its layer, and the model's own head.

    >>> from roofline.models import load
    >>> found = prediction_layer(load("deepseek-v3"))
    >>> len(found.layers), round(found.active_parameters / 1e9, 2)
    (1, 2.54)
    """
    if not model.extra:
        raise InputError(f"{model.name} has no layers that predict further tokens", hint="name a draft model")
    around = _AROUND if model.extra_blocks else 0
    first = model.extra_blocks[:around]
    layers = [block for layer in model.extra[: len(model.extra) // _modules(model)] for block in layer.blocks]
    return replace(
        model,
        name=f"{model.name} prediction",
        layers=(Layer((*first[:-1], *layers, *first[-1:])),),
        extra=(),
        extra_blocks=(),
        before=(),
        after=tuple(block for block in model.after if not isinstance(block, Norm)),
        final=(),
    )


def _modules(model: Model) -> int:
    """How many further tokens a model's own layers predict one after another."""
    return len(model.extra_blocks) // _AROUND or 1
