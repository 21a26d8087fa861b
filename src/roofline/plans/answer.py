"""The plan as an answer: what to take, what it gives, what else there is and why not.

>>> found = plan("llama-3-8b", on=["h100", "h200"], count=[1, 2, 4, 8], rate="4/s", prompt=1024, output=128,
...              ttft="500 ms", tpot="30 ms", price={"h100": 2.5, "h200": 3.1}, formats=["bf16"])
>>> found
<Plan for llama-3-8b: h100:1 bf16, $2.5 an hour>
>>> found.why("h200:1 bf16").kind
'beaten'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from roofline.answers import (
    Answer,
    Part,
    attributes,
    chosen_table,
    figures_of,
    plain_data,
    plain_table,
    price_of_each,
    prices_in,
)
from roofline.bounds.api import On
from roofline.bounds.api import target as resolve
from roofline.counts import typed_size
from roofline.errors import InputError, check_one_of
from roofline.estimates.served import refuse_unmeasured
from roofline.frozen import dataclass, field, kept, once, replace
from roofline.grids.runs import Cluster, done_blocks
from roofline.hardware.figures import TABLE, hourly_price, listed_prices, price_source, told_apart
from roofline.hardware.machine import Machine
from roofline.meanings import LISTS
from roofline.models.blocks.encoder import refuse_encoder
from roofline.models.config import load
from roofline.models.description import Model
from roofline.models.idle import PLANNED, refuse_idle
from roofline.models.operation_builder import PREFILL_ONLY
from roofline.models.operations import check_decodes, check_options
from roofline.models.parallelism.layout import is_several
from roofline.models.serving import serve_bound
from roofline.models.serving.step import SERVED, said_of_adapters, said_of_host, served_model
from roofline.plans.cost import Fleet, Trace, ceiling_holds, cost_interval, cost_lines, cost_sections, plain_costs
from roofline.plans.deployment_words import (
    DeploymentWords,
    best_of_ways,
    best_of_words,
    engine_settings,
    enough_copies,
)
from roofline.plans.load import Acceptance, Speculating
from roofline.plans.question import (
    BLOCK_TOKENS,
    LIMIT_NAMES,
    MEMORY_SHARE,
    MOST_SEQUENCES,
    OBJECTIVES,
    Limits,
    Load,
    PlanQuestion,
    read_rate,
)
from roofline.plans.replicas import (
    FORMATS,
    LoadedCurve,
    Replica,
    ServingCurve,
    UnloadedReplica,
    elasticities,
    estimator_of,
    frontier_sections,
    largest_rate_within,
    loaded_curve,
    serving_curve,
    step_options,
)
from roofline.plans.search import Assessment, Deployment, GroupSearch, Reason, Search, best_apart
from roofline.plans.simulation import simulation_sections
from roofline.progress import counted, stopped, tell
from roofline.quantity import (
    EQUAL,
    Figure,
    agree,
    figure,
    format_amount,
    format_number,
    format_percent,
    format_times,
    in_a_row,
)
from roofline.sections import (
    BLANK,
    Amount,
    Cell,
    Column,
    Headline,
    Pairs,
    Row,
    Section,
    Sentences,
    Table,
    assumes,
    caveats,
    figures,
    spread,
)
from roofline.signatures import listed_names, spelled, takes
from roofline.sizes import Size, array_of, check, grouped
from roofline.statements import kind_of, without

SCHEMA = "roofline/plan/1"

#: Numbers of chips that one plan chooses among.
MOST_COUNTS = 10_000

#: Rows of choices that are shown.
MOST_ROWS = 12

#: Numbers of chips of each kind and format for which it is said why they are not taken.
MOST_REJECTED = 12

#: Doublings of the chips of a replica that misses a limit, among which enough are looked for.
MOST_DOUBLINGS = 4

#: The library whose measured times stand beside a plan by floors.
MEASURED = "vllm"

#: Marks a choice whose cost may be less than that of the best.
UNDECIDED = "≈"

#: A limit that floors keep by less than this factor may be missed in reality.
FLOOR_MARGIN = 2.0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DeploymentPlan(Answer):
    """The best deployment for a question, or the nearest miss.

    Attributes
        ``asked``    the question: model, load, limits, prices
        ``choices``  the best of each chip and format, the cheapest first; none where nothing meets the limits
        ``nearest``  what comes nearest to the limits then
        ``reasons``  how many deployments are not taken, by why
        ``cost_intervals``  of estimates: dollars an hour, or chips, of the cheapest of the same chip and formats where
                     steps take as long as each end of their interval says
        ``search``   all that was tried; ``stopped`` how much of it when Ctrl-C ended it
    """

    asked: PlanQuestion
    search: Search
    choices: tuple[Assessment, ...]
    nearest: Assessment | None
    reasons: Mapping[str, int]
    cost_intervals: Mapping[Deployment, tuple[float, float]] = field(default_factory=dict)
    stopped: str = ""
    _fewer: dict[Deployment, Assessment | None] = field(default_factory=dict, init=False)

    @property
    def best(self) -> Assessment | Any:
        """What to take; None where nothing meets the limits."""
        return self.choices[0] if self.choices else None

    @property
    def meets(self) -> bool:
        """Whether anything meets the limits."""
        return bool(self.choices)

    def one_line(self) -> str:
        if self.best is None:
            return f"Plan for {self.asked.model.name}: {self._nothing.lower()}"
        return f"Plan for {self.asked.model.name}: {self.best.deployment}, {self._cost(self.best)}"

    def _cost(self, choice: Assessment) -> str:
        if not choice.is_ranked or self.asked.objective == "chips":
            return f"{format_number(choice.cost)} chips" if choice.cost > 1 else "1 chip"
        if self.asked.objective == "energy":
            return f"{format_number(choice.cost)} W"
        return f"${format_number(choice.cost)} an hour"

    def curves(self) -> list[ServingCurve]:
        """What the best replica of each chip, or format of one, can give, and at how many sequences what binds."""
        if self.asked.load.output == 1:
            return []
        return [
            serving_curve(times, times.server(max(choice.deployment.chunk, 0)))
            for choice, times in self._best_of_kinds()
        ]

    def loaded_curves(self) -> list[tuple[Assessment, LoadedCurve]]:
        """The best of each chip or format, or the nearest miss, and its replica under loads up to the largest."""
        found, rate = [], self.asked.load.rate
        for choice, times in self._best_of_kinds():
            server = self.search.server(choice.deployment)
            found.append((choice, loaded_curve(times, server, rate / choice.deployment.copies)))
        return found

    def _best_of_kinds(self) -> list[tuple[Assessment, UnloadedReplica]]:
        best: dict[tuple[Any, ...], Assessment] = {}
        for choice in (*self.choices, *([self.nearest] if self.nearest is not None else [])):
            if choice.deployment.prefill is None:
                own = choice.deployment.replica
                best.setdefault((own.chip,) if len(self.asked.chips) > 1 else (own.formats, own.draft), choice)
        priced = [(choice, self.search.priced(choice.deployment.replica)) for choice in best.values()]
        return [(choice, times) for choice, times in priced if not isinstance(times, str) and times.most]

    def break_even(self) -> list[tuple[str, float]]:
        """For each other chip, the price at which its best deployment costs as much as the best of all."""
        found: dict[str, float] = {}
        for choice in self.choices:
            price = self._even_price(choice)
            if price is not None:
                found.setdefault(choice.deployment.replica.chip, price)
        return list(found.items())

    @property
    def _whole(self) -> Deployment | None:
        """The best deployment, where its replicas take whole requests: None with prefill apart."""
        found = None if self.best is None else self.best.deployment
        return None if found is None or found.prefill is not None else found

    def elasticities(self) -> dict[str, float]:
        """Per cent more requests within the limits of the best replica, for one per cent more of each figure."""
        each = self._whole
        return {} if each is None else elasticities(self.asked, each.replica, each.chunk, each.most, each.copies)

    def fleet(self, trace: Trace) -> Fleet | None:
        """The best replica over a load that changes; None where nothing meets the limits, or prefill is apart."""
        each = self._whole
        if each is None:
            return None
        rate = largest_rate_within(self.search.times(each.replica), self.search.server(each))
        price = self.asked.prices.get(each.replica.chip)
        basis = "floor" if self.asked.library is None else "estimate"
        hourly = None if price is None else price * each.replica.chips
        trace = replace(trace, prompt=self.asked.load.prompt)
        return Fleet(trace, f"replica of {each.replica}", each.replica.chips, rate, hourly, basis)

    def simulated(self, requests: int = 4000, seed: int = 0) -> Part:
        """The best deployment's replica simulated request by request, beside what the closed forms say.

        From 40 to 200,000 ``requests``; ``seed`` is a whole number from 0 on.
        """
        each, share = self._whole, self.asked.limits.share
        if each is None:
            raise InputError("there is no replica that takes whole requests to simulate", hint="looser limits")
        rate = self.asked.load.rate / each.copies
        return Part(simulation_sections(self.search.server(each), rate, share, requests, seed))

    def settings(self) -> dict[str, str]:
        """The best replica as options of engines."""
        best = self._whole
        if best is None:
            return {}
        model, load = self.asked.model, self.asked.load
        length = load.peak_context
        if load.lengths == "geometric":  # ten times the mean cuts off one answer in 20,000
            length = min(int(load.prompt + 10 * load.output), model.context or length)
        name = model.name if "/" in model.name else "MODEL"
        return engine_settings(best, name, length, self.asked.memory_share, self.asked.drafts.model)

    def explain(self) -> Part:
        """What would change the answer: what binds where, corners, what figures are worth, and break-even prices."""
        found = list(frontier_sections(self.curves(), self.elasticities(), self.break_even()))
        if self.choices:
            found += cost_sections(self.asked, self.choices, MOST_ROWS)
        if self.settings():
            head = Headline("settings of engines", "our reading of their documented options", level=2)
            found += [BLANK, head, Pairs(tuple(self.settings().items()), indent=4)]
        return Part(found)

    def why(self, spec: str | Deployment | Assessment) -> Reason | None:
        """Why a deployment is not taken, asked afresh; None where it is the one to take.

        ``spec`` is as in :meth:`assess`, or one of ``choices``.

        >>> from roofline import plan
        >>> found = plan("llama-3-8b", on="h100,h200", rate=4, prompt=1024, output=128, formats="bf16", price="table")
        >>> found.why(found.choices[1]).text[:62]
        'beaten by h100:1 bf16: $3.59 an hour against $2.69 an hour; it'
        """
        return self.assess(spec).reason

    def assess(self, spec: str | Deployment | Assessment) -> Assessment:
        """A deployment asked afresh, with the reason why it is not taken; None: it is the one to take.

        ``spec`` is as in the table: ``"h100:8 tensor 8 fp8"``, with ``chunk 2048`` or ``whole``, and ``batch 64``; or
        ``"prefill h100:4 fp8, decode h200:2 fp8"``. What it leaves out is open, as in ``"h100:8"``, ``"h100"`` or
        ``"tensor 4"``: the answer is the best of all that it may mean, or the nearest miss.
        """
        if isinstance(spec, Deployment | Assessment):
            found = best_of_ways([spec if isinstance(spec, Deployment) else spec.deployment], self.search)
        else:
            words = DeploymentWords.read(spec, self.asked)
            found = best_of_words(words, self.search)
            if found.reason is not None and found.reason.kind == "fit":
                text = found.reason.text + words.said_of_replicas(self.asked)
                found = replace(found, reason=found.reason._replace(text=text))
        return found if found.reason is not None else replace(found, reason=self._beaten(found))

    def rejected(self) -> list[Assessment]:
        """What is not taken, with why: the best of each chip, number of chips and formats, the nearest miss first.

        Of many numbers of chips some, spread evenly.

        >>> from roofline import plan
        >>> found = plan("llama-3-8b", on="h100,v5e", count=[1, 2], rate=4, prompt=1024, output=128, formats="bf16")
        >>> [(each.chip, each.chips, each.reason.kind) for each in found.rejected()]
        [('h100', 2, 'beaten'), ('v5e', 2, 'beaten'), ('v5e', 1, 'fit')]
        """
        asked = self.asked
        formats = dict.fromkeys((each.chip, each.formats) for each in self.search.replicas)
        counts = sorted(set(asked.counts))
        several = [counts[at] for at in spread(len(counts), MOST_REJECTED)]
        found = []
        for (chip, each), count in counted(list(product(formats, several))):
            best = self._best_on(chip, count, each)
            if best is not None:
                found.append(best if best.reason is not None else replace(best, reason=self._beaten(best)))
        return sorted((each for each in found if each.reason is not None), key=lambda each: each.miss)

    def _best_on(self, chip: str, count: int, formats: str) -> Assessment | None:
        """The best deployment on so many of a chip in some formats; None where none of its replicas are so many."""
        words = DeploymentWords(chip, count, formats=formats)
        return best_of_words(words, self.search) if words.replicas(self.asked) else None

    def plain_table(self, table: str | None = None) -> tuple[list[str], list[list[Any]], dict[str, str]]:
        """The choices, or ``rejected``: what is not taken, a row each, with the reason; times at the percentile.

        >>> from roofline import plan
        >>> found = plan("llama-3-8b", on="v5e", count=[1, 2], rate=40, prompt=1024, output=128, formats="bf16")
        >>> found.to_pandas("rejected")[["chip", "chips", "formats", "reason"]].values.tolist()
        [['v5e', 2, 'bf16', 'rate'], ['v5e', 1, 'bf16', 'fit']]
        >>> plan("llama-3-8b", on="h100", rate=40, prompt=1024, output=128, formats="bf16").to_pandas().columns.tolist()
        ['chip', 'chips', 'tensor', 'formats', 'prompts', 'load', 'rate_bound_by', 'prefill_bound_by', 'why', \
'deployment', 'cost_per_hour', 'time_to_first_token_p95', 'time_per_token_p95']
        """
        if chosen_table(table or "choices", ["choices", "rejected"]) == "choices":
            own, rows = "prompts load rate_bound_by prefill_bound_by why", list(map(self._choice_row, self.choices))
        else:
            own, rows = "reason text excess", list(map(_rejected_row, self.rejected()))
        share = f"p{self.asked.limits.percentile:g}"
        times = f"time_to_first_token_{share} time_per_token_{share}"
        names = f"chip chips tensor formats {own} deployment cost_per_hour {times}".split()
        return plain_table(Table(list(map(Column, names)), rows))

    def _choice_row(self, found: Assessment) -> Row:
        load = self.asked.load.rate / found.largest_rate
        binds = (found.bound_by, found.prompt_bound_by)
        return _plain_row(found, found.deployment.takes_prompts, Amount(load, ""), *binds, self._against(found))

    def _beaten(self, found: Assessment) -> Reason | None:
        """Why a deployment that keeps the limits is not taken; None where it is the one to take."""
        best = self.best
        if best is not None and best.is_ranked and not found.is_ranked:
            text = f"no {self._weight} of {found.chip} is known, and {best.deployment} takes {self._cost(best)}"
            return Reason("beaten", f"{text}{self._cheaper_below(found)}; it keeps the limits itself")
        if best is None or found.cost < best.cost:
            text = f"keeps the limits with {self._cost(found)}, but these numbers or formats were not asked for"
            return Reason("legal", text, 1.0)
        if found.order <= best.order:
            return None
        if found.cost > best.cost:
            text = f"beaten by {best.deployment}: {self._cost(found)} against {self._cost(best)}"
            kept = f"; it keeps the limits itself: {self._times(found)} of the rate it can serve"
            return Reason("beaten", text + self._cheaper_below(found) + kept, found.cost / best.cost)
        much, less, share = (format_percent(each) for each in (found.tightness, best.tightness, EQUAL))
        text = f"beaten by {best.deployment}: as dear, and {much} of a limit or of the rate it can serve against {less}"
        if found.tightness - best.tightness <= EQUAL * best.tightness:
            text = f"as good as {best.deployment}: as dear, and equal within {share} in the share of a limit or of the "
            text += f"rate it can serve, {less}"
        return Reason("beaten", text + self._cheaper_below(found), found.tightness / best.tightness)

    @property
    def _weight(self) -> str:
        return "power" if self.asked.objective == "energy" else "price"

    def _cheaper_below(self, found: Assessment) -> str:
        """The price of a chip below which its deployment costs less than the best, which is of another chip."""
        price, name = self._even_price(found), found.deployment.replica.chip
        return "" if price is None else f"; it would cost less with {name} below ${format_number(price)} an hour"

    def _even_price(self, choice: Assessment) -> float | None:
        """The price of a chip at which its deployment costs as much as the best; None of pools, or of a chip of its."""
        best, each = self.best, choice.deployment
        if best is None or not best.is_ranked or self.asked.objective != "cost" or each.prefill is not None:
            return None
        return None if each.replica.chip in best.deployment.numbers else best.cost / each.chips

    def sections(self, *about: Section) -> Iterator[Section]:
        """What to take in a line; the best of each chip and format with what decides; what was turned down.

        ``about`` are sections about a part of the answer, which stand below it and above its table.
        """
        asked = self.asked
        within = f", within {asked.limits.said}" if asked.limits.said else ""
        yield from (Headline(asked.model.named, f"for {asked.load.said}{within}"), BLANK)
        yield from caveats(self.assumptions)
        first, *rest = self._answer()
        yield Sentences([first], "strong" if self.best is not None else "alert")
        yield Sentences([*self._considered(), *rest])
        yield from about
        if self.choices:
            yield from (BLANK, self._table(), Sentences(self._undecided(), "quiet"))
        if self.stopped:
            yield from (BLANK, Sentences([self.stopped], "alert"))
        if any(self.reasons.values()):
            yield from (BLANK, Sentences([self._turned_down()]))
        yield from (BLANK, assumes(without(self.assumptions, ("doubt",))))

    def _answer(self) -> list[str]:
        best = self.best
        if best is None:
            lines = [self._nothing, *self.search.without_constants().values()]
            near = None if self._is_unknown else self.nearest
            if near is not None and near.reason is not None:
                lines.append(
                    f"nearest: {near.deployment}, {self._cost(near)}: {near.reason.text}{self._more_in_words()}"
                )
            return lines
        ranked = {"cost": "", "chips": ", the fewest", "energy": ", the least"}[self.asked.objective]
        taken, cost = self._in_words(best.deployment), self._cost(best)
        own = next((each for each in self.choices if not _is_narrow(each)), None) if self.is_narrowed else None
        kept = "" if own is None else f"; in {own.deployment.replica.formats}, {self._cost(own)}: {own.deployment}"
        found = f"{taken}: {cost}{ranked if best.is_ranked else ''}"
        real = self.as_measured()
        if self.asked.library is not None:
            lines = [f"take {found}{kept}"]
        elif real is not None and real.reason is None:
            lines = [f"by floors, take {found}{kept}"]
        else:  # what is too little, or may be, is not what to take
            lines = [f"by floors, no less than {taken}: a floor of {cost}{kept}", *self._on_measured(real)]
        lines += [*self._untimed(), *self._ranked_by()]
        if self.is_narrowed:
            lines.append(f"{best.deployment.replica.formats} was not asked for: {self._narrows}")
        lines.append(f"{self._times(best)} of the {format_number(best.largest_rate)}/s it can serve")
        less = [f"{each.deployment}, {each.reason.text}" for each in self._all_fewer(best) if each.reason is not None]
        if less:
            lines.append(f"fewer will not do: {'; '.join(less)}")
        lines += self._margin(best)
        return [*lines, *cost_lines(self.asked, best)]

    def _considered(self) -> Iterator[str]:
        """The chips that were asked about, where the question names none."""
        if self.asked.unnamed:
            priced = "a listed price" if not set(self.asked.chips) - set(listed_prices()) else "a price"
            chips = ", ".join(self.asked.chips)
            yield f"considered are the chips with {priced}: {chips}; {spelled('on', 'CHIP,CHIP')} names others"

    @property
    def _is_unknown(self) -> bool:
        """Whether no chip that is asked about has constants."""
        return set(self.search.without_constants()) >= set(self.asked.chips)

    @property
    def _nothing(self) -> str:
        return "NO CHIP HAS CONSTANTS FOR AN ESTIMATE" if self._is_unknown else "NOTHING MEETS THE LIMITS"

    def _untimed(self) -> Iterator[str]:
        """What floors of steps leave out of the choices' own chips: another may be the cheapest."""
        found: dict[str, Deployment] = {}
        for choice in self.choices:
            priced = map(self.search.priced, filter(None, (choice.deployment.replica, choice.deployment.prefill)))
            for gap in (gap for each in priced if not isinstance(each, str) for gap in each.untimed):
                found.setdefault(gap, choice.deployment)
        for gap, of in found.items():
            yield f"INCOMPLETE: {of}: {gap}; steps take longer by it, so a dearer choice may be the cheapest"

    def _ranked_by(self) -> Iterator[str]:
        """What the cheapest is the cheapest by, where there are no prices, and the chips that have none."""
        asked, priced = self.asked, spelled("price", self.asked.price_words)
        if asked.objective == "chips" and not asked.prices:
            unlisted = f"no price of {in_a_row(asked.chips)} is listed"
            yield (
                "cheapest is taken as fewest chips (chip-hours a token), as "
                f"{'there are no prices' if TABLE in asked.price_words else unlisted}: "
                f"{priced} ranks by dollars, {spelled('objective', 'energy')} by energy"
            )
        for name in asked.unweighted:
            of = next((each for each in self.choices if each.deployment.replica.chip == name), None)
            reached = "none of its deployments meets the limits" if of is None else f"its best is {of.deployment}"
            if asked.objective == "energy":
                yield f"no power of {name} is known, so it is not ranked: {reached}"
                continue
            even = None if of is None else self._even_price(of)
            below = "" if even is None else f", which costs less below ${format_number(even)} a chip an hour"
            given = f"{below} ({priced})" if of is not None else ""
            yield f"no price of {name} is listed, so it is not ranked: {reached}{given}"

    def _times(self, choice: Assessment) -> str:
        """The times of requests at the percentile, and the share of the rate that can be served."""
        share, several = f"p{self.asked.limits.percentile:g}", self.asked.load.output > 1
        named = [("TTFT", choice.first_token)]
        named += [("TPOT", choice.per_token), ("ITL", choice.token_gap)] if several else []
        named += [("end to end", choice.end_to_end)] if several and self.asked.limits.end_to_end is not None else []
        times = [f"{name} {share} {format_amount(each.percentile, 's')}" for name, each in named if each is not None]
        return ", ".join([*times, format_percent(self.asked.load.rate / choice.largest_rate)])

    def _margin(self, best: Assessment) -> list[str]:
        """How far times may be off: limits that floors alone keep, or the interval of the estimates."""
        if self.asked.library is not None:
            low, high = best.interval
            said = f"expected; steps take {low:.2f} to {high:.2f} times as long by their interval"
            ends = self.cost_intervals.get(best.deployment)
            if ends is None:
                return [said]
            least, most = (self._cost(replace(best, cost=each)) for each in ends)
            over = most if ends[1] < float("inf") else "more than is allowed"
            return [f"{said}: {least} either way" if least == over else f"{said}: {least} to {over}"]
        close, named, asked = self.floor_only(best), "real steps take longer", spelled("estimate", MEASURED)
        said = f"floor only: {in_a_row(close)} kept by less than a factor of two, and {named}"
        lines = [said if close else f"floors are the least there can be: {named}"]
        real = self.as_measured()
        if real is None:
            return [f"{lines[0]} ({asked})"] if self._whole is None else lines
        return lines if real.reason is not None else [*lines, *self._on_measured(real)]

    def _on_measured(self, real: Assessment | None) -> Iterator[str]:
        """Whether a plan by floors keeps the limits with times that were measured, or that there are none."""
        asked, chip = spelled("estimate", MEASURED), None if self._whole is None else self._whole.replica.chip
        if real is None:
            if chip in self._with_measured_times.without_constants():
                without = f", and {asked} plans without it" if len(self.asked.chips) > 1 else ""
                yield f"no step times of {chip} are measured: these are floors alone{without}"
            return
        if real.reason is None:
            found = f"it keeps the limits: {self._times(real)} of the rate it can serve"
        else:  # which may serve nothing
            enough = self.enough()
            found = f"it falls short: {real.reason.text}{self._more_in_words()}"
            apart = best_apart(self._with_measured_times) if self.asked.disaggregate else None
            if apart is not None and (enough is None or apart.cost < enough.cost):
                found += f"; with prefill apart {self._cost(apart)} would do: {apart.deployment}"
        yield f"with the step times measured on {MEASURED} {found}; {asked} plans with them"

    def _more_in_words(self) -> str:
        """How many replicas or chips would do, where more of them are enough, and how they are asked for."""
        enough = self.enough()
        if enough is None:
            alone = self.nearest is not None and self.nearest.reason is not None and self.nearest.reason.kind == "limit"
            return f"; twice to {2**MOST_DOUBLINGS} times as many chips do not help" if alone else ""
        own, missed = enough.deployment, self.as_measured() if self.nearest is None else self.nearest
        alike = missed is not None and own.replica == missed.deployment.replica
        beyond = "" if own.chips in self.asked.counts else f", {spelled('count', own.chips)}"
        what = f"{own.copies:,} such replicas" if alike else str(own)
        return f"; {what} ({own.chips:,} chips{beyond}) would keep the limits"

    @kept
    def as_measured(self) -> Assessment | None:
        """The chips and layout of a plan by floors, with the times that a library is expected to take.

        None of a plan that is by such times, and where they are not known.
        """
        best = self._whole
        if best is None or self.asked.library is not None or self.asked.drafts.lengths:
            return None
        search = self._with_measured_times
        known = not isinstance(search.priced(best.replica), str)
        return best_of_ways([replace(best, chunk=-1, most=0)], search) if known else None

    @once
    def _with_measured_times(self) -> Search:
        return Search(replace(self.asked, library=MEASURED))

    @kept
    def enough_as_measured(self) -> Assessment | None:
        """The fewest replicas of the layout of a plan by floors that keep the limits with measured times.

        None where those of the plan do, or where no number of them does.

        >>> from roofline import plan
        >>> found = plan("llama-3-8b", on="h100", count=[1], rate=40, prompt=1024, output=128, formats="bf16")
        >>> found.as_measured().reason.text, str(found.enough_as_measured().deployment)
        ('serves at most 33...s of 40/s a replica', 'h100:2 bf16')
        """
        real = self.as_measured()
        return None if real is None else enough_copies(self._with_measured_times, real)

    @kept
    def enough(self) -> Assessment | None:
        """What would keep the limits where nothing that was asked about does: more replicas of the nearest.

        Of one that misses a limit without load, the least power of 2 times its chips. None where none is found. Of a
        plan by floors that falls short with measured times it is :meth:`enough_as_measured`.

        >>> from roofline import plan
        >>> found = plan("llama-3-8b", on="h100", count=1, rate=1, prompt=1024, output=128, tpot="2ms", formats="bf16")
        >>> str(found.nearest.deployment), str(found.enough().deployment)
        ('h100:1 bf16', 'h100:4 tensor 4 bf16')
        """
        missed = self.nearest
        if self.best is not None or missed is None or missed.reason is None:
            return self.enough_as_measured()
        own = missed.deployment
        if missed.reason.kind != "limit" or own.prefill is not None:
            return enough_copies(self.search, missed)
        counts = (own.replica.chips << doublings for doublings in range(1, MOST_DOUBLINGS + 1))
        found = (self._best_on(own.replica.chip, count, own.replica.formats) for count in counts)
        return next((each for each in found if each is not None and each.reason is None), None)

    @property
    def is_narrowed(self) -> bool:
        """Whether the best has formats that are narrower than the model's own, and nobody asked for them."""
        return self.best is not None and not self.asked.formats and _is_narrow(self.best)

    @property
    def _narrows(self) -> str:
        own = "bf16" if self.asked.model.quantisation is None else "stored"
        return f"narrower formats change what a model answers, and {spelled('formats', own)} keeps them out"

    def _in_words(self, deployment: Deployment) -> str:
        prompts = f"in {deployment.takes_prompts}" if deployment.chunk else deployment.takes_prompts
        uses = [f", prompts {prompts}"] if deployment.prefill is None else [" for prefill", " for decode"]
        return " + ".join(map(self._replicas_in_words, deployment.pools, uses))

    def _replicas_in_words(self, pool: Deployment, what: str) -> str:
        own = pool.replica
        layout = "" if own.chips == 1 else f" of {own.layout}"
        each = f"{pool.copies:,} replicas" if pool.copies > 1 else "1 replica"
        most = f", {pool.most:,} sequence{'s' * (pool.most != 1)} at most" if pool.most else ""
        drafts = f", drafts of {own.draft} by {self.asked.drafts.said}" if own.draft else ""
        return f"{own.chip}:{pool.chips} as {each}{layout}, {own.formats}{drafts}{what}{most}"

    def _table(self) -> Table:
        dollars = "$" * (self.asked.objective == "cost")

        def row(choice: Assessment) -> Row:
            each, times = choice.deployment, (choice.first_token, choice.per_token)
            load = self.asked.load.rate / choice.largest_rate
            cells = (
                str(each), each.takes_prompts,
                Amount(choice.cost, "", f"{dollars}{format_number(choice.cost)}") if choice.is_ranked else "",
                *(Amount(time.percentile, "s") if time is not None and time.mean else "" for time in times),
                Amount(load, "", format_percent(load)),
                choice.bound_by, self._against(choice),
            )  # fmt: skip
            return Row(cells, "strong" if choice is self.best else "")

        share = f"p{self.asked.limits.percentile:g}"
        cost = {"cost": "an hour", "chips": "chips", "energy": "watts"}[self.asked.objective]
        numbers = figures(cost, f"TTFT {share}", f"TPOT {share}", "load")
        columns = (
            Column("deployment", wrap="words", least=20),
            Column("prompts", wrap="words", spare=2),
            *numbers,
            Column("rate\nbound by", spare=1),
            Column("why", wrap="words"),
        )
        why = f"no constants of {self.asked.library}"
        without = [(chip, why) for chip in self.search.without_constants()]
        missing = [(str(each.deployment), each.reason) for each in self._missing()]
        without += [(name, f"none will do: {reason.text}") for name, reason in missing if reason is not None]
        unknown = [Row((name, *[""] * (len(columns) - 2), text)) for name, text in without]

        def rows(most: int | None = None) -> list[Row]:
            return [*(row(choice) for choice in self.choices[:most]), *unknown]

        return Table(columns, rows(MOST_ROWS), "choices", every=rows)

    def _missing(self) -> Iterator[Assessment]:
        """The nearest miss of each chip none of whose deployments keeps the limits, beside others that do."""
        shown = {chip for choice in self.choices for chip in choice.deployment.numbers}
        for chip in self.asked.chips:
            if chip not in shown and chip not in self.search.without_constants():
                found = self.search.nearest_miss(chip)
                yield from () if found is None else [found]

    def _against(self, choice: Assessment) -> str:
        best = self.best
        assert best is not None
        named = {"cost": "cost", "chips": "chips", "energy": "power"}[self.asked.objective]
        if choice.is_ranked is not best.is_ranked:
            return f"no {self._weight}"
        needs = self._needs(choice)
        if choice is best:
            return ("fewest" if self.asked.objective == "chips" or not best.is_ranked else f"least {named}") + needs
        near = f" {UNDECIDED}" if self.is_indistinguishable(choice) else ""
        if choice.cost > best.cost:
            return f"{format_times(choice.cost / best.cost)} the {named if choice.is_ranked else 'chips'}{needs}{near}"
        return f"the same {named if choice.is_ranked else 'chips'}, nearer to its limits{near}"

    def _undecided(self) -> list[str]:
        """Where intervals of the cost overlap that of the best: their order is not known."""
        several = sum(map(self.is_indistinguishable, self.choices[1:]))
        others = len(self.choices) - 1
        which = "one other costs" if several == 1 else f"{several} of the {others} others cost"
        which = f"any of the {others} others costs" if several == others > 1 else which
        said = f"{UNDECIDED} the interval of its cost overlaps that of the best: whether {which} less is undecided"
        return [said] if several else []

    def fewer(self, choice: Assessment) -> Assessment | None:
        """The best on the next smaller number of the same chips and formats that hold it, with why it is not taken.

        Where no number does, on the next smaller. None where fewer were not asked about, would do too, or are of a
        plan with prefill apart.

        >>> from roofline import plan
        >>> found = plan("llama-3-8b", on="h100", count=[1, 2], rate=100, prompt=1024, output=128, formats="bf16")
        >>> less = found.fewer(found.best)
        >>> str(less.deployment), less.reason.text
        ('h100:1 bf16', 'serves at most 59.77/s of 100/s a replica')
        """
        own, less = choice.deployment, [count for count in self.asked.counts if count < choice.deployment.chips]
        if own.prefill is not None or not less:
            return None
        if own not in self._fewer:
            self._fewer[own] = self._on_fewer(own.replica, sorted(less, reverse=True))
        found = self._fewer[own]
        return None if found is None or found.reason is None else found

    def _on_fewer(self, replica: Replica, counts: Sequence[int]) -> Assessment | None:
        """The best on the first of these numbers that hold the model; where none does, on the first."""
        nearest = None
        for count in counts:
            found = self._best_on(replica.chip, count, replica.formats)
            if found is not None and (found.reason is None or found.reason.kind != "fit"):
                return found
            nearest = nearest or found
        return nearest

    def _all_fewer(self, choice: Assessment) -> Iterator[Assessment]:
        """The best on fewer chips; then, where its layout does not fill that number, on those of a replica less."""
        less, own = self.fewer(choice), choice.deployment.replica
        if less is None:
            return
        yield less
        chips = own.chips * (choice.deployment.copies - 1)
        if less.deployment.chips % own.chips and chips in self.asked.counts:
            yield from filter(None, [self._best_on(own.chip, chips, own.formats)])

    def _needs(self, choice: Assessment) -> str:
        """Why so many chips: what is wrong with fewer, in a few words."""
        less = self.fewer(choice)
        why = {"fit": "too small", **dict.fromkeys(("rate", "limit", "load"), "too slow")}
        said = None if less is None or less.reason is None else why.get(less.reason.kind)
        if less is None or not said:
            return ""
        chips = less.deployment.chips
        return f"; {chips:,} chip{'s' * (chips > 1)} would be {said}"

    def is_indistinguishable(self, choice: Assessment) -> bool:
        """Whether the interval of a choice's cost overlaps that of the best one; never so of floors."""
        best = self.best
        intervals = [self.cost_intervals.get(each.deployment) for each in (choice, best) if each is not None]
        if len(intervals) < 2 or intervals[0] is None or intervals[1] is None:
            return False
        return intervals[0][0] <= intervals[1][1]

    def _turned_down(self) -> str:
        legal = "do not divide or compute so" + ("" if self.asked.library is None else ", or have no constants")
        words = {
            "legal": legal, "fit": "do not fit", "limit": "miss a limit without load",
            "rate": "do not keep up", "load": "miss a limit under load or are no better", "beaten": "cost more",
        }  # fmt: skip
        parts = [f"{n:,} {agree(n, text)}" for kind, text in words.items() if (n := self.reasons.get(kind, 0))]
        every, other = sum(self.reasons.values()), "other " * self.meets
        return f"{every:,} {other}deployment{'s' * (every != 1)}: {', '.join(parts)}"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was taken for granted."""
        asked = self.asked
        lengths = "geometric with that mean" if asked.load.lengths == "geometric" else "all alike"
        varies = asked.load.arrival_variation
        uneven = (
            f"arrivals with {varies:g} times the variance of Poisson ones, which go to a replica at random: nine in "
            "ten times lie within 16% of a simulation's, with up to four places within 38%"
        )
        arrivals = "Poisson arrivals" if varies == 1 else uneven
        floors = "times of steps are floors: a real engine takes longer, and a plan by floors is the least there can be"
        expected = f"times of steps are what {asked.library} is expected to take, with intervals"
        said = [
            floors if asked.library is None else expected,
            f"{arrivals}; prompts all alike, lengths of answers {lengths}; each replica has an even share of the "
            "requests",
            f"engines use {format_percent(asked.memory_share)} of a chip's memory; a sequence has room "
            f"for {asked.load.peak_context:,} tokens, its prompt and a mean answer in blocks of {asked.load.block}, "
            f"and holds {asked.load.mean_context:,} on average",
            "TTFT: the waits for a place and for prefill, and prefill; TPOT: a request's mean gap between tokens; ITL: "
            "the gap between any two tokens",
        ]
        stored = None if self.best is None else step_options(asked, self.best.deployment.replica).get("weights")
        said += [*said_of_host(asked.model, stored), *said_of_adapters(asked.model)]
        gap, mean = (None, None) if self.best is None else (self.best.token_gap, self.best.per_token)
        if gap is not None and mean is not None and gap.percentile < mean.percentile:
            said.append(
                "ITL may be below TPOT: few gaps hold another request's prefill, so a percentile of gaps leaves them "
                "out, and each request's mean has its share of them"
            )
        longest, trained = asked.load.prompt + asked.load.output, asked.model.context
        if trained is not None and longest > trained:
            before = f"sequences of {longest:,} tokens are longer than the {trained:,} that"
            said.append(f"{before} {asked.model.named} was trained on")
        if varies != 1:
            bursts = "requests of a burst wait for each other's prefill, and begin to decode in groups"
            even = "whole prompts that stop the steps are taken as spread evenly over time"
            said.append(f"approximation: {bursts if varies > 1 else even}; hold it against a simulation")
        said += [each for name in asked.chips for each in asked.machine(name).warnings if kind_of(each) == "doubt"]
        for name, price in asked.prices.items():
            said += price_source(asked.machine(name), price)
        times = None if self.best is None else self.search.priced(self.best.deployment.replica)
        if asked.library is not None and times is not None and not isinstance(times, str):
            said += times.assumptions
            if self.cost_intervals:
                said.append(
                    "costs are indistinguishable where their intervals overlap: the cheapest of that chip and formats "
                    "where steps take as long as each end of their own interval says"
                )
                said.append("no worth is told of a figure that expected times do not depend on")
        said += self._of_drafts() + self._of_energy()
        if not self.is_narrowed and any(map(_is_narrow, self.choices)):
            said.append(self._narrows)
        return tuple(said)

    def _of_drafts(self) -> list[str]:
        drafts = self.asked.drafts
        if not drafts.lengths:
            return []
        each = ", ".join(f"{length}: {Acceptance(length, drafts.acceptance).mean:.2f}" for length in drafts.lengths)
        said = [
            f"drafts by {drafts.said}; a token is accepted with probability {drafts.acceptance:g} "
            "if all before it in the draft are",
            f"tokens a check by length of draft, {each}; those beyond an answer's end are lost",
        ]
        if drafts.model is None:
            said.append(f"memory and prefill of what drafts are not counted: name it with {spelled('draft_by')}")
        return said

    def _of_energy(self) -> list[str]:
        used = dict.fromkeys(choice.deployment.replica.chip for choice in self.choices)
        lacks = [name for name in used if self.asked.watts(name) is None]
        said = f"energy: no TDP of {', '.join(lacks)} is known, so none is given"
        known = f"energy is a ceiling{ceiling_holds(self.asked)}: TDP times time, of the chips alone"
        return [*([known] if len(lacks) < len(used) else []), *([said] if lacks else [])]

    def floor_only(self, choice: Assessment) -> tuple[str, ...]:
        """The limits that floors keep by less than a factor of two."""
        return tuple(
            LIMIT_NAMES[name]
            for name, limit in self.asked.limits.items()
            if (value := getattr(choice, name)) is not None and value.percentile * FLOOR_MARGIN > limit
        )

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys in SI units (schema ``roofline/plan/1``)."""
        return {
            "schema": SCHEMA,
            "model": self.asked.model.to_dict(),
            "question": self.asked.to_dict(),
            "basis": "floor" if self.asked.library is None else "estimate",
            "stopped": self.stopped or None,
            "meets": self.meets,
            "choices": list(map(self._plain, self.choices)),
            "nearest": None if self.nearest is None else self._plain(self.nearest),
            "as_measured": None if (real := self.as_measured()) is None else self._plain(real),
            "enough": None if (enough := self.enough()) is None else self._plain(enough),
            "break_even_prices": dict(self.break_even()),
            "frontier": [
                {"replica": str(curve.replica), **curve.corners.to_dict(), "segments": list(curve.segments())}
                for curve in self.curves()
            ],
            "reasons": dict(self.reasons),
            "without_constants": self.search.without_constants(),
            "settings": self.settings(),
            "assumptions": list(self.assumptions),
        }

    def _plain(self, choice: Assessment) -> dict[str, Any]:
        each = choice.deployment
        gaps = ("per_token", "token_gap") if self.asked.load.output > 1 else ()
        times = attributes(choice, "first_token", *gaps, "end_to_end", "largest_rate", "in_flight", "prefill_share")
        if choice.first_token is None:  # not under this load
            times |= {"largest_rate": choice.largest_rate or None, "in_flight": None, "prefill_share": None}
        draft = self.asked.drafts.of(each.replica.draft)
        low, high = self.cost_intervals.get(each, (None, None))
        return {
            "deployment": str(each), "chip": each.replica.chip, "chips": each.chips, "replicas": each.copies,
            "layout": each.replica.ways, "formats": each.replica.formats, "draft": each.replica.draft or None,
            "tokens_per_check": None if draft is None else draft.mean,
            "prompts": each.takes_prompts, "chunk": each.chunk or None, "most_sequences": each.most,
            **attributes(choice, "cost_per_hour", "is_ranked"),
            "cost_interval": None if low is None else plain_data([low, high]),
            "indistinguishable": self.is_indistinguishable(choice),
            **plain_costs(self.asked, choice), "per_token": None, "token_gap": None, **times,
            "bound_by": choice.bound_by or None,
            "floor_only": list(self.floor_only(choice)),
            "reason": None if choice.reason is None else plain_data(choice.reason._asdict()),
        }  # fmt: skip


