"""What a plan is asked for: a model, a load, limits, chips with prices.

>>> Load.read("12/s", prompt=2048, output=256)
Load(rate=12.0, prompt=2048, output=256)
>>> Load.read("90/min", prompt=2048, output=256).rate, Limits(first_token=0.5, percentile=95.0).share
(1.5, 0.95)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from roofline.answers import attributes, figures_of
from roofline.bounds.api import target as resolve
from roofline.errors import InputError, QuantityError, check_one_of, quoted
from roofline.frozen import dataclass, field
from roofline.hardware.figures import chip_power, price_words
from roofline.hardware.machine import Machine
from roofline.hardware.mesh import with_count
from roofline.models.description import Model
from roofline.plans.load import LENGTHS, Speculating
from roofline.quantity import (
    LEAST,
    MOST,
    format_amount,
    format_number,
    format_percent,
    given_amount,
    in_a_row,
    kind_of,
    parse,
)
from roofline.sizes import check

#: Seconds of the units a rate may be given in.
PERIODS = {
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "day": 86400.0,
}

#: The most sequences at once that a server is asked for where nothing is said: the largest default of the engines.
MOST_SEQUENCES = 1024

#: Share of a chip's memory that an engine takes for weights, keys and values and activations, and tokens of a block of
#: keys and values: the defaults of vLLM (``gpu_memory_utilization``, ``block_size``).
MEMORY_SHARE = 0.9
BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Load:
    """Requests a second, each with a ``prompt`` of which ``shared`` is cached already, and ``output`` tokens to give.

    ``lengths`` of answers are ``geometric`` (``output`` is their mean) or ``fixed``. ``arrival_variation`` is the
    squared coefficient of variation of the times between requests: 1 for Poisson arrivals, more for bursts. ``block``
    is how many tokens a block of keys and values has, of which a sequence takes whole ones.
    """

    rate: float
    prompt: int
    output: int
    shared: float = 0.0
    lengths: str = "geometric"
    arrival_variation: float = 1.0
    block: int = BLOCK_TOKENS

    def __post_init__(self) -> None:
        if not LEAST <= self.rate <= MOST:
            raise InputError(f"a rate of {quoted(self.rate)} requests/s", hint="requests a second, as in 12/s")
        for name in ("prompt", "output"):
            tokens = getattr(self, name)
            if not isinstance(tokens, int | float):
                raise InputError(f"{name} is {quoted(tokens)}", hint="a load is of one number of tokens, as in 1024")
            if tokens < 1:
                raise InputError(f"{name} of {tokens} tokens", hint="1 token at least")
            check(name, tokens)
        if not 0 <= self.shared < 1:
            raise InputError(f"{self.shared:g} of each prompt shared", hint="a share of 0 to below 1, as in 80%")
        if not 0 < self.arrival_variation <= 1e6:  # above, a queue has no end
            hint = "above 0, up to 1e6; 1 for Poisson arrivals, more for bursts"
            raise InputError(f"a variance of arrivals of {self.arrival_variation:g}", hint=hint)
        check_one_of(f"no lengths {self.lengths!r}", self.lengths, LENGTHS, "lengths")

    @classmethod
    def read(cls, rate: str | float, **more: Any) -> Load:
        """Read a rate: a number a second, or with its unit."""
        return cls(read_rate(rate), **more)

    @property
    def new_tokens(self) -> int:
        """Tokens of a prompt that are prefilled."""
        return max(1, round(self.prompt * (1 - self.shared)))

    @property
    def cached_tokens(self) -> int:
        """Tokens of a prompt that are in the cache already."""
        return self.prompt - self.new_tokens

    @property
    def mean_context(self) -> int:
        """Tokens in the cache at a decode step, on average: the prompt, and of answers of any length a whole answer.

        An answer's first token is prefill's, and enters the cache in the first decode step, behind what that reads.
        """
        grown = max(self.output - 2, 0) * (1.0 if LENGTHS[self.lengths] else 0.5)
        return self.prompt + int(grown)

    @property
    def peak_context(self) -> int:
        """Tokens of a sequence that memory has to hold, in whole blocks."""
        return -(-(self.prompt + self.output) // self.block) * self.block

    def __repr__(self) -> str:
        changed = [f"rate={self.rate!r}", f"prompt={self.prompt}", f"output={self.output}"]
        changed += [f"shared={self.shared!r}"] if self.shared else []
        return f"Load({', '.join(changed)})"

    @property
    def said(self) -> str:
        """The load in a phrase."""
        shared = f", {format_percent(self.shared)} of them cached" if self.shared else ""
        rate = format_number(self.rate)
        unit = "request/s" if self.rate == 1 else "requests/s"
        tokens = "token" if self.prompt == 1 else "tokens"
        return f"{rate} {unit}, prompts of {self.prompt:,} {tokens}{shared}, answers of {self.output:,}"


@dataclass(frozen=True, slots=True)
class Limits:
    """The longest times allowed, in seconds, at a percentile; None where there is no limit."""

    first_token: float | None = None
    per_token: float | None = None
    end_to_end: float | None = None
    percentile: float = 95.0

    def __post_init__(self) -> None:
        if not 0 < self.percentile < 100:
            raise InputError(f"percentile {self.percentile:g}", hint="above 0 and below 100, as in 95")

    @classmethod
    def read(cls, percentile: float, **times: str | float | None) -> Limits:
        """Limits as a caller writes them: times with a unit, or in seconds.

        >>> Limits.read(95, first_token="400ms", per_token=0.025).said
        'TTFT 400 ms and TPOT 25 ms at p95'
        >>> Limits.read(95, per_token="25")
        Traceback (most recent call last):
        roofline.errors.InputError: TPOT 25 is 25 seconds, as it has no unit; write 25ms, or 25s if seconds are meant
        """
        found: dict[str, float] = {}
        for name, given in times.items():
            if given is None:
                continue
            found[name] = given_amount("e2e" if name == "end_to_end" else LIMIT_NAMES[name].lower(), given)
            if found[name] >= _DOUBTFUL[name] and kind_of(str(given)) is None:
                plain = format_number(found[name])
                hint = f"write {plain}ms, or {plain}s if seconds are meant"
                raise InputError(f"{LIMIT_NAMES[name]} {plain} is {plain} seconds, as it has no unit", hint=hint)
        return cls(**found, percentile=percentile)

    @property
    def said(self) -> str:
        """The limits in a phrase; nothing where there are none."""
        times = [f"{LIMIT_NAMES[name]} {format_amount(value, 's')}" for name, value in self.items()]
        return f"{in_a_row(times)} at p{self.percentile:g}" if times else ""

    @property
    def share(self) -> float:
        """The percentile as a share."""
        return self.percentile / 100

    def items(self) -> tuple[tuple[str, float], ...]:
        """The limits there are, by name."""
        named = ((name, getattr(self, name)) for name in LIMIT_NAMES)
        return tuple((name, value) for name, value in named if value is not None)


#: What the best plan may have least of.
OBJECTIVES = ("cost", "chips", "energy")

#: Limits by name, as they are written.
LIMIT_NAMES = {"first_token": "TTFT", "per_token": "TPOT", "end_to_end": "end to end"}

#: Seconds from which on a limit without a unit was more likely meant in milliseconds.
_DOUBTFUL = {"first_token": 60.0, "per_token": 5.0, "end_to_end": 600.0}


@dataclass(frozen=True, slots=True, eq=False)
class PlanQuestion:
    """A plan asked for. ``prices`` are dollars of a chip for an hour, ``counts`` the numbers of chips allowed.

    ``objective`` is what the best plan has least of: ``cost`` (with prices), ``chips`` or ``energy``. ``machines`` are
    those of ``chips`` that a caller gave as a machine; ``unnamed``: no caller named the chips.
    """

    model: Model
    load: Load
    limits: Limits
    chips: tuple[str, ...]
    counts: tuple[int, ...]
    prices: Mapping[str, float] = field(default_factory=dict)
    objective: str = "cost"
    formats: tuple[str, ...] = ()
    disaggregate: bool = False
    most_sequences: int = MOST_SEQUENCES
    memory_share: float = MEMORY_SHARE
    library: str | None = None
    drafts: Speculating = field(default_factory=Speculating)
    options: Mapping[str, Any] = field(default_factory=dict)
    machines: Mapping[str, Machine] = field(default_factory=dict)
    unnamed: bool = False
    _machines: dict[str, Machine] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.memory_share <= 1:
            raise InputError(f"{self.memory_share:g} of a chip's memory", hint="a share above 0 and up to 1, as in 90%")
        check("most", self.most_sequences)

    def machine(self, target: str) -> Machine:
        """The machine of a target with the caller's figures: one for all layouts on it."""
        if target not in self._machines:
            name, _, count = target.partition(":")
            own = self.machines.get(name)
            where = target if own is None else with_count(own, int(count)) if count else own
            self._machines[target] = resolve(where, **figures_of(target, self.chips, self.options))
        return self._machines[target]

    def watts(self, chip: str) -> float | None:
        """Watts of one chip: what was set, or its data sheet's TDP."""
        return chip_power(self.machine(chip))

    def weight(self, chip: str) -> float | None:
        """What the objective counts for one chip: dollars an hour, 1 or watts; None where it is not known."""
        if self.objective == "energy":
            return self.watts(chip)
        return self.prices.get(chip) if self.objective == "cost" else 1.0

    @property
    def unweighted(self) -> tuple[str, ...]:
        """The chips whose price, or power, is not known: they are answered and not ranked against the others."""
        return tuple(chip for chip in self.chips if self.weight(chip) is None)

    @property
    def price_words(self) -> str:
        """What gives a price to every chip that is asked about."""
        return price_words([self.machine(chip) for chip in self.chips], self.chips)

    def to_dict(self) -> dict[str, Any]:
        """The question as plain data."""
        load = attributes(self.load, "rate", "prompt", "output", "shared", "lengths", "arrival_variation")
        limits = attributes(self.limits, "first_token", "per_token", "end_to_end", "percentile")
        rest = attributes(
            self, "chips", "prices", "objective", "formats", "disaggregate", "most_sequences", "memory_share"
        )
        drafts = {
            **attributes(self.drafts, "lengths", "acceptance", "weights"),
            "by": self.drafts.model or self.drafts.by,
        }
        return {
            "load": load, "limits": limits, "counts": [min(self.counts), max(self.counts)], **rest,
            "draft": drafts if self.drafts.lengths else None,
        }  # fmt: skip


