"""Several residual streams that are mixed before and after each block (hyper-connections, DeepSeek-V4).

Source: DeepSeek-V4 technical report, section 2.2, and the transformers implementation (modular_deepseek_v4.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.models.description import Block, Weight
from roofline.models.trace import Trace
from roofline.sizes import Size
from roofline.work import Op, Tensor, Work


@dataclass(frozen=True, slots=True)
class Spread(Block):
    """Copy the embedding into every stream."""

    streams: int
    width: int

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        trace.stream = trace.made("", x.dims[0], self.streams * self.width)
        trace.add(Op("", "copy", Work(), (x,), (trace.stream,), {"elements": trace.stream.elements}), "")
        return trace.stream


@dataclass(frozen=True, slots=True)
class Collapse(Block):
    """Compute the mixing weights from all streams and collapse them into a block's input.

    ``outputs`` are the weights for each token: n before the block, n after it, n·n between streams (n alone at the end
    of the model). They are kept in fp32 and multiplied as tf32, which matrix units take.
    """

    streams: int
    width: int
    last: bool = False

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        n = self.streams
        rows = n if self.last else (2 + n) * n
        names = ("hc_fn", "hc_base", "hc_scale") if self.last else ("fn", "base", "scale")
        shapes = ((rows, n * self.width), (rows,), (1 if self.last else 3,))
        return tuple(Weight(name, shape, "other", "fp32") for name, shape in zip(names, shapes, strict=True))

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        streams = trace.stream
        rows = streams.dims[0]
        flat = trace.norm("rms_norm", streams, (), "norm", rows, self.streams * self.width)
        fn, base, scale = self.weights()
        mixed = trace.linear(fn, flat, rows, compute="tf32")
        out = trace.made("collapse", rows, self.width)
        read = (streams, mixed, *trace.stored(base)[0], *trace.stored(scale)[0])
        work = Work.flops("vector", "fp32", 2 * rows * self.streams * self.width)
        trace.add(Op("", "reduction", work, read, (out,), {"elements": rows * self.streams * self.width}), "collapse")
        return out


@dataclass(frozen=True, slots=True)
class Expand(Block):
    """Add a block's result to every stream, the streams mixed by an n x n matrix of the token's own."""

    streams: int
    width: int

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        before = trace.stream
        out = trace.made("mix", *before.dims)
        elements: Size = before.elements
        work = Work.flops("vector", trace.step.activations, 2 * elements * self.streams + 2 * elements)
        trace.add(Op("", "elementwise", work, (x, before), (out,), {"elements": elements}), "mix")
        trace.stream = replace(out)
        return trace.stream
