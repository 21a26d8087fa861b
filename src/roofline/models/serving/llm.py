"""``roofline llm``: a step of serving and what is worked out beside it, each asked for by an argument.

>>> found = llm("llama-3-70b", on="h200:8", tensor=8, batch=64, prompt=8192, output=512, price=2.5)
>>> list(found.further), round(found.further["generation"].tokens_per_second)
(['generation', 'cost'], 2342)
>>> round(found.further["cost"]["output"].dollars, 2)
0.71
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, overload

from roofline.answers import attributes, estimable, measurable, on_several
from roofline.bounds.api import TARGET_OPTIONS, take_target_options, target
from roofline.bounds.conventions import OF_OPERATIONS
from roofline.bounds.cost import cost_section, power_asked, token_cost
from roofline.errors import InputError, OneSizeError
from roofline.frozen import dataclass, replace
from roofline.hardware import chip
from roofline.hardware.figures import hourly_price, price_source
from roofline.hardware.machine import Machine
from roofline.lazy import np
from roofline.meanings import LISTS
from roofline.models.description import Model
from roofline.models.idle import WAYS_OF_SERVING, refuse_idle
from roofline.models.operation_builder import PREFILL_ONLY
from roofline.models.operations import check_options
from roofline.models.parallelism.layout import CHIPS, MOST_LAYOUTS, OPTIONS, is_several, refuse_more
from roofline.models.parallelism.layout import pool as chips_sharing
from roofline.models.serving.answer import FurtherAnswer, Serving, serve
from roofline.models.serving.bound import step_bound
from roofline.models.serving.fit import FewestChips, fewest
from roofline.models.serving.generation import EXPECTED, FORM_TEXT, check_form, chunked, generation, time_in_form
from roofline.models.serving.step import asked_model
from roofline.quantity import Figure, figure, format_amount, format_number, given_amount, in_a_row
from roofline.sections import BLANK, Sentences, paragraph
from roofline.signatures import either, spelled, takes
from roofline.sizes import Size, array_of, check, common_shape, is_array, is_number, is_one, is_zero, product
from roofline.statements import Assumption

if TYPE_CHECKING:
    from roofline.bounds.comparison import SideBySide


@dataclass(frozen=True, slots=True)
class ServingQuestion:
    """A model, its sizes as given, the arguments of a step, and what else was asked."""

    model: Any
    sizes: dict[str, Any]
    arguments: dict[str, Any]
    wanted: dict[str, Any]
    fewest: FewestChips | None = None

    @property
    def decoding(self) -> dict[str, Any]:
        """The arguments of a decode step."""
        return {name: value for name, value in self.arguments.items() if name not in PREFILL_ONLY}

    @property
    def context(self) -> Any:
        """Tokens in the cache when decoding."""
        prompt, context = self.sizes["prompt"], self.sizes["context"]
        if context is not None or prompt is None:
            return context
        past = self.arguments.get("past", 0)
        return prompt if is_zero(past) else check("prompt", prompt) + check("past", past)

    def need(self, option: str, *names: str) -> list[Any]:
        """Sizes an option needs."""
        found, tried = [], self.wanted.get("tpot") is not None
        wrong = OneSizeError if option in ("output", "fit") and not tried else InputError
        for name in names:
            value = self.context if name == "context" else {**self.wanted, **self.sizes}[name]
            if value is None:
                raise InputError(f"{spelled(option)} needs {spelled(name)}", hint=f"for instance {spelled(name, 1024)}")
            if is_several(value):
                which = f", and {spelled('tpot')} chooses among several" if tried else ""
                without = f", and leave {spelled('tpot')} out" if tried else ""
                hint = f"give {spelled(name)} one value{without}"
                raise wrong(f"{spelled(option)} is about one configuration{which}", hint=hint)
            found.append(check(name, value) if isinstance(value, str) else value)
        several = next(iter(_listed(self.arguments)), None)
        if several is not None:
            raise wrong(f"{spelled(option)} is about one configuration", hint=f"give {spelled(several)} one value")
        return found


def further_answers(asked: ServingQuestion, found: Any) -> Iterator[FurtherAnswer]:
    """Every further answer that was asked for; ``found`` is the answer about the step, where there is one."""
    # a size of 0 was given
    given = (option for option in _WORK if asked.wanted[option] is not None and asked.wanted[option] is not False)
    done: list[FurtherAnswer] = []
    for work in dict.fromkeys(_WORK[option] for option in given):
        done.append(work(asked, found and replace(found, worked_out=tuple(done))))
        yield done[-1]


def _listed(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with several values; a tuple is one value of several parts, as an image's size."""
    return {name: value for name, value in arguments.items() if is_several(value) and name not in LISTS}