def of_all_chips(each: Callable[[str], float | None], numbers: Mapping[str, int]) -> float | None:
    """A figure of so many chips of each kind from that of ``each`` chip; None where it is not known of one.

    >>> prices = {"h100": 2.5, "l4": 0.8}
    >>> of_all_chips(prices.get, {"h100": 2, "l4": 1}), of_all_chips(prices.get, {"a100": 1})
    (5.8, None)
    """
    total = 0.0
    for chip, many in numbers.items():
        value = each(chip)
        if value is None:
            return None
        total += value * many
    return total


def read_rate(text: str | float) -> float:
    """Read requests a second: ``12``, ``12/s``, ``700/min``, ``40k/h``."""
    if isinstance(text, int | float):
        return float(text)
    hint = "requests a second, as in 12/s, 700/min or 40k/h"
    if not isinstance(text, str):
        raise InputError(f"rate {quoted(text)} is not understood", hint=hint)
    number, slash, period = text.replace("req", "").replace("uests", "").strip().partition("/")
    name = period.strip().rstrip("s") if period.strip() not in ("s", "secs") else "s"
    if slash and name not in PERIODS:
        raise InputError(f"rate {text!r} is not understood", hint=hint)
    value = None
    with suppress(ValueError):
        value = float(number)
    if value is not None and value <= 0:
        raise InputError(f"rate {text!r} is not above 0", hint=hint)
    thousands = 1000.0 if number.strip().lower().endswith("k") else 1.0
    try:
        return parse(number.strip().rstrip("kK"), "") * thousands / PERIODS.get(name, 1.0)
    except QuantityError:
        raise InputError(f"rate {text!r} is not understood", hint=hint) from None
