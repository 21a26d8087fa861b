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
from roofline.hardware.network import MeshAxis
from roofline.models.blocks.exchange import Algorithm, exchanged
from roofline.models.blocks.mlp import Mlp, activate
from roofline.models.description import Block, Weight
from roofline.models.step import Step, divided
from roofline.models.trace import Trace
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
class Spread:
    """How chips with whole experts send them their tokens: an AllToAll over ``axes``, another one back.

    ::

        dispatch    own·k rows from each chip in ``dispatch``, of which 1/ways stay where they are
        combine     as many rows back, in ``combine``, weighted and added up where the token came from

    Chips of the ``tensor`` axes, and in decode of the ``context`` axes, hold the same tokens: each sends its part and
    an AllGather gives all the results, unless tokens are ``scattered`` between blocks. ``group`` says that copies of
    the model share experts. Shared experts stand whole on every chip, or are ``split`` over the ``tensor`` axes. Empty
    formats are that of the activations.

    Sources: Lepikhin et al., arXiv:2006.16668; DeepSeek-V3, arXiv:2412.19437, section 3.
    """

    axes: tuple[MeshAxis, ...]
    tensor: tuple[MeshAxis, ...] = ()
    context: tuple[MeshAxis, ...] = ()
    group: bool = False
    scattered: bool = False
    split: bool = False
    dispatch: str = ""
    combine: str = ""
    algorithm: Algorithm = None

    def same(self, step: Step) -> tuple[MeshAxis, ...]:
        """The axes whose chips hold the same tokens."""
        return self.tensor if step.ring else (*self.context, *self.tensor)

    def own(self, step: Step) -> Size:
        """Tokens that one chip sends."""
        return divided(step.tokens, product(axis.size for axis in self.same(step)))

    def every(self, step: Step) -> Size:
        """Tokens of all the chips that share experts."""
        if self.group:
            return (step.batch if step.group is None else step.group) * step.new
        return step.batch * step.new if self.context else step.tokens


@dataclass(frozen=True, slots=True)
class Experts(Block):
    """``chosen`` of ``count`` experts for each token, beside the ``shared`` ones.

    ``latent`` runs the routed experts in a narrower space between two projections. ``shared_gate`` weighs the shared
    expert by a sigmoid. ``router_bias`` is a trained bias, ``router_scales`` further trained vectors of the router
    (name, size). ``expert_bias`` gives the experts' matrices biases. ``scored`` is the router's function. ``names`` are
    the router, the experts and the shared expert. Over ``ways`` chips that hold whole experts each, one has count ÷
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

    def _held(self, skew: Sequence[float] | None) -> tuple[float, Sequence[float] | None]:
        """The share of all rows that this chip's experts get, and of the tokens' choices each of them: the busiest's.

        Experts lie on chips in order.
        """
        if self.ways == 1 or skew is None:
            return 1 / self.ways, None
        if len(skew) != self.count:
            raise SizeError(f"the skew has {len(skew)} shares, and there are {self.count} experts", hint="one for each")
        held, total = self.count // self.ways, sum(skew)
        chips = [skew[start : start + held] for start in range(0, self.count, held)]
        busiest = max(chips, key=sum)
        return sum(busiest) / total, [share / total for share in busiest]

    def _experts(
        self, trace: Trace, x: Tensor, tokens: Size, chosen: Tensor, weights: dict[str, Weight], module: str
    ) -> Tensor:
        step, spread = trace.step, self.spread
        every = step.tokens if spread is None else spread.every(step)
        load, shares = self._held(step.skew)
        rows = divided(every * self.chosen, self.ways)
        touched = divided(touched_experts(self.count, self.chosen, every, step.skew), self.ways)
        if shares is not None:
            rows, touched = every * self.chosen * load, _touched_of(shares, self.chosen, every)
        width = self.latent or self.inputs
        if spread is not None:
            x = self._sent(trace, spread, "dispatch", x, tokens * self.chosen, rows, load)
        up = self._grouped(trace, weights, _join(module, "up_proj"), x, rows, touched)
        gate = self._grouped(trace, weights, _join(module, "gate_proj"), x, rows, touched) if self.gated else None
        hidden = activate(trace, self.activation, up, gate, _join(module, "act"))
        down = self._grouped(trace, weights, _join(module, "down_proj"), hidden, rows, touched)
        if spread is not None:
            rows = tokens * self.chosen
            down = self._sent(trace, spread, "combine", down, rows, rows, load)
        out = trace.made(_join(module, "combine"), tokens, width)
        work = Work.flops("vector", dtypes.get(step.activations).arithmetic, 2 * rows * width)
        op = Op("", "reduction", work, (down, chosen), (out,), {"elements": rows * width})
        trace.add(op, _join(module, "combine"))
        return out

    def _sent(self, trace: Trace, spread: Spread, name: str, x: Tensor, sent: Size, kept: Size, load: float) -> Tensor:
        """Send ``sent`` rows of each chip to the experts or back; the busiest chip's link sets the time."""
        width = self.latent or self.inputs
        dtype = (spread.dispatch if name == "dispatch" else spread.combine) or trace.step.activations
        part = f"{name}.all_to_all"
        out = trace.made(part, kept, width, dtype=dtype)
        nbytes = dtypes.get(dtype).nbytes(sent * width) * self.ways
        # the busiest chip gets more than it sends, or the other way round
        nbytes = nbytes if load * self.ways == 1 else nbytes * (load * self.ways)
        trace.add(exchanged("AllToAll", spread.axes, nbytes, x, out, spread.algorithm), part)
        return out

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