def _answer(key: str, answer: Any, lead: str = "") -> FurtherAnswer:
    return FurtherAnswer(key, answer, answer.sections, lead)


def _generation(asked: ServingQuestion, found: Any) -> FurtherAnswer:
    batch, prompt = asked.need("output", "batch", "prompt")
    sizes = {"batch": batch, "prompt": prompt, "output": asked.wanted["output"], "form": asked.wanted["form"]}
    answer = generation(asked.model, **sizes, **asked.arguments)
    apart = asked.wanted["prefill_on"] is not None
    lead = f"with prefill on the same chips: {answer.said}" if apart else answer.said
    whose = [Sentences(["with prefill on the same chips:"], indent=4)] * apart
    return FurtherAnswer("generation", answer, lambda: (*whose, *answer.details()), lead, first=not apart)


def _chunked(asked: ServingQuestion, found: Any) -> FurtherAnswer:
    (prompt,) = asked.need("chunk", "prompt")
    beside: dict[str, Any] = {}
    if asked.sizes["context"] is not None:
        batch, context = asked.need("chunk", "batch", "context")
        beside = {"batch": batch, "context": context}
    sizes = {"prompt": prompt, "chunk": asked.wanted["chunk"], "form": asked.wanted["form"]}
    answer = chunked(asked.model, **sizes, **beside, **asked.arguments)
    return FurtherAnswer("chunked", answer, answer.details, answer.said)


def _speculation(asked: ServingQuestion, found: Any) -> FurtherAnswer:
    from roofline.models.serving.speculation import SpeculationByBatch, speculate

    batches = asked.sizes["batch"]
    (context,) = asked.need("draft", "context")
    by: Any = 0.1 if asked.wanted["draft_by"] is None else asked.wanted["draft_by"]
    if is_array(by) or isinstance(by, list | tuple):
        raise InputError(f"{spelled('draft_by')} has several values", hint="a model, mtp, or a fraction of a step")
    with suppress(ValueError, TypeError):
        by = float(by)
    sizes = {"context": context, "draft": asked.wanted["draft"], "form": asked.wanted["form"]}
    weights, acceptance = asked.wanted["draft_weights"], figure(asked.wanted["accept"], "")
    drafter = {"by": by, "draft_weights": weights, "acceptance": acceptance}

    def at(batch: Any) -> Any:
        return speculate(asked.model, batch=batch, **drafter, **sizes, **asked.decoding)

    if is_several(batches):
        several = SpeculationByBatch(tuple(map(at, array_of("batch", batches).ravel().tolist())))
        of = several.each[0]
        lead = f"with drafts of {of.asked.length:,}: {several.said}, {FORM_TEXT[of.form]}"
        return _answer("speculations", several, lead)
    answer = at(batches)
    each = format_amount(answer.asked.time_per_token, "s")
    drafts = f"drafts of {answer.asked.length:,} token{'s' if answer.asked.length > 1 else ''}"
    lead = f"with {drafts}: {each} a token, {answer.speedup:.2f} times as fast, {FORM_TEXT[answer.form]}"
    if answer.memory is not None and answer.memory.fits is False:
        lead = f"DOES NOT FIT with the draft model: {answer.memory.in_words()} · {lead}"
    return _answer("speculation", answer, lead)


