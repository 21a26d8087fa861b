"""What ``roofline llm`` works out beside a step. An option asks for each; each has a key in JSON and sections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from roofline.bounds.conventions import OF_OPERATIONS
from roofline.errors import InputError
from roofline.models.parallelism.layout import OPTIONS
from roofline.models.step import PREFILL_ONLY
from roofline.quantity import format_amount, format_number, parse, whole_number
from roofline.sections import Section


@dataclass(frozen=True, slots=True)
class ServingQuestion:
    """A model, its sizes as given, the arguments of a step, and what else was asked."""

    model: Any
    sizes: dict[str, Any]
    arguments: dict[str, Any]
    wanted: dict[str, Any]

    @property
    def decoding(self) -> dict[str, Any]:
        """The arguments of a decode step."""
        return {name: value for name, value in self.arguments.items() if name not in PREFILL_ONLY}

    @property
    def context(self) -> Any:
        """Tokens in the cache when decoding."""
        prompt, context = self.sizes["prompt"], self.sizes["context"]
        return prompt + self.arguments.get("past", 0) if context is None and prompt is not None else context

    def need(self, option: str, *names: str) -> list[Any]:
        """Sizes an option needs."""
        found = []
        for name in names:
            value = self.context if name == "context" else self.sizes[name]
            if value is None:
                raise InputError(f"{option} needs --{name}", hint=f"for instance --{name} 1024")
            if hasattr(value, "shape"):
                raise InputError(f"{option} is about one configuration", hint=f"give --{name} one value")
            found.append(value)
        several = next((name for name in OPTIONS if isinstance(self.arguments.get(name), list)), None)
        if several is not None:
            raise InputError(
                f"{option} is about one configuration", hint=f"give --{several.replace('_', '-')} one value"
            )
        return found


@dataclass(frozen=True, slots=True)
class FurtherAnswer:
    """Something worked out beside a step: key in JSON, plain data, what yields its sections, a line."""

    key: str
    data: Any
    sections: Callable[[], Iterable[Section]]
    lead: str = ""


def further_answers(asked: ServingQuestion, found: Any) -> Iterator[FurtherAnswer]:
    """Every further answer that was asked for; ``found`` is the answer about the step, where there is one."""
    works = [work for option, work in _WORK.items() if not _is_absent(asked.wanted[option])]
    yield from (work(asked, found) for work in dict.fromkeys(works))


def _is_absent(value: Any) -> bool:
    """Whether an option was not given; a size of 0 was."""
    return value is None or value is False


def _answer(key: str, answer: Any) -> FurtherAnswer:
    return FurtherAnswer(key, answer.to_dict(), answer.sections)


def _generation(asked: ServingQuestion, found: Any) -> FurtherAnswer:
    from roofline.models.serving.generation import FORM_TEXT, generation

    batch, prompt = asked.need("--output", "batch", "prompt")
    sizes = {"batch": batch, "prompt": prompt, "output": asked.wanted["output"], "form": asked.wanted["form"]}
    answer = generation(asked.model, **sizes, **asked.arguments)
    mean = answer.mean_time_per_token
    steps = "" if mean is None else f", then {format_amount(mean, 's')} a token"
    lead = f"{answer.first} after {format_amount(answer.time_to_first_token, 's')}{steps}, "
    lead += f"{format_number(answer.tokens_per_second)} tokens/s in answers of {answer.output:,}"
    return replace(_answer("generation", answer), lead=f"{lead}: {FORM_TEXT[answer.form]}")


def _chunked(asked: ServingQuestion, found: Any) -> FurtherAnswer:
    from roofline.models.serving.generation import chunked

    (prompt,) = asked.need("--chunk", "prompt")
    beside: dict[str, Any] = {}
    if asked.sizes["context"] is not None:
        batch, context = asked.need("--chunk", "batch", "context")
        beside = {"batch": batch, "context": context}
    sizes = {"prompt": prompt, "chunk": asked.wanted["chunk"], "form": asked.wanted["form"]}
    answer = chunked(asked.model, **sizes, **beside, **asked.arguments)
    return _answer("chunked", answer)


def _speculation(asked: ServingQuestion, found: Any) -> FurtherAnswer:
    from roofline.models.serving.generation import FORM_TEXT
    from roofline.models.serving.speculation import speculate

    batch, context = asked.need("--draft", "batch", "context")
    by: Any = asked.wanted["draft_by"] or "0.1"
    with suppress(ValueError):
        by = float(by)
    sizes = {"batch": batch, "context": context, "draft": asked.wanted["draft"], "form": asked.wanted["form"]}
    drafter = {"by": by, "draft_weights": asked.wanted["draft_weights"], "acceptance": asked.wanted["accept"]}
    answer = speculate(asked.model, **drafter, **sizes, **asked.decoding)
    each = format_amount(answer.asked.time_per_token, "s")
    lead = f"with drafts of {answer.asked.length:,} {each} a token, {answer.speedup:.2f}x: {FORM_TEXT[answer.form]}"
    return replace(_answer("speculation", answer), lead=lead)


def _disaggregation(asked: ServingQuestion, found: Any) -> FurtherAnswer:
    from roofline.hardware.catalog import behind_colon
    from roofline.models.serving.disaggregation import disaggregate

    batch, prompt = asked.need("--prefill-on", "batch", "prompt")
    if asked.arguments.get("images"):
        raise InputError("images on prefill chips of their own are not modelled", hint="leave the images out")
    if asked.wanted["output"] is None:
        raise InputError("--prefill-on needs --output", hint="tokens of an answer, as in --output 512")
    if "past" in asked.arguments:
        raise InputError("--prefill-on is about whole prompts", hint="leave --past out")
    target = behind_colon(asked.wanted["prefill_on"])
    shape = target.partition(":")[2]
    chips = asked.wanted["prefill_tensor"]
    if chips is None:
        chips = 1
        for size in shape.split("x"):
            chips *= whole_number(size) or 1
    shared = {name: value for name, value in asked.decoding.items() if name not in _WHERE}
    decoding: dict[str, Any] = {name: asked.decoding[name] for name in _WHERE if name in asked.decoding}
    many = {"expert": chips} if asked.arguments.get("expert", 1) > 1 else {}
    answer = disaggregate(
        asked.model,
        prompt=prompt,
        output=asked.wanted["output"],
        batch=batch,
        prefill_batch=asked.wanted["prefill_batch"],
        prefill={"on": target, "tensor": chips, **many},
        decode=decoding,
        link=asked.wanted["link"],
        form=asked.wanted["form"],
        **shared,
    )
    return _answer("disaggregation", answer)


def _fewest(asked: ServingQuestion, found: Any) -> FurtherAnswer:
    from roofline.models.serving.fit import fewest

    sizes: dict[str, Any] = {}
    if asked.context is not None:
        batch, context = asked.need("--fit", "batch", "context")
        # the token that a decode step adds needs memory too
        adds = 0 if found is not None and found.decode is None else 1
        sizes = {"batch": batch, "context": context + adds}
    kept = {k: v for k, v in asked.decoding.items() if k not in (*OPTIONS, *OF_OPERATIONS)}
    answer = fewest(asked.model, expert=asked.arguments.get("expert", 1) > 1, **sizes, **kept)
    return replace(_answer("fewest", answer), lead=answer.lead)


_WHERE = ("on", "set", *OPTIONS)


def _cost(asked: ServingQuestion, found: Any) -> FurtherAnswer:
    from roofline.models.serving.cost import chip_power, cost_section, token_cost
    from roofline.models.serving.generation import FORM_TEXT, check_form, time_in_form

    if found is None:
        raise InputError("--price and --power need a step to price", hint="give --prompt or --context")
    price, text = asked.wanted["price"], asked.wanted["power"]
    machine = (found.decode or found.prefill).machine
    form = check_form(asked.wanted["form"], asked.arguments)
    floor = "at the floor: a real run takes longer and costs as many times more"
    said = [floor if form == "lower" else FORM_TEXT[form]]
    power = None
    if text is not None:
        power = chip_power(machine) if text.lower() == "tdp" else parse(text, "W")
        if power is None:
            raise InputError(f"no power of {machine.name} is known", hint="give it in watts, as in --power 700")
        if text.lower() == "tdp":
            said.append(f"power: the data sheet's {power:g} W, an upper bound, hosts and cooling not in it")
    costs = {}
    for name, phase, tokens in (
        ("input", found.prefill, asked.sizes["prompt"]),
        ("output", found.decode, 1),
    ):
        if phase is not None:
            made = phase.sizes["batch"] * tokens
            time = time_in_form(phase, form)
            costs[name] = token_cost(time=time, tokens=made, chips=found.chips, price=price, power=power)
    for name, cost in costs.items():
        if hasattr(cost.chip_hours, "shape"):
            costs[name], among = cost.least(found.memory)
            said.append(f"{name}: the least of the configurations{among}")
    data = {name: cost.to_dict() for name, cost in costs.items()}
    dollars = {name: cost.dollars for name, cost in costs.items() if cost.dollars is not None}
    lead = ", ".join(f"${format_number(float(each))} a million {name} tokens" for name, each in dollars.items())
    return FurtherAnswer("cost", data, lambda: cost_section(costs, said), f"{lead}: {FORM_TEXT[form]}" if lead else "")


def _advice(asked: ServingQuestion, found: Any) -> FurtherAnswer:
    from roofline.models.serving.advice import advice_sections, advise_step

    lists = []
    if found is not None and found.prefill is not None:
        batch, prompt = asked.need("--advise", "batch", "prompt")
        lists.append(advise_step(asked.model, "prefill", batch=batch, prompt=prompt, **asked.arguments))
    if found is not None and found.decode is not None:
        batch, context = asked.need("--advise", "batch", "context")
        lists.append(advise_step(asked.model, "decode", batch=batch, context=context, **asked.decoding))
    if not lists:
        raise InputError("--advise needs a step to move", hint="give --prompt or --context")
    lines = [each.to_dict() for found in lists for each in found]
    return FurtherAnswer("advice", lines, lambda: [part for found in lists for part in advice_sections(found)])


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
