"""Alternating updates and learned residuals of low rank (Gemma 3n).

``n`` streams of the hidden state run through the model; each layer predicts all of them, computes one, and corrects
the others by what it learned. Mixing ``n`` numbers is arithmetic of the vector unit.

Sources: Baykal et al., arXiv:2301.13310 (AltUp); Menghani et al., arXiv:2411.07501 (LAuReL); the transformers
implementation (modular_gemma3n.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from roofline.models.blocks.per_layer import handed
from roofline.models.description import Block, Weight
from roofline.models.trace import Trace
from roofline.work import Op, Tensor, Work

_PREDICTED, _CORRECTED = "predictions", "corrected streams"


@dataclass(frozen=True, slots=True)
class Unfold(Block):
    """Make the streams of one hidden state, or ``back`` one of the streams: a matrix for each but the first.

    Each is brought to the magnitude of the first; ``back`` takes their mean.
    """

    streams: int
    width: int
    back: bool = False

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        return tuple(Weight(str(number), (self.width, self.width)) for number in range(self.streams - 1))

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        count, wide = x.dims[0], self.streams * self.width
        part = Tensor(x.ident, (count, self.width), x.dtype, x.role)
        parts = [trace.linear(weight, part, count) for weight in self.weights()]
        out = trace.made("streams", count, self.width if self.back else wide)
        # a square and a sum for each magnitude, a product to scale by it, a sum for the mean
        flops = count * self.width * (2 * self.streams + (2 if self.back else 1) * (self.streams - 1))
        work = Work.flops("vector", trace.step.activations, flops)
        trace.add(Op("", "reduction", work, (part, *parts), (out,), {"elements": count * wide}), "streams")
        trace.stream = out
        return out


@dataclass(frozen=True, slots=True)
class Predict(Block):
    """Predict every stream as a mixture of all, by weights of the token's own; what is predicted first is computed."""

    streams: int
    width: int

    SHARED: ClassVar[tuple[str, str]] = ("router_norm", "modality_router")

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        n = self.streams
        return (
            Weight("router_norm", (self.width,), "norm"),
            Weight("modality_router", (n, self.width), "router"),
            Weight("prediction_coefs", (n * n, n), "other"),
        )

    def route(self, trace: Trace, x: Tensor, part: str) -> Tensor:
        """Weigh the streams by what ``x`` holds."""
        scale, router, _ = self.weights()
        count = x.dims[0]
        seen = trace.norm("rms_norm", x, (scale,), f"{part}.{scale.name}", count, self.width)
        found = trace.linear(router, seen, count)
        return trace.elementwise("tanh", (found,), f"{part}.modalities")

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        streams, n = trace.stream, self.streams
        count = streams.dims[0]
        active = Tensor(streams.ident, (count, self.width), streams.dtype, streams.role)
        weights = trace.linear(self.weights()[2], self.route(trace, active, "predict"), count)
        out = trace.made("predictions", count, n * self.width)
        elements = count * n * self.width
        work = Work.flops("vector", trace.step.activations, (2 * n + 1) * elements)
        trace.add(Op("", "elementwise", work, (streams, weights), (out,), {"elements": elements}), "predictions")
        trace.handed[_PREDICTED] = [out]
        trace.stream = Tensor(out.ident, (count, self.width), out.dtype)
        return trace.stream


@dataclass(frozen=True, slots=True)
class Correct(Block):
    """Correct every stream by what computing the first has changed; returns the first, scaled."""

    streams: int
    width: int

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        n = self.streams
        return (
            Weight("correction_coefs", (n, n), "other"),
            Weight("correct_output_scale", (self.width,), "other"),
        )

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        coefficients, scale = self.weights()
        count, n = x.dims[0], self.streams
        before = handed(trace, _PREDICTED)[0]
        routed = Predict(self.name, n, self.width).route(trace, x, "correct")
        weights = trace.linear(coefficients, routed, count)
        out = trace.made("corrected", count, n * self.width)
        elements = count * n * self.width
        work = Work.flops("vector", trace.step.activations, count * self.width * (2 * n + 1))
        trace.add(Op("", "elementwise", work, (x, before, weights), (out,), {"elements": elements}), "corrected")
        trace.handed[_CORRECTED] = [out]
        first = Tensor(out.ident, (count, self.width), out.dtype)
        return trace.elementwise("multiply", (first, *trace.stored(scale)[0]), "scaled", like=first)


@dataclass(frozen=True, slots=True)
class AddToOthers(Block):
    """Add a result to every stream but the first."""

    streams: int
    width: int

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        before = handed(trace, _CORRECTED)[0]
        out = trace.made("", *before.dims)
        elements = before.dims[0] * (self.streams - 1) * self.width
        work = Work.flops("vector", trace.step.activations, elements)
        trace.add(Op("", "elementwise", work, (x, before), (out,), {"elements": elements}), "")
        trace.stream = out
        return out


@dataclass(frozen=True, slots=True)
class LowRank(Block):
    """A residual of low rank: two narrow matrices and a norm beside what comes in."""

    width: int
    rank: int

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        return (
            Weight("linear_left", (self.rank, self.width)),
            Weight("linear_right", (self.width, self.rank)),
            Weight("post_laurel_norm", (self.width,), "norm"),
        )

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        left, right, scale = self.weights()
        count = x.dims[0]
        narrow = trace.linear(left, x, count)
        wide = trace.linear(right, narrow, count)
        wide = trace.norm("rms_norm", wide, (scale,), scale.name, count, self.width)
        return trace.elementwise("add", (wide, x), "add")