def _disaggregation(asked: ServingQuestion, found: Any) -> FurtherAnswer:
    from roofline.models.serving.disaggregation import disaggregate

    sizes = {"prompt": asked.sizes["prompt"], "output": asked.wanted["output"]}
    examples = {"prompt": ("a prompt", 4096), "output": ("an answer", 512)}
    missing = [name for name, value in sizes.items() if value is None]
    if missing:
        needs = f"{spelled('prefill_on')} needs {in_a_row(map(spelled, missing))}"
        tokens = " and of ".join(examples[name][0] for name in missing)
        such = ", ".join(spelled(name, examples[name][1]) for name in missing)
        raise InputError(needs, hint=f"tokens of {tokens}, as in {such}")
    batch, prompt = asked.need("prefill_on", "batch", "prompt")
    target, chips = asked.wanted["prefill_on"], asked.wanted["prefill_tensor"]
    if chips is None:
        chips = product(chip(target, files=asked.arguments.get("files", ())).shape)
    shared = {name: value for name, value in asked.decoding.items() if name not in _WHERE}
    decoding: dict[str, Any] = {name: asked.decoding[name] for name in _WHERE if name in asked.decoding}
    many = {"expert": chips} if asked.arguments.get("expert", 1) > 1 else {}
    many |= {name: value for name, value in asked.arguments.items() if name in PREFILL_ONLY}
    answer = disaggregate(
        asked.model,
        prompt=prompt,
        output=asked.wanted["output"],
        batch=batch,
        prefill_batch=asked.wanted["prefill_batch"],
        prefill={"on": target, "tensor": chips, **many},
        decode=decoding,
        link=asked.wanted["prefill_link"],
        form=asked.wanted["form"],
        **shared,
    )
    return FurtherAnswer("disaggregation", answer, lambda: (*answer.sections()[1:], BLANK), first=True)


def _with_fewest(asked: ServingQuestion) -> ServingQuestion:
    """The question with the fewest chips worked out; where no layout was given, the step is laid out as found there."""
    several = next(iter(_listed(asked.arguments)), None)
    if several in OPTIONS:
        wrong = f"{spelled('fit')} finds how many chips there have to be, and {spelled(several)} has several"
        raise InputError(wrong, hint=f"leave {spelled(several)} out, or give it one value")
    given = [name for name, value in (*asked.sizes.items(), *asked.wanted.items()) if value is not None]
    batch, *_ = asked.need("fit", "batch", *({"prompt", "output"} & {*given}))
    sizes: dict[str, Any] = {"batch": batch}
    if asked.context is not None:
        (context,) = asked.need("fit", "context")
        # tokens that decoding adds need memory too
        sizes["context"] = context + (asked.wanted["output"] or 1 if asked.model.causal else 0)
    if asked.sizes["prompt"] is not None:
        of_prompt = {name: value for name, value in asked.arguments.items() if name in PREFILL_ONLY}
        sizes["prompt"] = {**of_prompt, "prompt": asked.sizes["prompt"]}
    kept = {k: v for k, v in asked.decoding.items() if k not in ("algorithm", *OF_OPERATIONS)}
    answer = fewest(asked.model, **sizes, **kept)
    if asked.context is not None:
        answer = replace(answer, context=context)
    placed = answer.placed
    is_given = getattr(asked.arguments["on"], "pooled", 1) > 1 or any(name in asked.arguments for name in CHIPS)
    if is_given or placed is None or not placed.fits:
        return replace(asked, fewest=answer)
    where = {name: value for name, value in asked.arguments.items() if name not in TARGET_OPTIONS}
    return replace(asked, fewest=answer, arguments={**where, "on": placed.machine, **placed.layout})


def _fewest(asked: ServingQuestion, found: Any) -> FurtherAnswer:
    answer: Any = asked.fewest
    most, lead = None if found is None else found.full_from(), answer.lead
    given = None if most is None else answer.given
    there = None if found is None else (found.decode or found.prefill).machine.target
    if given is not None and given.target == there and given.sequences != most:
        laid = ", ".join(f"{name} {ways}" for name, ways in found.ways.sizes().items())
        each = f", {most // found.ways.data:,} on each copy" if found.ways.data > 1 and most else ""
        even = "more" if given.sequences is None else f"{given.sequences:,}"
        lead = f"{answer.least}; {given.target} holds {most:,} sequences of this context as laid out"
        lead += f" ({laid}{each}), {even} if memory were one"
    return FurtherAnswer("fewest", answer, answer.details, "\n".join([lead, *answer.longest_context()]), first=True)


_WHERE = ("on", "set", *OPTIONS)


