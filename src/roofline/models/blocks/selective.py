"""Layers with a small state of each channel: the selective scan of Mamba, and a short gated convolution.

>>> mixer = SelectiveScan("mixer", 768, 1536, 16, 48, 4)
>>> [weight.shape for weight in mixer.weights()][:2], [part.elements for part in mixer.cache(1000)]
([(3072, 768), (80, 1536)], [24576, 4608])
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.models.blocks.recurrent import convolve
from roofline.models.description import Block, Cached, Weight
from roofline.models.step import is_zero
from roofline.models.trace import Trace
from roofline.sizes import Size
from roofline.work import Op, Tensor, Work


@dataclass(frozen=True, slots=True)
class SelectiveScan(Block):
    """Mamba: each of ``inner`` channels has a state of ``state_size``, with a step width of its own.

    ::

        state ← exp(Δ·A)·state + Δ·x·B;  out = state·C + D·x               9 FLOPs a channel and entry of the state

    ``rank`` is the width the step widths are made from; ``norms`` normalises it, B and C (Jamba), without a scale
    where ``plain`` (Falcon Mamba).

    Source: Gu and Dao, arXiv:2312.00752, section 3 and algorithm 2; the scan runs on the vector unit.
    """

    inputs: int
    inner: int
    state_size: int
    rank: int
    kernel: int
    bias: bool = False
    conv_bias: bool = True
    norms: bool = False
    plain: bool = False
    state: str = "fp32"

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        made = self.rank + 2 * self.state_size
        found = [
            Weight("in_proj", (2 * self.inner, self.inputs)),
            Weight("x_proj", (made, self.inner)),
            Weight("dt_proj", (self.inner, self.rank)),
            Weight("dt_proj.bias", (self.inner,), "bias"),
            Weight("conv1d", (self.inner, 1, self.kernel), "other"),
            Weight("A_log", (self.inner, self.state_size), "other"),
            Weight("D", (self.inner,), "other"),
            Weight("out_proj", (self.inputs, self.inner)),
        ]
        if self.conv_bias:
            found.append(Weight("conv1d.bias", (self.inner,), "bias"))
        if self.bias:
            found += [
                Weight("in_proj.bias", (2 * self.inner,), "bias"),
                Weight("out_proj.bias", (self.inputs,), "bias"),
            ]
        if self.norms and not self.plain:
            sizes = (("dt", self.rank), ("b", self.state_size), ("c", self.state_size))
            found += [Weight(f"{name}_layernorm", (size,), "norm") for name, size in sizes]
        return tuple(found)

    def cache(self, length: Size) -> tuple[Cached, ...]:
        """What a sequence of ``length`` tokens keeps between steps."""
        return (
            Cached("state", self.inner * self.state_size, "state", self.state),
            Cached("inputs", self.inner * (self.kernel - 1), "state"),
        )

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        step = trace.step
        tokens = step.tokens
        weights = {weight.name: weight for weight in self.weights()}
        both = trace.linear(weights["in_proj"], x, tokens, bias=weights.get("in_proj.bias"))
        half = Tensor(both.ident, (tokens, self.inner), both.dtype)
        kernel = [weights[name] for name in ("conv1d", "conv1d.bias") if name in weights]
        mixed = convolve(trace, half, self.inner, self.kernel, kernel)
        made = trace.linear(weights["x_proj"], mixed, tokens)
        if self.norms:
            for name, width in (("dt", self.rank), ("b", self.state_size), ("c", self.state_size)):
                scale = (weights[f"{name}_layernorm"],) if not self.plain else ()
                made = trace.norm("rms_norm", made, scale, f"{name}_layernorm", tokens, width)
        narrow = Tensor(made.ident, (tokens, self.rank), made.dtype)
        steps = trace.linear(weights["dt_proj"], narrow, tokens, bias=weights["dt_proj.bias"])
        steps = trace.elementwise("softplus", (steps,), "dt")
        read = [mixed, steps, made, *(t for name in ("A_log", "D") for t in trace.stored(weights[name])[0])]
        state = (step.batch, self.inner, self.state_size)
        if not is_zero(step.past):
            read.append(Tensor(trace.place("cache", "state"), state, self.state, "state"))
        kept = Tensor(trace.place("kept", "state"), state, self.state, "state")
        out = trace.made("scan", tokens, self.inner)
        work = Work.flops("vector", "fp32", tokens * self.inner * (9 * self.state_size + 2))
        dims = {"tokens": tokens, "channels": self.inner, "state_size": self.state_size}
        trace.add(Op("", "recurrence", work, tuple(read), (out, kept), dims), "scan")
        out = trace.elementwise("swiglu", (half, out), "gate", like=out)
        return trace.linear(weights["out_proj"], out, tokens, bias=weights.get("out_proj.bias"))


@dataclass(frozen=True, slots=True)
class ShortConvolution(Block):
    """LFM2's mixer: ``out(c · conv(b · x))`` with b, c and x from one matrix, over the last ``kernel`` tokens."""

    inputs: int
    kernel: int
    bias: bool = False

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        found = [
            Weight("in_proj", (3 * self.inputs, self.inputs)),
            Weight("conv", (self.inputs, 1, self.kernel), "other"),
            Weight("out_proj", (self.inputs, self.inputs)),
        ]
        if self.bias:
            found += [Weight(f"{w.name}.bias", w.shape[:1], "bias") for w in found]
        return tuple(found)

    def cache(self, length: Size) -> tuple[Cached, ...]:
        """What a sequence of ``length`` tokens keeps between steps."""
        return (Cached("inputs", self.inputs * (self.kernel - 1), "state"),)

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        tokens = trace.step.tokens
        weights = {weight.name: weight for weight in self.weights()}
        made = trace.linear(weights["in_proj"], x, tokens, bias=weights.get("in_proj.bias"))
        part = Tensor(made.ident, (tokens, self.inputs), made.dtype)
        gated = trace.elementwise("multiply", (part, part), "gate", like=part)
        kernel = [weights[name] for name in ("conv", "conv.bias") if name in weights]
        mixed = convolve(trace, gated, self.inputs, self.kernel, kernel)
        out = trace.elementwise("multiply", (part, mixed), "out", like=mixed)
        return trace.linear(weights["out_proj"], out, tokens, bias=weights.get("out_proj.bias"))