@takes(
    serve_bound,
    but=("chunk", "prompts", "last", "tokens", "context", "batch", "weights", "kv", "logits", "images", "image_size"),
)
def plan(
    model: Model | str,
    *,
    on: On | Sequence[On] = None,
    rate: str | float,
    prompt: Size,
    output: Size,
    count: Size = "1:64",
    ttft: str | float | None = None,
    tpot: str | float | None = None,
    e2e: str | float | None = None,
    percentile: float = 95.0,
    price: Figure | Sequence[Figure] | Mapping[str, Figure] | None = None,
    objective: str | None = None,
    formats: Sequence[str] = (),
    disaggregate: bool = False,
    shared: Figure = 0.0,
    lengths: str = "geometric",
    arrival_variation: float = 1.0,
    most: int = MOST_SEQUENCES,
    memory_share: Figure = MEMORY_SHARE,
    estimate: bool | str | None = None,
    draft: Size | Sequence[int] = (),
    accept: Figure = 0.8,
    draft_by: Model | str | float = 0.1,
    draft_weights: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    client: Any = None,
    announce: Callable[[str], None] | None = None,
    **options: Any,
) -> DeploymentPlan:
    """Find the cheapest deployment of a model that keeps limits under a load, and why the others are not.

    >>> found = plan("llama-3-8b", on="l4,h100", count="1,2", rate="1/s", prompt=1024, output=128, tpot="50ms",
    ...              price={"l4": 0.8, "h100": 2.5})
    >>> found, found.best.chip, found.best.chips, found.best.cost_per_hour
    (<Plan for llama-3-8b: l4:1 fp8 kv fp8, $0.8 an hour>, 'l4', 1, 0.8)
    >>> found.why("h100").text
    'beaten by l4:1 fp8 kv fp8: $2.5 an hour against $0.8 an hour; it would cost less with h100 below $0.8 an hour; ...'

    ``on`` names chips (``"h100,h200"`` or a list, machines and dictionaries of figures among them), by default those
    that ``price`` names, or those whose price the catalog lists; ``count`` how many of one kind may be used, a number
    or several;
    ``rate`` is requests a second (``"12/s"``), each of ``prompt`` and ``output`` tokens. ``ttft``, ``tpot`` and
    ``e2e`` are the longest times allowed at ``percentile``.
    ``price`` is dollars of a chip for an hour: of all, of each in their order, by chip, or ``"table"`` for what the
    catalog lists, with your own on top as in ``"table,l4=0.8"``; chips without a price are answered and not ranked.
    Without ``price`` the fewest chips are best; ``objective`` says so: ``"chips"``, ``"cost"`` or ``"energy"``, the
    least power of data sheets. ``formats`` are those of
    :data:`roofline.plans.replicas.FORMATS`; ``estimate`` names the library whose expected times stand in place of
    floors; all others are options of a step.
    ``draft`` is a length of drafts, or several, tried beside none, with ``accept``, ``draft_by`` and
    ``draft_weights`` as in :func:`roofline.models.serving.speculation.speculate`.
    ``workers``, ``scheduler``, ``scheduler_file`` or an open ``client`` search chips and formats on Dask;
    ``announce`` is told the address of its dashboard.
    """
    check_options(options, plan, serve_bound)
    unnamed = on is None
    if on is None:
        on, price = _priced_chips(price), TABLE if price is None and objective in (None, "cost") else price
    on = [on] if isinstance(on, Machine | Mapping) else listed_names(on)
    formats = listed_names(formats)
    shared, accept, memory_share = (figure(value, "") for value in (shared, accept, memory_share))
    estimate = "vllm" if estimate is True else estimate or None
    count, draft = (_numbers_of(name, each) for name, each in (("count", count), ("draft", draft)))
    lists = {name for name, value in options.items() if is_several(value) and name not in LISTS}
    named = next((name for name in options if name in lists or name in SET_BY_PLAN), None)
    if named in {each.name for each in SERVED}:
        raise InputError(f"a plan takes one number of {spelled(named)}", hint="ask for one plan after another")
    if named is not None:
        raise InputError(
            f"{spelled(named)} is no choice of a plan",
            hint=f"it asks each layout by itself: leave it out; {spelled('shared')} says what of a prompt is cached",
        )
    described = load(model)
    refuse_encoder(described, "a plan")
    refuse_idle(
        {**options, "draft": draft, "accept": accept, "draft_by": draft_by, "draft_weights": draft_weights},
        PLANNED,
        described,
    )
    block = options.get("kv_block") or BLOCK_TOKENS
    described = served_model(described, options)
    if isinstance(output, int | float) and output > 1:
        hint = f"{spelled('output', 1)} plans for passes, with prompt and answer together as the prompt"
        check_decodes(described, hint)
    if estimate is not None:
        refuse_unmeasured(described)
    if options.get("activations") is not None and "stored" not in formats:
        said = f"{spelled('activations')} is said by formats"
        raise InputError(said, hint=f"{spelled('formats', 'stored')} leaves it open, or leave it out")
    objective = objective or ("chips" if price is None else "cost")
    _check(on, count, formats, objective, estimate, draft)
    if most > MOST_AT_ONCE:
        hint = f"at most {MOST_AT_ONCE:,}; engines take some hundreds to some thousands"
        raise InputError(f"{spelled('most', most)} sequences at once", hint=hint)
    on, machines = _named_machines(on)
    prices = _prices(on, machines, price, objective, options.get("set"))
    objective = "chips" if objective == "cost" and not prices else objective
    drafts_by = draft_by if draft_by == "mtp" or isinstance(draft_by, int | float) else load(draft_by)
    asked = PlanQuestion(
        described, Load(read_rate(rate), prompt, output, shared, lengths, arrival_variation, block),
        Limits.read(percentile, first_token=ttft, per_token=tpot, end_to_end=e2e),
        tuple(dict.fromkeys(on)), tuple(count), prices, objective,
        tuple(formats), disaggregate, most, memory_share, estimate,
        Speculating(tuple(draft), accept, drafts_by, draft_weights), options, machines, unnamed,
    )  # fmt: skip
    cluster = Cluster(workers, scheduler, scheduler_file, client, announce)
    return answer(asked, cluster=None if cluster == Cluster() else cluster)