def _cost(asked: ServingQuestion, found: Any, floors: Mapping[str, Any] | None = None) -> FurtherAnswer:
    if "speculations" in found.further:
        wrong = f"a cost with {spelled('draft')} is that of one batch"
        raise InputError(wrong, hint=f"give {spelled('batch')} one value")
    price = asked.wanted["price"]
    machine = (found.decode or found.prefill).machine
    dollars = hourly_price(machine, price)
    form, limit = check_form(asked.wanted["form"], asked.arguments), asked.wanted["tpot"]
    costs: dict[str, Any] = {}
    again = partial(_cost, asked, floors=costs) if form == "lower" else None
    form = EXPECTED if found.is_expected else form
    floor = "at the floor: a real run takes longer and costs as many times more"
    source = price_source(machine, dollars, price)
    said = [{"lower": floor, EXPECTED: "at the times to expect"}.get(form, FORM_TEXT[form]), *source]
    power, upper = power_asked(machine, asked.wanted["power"])
    said += upper
    mean, of, memory = _time_of_output(found)
    said += of
    for name, phase, tokens in (("input", found.prefill, asked.sizes["prompt"]), ("output", found.decode, 1)):
        if phase is not None:
            made = phase.sizes["batch"] * tokens
            time = time_in_form(phase, form) if name == "input" or mean is None else mean
            cost = token_cost(time=time, tokens=made, chips=found.chips, price=dollars, power=power)
            cost = replace(cost.where_it_fits(memory), form=form, floor=(floors or {}).get(name))
            costs[name] = cost if name == "input" or limit is None else cost.within(time, limit)
    whole = found.further.get("generation")
    if whole is not None and "speculation" not in found.further and limit is None:
        time = float(whole.total if whole.expectation is None else whole.expectation.value)
        cost = token_cost(time=time, tokens=found.batch, chips=found.chips, price=dollars, power=power)
        before = (floors or {}).get("answer")
        costs["answer"] = replace(cost.where_it_fits(memory), form=form, of="answer", floor=before)
    said += _at_the_largest_batch(found, dollars) if form == "lower" and mean is None else []
    which, kept = {}, "" if limit is None else f" in {format_amount(limit, 's')} a token"
    for name, cost in costs.items():
        if is_array(cost.chip_hours):
            costs[name], among, at = cost.least()
            which[name] = f" ({found.configuration(at)})"
            said.append(f"{name}: the least of the configurations{among}{kept if name == 'output' else ''}")
    fits = memory.fits
    if fits is False:
        return FurtherAnswer("cost", costs, tuple, "no cost of tokens, as it does not fit", again=again)
    if is_array(fits) and not fits.any():
        return FurtherAnswer("cost", costs, lambda: paragraph("cost", ["no cost of tokens, as none of these fits"]))
    if kept and "output" in costs and costs["output"].chip_hours is None:
        none = f"no cost of output tokens: none of the choices is{kept}"
        return FurtherAnswer("cost", costs, tuple, none, again=again)
    by_name = {name: cost.dollars for name, cost in costs.items() if cost.dollars is not None}
    whose = {name: (kept if name == "output" else "") + which.get(name, "") for name in by_name}
    lead = ", ".join(
        f"${format_number(float(each))} a million {costs[name].counted(name)}{whose[name]}"
        for name, each in by_name.items()
    )
    least = "at least " if form == "lower" else ""
    told = f"{least}{lead}: {FORM_TEXT[form]}" if lead else "".join(source)
    return FurtherAnswer("cost", costs, lambda: cost_section(costs, said), told, again=again)


def _at_the_largest_batch(found: Serving, price: float | None) -> list[str]:
    """What output costs at the batch that fills memory, beside that of one sequence, which hardly anybody serves."""
    if price is None or is_array(found.fits) or not (is_one(found.batch) and found.fits):
        return []
    full = found.full_from() if found.ways.chips == found.chips else None
    if full is None or full < 2:
        return []
    step = step_bound(found.model, "decode", **{**found.asked_of("decode"), "batch": full})
    cost = token_cost(time=step.lower, tokens=full, chips=found.chips, price=price)
    dollars = format_number(float(cost.dollars or 0.0))
    return [f"output at batch {full:,}, about as many as memory holds: ${dollars} a million tokens"]


