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
from roofline.models.blocks.mlp import Mlp, activate
from roofline.models.description import Block, Weight
from roofline.models.trace import Trace
from roofline.ops.contraction import contraction
from roofline.ops.elementwise import PER_ELEMENT
from roofline.ops.softmax import PER_ELEMENT as SOFTMAX_PER_ELEMENT
from roofline.sizes import Size, minimum
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
    return sum(1 - (1 - minimum(1, chosen * share / total)) ** tokens for share in skew)


@dataclass(frozen=True, slots=True)
class Experts(Block):
    """``chosen`` of ``count`` experts for each token, beside the ``shared`` ones.

    ``latent`` runs the routed experts in a narrower space between two projections. ``shared_gate`` weighs the shared
    expert by a sigmoid. ``router_bias`` is a trained bias, ``router_scales`` further trained vectors of the router
    (name, size). ``expert_bias`` gives the experts' matrices biases. ``scored`` is the router's function. ``names`` are
    the router, the experts and the shared expert. Over ``ways`` chips that hold whole experts each, one has count ÷
    ways of them.
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
        tokens = trace.step.tokens
        weights = {weight.name: weight for weight in self.weights()}
        router, experts, shared = self.names
        logits = trace.linear(weights[router], x, tokens, bias=weights.get(f"{router}.bias"))
        chosen = self._choose(trace, logits, [weights[name] for name, _ in self.router_scales])
        routed = trace.linear(weights["fc1_latent_proj"], x, tokens) if self.latent else x
        out = self._experts(trace, routed, chosen, weights, experts)
        if self.latent:
            out = trace.linear(weights["fc2_latent_proj"], out, tokens)
        if self.shared is not None:
            beside = self.shared.apply(trace, x, tokens, within=shared)
            if self.shared_gate:
                opened = trace.elementwise(
                    "sigmoid", (trace.linear(weights[f"{shared}_gate"], x, tokens),), f"{shared}_gate.act"
                )
                beside = trace.elementwise("multiply", (beside, opened), f"{shared}_gate.multiply", like=beside)
            out = trace.elementwise("add", (out, beside), "add")
        return out

    def _choose(self, trace: Trace, logits: Tensor, scales: Sequence[Weight]) -> Tensor:
        """Score every expert; which are largest costs no arithmetic."""
        elements = trace.step.tokens * self.count
        out = trace.made("choice", trace.step.tokens, self.chosen)
        each = SOFTMAX_PER_ELEMENT if self.scored == "softmax" else sum(PER_ELEMENT["sigmoid"][:2])
        work = Work.flops("vector", dtypes.get(trace.step.activations).arithmetic, each * elements)
        read = (logits, *(tensor for weight in scales for tensor in trace.stored(weight)[0]))
        trace.add(Op("", "softmax", work, read, (out,), {"elements": elements}), "choice")
        return out

    def _experts(self, trace: Trace, x: Tensor, chosen: Tensor, weights: dict[str, Weight], module: str) -> Tensor:
        step = trace.step
        rows, touched = step.tokens * self.chosen, touched_experts(self.count, self.chosen, step.tokens, step.skew)
        if self.ways > 1:
            rows, touched = rows / self.ways, touched / self.ways
        width = self.latent or self.inputs
        up = self._grouped(trace, weights, _join(module, "up_proj"), x, rows, touched, chosen)
        gate = (
            self._grouped(trace, weights, _join(module, "gate_proj"), x, rows, touched, chosen) if self.gated else None
        )
        hidden = activate(trace, self.activation, up, gate, _join(module, "act"))
        down = self._grouped(trace, weights, _join(module, "down_proj"), hidden, rows, touched, chosen)
        out = trace.made(_join(module, "combine"), step.tokens, width)
        dtype = dtypes.get(down.dtype).arithmetic
        op = Op(
            "",
            "reduction",
            Work.flops("vector", dtype, 2 * rows * width),
            (down, chosen),
            (out,),
            {"elements": rows * width},
        )
        trace.add(op, _join(module, "combine"))
        return out

    def _grouped(
        self, trace: Trace, weights: dict[str, Weight], name: str, x: Tensor, rows: Size, touched: Size, chosen: Tensor
    ) -> Tensor:
        """One matrix of every expert, applied to the rows that were sent to it."""
        weight = weights[name]
        (matrix, *beside), compute = trace.stored(weight, touched)
        _, n, k = weight.shape
        out = trace.made(name, rows, n)
        arithmetic = compute or dtypes.arithmetic([x.dtype, matrix.dtype])
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