#: Sizes of a step that a plan sets itself, and what its prompts of text have not.
SET_BY_PLAN = (*PREFILL_ONLY, "batch", "context", "tokens", "chunk", "prompts", "last", "overlap", "overhead")


def _is_narrow(choice: Assessment) -> bool:
    return choice.deployment.replica.formats not in ("bf16", "fp16", "stored")


def _named_machines(on: Sequence[Any]) -> tuple[list[str], dict[str, Machine]]:
    """The chips to choose from by name, and those of them that are machines or figures of one's own."""
    resolved = [each if isinstance(each, str) else resolve(each) for each in on]
    names = ["-".join(name.split()) for name in told_apart(resolved)]
    named = zip(names, resolved, strict=True)
    return names, {name: each for name, each in named if isinstance(each, Machine)}


def _priced_chips(price: Any) -> list[str]:
    """The chips to choose from where none are named: those that ``price`` names, and those that are listed."""
    given = prices_in(price)
    named = [name for name in given if name != TABLE] if isinstance(given, Mapping) else []
    return named if named and TABLE not in given else list(dict.fromkeys([*listed_prices(), *named]))


def _prices(
    on: Sequence[str], machines: Mapping[str, Machine], price: Any, objective: str, set_: Any
) -> dict[str, float]:
    """Dollars of each chip for an hour, where known; none where chips are counted and no price is given."""
    price = TABLE if price is None and objective == "cost" else price
    if price is None:
        return {}
    chips = dict.fromkeys(on)
    each = price_of_each(price, list(chips))
    found = {
        name: hourly_price(resolve(machines.get(name, name), **figures_of(name, on, {"set": set_})), one)
        for name, one in zip(chips, each, strict=True)
    }
    return {name: value for name, value in found.items() if value is not None}