def _time_of_output(found: Serving) -> tuple[float | None, list[str], Any]:
    """Seconds a token of each sequence over drafts or a whole answer, where asked for, a word on it, and the memory."""
    speculation, answer = (found.further.get(name) for name in ("speculation", "generation"))
    if speculation is not None:
        drafts = f"output: with drafts of {speculation.asked.length:,}, at the context given"
        return speculation.asked.time_per_token, [drafts], speculation.memory or found.memory
    if answer is None or answer.mean_time_per_token is None:
        return None, [], found.memory
    mean = answer.mean_time_per_token if answer.expectation is None else float(answer.expectation.parts[1].value)
    return mean, [f"output: the mean step of answers of {answer.output:,} tokens"], answer.memory


def _advice(asked: ServingQuestion, found: Any) -> FurtherAnswer:
    from roofline.models.serving.advice import advice_sections, advise_step

    lists = []
    if found.prefill is not None:
        batch, prompt = asked.need("advise", "batch", "prompt")
        lists.append(advise_step(asked.model, "prefill", batch=batch, prompt=prompt, **asked.arguments))
    if found.decode is not None:
        batch, context = asked.need("advise", "batch", "context")
        lists.append(advise_step(asked.model, "decode", batch=batch, context=context, **asked.decoding))
    lines = tuple(each for found in lists for each in found)
    return FurtherAnswer(
        "advice", lines, lambda: [part for found in lists for part in advice_sections(found)], over=True
    )


#: Options that ask for more, and what works it out.
_WORK = {
    "output": _generation,
    "chunk": _chunked,
    "draft": _speculation,
    "prefill_on": _disaggregation,
    "price": _cost,
    "power": _cost,
    "fit": _fewest,
    "advise": _advice,
}


