"""What a deployment costs: dollars and energy of a million tokens, and the interval of its cost by estimates.

Input and output tokens share the chips by the time that each would take by itself: the prefill of a prompt, and the
decode steps of an answer, each over the sequences that it has in flight. TDP × time is a ceiling of the energy of these
chips: they are on all the time, and draw no more than that for long. Of a plan by floors it is one only if these
chips do: a real run may take more. Hosts, networks and cooling are not in it.

>>> from roofline.plans.answer import plan
>>> found = plan("llama-3-8b", on=["h100"], count=[1], rate=4, prompt=1024, output=128, formats=["bf16"])
>>> power(found.asked, found.best.deployment)
700.0
>>> both = million_tokens(found.asked, found.best)
>>> round(sum(both[name].joules * 4 * n for name, n in (("input", 1024), ("output", 128))))
700
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from roofline.bounds.cost import MillionCost, token_cost
from roofline.plans.question import PlanQuestion, of_all_chips
from roofline.plans.replicas import Replica, UnloadedReplica
from roofline.plans.search import Assessment, Deployment, Search
from roofline.quantity import format_amount, format_number, format_percent
from roofline.sections import BLANK, Amount, Cell, Column, Headline, Row, Section, Table, figures


def power(asked: PlanQuestion, deployment: Deployment) -> float | None:
    """Watts of all chips by their TDP; None where one has none that is known."""
    return of_all_chips(asked.watts, deployment.numbers)


def million_tokens(asked: PlanQuestion, choice: Assessment) -> dict[str, MillionCost]:
    """The cost of a million input and output tokens at the load: their shares of the chips' time.

    Answers of one token are prefill's: then there are costs of input tokens alone.
    """
    hourly = choice.cost_per_hour
    watts, load, share = power(asked, choice.deployment), asked.load, choice.prefill_share
    made = {"input": (share, load.prompt), "output": (1 - share, load.output)}
    return {
        name: token_cost(time=part, tokens=load.rate * tokens, price=hourly, power=watts)
        for name, (part, tokens) in made.items()
        if name == "input" or load.output > 1
    }


def cost_lines(asked: PlanQuestion, choice: Assessment) -> Iterator[str]:
    """Dollars of tokens and the ceiling of their energy, in words."""
    both = million_tokens(asked, choice)
    shared = f"prefill has {format_percent(choice.prefill_share)} of the chip time used"
    dollars = [
        f"${format_number(float(cost.dollars))} a million {name} tokens"
        for name, cost in both.items()
        if cost.dollars is not None
    ]
    if dollars:
        yield f"{', '.join(dollars)}: {shared}"
    energy = [
        f"{format_amount(float(cost.joules), 'J')} an {name} token "
        f"({format_number(float(cost.kilowatt_hours))} kWh a million)"
        for name, cost in reversed(both.items())
        if cost.joules is not None and cost.kilowatt_hours is not None
    ]
    if energy:
        watts = format_number(power(asked, choice.deployment) or 0.0)
        more = "" if dollars else f"; {shared}"
        energy[-1] += ceiling_holds(asked)
        yield f"energy at most {', '.join(energy)}: TDP of {watts} W all the time{more}"


def ceiling_holds(asked: PlanQuestion) -> str:
    """When TDP times time is a ceiling: by floors only if a real run takes no more chips."""
    return "" if asked.library is not None else " if these chips do"


def cost_sections(asked: PlanQuestion, choices: Sequence[Assessment], most: int) -> tuple[Section, ...]:
    """Dollars and energy of a million tokens of each choice, as a table whose first ``most`` rows are shown."""
    names = ["input"] + ["output"] * (asked.load.output > 1)
    heads = [f"$ {name}" for name in names if asked.prices]
    heads += [*(f"kWh {name}" for name in names), f"an {names[-1]} token"]

    def row(choice: Assessment) -> Row:
        costs = million_tokens(asked, choice)
        joules = costs[names[-1]].joules
        dollars = [costs[name].dollars for name in names if asked.prices]
        energy = [costs[name].kilowatt_hours for name in names]
        cells: list[Cell] = [
            "" if each is None else Amount(each, "", f"${format_number(float(each))}") for each in dollars
        ]
        cells += ["" if each is None else Amount(each, "", format_number(float(each))) for each in energy]
        return Row((str(choice.deployment), *cells, "" if joules is None else Amount(joules, "J")))

    head = Headline(
        "a million tokens", f"dollars and kWh, energy at most{ceiling_holds(asked)}: TDP all the time", level=2
    )
    columns = (Column("deployment", wrap="words", least=20), *figures(*heads))
    rows = [row(choice) for choice in choices[:most]]
    return BLANK, head, Table(columns, rows, "costs", indent=4, every=lambda: [row(choice) for choice in choices])


class ScaledSearch(Search):
    """A search whose replicas take as long as one end of their interval says: 0 the low one, 1 the high one."""

    def __init__(self, base: Search, end: int) -> None:
        super().__init__(base.asked)
        self.base, self.end = base, end

    def priced(self, replica: Replica) -> UnloadedReplica | str:
        """A replica without load, its times scaled."""
        if replica not in self._priced:
            found = self.base.priced(replica)
            self._priced[replica] = found if isinstance(found, str) else found.slower(found.interval[self.end])
        return self._priced[replica]


def cost_interval(search: Search, group: Sequence[Replica]) -> tuple[float, float]:
    """The cost of the cheapest of some replicas where steps take as long as each end of their interval says."""
    found = [ScaledSearch(search, end).best_of(tuple(group)) for end in (0, 1)]
    low, high = (float("inf") if each is None else each.cost for each in found)
    return min(low, high), high


def plain_costs(asked: PlanQuestion, choice: Assessment) -> dict[str, Any]:
    """Costs of tokens under stable keys; None where no price or no TDP is known, or nothing can be served."""
    both = million_tokens(asked, choice) if choice.largest_rate else {}
    found: dict[str, Any] = {"power": power(asked, choice.deployment)}
    for name in ("input", "output"):
        cost = both.get(name)
        found[f"cost_per_million_{name}_tokens"] = None if cost is None else cost.dollars
        found[f"most_joules_per_{name}_token"] = None if cost is None else cost.joules
        found[f"most_kilowatt_hours_per_million_{name}_tokens"] = None if cost is None else cost.kilowatt_hours
    return found
