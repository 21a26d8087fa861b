"""Disaggregation: prefill and decode on chips of their own, their ratio, and the bytes sent between them.

One prefill server turns out b_p / t_p prompts a second, a decode server of batch b that takes n steps of t_d for each
answer turns out b / (n·t_d); they keep pace where

    prefill servers / decode servers = (t_p / b_p) / (n·t_d / b)

>>> round(servers_ratio(prefill_time=0.91, step_time=0.019, steps=512, batch=32), 4)
2.9934
>>> both = {"on": "h100:8", "tensor": 8}
>>> found = disaggregate("llama-3-70b", prompt=8192, output=512, batch=64, prefill=both, decode=both)
>>> round(found.ratio, 2), round(found.cache_bytes / 1e9, 2), found.rounded
(1.62, 2.68, (5, 3))

Source: "How To Scale Your Model", chapter 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from roofline.answers import Answer, attributes
from roofline.bounds.api import target
from roofline.bounds.cost import check_amounts
from roofline.errors import InputError, RooflineError
from roofline.frozen import dataclass
from roofline.hardware.machine import Machine
from roofline.hardware.mesh import with_chips
from roofline.hardware.network import network
from roofline.models.description import Model
from roofline.models.parallelism.layout import check_one_layout, chips_in_all
from roofline.models.serving import serve_bound, step_bound
from roofline.models.serving.answer import Serving, serve
from roofline.models.serving.generation import check_form, check_steps, decode_times, single_size, time_in_form
from roofline.models.serving.step import asked_model
from roofline.quantity import format_amount, format_number, format_percent, parse
from roofline.sections import Section, paragraph
from roofline.signatures import spelled, takes
from roofline.sizes import Size, is_zero

#: The most decode servers in a ratio of whole numbers.
MOST_SERVERS = 16


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Disaggregation(Answer):
    """Servers that only prefill and servers that only decode.

    Attributes
        ``prefill_time``   seconds a prefill server takes for its batch of prompts; ``step_time`` a decode step, mean
        ``prefill_batch``, ``batch``      sequences at once on a server of each kind
        ``prefill_chips``, ``decode_chips``   chips of a server of each kind
        ``cache_bytes``    bytes of keys and values that one prompt hands over; ``ended_bytes`` with those of its answer
        ``link``           bytes a second one way from one chip, of those of a prefill server all at once
        ``server``         the step of a prefill server, a :class:`~roofline.models.serving.answer.Serving`
        ``decoder``        the machine that decodes
        ``misfits``        of servers whose memory does not hold what they do, what is lacking: then no rate is shown
    """

    prompt: int
    output: int
    prefill_time: float
    step_time: float
    prefill_batch: int
    batch: int
    prefill_chips: int
    decode_chips: int
    cache_bytes: float
    ended_bytes: float
    link: float | None
    server: Serving
    decoder: Machine
    misfits: tuple[str, ...] = ()

    @property
    def copies(self) -> int:
        """Copies of the model on a prefill server, each with prompts of its own."""
        return int(self.server.prefill.sizes.get("data", 1))

    @property
    def steps(self) -> int:
        """Decode steps of an answer: its tokens but the first, which prefill gives."""
        return self.output - 1

    @property
    def ratio(self) -> float:
        """Prefill servers for each decode server."""
        prefill = {"prefill_time": self.prefill_time, "prefill_batch": self.prefill_batch}
        return float(servers_ratio(step_time=self.step_time, steps=self.steps, batch=self.batch, **prefill))

    @property
    def chips_ratio(self) -> float:
        """Prefill chips for each decode chip."""
        return self.ratio * self.prefill_chips / self.decode_chips

    @property
    def rounded(self) -> tuple[int, int]:
        """A ratio of few whole servers at which prefill keeps pace; within 5 % of the exact one, else the nearest."""
        if self.ratio <= 1 / MOST_SERVERS:
            return 1, int(1 / self.ratio)
        choices = [(ceil(self.ratio * servers), servers) for servers in range(1, MOST_SERVERS + 1)]
        return min(choices, key=lambda each: (max(each[0] / each[1], 1.05 * self.ratio), each[1]))

    @property
    def answers_per_second(self) -> float:
        """Answers a second of one decode server and the prefill servers that keep it busy."""
        return self.batch / (self.steps * self.step_time)

    @property
    def evictions_per_step(self) -> float:
        """Sequences of a decode server that end in each step at steady state, whose keys and values make room."""
        return self.batch / self.steps

    @property
    def bytes_freed_per_second(self) -> float:
        """Bytes of keys and values that ended sequences free on a decode server: those of prompt and answer."""
        return self.answers_per_second * self.ended_bytes

    @property
    def answers_per_second_per_chip(self) -> float:
        """Answers a second for each chip of either kind."""
        return self.answers_per_second / (self.decode_chips + self.ratio * self.prefill_chips)

    @property
    def transfer_time(self) -> float | None:
        """Seconds to hand one prompt's keys and values over; None where no link is known."""
        return None if self.link is None else self.cache_bytes / (self.link * (self.prefill_chips // self.copies))

    @property
    def time_to_first_token(self) -> float | None:
        """Seconds of prefill and of the hand-over to the chips that decode; None where no link is known."""
        return None if self.transfer_time is None else self.prefill_time + self.transfer_time

    @property
    def answers_by(self) -> dict[str, float]:
        """Answers a second that prefill, decode and the hand-over allow of one server of each kind."""
        found = {"prefill": self.prefill_batch / self.prefill_time, "decode": self.answers_per_second}
        if self.link is not None and self.cache_bytes:  # a model in outline hands over nothing that is known
            found["the hand-over"] = self.link * self.prefill_chips / self.cache_bytes
        return found

    @property
    def tokens_per_second(self) -> float:
        """Tokens a second of one server of each kind: as many as the slowest part allows."""
        return self.output * min(self.answers_by.values())

    @property
    def transfer_rate(self) -> float:
        """Bytes a second that a prefill server has to send to keep pace."""
        return self.cache_bytes * self.prefill_batch / self.prefill_time

    @property
    def keeps_pace(self) -> bool | None:
        """Whether the link carries what prefill makes; None where no link is known."""
        return None if self.link is None else self.transfer_rate <= self.link * self.prefill_chips

    def one_line(self) -> str:
        """How many servers of each kind, or which of them does not fit."""
        if self.misfits:
            return f"Disaggregation: {'; '.join(self.misfits)}"
        first, other = self.rounded
        target = self.server.prefill.target
        return f"Disaggregation: {first} prefill on {target} to {other} decode on {self.decoder.name}"

    def sections(self) -> tuple[Section, ...]:
        """How many servers of each kind, and what goes between them."""
        first, other = self.rounded
        rate = format_number(self.answers_per_second_per_chip)
        token = format_amount(self.step_time, "s")
        waits = "" if self.transfer_time is None else f", and {format_amount(self.transfer_time, 's')} of hand-over"
        whole = format_amount(self.time_to_first_token or self.prefill_time, "s")
        slow = min(self.answers_by, key=self.answers_by.__getitem__)
        busy = (f"{of} {format_percent(self.answers_by[slow] / most)}" for of, most in self.answers_by.items())
        times = [
            f"first token after {whole}: {format_amount(self.prefill_time, 's')} of prefill{waits}; then {token} a "
            "token",
            f"one server of each: {format_number(self.tokens_per_second)} tokens/s; {slow} sets the pace "
            f"(busy: {', '.join(busy)})",
        ]
        lines = [
            f"prefill on {self.server.prefill.machine.with_number(self.prefill_chips)}: {self.prefill_batch} x "
            f"{self.prompt:,} tokens in {format_amount(self.prefill_time, 's')}",
            f"decode on {self.decoder.with_number(self.decode_chips)}: {self.batch:,} at once, {self.steps:,} steps "
            f"of {token}",
        ]
        ratios = [
            f"{format_number(self.ratio)} prefill servers for each that decodes, as {first} and {other}; "
            f"{format_number(self.chips_ratio)} chips for each; {rate} answers a second for each chip",
        ]
        freed = format_amount(self.bytes_freed_per_second, "B/s")
        ends = f"{format_number(self.evictions_per_step)} sequences end in a decode step"
        ratios.append(
            f"at steady state {ends}, {format_number(self.answers_per_second)} a second on a decode server, "
            f"and as many begin; their keys and values free {freed}"
        )
        if self.misfits:
            why = "a server does not fit its memory, and times are those with room enough"
            lines = [*self.misfits, f"no rates: {why}", *lines]
        else:
            lines = [*times, *lines, *ratios]
        moved = f"a prompt hands over {format_amount(self.cache_bytes, 'B')} of keys and values"
        if self.link is None or self.transfer_time is None:
            lines.append(f"{moved}; no link is known: say how fast it is")
        else:
            pace = "it keeps pace" if self.keeps_pace else "it does not keep pace"
            time, link = format_amount(self.transfer_time, "s"), format_amount(self.link, "B/s")
            makes = f"; prefill makes {format_amount(self.transfer_rate, 'B/s')}, {pace}" * (not self.misfits)
            lines.append(f"{moved}: {time} over {self.prefill_chips // self.copies} x {link}{makes}")
        return paragraph("prefill and decode apart", lines)

    def explain(self) -> str:
        """The arithmetic of the prefill server's step and of the hand-over."""
        sent = "no link is known" if self.link is None else f"{format_amount(self.link, 'B/s')} of each chip"
        chips = f"{self.prefill_chips // self.copies} chips send a prompt"
        takes = "" if self.transfer_time is None else f" = {format_amount(self.transfer_time, 's')}"
        moved = f"hand-over: {format_amount(self.cache_bytes, 'B')} of keys and values, {chips}, {sent}{takes}"
        return f"prefill server\n\n{self.server.explain()}\n\n{moved}"

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys, in SI units."""
        step = self.server.prefill
        prefill = {"target": step.target, "chips": self.prefill_chips, "batch": self.prefill_batch}
        prefill |= {"bound_by": step.bound_by, "memory": self.server.memory.amounts(), "time": self.prefill_time}
        decode = {"target": self.decoder.name, "chips": self.decode_chips, "batch": self.batch}
        rates = ("time_to_first_token", "tokens_per_second", "chips_ratio", "answers_per_second_per_chip")
        moved = ("cache_bytes", "link", "transfer_time", "transfer_rate", "keeps_pace")
        ended = ("answers_per_second", "evictions_per_step", "bytes_freed_per_second", "misfits")
        return {
            **attributes(self, "prompt", "output"),
            "prefill": prefill,
            "decode": {**decode, "step_time": self.step_time, "steps": self.steps},
            "servers_ratio": self.ratio,
            "servers": list(self.rounded),
            **attributes(self, *rates, *moved, *ended),
        }


@takes()
def servers_ratio(
    *, prefill_time: Size, step_time: Size, steps: Size, batch: Size = 1, prefill_batch: Size = 1
) -> Size:
    """Prefill servers for each decode server: ``(prefill_time / prefill_batch) / (steps·step_time / batch)``.

    Times may be floors, measured, or symbols.
    """
    check_amounts(prefill_time=prefill_time, step_time=step_time, steps=steps, batch=batch, prefill_batch=prefill_batch)
    return (prefill_time / prefill_batch) / (steps * step_time / batch)


@takes()
def answer_rate(*, step_time: Size, steps: Size, batch: Size = 1, chips: Size = 1) -> Size:
    """Answers a second for each of ``chips`` that decode ``batch`` at once in ``steps`` steps of ``step_time``.

    >>> round(answer_rate(step_time=0.019, steps=512, batch=43, chips=16), 3)
    0.276
    """
    check_amounts(step_time=step_time, steps=steps, batch=batch, chips=chips)
    return batch / (steps * step_time) / chips


@takes(serve_bound, but=("chunk", "prompts", "last", "tokens", "context"))
def disaggregate(
    model: Model | str,
    *,
    prompt: int,
    output: int,
    batch: Size = 1,
    prefill_batch: Size = 1,
    prefill: Mapping[str, Any],
    decode: Mapping[str, Any],
    link: float | str | None = None,
    form: str = "lower",
    **options: Any,
) -> Disaggregation:
    """Balance servers that prefill prompts of ``prompt`` tokens with servers that decode answers of ``output`` tokens.

    ``prefill`` and ``decode`` are the arguments of :func:`roofline.models.serve_bound` that differ: ``on``, ``tensor``
    and so on; ``options`` are those they share. A decode step is the mean over the answer's growing context. ``link``
    is the one-way bandwidth from one prefill chip to the decode servers; by default the outermost link of its machine.
    """
    described = asked_model(model, options, prefill, decode)
    idle = next((name for name in options if name in prefill and name in decode), None)
    if idle is not None:
        raise InputError(f"{spelled(idle)} is given for prefill and for decode too", hint="leave it out of one place")
    prompt, output, batch = single_size("prompt", prompt), single_size("output", output), single_size("batch", batch)
    prefill_batch = single_size("prefill batch", prefill_batch)
    for given in (options, prefill, decode):
        if of_both := [name for name in ("prompt", "output", "batch", "context", "phase") if name in given]:
            hint = "say prompt, output, batch and prefill_batch beside prefill and decode, not in them"
            raise InputError(f"{spelled(of_both[0])} follows from what both servers do", hint=hint)
        check_one_layout(given)
        if given.get("images"):
            raise InputError("images on prefill chips of their own are not modelled", hint="leave the images out")
        if not is_zero(given.get("past", 0)):
            raise InputError("prefill on chips of its own is about whole prompts", hint=f"leave {spelled('past')} out")
    form = check_form(form, {**options, **prefill, **decode})
    check_steps(output, "an output", "tokens")
    if output < 2:
        raise InputError("an answer of one token takes no decode step", hint="ask for an output of 2 tokens or more")
    sizes = {"prompt": prompt, "batch": prefill_batch}
    server = serve(described, phase="prefill", **sizes, **{**options, **prefill})
    first = server.prefill
    steps, later = decode_times(described, prompt, output, form, batch=batch, **{**options, **decode})
    sender = target(first.machine)
    last = step_bound(described, "decode", batch=batch, context=prompt + output - 2, **{**options, **decode})
    enough = _enough(server, {**sizes, **options, **prefill})
    misfits = (
        f"DOES NOT FIT: {name} {each.needs_in_words()}{instead}"
        for name, each, instead in (("prefill", first.footprint, enough), ("decode", last.footprint, ""))
        if each is not None and each.fits is False
    )

    def kept(length: int, asked: Mapping[str, Any]) -> float:
        activations = asked.get("activations") or described.dtype
        stored = described.in_format(activations)
        return float(stored.cache_bytes(length, dtype=asked.get("kv"), activations=activations))

    return Disaggregation(
        prompt=prompt,
        output=output,
        prefill_time=float(time_in_form(first, form)),
        step_time=float(steps.mean()),
        prefill_batch=prefill_batch,
        batch=batch,
        prefill_chips=chips_in_all(first.machine, {**options, **prefill}),
        decode_chips=chips_in_all(later.machine, {**options, **decode}),
        cache_bytes=kept(prompt, {**options, **prefill}),
        ended_bytes=kept(prompt + output - 1, {**options, **decode}),
        link=link_bandwidth(sender) if link is None else float(parse(link, "B/s")),
        server=server,
        decoder=later.machine,
        misfits=tuple(misfits),
    )


def _enough(server: Serving, asked: Mapping[str, Any]) -> str:
    """What holds a prefill server that does not fit: chips that split each layer, asked anew; empty where none do."""
    near = server.nearest()
    ways = None if near is None else near.split
    larger = None if ways is None else with_chips(server.prefill.machine, ways)
    if larger is None:
        return ""
    split = {"on": larger.target, "tensor": ways, **({"expert": ways} if asked.get("expert", 1) > 1 else {})}
    try:
        fits = serve(server.model, phase="prefill", **{**asked, **split}).memory.fits
    except RooflineError:
        return ""
    words = f"{spelled('prefill_on', larger.target)} {spelled('prefill_tensor', ways)}"
    return f" · would fit: {words}" if fits else ""


def link_bandwidth(machine: Machine) -> float | None:
    """One-way bandwidth of a chip's outermost link, which leads to other servers."""
    tiers = network(machine).tiers
    return tiers[-1].chip_bandwidth if tiers else None