@overload
def llm(model: list[Any] | tuple[Any, ...], *, on: Any, **options: Any) -> SideBySide: ...
@overload
def llm(model: Model | str, *, on: list[Any] | tuple[Any, ...], **options: Any) -> SideBySide: ...
@overload
def llm(
    model: Model | str, *, on: str | Machine, batch: Size | None = None, prompt: Size | None = None,
    context: Size | None = None, **options: Any,
) -> Serving | Any: ...  # fmt: skip
@measurable  # type: ignore[misc]  # several models come one by one
@on_several
@estimable
@takes(serve, but=("algorithm",))
def llm(
    model: Model | str,
    *,
    batch: Size | None = None,
    prompt: Size | None = None,
    context: Size | None = None,
    output: int | None = None,
    phase: str | None = None,
    chunk: int | None = None,
    tpot: float | str | None = None,
    front: bool = False,
    fit: bool = False,
    advise: bool = False,
    price: Figure | None = None,
    power: float | str | None = None,
    draft: int | None = None,
    accept: Figure = 0.8,
    draft_by: Model | str | float | None = None,
    draft_weights: str | None = None,
    prefill_on: str | None = None,
    prefill_tensor: int | None = None,
    prefill_batch: int = 1,
    prefill_link: float | str | None = None,
    pool: int = 1,
    form: str = "lower",
    algorithm: str | None = None,
    **options: Any,
) -> Serving | FewestChips | SideBySide:
    """The floor of serving a model: prefill of ``prompt`` tokens, a decode step after ``context``, whether it fits.

    >>> llm("llama-3-8b", on="h100", batch=8, context=8192)
    <Serving llama-3-8b: decode <Bound: 7.04 ms at best, 7.2 ms at worst on NVIDIA H100 SXM5 80GB, memory-bound (hbm)>>

    What else is asked stands under ``further`` by its key, and in what the answer says: ``generation`` (``output``),
    ``chunked`` (``chunk``), ``speculation`` (``draft``), ``disaggregation`` (``prefill_on``), ``cost`` (``price``,
    ``power``), ``fewest`` (``fit``) and ``advice`` (``advise``). Of several batches, contexts or numbers of chips
    ``front`` shows those that no other beats, and ``tpot`` the one that makes the most of a chip within that time.
    Without a ``batch`` that is sought, after each context; else a batch that is not given is 1. With an ``estimate``
    times, costs and limits of choices are by what to expect, where that is known:

    >>> llm("llama-3-70b", on="h200", tensor=[2, 4, 8], batch=[1, 16, 64, 256], context=8192, tpot="20 ms").front.within
    (ServingChoice(batch=64, context=8192, tensor=4, chips=4, ...),)

    ``fit`` alone, without a prompt or a context, is the fewest chips that hold the model, and the longest context:

    >>> llm("deepseek-v3", on="h200", fit=True)
    <FewestChips for deepseek-v3: 5 x NVIDIA H200 SXM, split 8>
    >>> llm("llama-3-8b", on="h100", batch=4, fit=True).longest.context
    131379

    Of several models, machines, ``on=["h100", "h200"]``, or formats, ``kv=["bf16", "fp8"]``, answers stand in columns;
    of several batches or prompts, an ``output`` and ``fit`` are asked at each: a row a size.
    ``phase`` asks for ``prefill`` or ``decode`` alone.
    Without a prompt or a context, that of a step is 4096, or the most that the model takes. Of a model with an encoder
    ``source`` is what that reads of each sequence; prompt and context are the decoder's tokens. ``lora`` is the rank
    of ``adapters`` that are served beside the model, ``kv_block`` the tokens of a block of a paged cache, of which a
    sequence takes whole ones:

    >>> llm("llama-3-8b", on="h100", batch=32, context=4096, lora=16, adapters=32)
    <Serving llama-3-8b: decode <Bound: 10.4 ms at best, 11 ms at worst on NVIDIA H100 SXM5 80GB, memory-bound (hbm)>>

    ``count`` says which pairs of query and key count, ``causal`` or ``full``. Times are seconds, ``price`` dollars of a
    chip for an hour, ``power`` watts of one chip, or ``"tdp"``.
    """
    wanted = {
        "output": output, "chunk": chunk, "draft": draft, "prefill_on": prefill_on, "price": price, "power": power,
        "fit": fit, "advise": advise, "form": form, "accept": accept, "draft_by": draft_by,
        "draft_weights": draft_weights, "prefill_tensor": prefill_tensor, "prefill_batch": prefill_batch,
        "prefill_link": prefill_link,
    }  # fmt: skip
    options |= {} if algorithm is None else {"algorithm": algorithm}
    check_options(options, llm, serve)
    described = asked_model(model, options)
    arguments = _pooled(options, pool)
    refuse_idle(wanted, WAYS_OF_SERVING, described)
    if fit and described.kv_memory == "host":
        hint = f"leave {spelled('host_kv')} or {spelled('fit')} out"
        raise InputError(f"{spelled('fit')} counts the chip's memory, and keys and values are with the host", hint=hint)
    is_stepped = not fit or advise or price is not None or power is not None
    is_usual = prompt is None and context is None and is_stepped
    sizes = {
        "batch": 1 if batch is None else batch,
        "prompt": prompt,
        "context": described.usual_length if is_usual else context,
    }
    limit = None if tpot is None else given_amount("tpot", tpot)
    is_front = tpot is not None or front
    wanted |= {"tpot": limit, "front": is_front or None, "phase": phase, "is_usual": is_usual}
    asked = ServingQuestion(described, sizes, arguments, wanted)
    is_sought = batch is None and limit is not None and prompt is None and not fit and phase != "prefill"
    if is_sought:
        asked = replace(asked, sizes={**sizes, **_sought(asked, limit)})
    memory_alone = fit and prompt is None and context is None and not is_usual
    _check_phase(phase, wanted, memory_alone)
    _check(asked)
    if memory_alone:
        return _fit_alone(asked)
    if fit:
        asked = _with_fewest(asked)
    return _answered(asked, again=partial(_at_batches, asked) if is_sought else None)


def _answered(asked: ServingQuestion, again: Any = None) -> Serving:
    """A step, what else was asked beside it, and the front; ``again`` asks it at other batches."""
    sizes, wanted = asked.sizes, asked.wanted
    found = serve(asked.model, phase=wanted["phase"], **sizes, **_laid_across(asked.arguments, sizes))
    if found.decode is not None:
        usual = f"a context of {asked.model.usual_length:,} tokens, as neither a prompt nor a context was given"
        first = [Assumption("model", usual)] if wanted["is_usual"] else []
        said = (*first, *found.decode.assumptions, *_beyond_training(asked))
        found = replace(found, decode=replace(found.decode, assumptions=said))
    found = replace(found, worked_out=tuple(further_answers(asked, found)))
    if not wanted["front"]:
        return found
    priced = found.further.get("cost", {}).get("output")
    each = {} if priced is None else {"price": priced.price, "power": priced.power}
    return replace(found, front=replace(_front(asked), flips=tuple(found.where_it_flips()), again=again, **each))


