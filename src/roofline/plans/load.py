"""Speculation under load: how many checks an answer takes, and how its tokens a check vary.

A check of a draft of γ tokens, each accepted with probability α if all before it in the draft are, gives K tokens: the
accepted ones and the model's own. An answer ends within its last check, whose further tokens are lost. So with
q = 1 − 1/m an answer of geometric length, m tokens on average, takes

    checks = 1 / (1 − E[q^K]),    P(K = k) = α^(k−1)·(1 − α) for k ≤ γ,  α^γ for k = γ + 1

on average, and their number is geometric again; one of L tokens takes M(L) = 1 + E[M(L − K)].

>>> draft = Acceptance(4, 0.8)
>>> round(draft.mean, 4), round(draft.checks(1e6, "geometric") / 1e6 * draft.mean, 4)
(3.3616, 1.0)
>>> round(draft.checks(127, "geometric"), 2), round(draft.checks(127, "fixed"), 2), round(127 / draft.mean, 2)
(38.25, 38.24, 37.78)
>>> Acceptance(4, 0.0).checks(127, "geometric")
127.0

Source of the model of acceptance: Y. Leviathan, M. Kalman, Y. Matias, arXiv:2211.17192.

A server under load: time per token, time to first token and their percentiles, from its unloaded step times.

Requests arrive at rate λ, each with a prompt to prefill and o tokens to give, the first of them by the prefill. With n
sequences decoding, a step takes t(n), a prompt's prefill takes s(n) and adds h(n) to what the others wait:

    prompts whole      s = P,              h = P                      steps stop while a prompt is prefilled
    in k chunks        s = k·t'(n),        h = k·(t'(n) − t(n))       t' a step with a chunk in it
    m in one chunk     s = t'(n)/m,        h = (t'(n) − t(n))/m       short prompts share a step, up to m
    apart              s = P on others,    h = 0                      prefill has chips of its own
    m at once          s = T/m             a queue of batches         nothing decodes; T is the prefill of m prompts

Each step is prolonged by the prompts that come in during it, and by those that come in during these:

    step(n) = t(n) / (1 − λ·h(n)),        μ(n) = n / ((o − 1)·step(n))

That is a birth–death chain, up to the N sequences that memory or the engine admits. While requests wait for a place,
each that leaves lets one in: μ = N / ((o − 1)·t(N) + N·h(N)), which is also the largest stable rate. With chunks one
place at a time is filled, which holds no sequence that decodes: places are a chain of their own, whose rates are the
largest with as many. By Little's law the mean time per token is E[n] / (λ·(o − 1)). Prompts queue for prefill as M/G/1
whose server first finishes the step it is in (a vacation). Time to first token: the wait for a place, the wait for
prefill, and s.

>>> server = ServerTimes.of(step=np.full(65, 0.02), prompt=0.05, output=129)
>>> round(server.largest_rate, 2)                               # 64 / (128·20 ms + 64·50 ms)
11.11
>>> found = server.under(5.0)
>>> round(found.time_per_token.mean * 1e3, 2), round(found.in_flight, 1)       # a little over 20 ms / (1 − 5·50 ms)
(27.19, 17.1)

Lengths of answers are geometric where nothing is said: the chain is then exact for steps of any times. All rates follow
from step times; nothing is fitted. Percentiles of a request's mean gap follow it over a lifetime: t(n) averages out as
far as the chain forgets its state in that time, and prompts stop it for busy periods of prefill.

Sources: L. Kleinrock, "Queueing Systems" vol. 2 (1976), chapter 4 (processor sharing); A. Agrawal et al.,
"Sarathi-Serve", arXiv:2403.02310 (chunks); :mod:`roofline.plans.queueing` for the queues.
"""

from __future__ import annotations

from functools import cache, cached_property
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np

from roofline.answers import attributes
from roofline.errors import InputError, check_one_of
from roofline.frozen import dataclass, fields, kept, once, replace
from roofline.models.description import Model
from roofline.models.serving.speculation import check_acceptance, check_draft, expected_tokens
from roofline.plans.queueing import (
    POINTS,
    BirthDeathChain,
    FilledSteps,
    Mixture,
    SingleServerQueue,
    TimeDistribution,
    equal_shares,
    erlang_b,
    exponential_beyond,
    share_means,
    weighted_percentile,
)