def _numbers_of(name: str, value: Any) -> tuple[int, ...]:
    """Whole numbers, from 0 on, of one or several."""
    several = typed_size(name, value)
    several = several if isinstance(several, list | tuple | range) else array_of(name, several).ravel().tolist()
    return tuple(int(each) if each == 0 else check(name, each) for each in several)


#: Sequences that a replica may have at once.
MOST_AT_ONCE = 2**17


def _check(
    on: Sequence[Any], count: Sequence[int], formats: Sequence[str], objective: str, estimate: str | None,
    draft: Sequence[int],
) -> None:  # fmt: skip
    """Refuse what no plan can be made of."""
    for name in formats:
        check_one_of(f"no format {name!r} of a plan", name, FORMATS, "formats")
    check_one_of(f"no objective {objective!r}", objective, OBJECTIVES, "objectives")
    if not count or min(count) < 1:
        raise InputError("a plan of no chips", hint=f"numbers from 1, as in {spelled('count', '8,16')} or 1:64")
    if len(count) > MOST_COUNTS:
        raise InputError(f"a plan of {len(count):,} numbers of chips", hint=f"at most {MOST_COUNTS:,}, as in 8:4096:*2")
    targets = (each if isinstance(each, str) else getattr(each, "target", "") for each in on)
    counted = next((name for name in targets if ":" in name), None)
    if counted is not None:
        name, _, many = counted.partition(":")
        said = f"{spelled('on', name)} and {spelled('count', int(many))}" if many.isdigit() else spelled("count")
        hint = f"name the kind, {name}, and how many there may be: {said}"
        raise InputError(f"{counted!r} is a number of chips", hint=hint)
    if estimate is not None:
        estimator_of(estimate)
        if draft:
            hint = f"leave out {spelled('estimate')} or {spelled('draft')}"
            raise InputError("no library's speculative steps were measured", hint=hint)