def _beyond_training(asked: ServingQuestion) -> list[Assumption]:
    """That answers end beyond the length that the model was trained on, where their prompts do not."""
    prompt, output, trained = asked.sizes["prompt"], asked.wanted["output"], asked.model.context
    if trained is None or not (is_number(prompt) and is_number(output)) or not prompt <= trained < prompt + output:
        return []
    return [Assumption("model", line) for line in asked.model.beyond_training(prompt + output)]


def _at_batches(asked: ServingQuestion, batches: Any) -> Serving:
    """The answer at other batches than those that were sought."""
    return _answered(replace(asked, sizes={**asked.sizes, **_crossed(batches, asked.sizes["context"])}))


def _crossed(batch: Any, context: Any) -> dict[str, Any]:
    """Sizes of each batch with each context."""
    if not is_several(context):
        return {"batch": batch}
    contexts = np.unique(array_of("context", context))
    return {"batch": batch.repeat(len(contexts)), "context": contexts.reshape(1, -1).repeat(len(batch), 0).ravel()}


def _sought(asked: ServingQuestion, limit: Any) -> dict[str, Any]:
    """Batches up to the largest that takes the time given, each with each context."""
    from roofline.models.serving.pareto import batches_in_time

    context = asked.sizes["context"]
    batch = batches_in_time(asked.model, context=context, tpot=limit, form=asked.wanted["form"], **asked.decoding)
    return _crossed(batch, context)


def decodes_several(sizes: dict[str, Any], arguments: dict[str, Any]) -> bool:
    """Whether choices of decoding are asked for: several batches, contexts or tensor ways, and no prefill."""
    lists = {name for name, value in arguments.items() if name in OPTIONS and is_several(value)}
    many = lists == {"tensor"} or sizes["batch"] is None or is_several(sizes["batch"]) or is_several(sizes["context"])
    return many and lists <= {"tensor"} and sizes["prompt"] is None


def _check_lists(asked: ServingQuestion) -> None:
    """Refuse sizes or layouts that make one answer of more steps than anybody reads; arrays go together."""
    listed = _listed({**_laid_across(asked.arguments, asked.sizes), **asked.sizes})
    if not listed:
        return
    arrays = {name: each if is_array(each) else np.broadcast_to(0, len(each)) for name, each in listed.items()}
    for other in ("prompt", "context"):  # a phase has one of them
        phase = {name: each for name, each in arrays.items() if name != other}
        refuse_more(math.prod(common_shape(phase)), phase)
    layouts = {name: each for name, each in arrays.items() if name in OPTIONS}
    refuse_more(math.prod(common_shape(layouts)), layouts, "layouts", MOST_LAYOUTS)


def _check(asked: ServingQuestion) -> None:
    """Refuse what says nothing: a limit on one step, and a bound of what has all three; and lists without end."""
    _check_lists(asked)
    tpot, is_front = asked.wanted["tpot"], asked.wanted["front"]
    beside = next((name for name in _listed(asked.arguments) if name in OPTIONS and name != "tensor"), None)
    if is_front and beside is not None:
        wrong = f"choices are of batches, contexts and {spelled('tensor')}, and {spelled(beside)} has several values"
        raise InputError(wrong, hint=f"give {spelled(beside)} one value, or leave the limit and the front out")
    if tpot is not None and asked.wanted["fit"]:
        wrong = f"{spelled('tpot')} chooses among several steps, and {spelled('fit')} is about one"
        raise InputError(wrong, hint="leave one of them out")
    if tpot is not None and asked.sizes["prompt"] is not None:
        wrong = f"{spelled('tpot')} chooses among steps of decoding, and {spelled('prompt')} asks for prefill"
        raise InputError(wrong, hint=f"leave {spelled('prompt')} out: {spelled('context')} is what decode comes after")
    if tpot is not None and not decodes_several(asked.sizes, asked.arguments):
        hint = f"give several batches, contexts or numbers of chips, as in {spelled('batch', '1:256:*2')}"
        raise InputError(f"{spelled('tpot')} chooses among steps of decoding, and this is one", hint=hint)
    form, longer = asked.wanted["form"], ("output", "chunk", "draft", "prefill_on", "price", "power")
    if form != "lower" and not is_front and all(asked.wanted[name] is None for name in longer):
        names = ", ".join(map(spelled, longer))
        wrong = f"{spelled('form', form)} says nothing about a step, which has all three bounds"
        raise InputError(wrong, hint=f"add one of {names}, or several batches, or leave {spelled('form')} out")