#: Times the longest check after which the checks of an answer grow with its length alone.
SETTLED = 40


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A draft of ``length`` tokens, each accepted with probability ``chance`` if all before it are."""

    length: int
    chance: float

    def __post_init__(self) -> None:
        check_draft(self.length)
        check_acceptance(self.chance)

    @property
    def mean(self) -> float:
        """Mean tokens a check gives."""
        return float(expected_tokens(self.length, self.chance))

    @once
    def chances(self) -> Any:
        """Probabilities of 1 to γ + 1 tokens a check."""
        powers = self.chance ** np.arange(self.length + 1, dtype=np.float64)
        return np.append(powers[:-1] * (1 - self.chance), powers[-1])

    @property
    def variance(self) -> float:
        """Variance of the tokens a check gives."""
        numbers = np.arange(1, self.length + 2)
        return float(self.chances @ (numbers - self.mean) ** 2)

    def checks(self, tokens: float, lengths: str) -> float:
        """Mean checks of an answer of so many tokens after its first; ``lengths`` are ``geometric`` or ``fixed``."""
        return _checks(self, float(tokens), lengths)

    def checks_of(self, tokens: Any) -> Any:
        """Mean checks of answers of exactly so many tokens: whole numbers in an array."""
        means = _renewals(self)
        beyond = np.maximum(tokens - (len(means) - 1), 0)
        return means[np.minimum(tokens, len(means) - 1)] + beyond / self.mean

    def spread(self, tokens: Any) -> Any:
        """Standard deviation of the checks of so many tokens, over their mean: of a renewal process."""
        return np.sqrt(self.variance / np.maximum(tokens, 1.0) / self.mean)

    def draw(self, random: Any, tokens: Any) -> Any:
        """Checks of single answers of so many tokens each, drawn at random."""
        left, found = np.array(tokens, dtype=np.int64), np.zeros(len(tokens), dtype=np.int64)
        while (open_ := np.flatnonzero(left > 0)).size:
            found[open_] += 1
            left[open_] -= random.choice(self.length + 1, size=open_.size, p=self.chances) + 1
        return found


@dataclass(frozen=True, slots=True)
class Speculating:
    """Drafts that are tried: their ``lengths``, the ``acceptance``, what drafts, and the format of its matrices.

    ``by`` is a model, ``mtp``, or a share of a step, as in :func:`roofline.models.serving.speculation.speculate`.
    """

    lengths: tuple[int, ...] = ()
    acceptance: float = 0.8
    by: Model | str | float = 0.1
    weights: str | None = None

    def __post_init__(self) -> None:
        for length in self.lengths:
            self.of(length)

    def of(self, length: int) -> Acceptance | None:
        """The acceptance of drafts of so many tokens; None of no draft."""
        return Acceptance(length, self.acceptance) if length else None

    @property
    def model(self) -> str | None:
        """The name of the model that drafts, where there is one."""
        return None if isinstance(self.by, int | float) else self.by if isinstance(self.by, str) else self.by.name

    @property
    def said(self) -> str:
        """What drafts, in words."""
        if self.model is None:
            return f"what takes {self.by:g} of a step"
        name = "its own prediction layers" if self.model == "mtp" else self.model
        return name if self.weights is None else f"{name} in {self.weights}"


@cache
def _checks(draft: Acceptance, tokens: float, lengths: str) -> float:
    if tokens <= 1:
        return max(tokens, 0.0)
    if lengths == "fixed":
        return float(draft.checks_of(np.array(round(tokens))))
    # 1 − E[q^K], without the difference of two numbers near 1
    ends = -np.expm1(np.arange(1, draft.length + 2) * np.log1p(-1 / tokens))
    return 1 / float(draft.chances @ ends)


@cache
def _renewals(draft: Acceptance) -> Any:
    """M(L) by its recursion, as far as it takes to be a straight line."""
    means = [0.0] * (draft.length + 1)
    for _ in range(SETTLED * (draft.length + 1)):
        means.append(1 + sum(float(chance) * means[-back] for back, chance in enumerate(draft.chances, 1)))
    return np.array(means[draft.length :])


#: Points at which lengths, states and numbers of stalls are taken for percentiles.
QUANTILES = 24

#: Points at which the tokens of a draft's checks are taken for percentiles.
DRAWN = 8

#: Utilisations for which busy periods are tabulated, between 0 and 1.
SHARES = 256

#: States of equal shares in which the queue for prefill in chunks is taken as settled.
STATES = 6

#: An order of points that pairs two distributions as if they were independent.
PAIRED = (np.arange(QUANTILES) * 7) % QUANTILES

#: Distributions of an answer's length, by the squared coefficient of variation of its decode steps.
LENGTHS = {"geometric": 1.0, "fixed": 0.0}


@dataclass(frozen=True, slots=True)
class LatencyUnderLoad:
    """A time under load in seconds: its mean, and the percentile asked for."""

    mean: float
    percentile: float

    def __add__(self, other: LatencyUnderLoad | float) -> LatencyUnderLoad:
        more = other if isinstance(other, LatencyUnderLoad) else LatencyUnderLoad(other, other)
        return LatencyUnderLoad(self.mean + more.mean, self.percentile + more.percentile)

    def __mul__(self, times: float) -> LatencyUnderLoad:
        return LatencyUnderLoad(self.mean * times, self.percentile * times)

    def to_dict(self) -> dict[str, Any]:
        """Both, in seconds."""
        return attributes(self, "mean", "percentile")


@dataclass(frozen=True, slots=True, eq=False)
class ServerTimes:
    """What a server takes without load: seconds by the number n that decode, n from 0 (unused) to the most.

    ``step[n]`` is t, ``service[n]`` s, ``stall[n]`` h of the module. ``spread`` lists prompts of other lengths by their
    share and their work over the mean's. ``lengths`` is ``geometric`` or ``fixed``. With a ``draft`` a step drafts and
    checks, and gives each sequence several tokens. ``together`` prompts share a step, with a part of a chunk each.
    Where nothing decodes a step of k prompts takes ``filled[k]``, or t for what they wait for once and h for each.
    """

    step: Any
    service: Any
    stall: Any
    output: float
    spread: tuple[tuple[float, float], ...] = ((1.0, 1.0),)
    lengths: str = "geometric"
    arrival_variation: float = 1.0
    chunks: float = 0
    draft: Acceptance | None = None
    together: int = 1
    filled: Any = None

    @classmethod
    def of(
        cls, *, step: Any, prompt: float, output: float, mixed: Any = None, chunks: float = 1, apart: bool = False,
        **more: Any,
    ) -> ServerTimes:  # fmt: skip
        """Take a server's times: ``prompt`` whole, or in ``chunks`` of a ``mixed`` step each; ``apart`` on others."""
        step = np.asarray(step, dtype=np.float64)
        check_one_of(f"no lengths {more.get('lengths')!r}", more.get("lengths", "geometric"), LENGTHS, "lengths")
        if mixed is None:
            service = np.full_like(step, 0.0 if apart else prompt)
            return cls(step, service, service, output, **more)
        mixed = np.asarray(mixed, dtype=np.float64)
        return cls(step, chunks * mixed, chunks * np.maximum(mixed - step, 0.0), output, chunks=chunks, **more)

    @property
    def most(self) -> int:
        """The most sequences that decode at once."""
        return len(self.step) - 1

    @property
    def decode_steps(self) -> float:
        """Decode steps of an answer, on average."""
        return self.output - 1 if self.draft is None else self.draft.checks(self.output - 1, self.lengths)

    def steps_within(self, share: float) -> float:
        """The decode steps that so large a share of answers stay within.

        >>> answers = ServerTimes.of(step=np.full(9, 0.02), prompt=0.05, output=101)
        >>> answers.steps_within(0.5), answers.steps_within(0.95)                      # ln 0.05 / ln 0.99
        (69.0, 299.0)
        """
        mean = self.decode_steps
        if not LENGTHS[self.lengths] or mean <= 1:
            return mean
        return float(np.ceil(np.log1p(-share) / np.log1p(-1 / mean)))

    @property
    def burst(self) -> float:
        """Mean size of the groups in which requests come: by it the number in flight varies as by their arrivals.

        Where many are served at once its variance is (1 + c²)/2 times that of Poisson arrivals, and groups of geometric
        size with mean b have b times (W. Whitt, "Heavy-traffic approximations for service systems with blocking", AT&T
        Bell Labs Technical Journal 63 (1984)).
        """
        return max(1.0, (1 + self.arrival_variation) / 2)

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a step gives each sequence, on average: 1 without a draft."""
        return 1.0 if self.draft is None or self.output <= 1 else (self.output - 1) / self.decode_steps

    @property
    def unloaded_gaps(self) -> Any:
        """Seconds a token where all places are taken and one prompt comes in for each answer, by the number at work."""
        steps = max(self.decode_steps, 1e-12)
        return (self.step + self.stall / steps) / self.tokens_per_step

    @property
    def largest_rate(self) -> float:
        """The largest rate at which waiting requests do not pile up: ``x / (t(m) + x·h(m))``, x let in a step.

        That many begin to decode in each step, so that m = x·(o − 1) do: :meth:`_let_in`.
        """
        return float(self.rates(self.most))

    @property
    def saturated(self) -> tuple[int, bool]:
        """How many decode at the largest rate, and whether prompts then take more of the time than steps alone.

        A step with a chunk beside counts as the prompt's.

        >>> ServerTimes.of(step=np.full(65, 0.02), prompt=0.05, output=129).saturated      # 64·50 ms > 128·20 ms
        (64, True)
        """
        if self.decode_steps <= 0:
            return 0, True
        let_in = float(self._let_in(self.most))
        n = max(1, round(let_in * self.decode_steps))
        prompts = let_in * self.service[n]
        return n, bool(prompts > self.step[n] + let_in * self.stall[n] - prompts)

    @property
    def apart(self) -> bool:
        """Whether prompts and steps do not wait for each other: prefill apart. Chunks that cost nothing wait too."""
        return not self.chunks and float(self.stall.max()) <= 0

    def rates(self, n: Any) -> Any:
        """The largest rate with n places."""
        if self.decode_steps <= 0:
            return np.full(np.shape(n), 1 / self.service[0])
        let_in, each = self._let_in(n), np.arange(self.most + 1)
        step, stall = (np.interp(let_in * self.decode_steps, each, time) for time in (self.step, self.stall))
        return let_in / (step + let_in * stall)

    def _let_in(self, n: Any) -> Any:
        """Requests that begin to decode in a step where n places are never left empty: n / D of prompts taken whole.

        A place takes k steps with a chunk and D others, and one at a time is with its chunks: n / (k + D), 1 / k at
        most. With geometric lengths places wait for each other, as those of n machines with one repairman. Where
        chunks are exponential the chance that none is filled is Erlang's B(n, D/k); as they are even, it is nearer to
        B(2n, 2·D/k) (W. Hayward's approximation) the more places there are.

        >>> even, drawn = (
        ...     ServerTimes.of(step=np.ones(9), prompt=0, mixed=np.ones(9), chunks=2, output=17, lengths=each)
        ...     for each in ("fixed", "geometric")
        ... )
        >>> even.rates(np.array([1, 4, 8])).round(3), drawn.rates(np.array([1, 4, 8])).round(3)
        (array([0.056, 0.222, 0.444]), array([0.056, 0.22 , 0.402]))
        """
        steps = self.decode_steps
        if not self.chunks:
            return n / steps
        chunks, steps = self.chunks, steps + max(1 - self.chunks, 0.0)
        if not LENGTHS[self.lengths]:
            return np.minimum(n / (steps + chunks), 1 / chunks)
        one, two = (erlang_b(times * self.most, times * steps / chunks)[times * np.asarray(n)] for times in (1, 2))
        return (1 - two - (one - two) / np.sqrt(n)) / chunks

    def limited_to(self, most: int) -> ServerTimes:
        """The server with at most so many sequences at once."""
        most = min(most, self.most)
        kept = {name: getattr(self, name)[: most + 1] for name in ("step", "service", "stall")}
        return replace(self, **kept)

    def takes_as_long_as(self, other: ServerTimes) -> bool:
        """Whether all times are the same, and so are those of a request under any load."""
        return all(np.array_equal(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    def one_of(self, copies: int) -> ServerTimes:
        """The server as one of so many that requests go to at random: each sees c²/r + 1 − 1/r (renewals thinned).

        >>> bursts = ServerTimes.of(step=np.full(9, 0.02), prompt=0.05, output=129, arrival_variation=4.0)
        >>> bursts.one_of(1).arrival_variation, bursts.one_of(3).arrival_variation
        (4.0, 2.0)
        """
        return replace(self, arrival_variation=1 + (self.arrival_variation - 1) / copies)

    def stalled(self, rate: float) -> Any:
        """Share of time that prompts hold the others up, by the number that decode."""
        return np.minimum(rate * self.stall, 1 - 1e-9)

    def prolonged(self, rate: float) -> Any:
        """Seconds of a step with the prompts that come in during it, by the number that decode."""
        step = self.step / (1 - self.stalled(rate))
        return np.minimum(step, self.step + self.stall / self.chunks) if self.chunks else step

    def _groups(self, stopped: float = 0.0) -> float:
        """Mean size of groups by which the number that decodes varies as it does, the chain's lives being exponential.

        In groups of X the number of infinitely many servers has ``1 + (E[X²]/E[X] − 1)·∫P(L > t)²dt / E[L]`` times the
        variance of one by one: half of the excess for exponential lives L, all of it for fixed ones. Those that come
        while a share ``stopped`` of time stops the chain begin together: E[X²]/E[X] = (2b − 1)/(1 − stopped)².
        """
        alike = (1 - LENGTHS[self.lengths]) * min(1.0, self.arrival_variation)
        return self.burst + alike * (self.burst - (1 + (1 - stopped) ** 2) / 2)

    def chain(self, rate: float) -> BirthDeathChain:
        """The chain of sequences that decode, in the time that prompts leave to decode where they stop it."""
        n = np.arange(1, self.most + 1)
        if self.chunks or self.apart or self.arrival_variation < 1:
            steps = self.prolonged(rate)[1:].copy()
            steps[-1] = self.step[-1]  # with all places taken and none waiting no prompt comes in
            most = float(self.rates(self.most))
            varies = self.arrival_variation
            return BirthDeathChain.of(rate, n / (self.decode_steps * steps), most, self._groups(), varies)
        # a prompt that comes stops the steps until none waits for prefill: these begin to decode together
        stop = float(self.stall[0])
        service = n / (self.decode_steps * self.step[1:])
        return BirthDeathChain.stopped(rate, service, stop, self._groups(min(rate * stop, 1.0)))

    def under(self, rate: float, percentile: float = 0.95, handover: float | None = None) -> LoadedServer:
        """Times at a rate of requests a second; ``handover`` as :class:`LoadedServer` has it."""
        if not 0 < rate < self.largest_rate:
            wrong = f"{rate:g} requests/s are not below the {self.largest_rate:.4g}/s of this server"
            raise InputError(wrong, hint="a lower rate, or more servers")
        return LoadedServer(self, rate, percentile, handover)


class LoadedServer:
    """A server at a rate: what a request waits and what a token takes. Worked out when it is asked for.

    ``handover`` seconds pass between a prefill elsewhere and this server: they and the wait for a place come before the
    second token of a request.
    """

    def __init__(self, server: ServerTimes, rate: float, percentile: float, handover: float | None = None) -> None:
        self.server, self.rate, self.share, self.handover = server, rate, percentile, handover
        self.chain = server.chain(rate) if server.decode_steps > 0 else None

    @property
    def utilisation(self) -> float:
        """The rate over the largest stable one."""
        return self.rate / self.server.largest_rate

    @property
    def in_flight(self) -> float:
        """Mean number of sequences that decode: by Little's law ``λ`` times how long one does."""
        values, weights, lengths = self._gaps
        return self.rate * float(np.sum(values * weights * lengths))

    @property
    def time_per_token(self) -> LatencyUnderLoad:
        """The mean gap between the tokens of a request: its mean over requests and its percentile."""
        values, weights = self._token_gaps
        if self.handover is not None:
            gaps, tokens = self._requests
            waits = self._taken_over.quantiles(gaps.shape[1])[(np.arange(gaps.shape[1]) * 7) % gaps.shape[1]]
            values = gaps[:, :, None] + (self.handover + waits)[:, None] / tokens[:, None, :]
            weights = np.full(values.shape, 1 / values.size)
        return LatencyUnderLoad(float(np.sum(values * weights)), weighted_percentile(values, weights, self.share))

    @cached_property
    def _token_gaps(self) -> tuple[Any, Any]:
        """Mean gaps between tokens of requests, and their weights: of steps, by the tokens these give each.

        The number of checks of an answer is near normal, and a check gives 1 to γ + 1 tokens.
        """
        values, weights, _ = self._gaps
        draft = self.server.draft
        if draft is None or self.chain is None:
            return values, weights
        z = _normal_points()[QUANTILES // (2 * DRAWN) :: QUANTILES // DRAWN]
        z = z / np.sqrt(np.mean(z**2))
        # checks a token by the length of the answer, on average and as they vary
        a_token = self._answers[2]
        spread = draft.spread(self._answers[0] * self.server.tokens_per_step)
        varied = np.clip(a_token[:, None] * (1 + spread[:, None] * z), 1 / (draft.length + 1), 1.0)
        varied = varied.reshape(len(a_token), *[1] * (values.ndim - 1), DRAWN)
        return values[..., None] * varied, np.broadcast_to((weights / DRAWN)[..., None], (*values.shape, DRAWN))

    @cached_property
    def _requests(self) -> tuple[Any, Any]:
        """Mean gaps of requests at equal shares, by the length of answers; and tokens after the first, by its parts."""
        lengths, _, a_token, each = self._answers
        gaps = np.sort(self._token_gaps[0].reshape(len(lengths), -1), axis=1)
        gaps = gaps.reshape(len(lengths), QUANTILES if len(lengths) > 1 else gaps.shape[1], -1).mean(axis=-1)
        return gaps, each / a_token[:, None]

    @property
    def _decoding(self) -> TimeDistribution:
        """The distribution of the time from the first token of a request to its last: its gaps times its length."""
        gaps, tokens = self._requests
        times = (gaps[:, :, None] * tokens[:, None, :]).ravel()
        step = max(float(times.max()), 1e-9) / (POINTS - 2)
        return TimeDistribution(step, Mixture(times, np.full(len(times), 1 / len(times))).lattice(step, POINTS))

    def end_to_end(self, before: LoadedServer | None = None) -> LatencyUnderLoad:
        """The time until a request has its last token, over requests: of answers as long as they are.

        Prompts are prefilled ``before`` where that has servers of its own.
        """
        prefill = self if before is None else before
        first, until = prefill.time_to_first_token, prefill.first_token()
        if self.chain is None:
            return first
        found, mean = self._decoding, first.mean + self.in_flight / self.rate
        more = first.percentile - until.percentile(self.share)  # of prompts that share a step, a part beyond it
        if self.handover is not None:
            found = self._taken_over.joined(found)
            mean, more = mean + self._taken_over.mean + self.handover, more + self.handover
        return LatencyUnderLoad(mean, until.joined(found).percentile(self.share) + more)

    @cached_property
    def _taken_over(self) -> TimeDistribution:
        """The wait of a request that is handed over: for a place, and for the end of the step that is at work."""
        rest = self._step_at_work
        step = max(float(rest.values.max()), 1e-9) / POINTS
        return self.first_token().joined(TimeDistribution(step, rest.lattice(step, POINTS)))

    @cached_property
    def _answers(self) -> tuple[Any, Any, Any, Any]:
        """Decode steps of answers: means over equal shares, these, steps a token, and means over parts of each."""
        tokens, kind, draft = self.server.output - 1, self.server.lengths, self.server.draft
        if kind == "fixed" or tokens <= 1:
            one = tokens if draft is None else draft.checks(tokens, kind)
            return np.array([one]), np.array([1.0]), np.array([one / tokens]), np.array([[one]])
        numbers = np.arange(1, int(20 * tokens) + 2)
        chances = (1 - 1 / tokens) ** (numbers - 1) / tokens
        shares, steps = np.full(QUANTILES, 1 / QUANTILES), numbers if draft is None else draft.checks_of(numbers)
        each = np.ones(QUANTILES) if draft is None else share_means(chances, steps / numbers, QUANTILES)
        parts = share_means(chances, steps, QUANTILES**2).reshape(QUANTILES, QUANTILES)
        return parts.mean(axis=1), shares, each, parts

    @cached_property
    def _gaps(self) -> tuple[Any, Any, Any]:
        """Mean gaps of requests, their weights and lengths: by length, by state met, by prompts that come between."""
        chain, server = self.chain, self.server
        if chain is None:
            return np.zeros(1), np.ones(1), np.zeros(1)
        met, plain, waits = self._entered
        lengths, shares, *_ = self._answers
        forgets, mean = chain.relaxation_time(server.step), float(plain.mean())
        life = lengths * mean if not (server.chunks or server.apart) else lengths * float(self._steps[met].mean())
        kept = np.sqrt(_share_kept(life / forgets)) if forgets > 0 else np.ones_like(lengths)
        # by length, by state: what is met, drawn to the mean as far as a life averages over it
        decoding = mean + kept[:, None] * (plain[None, :] - mean)
        each = np.broadcast_to(shares[:, None] / QUANTILES, decoding.shape)
        if server.apart:
            return decoding, each, np.broadcast_to(lengths[:, None], decoding.shape)
        stall = self._stalled_in_chunks if server.chunks else self._stalled_whole
        extra = stall(lengths[:, None], decoding, waits[None, :], met)
        extra = extra * self._met_with_few_places(float(shares @ extra.mean(axis=(1, 2))))
        # numbers of even arrivals vary less than Poisson ones
        usual = extra.mean(axis=-1, keepdims=True)
        extra = usual + (extra - usual) * min(1.0, server.arrival_variation) ** 0.5
        values = decoding[..., None] + extra / lengths[:, None, None]
        weights = np.broadcast_to(each[..., None] / QUANTILES, values.shape)
        return values, weights, np.broadcast_to(lengths[:, None, None], values.shape)

    def _met_with_few_places(self, stalls: float) -> float:
        """Share of the mean ``stalls`` of a request that it meets: none comes in while all places are taken.

        One that is let in stops as many as one that leaves leaves behind. The chain knows groups the less the larger
        they are. In chunks one is let in while a place is free; long stalls, which percentiles show, last until the end
        of a request as before, so that half of the reduction (its root) is taken.
        """
        chain, server = self.chain, self.server
        assert chain is not None
        each = np.arange(chain.capacity + 1) * server.stall
        if server.chunks:
            state, usual = chain.in_flight, float(chain.in_flight @ each)
            met = float(state[:-1] @ each[:-1]) / max(float(state[:-1].sum()), 1e-30)
        else:
            met, usual = float(self._at_work[1:] @ each[:-1]) / float(self._at_work.sum()), stalls
        reduced: float = min(1.0, met / max(usual, 1e-30)) ** ((0.5 if server.chunks else 1.0) / server.burst**0.5)
        return reduced

    @cached_property
    def _entered(self) -> tuple[Any, Any, Any]:
        """What requests meet when they begin to decode: the number that then do, its step, and how long they waited.

        Each at the middles of equal shares; waits in an order of their own, as they are taken as independent.
        """
        chain, server = self.chain, self.server
        assert chain is not None
        state = self._at_work
        met = equal_shares(state, QUANTILES)
        waits = self._prefilled.quantiles(QUANTILES)
        # what waits for a place is let in alone: nothing that came meanwhile stops its first step
        waits[QUANTILES - round(chain.waiting_probability * QUANTILES) :] = 0.0
        waits = waits[PAIRED]
        return met, share_means(state, server.step, QUANTILES), waits

    @cached_property
    def _steps(self) -> Any:
        return self.server.prolonged(self.rate)

    @property
    def _at_work(self) -> Any:
        """Probability of each number that decode, times how many of them leave in a time."""
        chain, server = self.chain, self.server
        assert chain is not None
        steps = self._steps if server.chunks or server.apart else server.step
        return np.append(0.0, chain.in_flight[1:] * np.arange(1, chain.capacity + 1) / steps[1:])

    def _stalled_whole(self, lengths: Any, decoding: Any, waits: Any, met: Any) -> Any:
        """Seconds that prompts stop a request for, at equal shares: busy periods of prefill.

        Those that came while it waited and was prefilled stop its first step; those that come in each of its steps
        stop the next.
        """
        prompt, busy = float(self.server.stall[0]), float(self.server.stalled(self.rate)[0])
        relative = sum(share * work**2 for share, work in self.server.spread)
        first, unit = prompt / (1 - busy), prompt * relative
        # the first stop ends when all places are taken
        came = (self._came_in(waits) + _behind_in_group(self.server.burst)) * first
        at_first = np.minimum(came, (self.server.most - met) * prompt)
        later = self.rate * (lengths - 1) * decoding * first
        # the rest comes in as others leave, and stops all that decode: at most one for each that leaves
        full = (self.server.most - 1) * lengths / self.server.decode_steps * prompt
        rest = later * (1 + float((came - at_first).mean()) / max(float(later.mean()), 1e-30))
        later = np.maximum(later, np.minimum(rest, full))
        found = busy_period_points((at_first + later) * (1 - busy) / unit, busy) * unit
        if LENGTHS[self.server.lengths] or self.server.draft is not None:
            return found
        # of answers that all take as many steps each other place begins one meanwhile, at most
        return _within(found, (self.server.most - 1) * prompt * max(work for _, work in self.server.spread), found)

    def _stalled_in_chunks(self, lengths: Any, decoding: Any, waits: Any, met: Any) -> Any:
        """Seconds by which chunks lengthen a request's steps: all of them while prompts before its end are left."""
        server = self.server
        beside = np.maximum(server.stall[met] / server.chunks, 0.0)[None, :, None]
        busy = np.minimum(self.rate * server.service[met], 0.98)[None, :, None]
        often = np.minimum(1.0, self.rate * server.chunks * self._steps[met])[None, :, None]
        chunks, lengths = server.chunks, lengths[..., None]
        # those that came while it waited, each with those it brings on: a busy period of chunks, cut off at its end
        came = np.broadcast_to(self._came_in(waits) + (self.server.burst - 1), (len(lengths), QUANTILES))
        first = np.minimum(chunks * self._by_state(came, busy), lengths)[..., PAIRED]
        # in the steps that are left none is at work at first; then busy and idle periods alternate
        left = lengths - first
        forgets = np.maximum((1 - often) * chunks / (1 - busy), 1e-9)
        mean = often * (left + forgets * np.expm1(-left / forgets))
        # they do not overlap: their number varies less than a Poisson one
        unit = chunks * (1 - often * left / (left + chunks / (1 - busy) ** 2)) ** 2
        later = unit * self._by_state(mean * (1 - busy) / unit, busy, paired=True)
        return (first + _within(later, left, mean)) * beside  # none outlasts the request

    def _came_in(self, waits: Any) -> Any:
        """Requests that came behind one while it waited: in a renewal process (1 − c²)/2 fewer where they are even."""
        return np.maximum(self.rate * waits - max(1 - self.server.arrival_variation, 0.0) / 2, 0.0)

    def _by_state(self, means: Any, busy: Any, **how: bool) -> Any:
        """Customers of busy periods by length, state and share; neighbouring states have one mean ``busy``."""
        parts = np.array_split(np.arange(busy.shape[1]), STATES)
        found = [busy_period_points(means[:, some], float(busy[0, some].mean()), **how) for some in parts]
        return np.concatenate(found, axis=1)

    @property
    def token_gap(self) -> LatencyUnderLoad:
        """The gap between two tokens, over all tokens: its mean and its percentile."""
        if self.chain is None:
            return LatencyUnderLoad(0.0, 0.0)
        met, plain, _ = self._entered
        stall = self.server.stall[met]
        if self.server.chunks:
            mixed = plain + stall / self.server.chunks
            often = np.minimum(1.0, self.rate * self.server.chunks * self._steps[met])
            values, weights = np.stack([plain, mixed]), np.stack([1 - often, often]) / QUANTILES
        else:
            # prompts that stop the step: those that come in it, and in each other's prefill
            busy = self.server.stalled(self.rate)[met]
            numbers = np.arange(int(8 / (1 - float(busy.max())) ** 2 + 8 * self.rate * float(plain.max())) + 8)
            weights = busy_period_chances((self.rate * plain)[:, None], busy[:, None], numbers) / QUANTILES
            values = plain[:, None] + numbers * stall[:, None]
        mean = self.in_flight / (self.rate * self.server.decode_steps)
        if self.handover is not None:  # the first gap of each request is longer
            more, of = self.handover + self._taken_over.mean, 1 / self.server.decode_steps
            values, weights = np.stack([values, values + more]), np.stack([weights * (1 - of), weights * of])
            mean += more * of
        several = self.server.tokens_per_step
        if several > 1:  # the others of a step come with its first
            values, weights = np.append(values.ravel(), 0.0), np.append(weights.ravel() / several, 1 - 1 / several)
        return LatencyUnderLoad(mean / several, weighted_percentile(values, weights, self.share))

    @cached_property
    def _prefill_queues(self) -> list[tuple[float, SingleServerQueue]]:
        """The queue for prefill, and its weight: where chunks go beside steps, of none that decode and of some states.

        A state lasts long against the wait of a prompt, so the queue is taken as settled in each.
        """
        server = self.server
        shares, work = np.array(server.spread).T

        def queue(n: int, rest: Mixture | None) -> SingleServerQueue:
            times = Mixture(server.service[n] * work, shares)
            places = np.inf if self.chain is None else server.most  # no other term has waits for a place without it
            return SingleServerQueue(self.rate, times, rest, server.arrival_variation, places)

        if self.chain is None:
            return [(1.0, queue(0, None))]
        rest = self._step_at_work
        if not server.chunks:
            return [(1.0, queue(0, rest))]
        idle, steps = float(rest.weights[0]), rest.values
        states = equal_shares(np.append(0.0, rest.weights[1:]), STATES)
        likely = [(idle, 0), *(((1 - idle) / STATES, int(n)) for n in states)]
        return [(share, queue(n, Mixture(steps[n : n + 1], np.ones(1), uniform=True))) for share, n in likely]

    @property
    def _step_at_work(self) -> Mixture:
        """What is left of the step that a request meets; a place that is waited for is free at the end of one."""
        assert self.chain is not None
        step = np.concatenate([[0.0], self.server.step[1:-1], [0.0]])
        return Mixture(step, self.chain.in_flight, uniform=True)

    @kept
    def first_token(self) -> TimeDistribution:
        """The distribution of the time to first token: the waits for a place and for prefill, and prefill."""
        chance, wait = self._place()
        found = self._prefilled
        return found.and_then(exponential_beyond(chance, wait, found.step))

    @cached_property
    def _prefilled(self) -> TimeDistribution:
        """The distribution of the wait for prefill and prefill."""
        chance, wait = self._place()
        if self.server.apart and self.chain is not None:
            return TimeDistribution((1e-9 + 8 * wait) / POINTS, np.eye(1, POINTS)[0])
        shares, queues = zip(*self._prefill_queues, strict=True)
        span = max(queue.horizon() for queue in queues) + (8 * wait if chance > 1e-4 else 0.0)
        found = [queue.wait(span, served=True) for queue in queues]
        return TimeDistribution(found[0].step, np.array(shares) @ np.array([each.probability for each in found]))

    @cached_property
    def _filled(self) -> LatencyUnderLoad:
        """The time of a prompt where nothing decodes and each step takes all that wait. Even arrivals wait less."""
        server = self.server
        times = server.filled
        if times is None:
            times = server.step[0] + server.stall[0] * np.arange(round(1 / server.chunks) + 1)
        found = FilledSteps(self.rate, times, server.burst).solved(self.share)
        even = min(1.0, (1 + server.arrival_variation) / 2)
        return LatencyUnderLoad(*(float(times[1] + (each - times[1]) * even) for each in found))

    @property
    def _shared_step(self) -> float:
        """Seconds that a prompt waits for beyond its own share of a step that it shares.

        A prompt adds h to a step of t, and half of those that come in a step are behind it.
        """
        server, together = self.server, self.server.together
        n = np.arange(server.most + 1)
        step, stall = (float(np.interp(self.in_flight, n, each)) for each in (server.step, server.stall))
        share = server.chunks * together
        come = min(together, max(1.0, self.rate * share * (step + stall / server.chunks)))
        return step * share * (1 - 1 / together) + (come - 1) / 2 * stall / share

    @kept
    def _place(self) -> tuple[float, float]:
        """The chance that a request waits for a place, and its mean wait then."""
        if self.chain is None:
            return 0.0, 0.0
        server, even = self.server, min(1.0, self.server.arrival_variation)
        chain, varies = self.chain, LENGTHS[server.lengths]
        if server.chunks:  # a place is held while it is filled too, which takes as long for all prompts
            n = np.arange(1, server.most + 1)
            rates = server.rates(n)
            chain = BirthDeathChain.of(self.rate, rates, None, server._groups(), server.arrival_variation)
            varies *= min(1.0, float(server.decode_steps * server.step[-1] * rates[-1] / server.most)) ** 2
        chance, wait = chain.waiting_probability, chain.mean_wait
        if even < 1 and not (server.chunks or server.apart):
            # the chain of even arrivals takes the stops as spread evenly: the less so, the less even they are
            other, part = replace(server, arrival_variation=1.0).chain(self.rate), even**2
            chance += (other.waiting_probability - chance) * part
            wait += (other.mean_wait * (1 + even) / 2 - wait) * part
        if chance < 1e-12:
            return 0.0, 0.0
        # arrivals are in the chain, as are lengths that are geometric
        return chance, wait / chance * (varies + even) / (1 + even)

    @cached_property
    def time_to_first_token(self) -> LatencyUnderLoad:
        """The time until a request has its first token."""
        if self.chain is None and self.server.together > 1:
            return self._filled
        chance, wait = self._place()
        if self.server.apart and self.chain is not None:
            return LatencyUnderLoad(chance * wait, self.first_token().percentile(self.share))
        if self.server.arrival_variation == 1:
            mean = sum(share * (queue.mean_wait + queue.service.mean) for share, queue in self._prefill_queues)
        else:
            mean = self._prefilled.mean
        found = LatencyUnderLoad(mean + chance * wait, self.first_token().percentile(self.share))
        if self.server.together == 1:
            return found
        return found + self._shared_step


Time = TypeVar("Time", float, LatencyUnderLoad)


def request_times(first: Time, gap: Time, last: Time) -> dict[str, Time]:
    """The times of a request that a limit may be set on: its first token, each further one, the last one."""
    return {"first_token": first, "per_token": gap, "end_to_end": last}


def _within(values: Any, most: Any, mean: Any) -> Any:
    """Values along the last axis, none above ``most``; their mean is that of ``mean`` where there is room for it."""
    kept = np.minimum(values, most)
    short, room = ((each - kept).mean(axis=-1, keepdims=True) for each in (mean, most))
    return kept + (most - kept) * np.clip(short / np.maximum(room, 1e-30), 0.0, 1.0)


def _share_kept(times: Any) -> Any:
    """Variance of a mean over u relaxation times, over that of a moment: 2·(u − 1 + e^−u) / u²."""
    u = np.maximum(times, 1e-6)
    return np.where(u < 1e-3, 1 - u / 3, 2 * (u + np.expm1(-u)) / u**2)


def _behind_in_group(burst: float) -> Any:
    """How many stand behind a request in its group, of geometric size: at equal shares, in an order of their own.

    >>> round(float(_behind_in_group(2.5).mean()), 3)
    1.5
    """
    numbers = np.arange(int(40 * burst))
    chances = (1 - 1 / burst) ** numbers / burst
    return share_means(chances, numbers, QUANTILES)[(np.arange(QUANTILES) * 5) % QUANTILES]


def busy_period_points(means: Any, busy: float, *, paired: bool = False) -> Any:
    """Customers served in busy periods that begin with Poisson numbers of them: at equal shares, on a last axis.

    ``paired``: the last axis of ``means`` is that of the shares, a mean for each; else each mean gets all shares.

    Each brings a Poisson number of others, ``busy`` on average, while it is served. So n are served with probability

        m·(m + n·ρ)^(n − 1)·e^−(m + n·ρ) / n!,    with mean m / (1 − ρ), and the Poisson distribution at ρ = 0

    (P. Consul, G. Jain, "A generalization of the Poisson distribution", Technometrics 15 (1973)). Between a table's
    means linear in their root; beyond it by the normal distribution with the skew of this one. Means are kept.
    """
    means = np.maximum(np.asarray(means, dtype=np.float64), 0.0)
    means = means if paired else means[..., None]
    nearest = min(round(busy * SHARES), SHARES - 1)
    roots, table = _busy_period_table(nearest)
    expected = means / (1 - busy)
    in_table = means < roots[-1] ** 2
    found = expected
    if in_table.any():
        place = np.minimum(np.sqrt(means), roots[-1]) / roots[1]
        low = np.minimum(place.astype(np.int64), len(roots) - 2)
        part, share = place - low, np.arange(QUANTILES)
        # a mean that gets all shares takes a whole row of the table
        below, above = (table[each, share] if paired else table[each[..., 0]] for each in (low, low + 1))
        small = below * (1 - part) + above * part
        found = small * (1 - nearest / SHARES) / (1 - busy)
    if not in_table.all():
        z = _normal_points()
        spread = np.sqrt(means / (1 - busy) ** 3)
        large = np.maximum(expected + spread * z + (z**2 - 1) * (1 + 2 * busy) / (1 - busy) ** 2 / 6, 0.0)
        found = np.where(in_table, found, large)
    if paired:
        return found
    average = found.mean(axis=-1, keepdims=True)
    return np.where(average > 0, found * expected / np.where(average > 0, average, 1.0), expected)


def busy_period_chances(means: Any, busy: Any, numbers: Any) -> Any:
    """Probabilities of numbers of customers of busy periods that begin with Poisson numbers of them.

    >>> np.round(busy_period_chances(0.5, 0.0, np.arange(3)), 3).tolist()
    [0.607, 0.303, 0.076]
    """
    means = np.maximum(means, 1e-12)
    total = means + numbers * busy
    return np.exp(np.log(means) + (numbers - 1) * np.log(total) - total - _log_factorial(numbers))


@cache
def _busy_period_table(share: int) -> tuple[Any, Any]:
    """Points of the distribution at means whose roots are evenly spaced, and these roots; ``share`` is ρ in SHARES.

    A point is the mean of its share of the distribution, whose numbers lie closely at first and further apart later.
    """
    busy = share / SHARES
    top = 30 / (1 - busy)
    roots = np.linspace(0.0, top**0.5, 61)
    far = (top + 8 * (top / (1 - busy)) ** 0.5) / (1 - busy) + 64
    beyond = np.unique(np.rint(np.geomspace(48, far, 160)))
    n = np.concatenate([np.arange(48), beyond])
    wide = np.concatenate([np.ones(48), np.gradient(beyond)])
    wide[48] = (wide[48] + 1) / 2
    mean = np.maximum(roots[:, None] ** 2, 1e-12)
    chances = busy_period_chances(mean, busy, n) * wide
    chances /= chances.sum(axis=1, keepdims=True)
    # rows of mass 1 one after another are one distribution
    points = share_means(chances.ravel(), np.tile(n, len(roots)), len(roots) * QUANTILES)
    return roots, points.reshape(len(roots), QUANTILES)


def _log_factorial(n: Any) -> Any:
    """ln n!, by a sum where n is small and by Stirling's series."""
    small = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, 48)))])
    safe = np.maximum(n, 1.0)
    series = safe * np.log(safe) - safe + 0.5 * np.log(2 * np.pi * safe) + 1 / (12 * safe)
    return np.where(n < 48, small[np.minimum(n, 47).astype(np.int64)], series)


@cache
def _normal_points() -> Any:
    """A standard normal variable at the middles of equal shares."""
    return np.array([NormalDist().inv_cdf((share + 0.5) / QUANTILES) for share in range(QUANTILES)])