def answer(asked: PlanQuestion, search: Search | None = None, cluster: Cluster | None = None) -> DeploymentPlan:
    """Search for the best of each chip, format and draft, and compare; on a cluster each of these is a block.

    Ctrl-C keeps what is done by then.
    """
    search = search or Search(asked)
    groups = grouped(((replica.chip, replica.formats, replica.draft), replica) for replica in search.replicas)
    work = GroupSearch(asked, tuple(map(tuple, groups.values())))
    bests: dict[int, Assessment | None] = {}
    said = ""
    try:
        for number, best in _bests(search, work, cluster):
            bests[number] = best
    except KeyboardInterrupt:
        if not any(bests.values()):
            raise
        said = f"{stopped(len(bests), len(work.groups), 'chips and formats')}: the others were not searched"
    found = [best for _, best in sorted(bests.items()) if best is not None]
    intervals = {}
    if asked.library is not None and not said:
        for number, best in bests.items():
            if best is not None and best.is_ranked:
                intervals[best.deployment] = cost_interval(search, work.groups[number])
    if asked.disaggregate and not said and (both := best_apart(search)) is not None:
        found.append(both)
    found.sort(key=lambda each: each.order)
    nearest = None if found else search.nearest_miss()
    reasons = search.tally(found, (each for number in bests for each in work.groups[number]))
    return DeploymentPlan(asked, search, tuple(found), nearest, reasons, intervals, said)