#: What else is asked of a phase that is not there: of decoding, and of both.
_OF_PHASES = {
    "prefill": ("output", "draft", "prefill_on", "tpot", "front"),
    "decode": ("output", "chunk", "prefill_on"),
}


def _check_phase(phase: str | None, wanted: Mapping[str, Any], memory_alone: bool) -> None:
    """Refuse what needs the phase that was left out, and a phase where only memory is asked about."""
    if phase is not None and memory_alone:
        said = f"{spelled('phase')} is of a step, and {spelled('fit')} alone is of memory"
        raise InputError(said, hint=f"add {spelled('prompt')} or {spelled('context')}, or leave {spelled('phase')} out")
    idle = next((name for name in _OF_PHASES.get(phase or "", ()) if wanted[name] is not None), None)
    if idle is not None:
        other = either("--view front", "front=True") if idle == "front" else spelled(idle)
        said = f"{spelled('phase', phase)} is of one step, and {other} needs the other"
        raise InputError(said, hint="leave one of them out")


#: Arguments of a step that say how much memory there is, and what is in it.
_OF_MEMORY = ("on", "set", "files", "over", "weights", "activations", "kv")


def _fit_alone(asked: ServingQuestion) -> FewestChips:
    """The fewest chips; what is of a step is refused."""
    takes_by_name = signature(serve).parameters
    given = {name: value for name, value in asked.arguments.items() if name not in (*_OF_MEMORY, *OPTIONS)}
    usual = {name: (None, "minimal", takes_by_name[name].default) for name in given}
    idle = next((name for name, value in given.items() if is_array(value) or value not in usual[name]), None)
    if idle is not None:
        hint = f"add {spelled('context', 8192)}, or leave {spelled(idle)} out"
        raise InputError(f"{spelled(idle)} is of a step, and {spelled('fit')} alone is of memory", hint=hint)
    found = {each.key: each for each in further_answers(_with_fewest(asked), None)}
    fewest: FewestChips = found["fewest"].answer
    return fewest


def _front(asked: ServingQuestion) -> Any:
    from roofline.models.serving.pareto import latency_throughput

    sizes = {"batch": asked.sizes["batch"], "context": asked.context, **{n: asked.wanted[n] for n in ("form", "tpot")}}
    found = latency_throughput(asked.model, **sizes, **asked.decoding)
    if found.fitting:
        return found
    least = min(found.choices, key=lambda choice: choice.memory)
    one = {**asked.arguments, **attributes(least, "batch", "context", "tensor")}
    return replace(found, instead=serve(asked.model, **one).fitting())


def _pooled(options: dict[str, Any], chips: int) -> dict[str, Any]:
    """The arguments of a step, on a pool of chips where there are several."""
    chips = check("pool", chips)
    ways = [name for name in options if name in OPTIONS or name == "algorithm"]
    if chips > 1 and ways:
        raise InputError(f"a pool of chips is not split by {ways[0]} too", hint="give one of the two")
    if chips == 1:
        return options

    kept = dict(options)
    machine = target(options["on"], **take_target_options(kept))
    return {**kept, "on": chips_sharing(machine, chips)}


def _laid_across(arguments: dict[str, Any], sizes: dict[str, Any]) -> dict[str, Any]:
    """Lay lists of numbers of chips across those of sizes: every layout with every size."""
    lists = [name for name, value in arguments.items() if name in OPTIONS and isinstance(value, list | tuple | range)]
    if not lists or not any(map(is_several, sizes.values())):
        return arguments
    return {name: np.asarray(value)[:, None] if name in lists else value for name, value in arguments.items()}
