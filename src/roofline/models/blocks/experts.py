"""A mixture of experts: a router, the routed experts, and experts that every token uses.

>>> touched_experts(8, 2, 1), touched_experts(8, 2, 4)                     # of 8 experts, 2 a token
(2.0, 5.46875)
>>> touched_experts(4, 1, 2, skew=(0.7, 0.1, 0.1, 0.1)) < touched_experts(4, 1, 2)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from roofline import dtypes
from roofline.errors import SizeError
from roofline.models.blocks.exchange import exchanged
from roofline.models.blocks.expert_spread import Spread
from roofline.models.blocks.mlp import Mlp, activate
from roofline.models.description import Block, Weight
from roofline.models.step import divided
from roofline.models.trace import Trace
from roofline.ops.collective_picks import Picks
from roofline.ops.contraction import contraction
from roofline.ops.elementwise import PER_ELEMENT
from roofline.ops.softmax import PER_ELEMENT as SOFTMAX_PER_ELEMENT
from roofline.sizes import Size, minimum, product
from roofline.work import Op, Tensor, Work


def touched_experts(experts: int, chosen: int, tokens: Size, skew: Sequence[float] | None = None) -> Size:
    """Experts that a batch of tokens is expected to touch, each token choosing ``chosen`` of them.

    ::

        uniform      E·(1 − (1 − k/E)^tokens)
        with a skew  Σ (1 − (1 − min(1, k·p))^tokens) over the share p of the tokens' choices that an expert gets
    """
    if skew is None:
        return experts * (1 - ((experts - chosen) / experts) ** tokens)
    total = sum(skew)
    return _touched_of([share / total for share in skew], chosen, tokens)


def _touched_of(shares: Sequence[float], chosen: int, tokens: Size) -> Size:
    return sum(1 - (1 - minimum(1, chosen * share)) ** tokens for share in shares)


@dataclass(frozen=True, slots=True)
class Experts(Block):
    """``chosen`` of ``count`` experts for each token, beside the ``shared`` ones.

    ``latent`` runs the routed experts in a narrower space between two projections. ``shared_gate`` weighs the shared
    expert by a sigmoid. ``router_bias`` is a trained bias, ``router_scales`` further trained vectors of the router
    (name, size). ``expert_bias`` gives the experts' matrices biases. ``scored`` is the router's function. ``limit``
    says of how many groups a token's experts are and how many there are, each of experts that lie together. ``names``
    are the router, the experts and the shared expert. Over ``ways`` chips that hold whole experts each, one has count ÷
    ways of them, the busiest where a step is skewed; ``spread`` says how they send tokens, if they do.
    """

    inputs: int
    hidden: int
    count: int
    chosen: int
    gated: bool = True
    activation: str = "silu"
    shared: Mlp | None = None
    shared_gate: bool = False
    router_bias: bool = False
    router_scales: tuple[tuple[str, int], ...] = ()
    expert_bias: bool = False
    latent: int | None = None
    scored: str = "softmax"
    limit: tuple[int, int] = (1, 1)
    names: tuple[str, str, str] = ("gate", "experts", "shared_experts")
    ways: int = 1
    spread: Spread | None = None

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        router, experts, shared = self.names
        width, held = self.latent or self.inputs, self.count // self.ways
        found = [Weight(router, (self.count, self.inputs), "router")]
        if self.router_bias:
            found.append(Weight(f"{router}.bias", (self.count,), "bias"))
        found += [Weight(name, (size,), "other") for name, size in self.router_scales]
        if self.latent:
            found += [
                Weight("fc1_latent_proj", (self.latent, self.inputs)),
                Weight("fc2_latent_proj", (self.inputs, self.latent)),
            ]
        for name in ("gate_proj", "up_proj") if self.gated else ("up_proj",):
            found.append(Weight(_join(experts, name), (held, self.hidden, width), "expert"))
        found.append(Weight(_join(experts, "down_proj"), (held, width, self.hidden), "expert"))
        if self.expert_bias:
            found += [Weight(f"{w.name}.bias", w.shape[:2], "bias") for w in found if w.kind == "expert"]
        if self.shared is not None:
            found += [weight._replace(name=f"{shared}.{weight.name}") for weight in self.shared.weights()]
        if self.shared_gate:
            found.append(Weight(f"{shared}_gate", (1, self.inputs), "router"))
        return tuple(found)

    def active(self) -> int:
        """Parameters that one token uses."""
        total = 0
        for weight in self.weights():
            routed = weight.kind == "expert" or (weight.kind == "bias" and len(weight.shape) == 2)
            total += weight.elements // self.count * self.chosen if routed else weight.elements
        return total

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        spread, every = self.spread, x
        tokens = trace.step.tokens if spread is None else spread.own(trace.step)
        x = x if spread is None else replace(x, dims=(tokens, *x.dims[1:]))
        weights = {weight.name: weight for weight in self.weights()}
        router, experts, shared = self.names
        logits = trace.linear(weights[router], x, tokens, bias=weights.get(f"{router}.bias"))
        chosen = self._choose(trace, logits, tokens, [weights[name] for name, _ in self.router_scales])
        routed = trace.linear(weights["fc1_latent_proj"], x, tokens) if self.latent else x
        out = self._experts(trace, routed, tokens, chosen, weights, experts)
        if self.latent:
            out = trace.linear(weights["fc2_latent_proj"], out, tokens)
        if self.shared is not None:
            beside = self._shared(trace, self.shared, x, every, tokens)
            if self.shared_gate:
                opened = trace.elementwise(
                    "sigmoid", (trace.linear(weights[f"{shared}_gate"], x, tokens),), f"{shared}_gate.act"
                )
                beside = trace.elementwise("multiply", (beside, opened), f"{shared}_gate.multiply", like=beside)
            out = trace.elementwise("add", (out, beside), "add")
        return out if spread is None else self._gathered(trace, spread, out, every)

    def _shared(self, trace: Trace, shared: Mlp, x: Tensor, every: Tensor, tokens: Size) -> Tensor:
        """Run the expert that every token uses: on a chip's own tokens, or a slice of it on all."""
        module, spread = self.names[2], self.spread
        if spread is None or not spread.split:
            return shared.apply(trace, x, tokens, within=module)
        step = trace.step
        rows = step.tokens if step.ring else divided(step.tokens, product(axis.size for axis in spread.context))
        parts = shared.apply(trace, replace(every, dims=(rows, *every.dims[1:])), rows, within=module)
        out = trace.made(f"{module}.sum", tokens, *parts.dims[1:])
        summed = exchanged("ReduceScatter", spread.tensor, parts.traffic_bytes, parts, out, spread.algorithm)
        trace.add(summed, f"{module}.sum")
        return out

    def _gathered(self, trace: Trace, spread: Spread, out: Tensor, every: Tensor) -> Tensor:
        same = spread.same(trace.step)
        if spread.scattered or not same:
            return out
        whole = trace.made("gather", trace.step.tokens, *every.dims[1:])
        trace.add(exchanged("AllGather", same, whole.traffic_bytes, out, whole, spread.algorithm), "gather")
        return whole

    def _choose(self, trace: Trace, logits: Tensor, tokens: Size, scales: Sequence[Weight]) -> Tensor:
        """Score every expert; which are largest costs no arithmetic."""
        elements = tokens * self.count
        out = trace.made("choice", tokens, self.chosen)
        each = SOFTMAX_PER_ELEMENT if self.scored == "softmax" else sum(PER_ELEMENT["sigmoid"][:2])
        work = Work.flops("vector", dtypes.get(trace.step.activations).arithmetic, each * elements)
        read = (logits, *(tensor for weight in scales for tensor in trace.stored(weight)[0]))
        trace.add(Op("", "softmax", work, read, (out,), {"elements": elements}), "choice")
        return out

    def _held(self, skew: Sequence[float]) -> tuple[float, Sequence[float]]:
        """Rows that a token makes on the busiest chip, and the share of all choices of each expert there.

        Experts lie on chips in order, and none gets a token twice.
        """
        if len(skew) != self.count:
            raise SizeError(f"the skew has {len(skew)} shares, and there are {self.count} experts", hint="one for each")
        held, total = self.count // self.ways, sum(skew)
        chips = [[share / total for share in skew[start : start + held]] for start in range(0, self.count, held)]
        rows = [sum(minimum(1, self.chosen * share) for share in chip) for chip in chips]
        return max(rows), chips[rows.index(max(rows))]

    def _experts(
        self, trace: Trace, x: Tensor, tokens: Size, chosen: Tensor, weights: dict[str, Weight], module: str
    ) -> Tensor:
        step, spread = trace.step, self.spread
        every = step.tokens if spread is None else spread.every(step)
        if self.ways > 1 and step.skew is not None:
            busiest, shares = self._held(step.skew)
            most, rows = tokens * busiest * self.ways, every * busiest
            touched = _touched_of(shares, self.chosen, every)
        else:
            most, rows = tokens * self.chosen, divided(every * self.chosen, self.ways)
            touched = divided(touched_experts(self.count, self.chosen, every, step.skew), self.ways)
        if spread is None:
            found = self._applied(trace, x, rows, touched, weights, module)
            return self._weighted(trace, found, chosen, rows, tokens, module)
        if not spread.once:
            x = spread.sent(trace, "dispatch", x, rows, most)
            found = self._applied(trace, x, rows, touched, weights, module)
            found = spread.sent(trace, "combine", found, tokens * self.chosen, most)
            return self._weighted(trace, found, chosen, tokens * self.chosen, tokens, module)
        picks = Picks(self.count, self.chosen, *self.limit, tuple(step.skew or ()))
        there = divided(every * picks.reached(self.ways, busiest=True), self.ways)
        back, made = tokens * picks.reached(self.ways), tokens * self.chosen
        x = spread.sent(trace, "dispatch", x, there, made, replace(picks, copies=spread.copies(step)))
        found = self._applied(trace, x, rows, touched, weights, module)
        found = self._weighted(trace, found, chosen, rows, there, module)
        found = spread.sent(trace, "combine", found, back, made, picks)
        out = trace.made(_join(module, "sum"), tokens, found.dims[1])
        self._added(trace, (found,), out, (back - tokens) * found.dims[1], 1, _join(module, "sum"))
        return out

    def _applied(
        self, trace: Trace, x: Tensor, rows: Size, touched: Size, weights: dict[str, Weight], module: str
    ) -> Tensor:
        """Run the experts on the rows that their tokens make."""
        up = self._grouped(trace, weights, _join(module, "up_proj"), x, rows, touched)
        gate = self._grouped(trace, weights, _join(module, "gate_proj"), x, rows, touched) if self.gated else None
        hidden = activate(trace, self.activation, up, gate, _join(module, "act"))
        return self._grouped(trace, weights, _join(module, "down_proj"), hidden, rows, touched)

    def _weighted(self, trace: Trace, x: Tensor, chosen: Tensor, rows: Size, tokens: Size, module: str) -> Tensor:
        """Weigh what experts made of tokens' rows, and add it up to a row for each token that is here."""
        out = trace.made(_join(module, "combine"), tokens, x.dims[1])
        self._added(trace, (x, chosen), out, rows * x.dims[1], 2, _join(module, "combine"))
        return out

    def _added(
        self, trace: Trace, reads: tuple[Tensor, ...], out: Tensor, elements: Size, flops: int, part: str
    ) -> None:
        work = Work.flops("vector", dtypes.get(trace.step.activations).arithmetic, flops * elements)
        trace.add(Op("", "reduction", work, reads, (out,), {"elements": elements}), part)

    def _grouped(
        self, trace: Trace, weights: dict[str, Weight], name: str, x: Tensor, rows: Size, touched: Size
    ) -> Tensor:
        """One matrix of every expert, applied to the rows that were sent to it."""
        weight = weights[name]
        (matrix, *beside), compute = trace.stored(weight, touched)
        _, n, k = weight.shape
        out = trace.made(name, rows, n)
        arithmetic = compute or dtypes.arithmetic([trace.step.activations, matrix.dtype])
        op = contraction(x, matrix, out, m=rows, n=n, k=k, compute=arithmetic)
        op = replace(op, reads=(x, matrix, *beside), dims={**op.dims, "groups": touched})
        bias = weights.get(f"{name}.bias")
        if bias is not None:
            added, _ = trace.stored(bias, touched)
            vector = Work.flops("vector", dtypes.get(trace.step.activations).arithmetic, rows * n)
            op = replace(op, reads=(*op.reads, *added), work=op.work + vector)
        trace.add(op, name)
        return out


def _join(*names: str) -> str:
    return ".".join(filter(None, names))