def _rejected_row(found: Assessment) -> Row:
    reason = found.reason
    assert reason is not None
    excess = reason.excess if reason.excess < float("inf") else float("nan")
    return _plain_row(found, reason.kind, reason.text, Amount(excess, ""))


def _plain_row(found: Assessment, *own: Cell) -> Row:
    """A deployment as a row of a frame, with columns of its ``own`` kind."""
    each = found.deployment
    hourly = float("nan") if found.cost_per_hour is None else found.cost_per_hour
    times = (float("nan") if time is None else time.percentile for time in (found.first_token, found.per_token))
    return Row((
        found.chip, Amount(found.chips, ""), Amount(each.replica.tensor, ""), each.replica.formats, *own,
        str(each), Amount(hourly, "USD/h"), *(Amount(time, "s") for time in times),
    ))  # fmt: skip


def _bests(search: Search, work: GroupSearch, cluster: Cluster | None) -> Iterator[tuple[int, Assessment | None]]:
    """The best of each group by its number, as they are found."""
    if cluster is None:
        yield from ((number, search.best_of(group)) for number, group in enumerate(counted(work.groups)))
        return
    with cluster.opened() as client:
        for done, (block, each) in enumerate(done_blocks(work, work.blocks(), client), 1):
            yield block.number, search.take(each)
            tell(done, len(work.groups))
