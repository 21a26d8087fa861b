"""Kimi delta attention: a delta net whose state decays by a number for each channel of its keys.

Source: Kimi Linear technical report, arXiv:2510.26692; projections as in the transformers implementation.

>>> block = KimiDelta("self_attn", 2304, 32, 128, 4)
>>> [part.elements for part in block.cache(1000)]
[524288, 36864]
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.models.blocks.recurrent import convolve, recur
from roofline.models.description import Block, Cached, Weight
from roofline.models.trace import Trace
from roofline.sizes import Size
from roofline.work import Tensor


@dataclass(frozen=True, slots=True)
class KimiDelta(Block):
    """``heads`` states of ``head`` x ``head``; decay and gate come from the hidden state over ``rank`` numbers."""

    inputs: int
    heads: int
    head: int
    kernel: int
    state: str = "fp32"

    @property
    def inner(self) -> int:
        """Width of all heads together."""
        return self.heads * self.head

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        square, narrow, wide = (self.inner, self.inputs), (self.head, self.inputs), (self.inner, self.head)
        return (
            *(Weight(f"{name}_proj", square) for name in "qkv"),
            Weight("conv1d", (3 * self.inner, 1, self.kernel), "other"),
            Weight("f_a_proj", narrow),
            Weight("f_b_proj", wide),
            Weight("b_proj", (self.heads, self.inputs), "other"),
            Weight("dt_bias", (self.inner,), "other"),
            Weight("A_log", (self.heads,), "other"),
            Weight("g_a_proj", narrow),
            Weight("g_b_proj", wide),
            Weight("o_norm", (self.head,), "norm"),
            Weight("o_proj", (self.inputs, self.inner)),
        )

    def cache(self, length: Size) -> tuple[Cached, ...]:
        """What a sequence of ``length`` tokens keeps between steps."""
        return (
            Cached("state", self.inner * self.head, "state", self.state),
            Cached("inputs", 3 * self.inner * (self.kernel - 1), "state"),
        )

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        tokens = trace.step.tokens
        weights = {weight.name: weight for weight in self.weights()}

        def narrowed(letter: str) -> Tensor:
            return trace.linear(
                weights[f"{letter}_b_proj"], trace.linear(weights[f"{letter}_a_proj"], x, tokens), tokens
            )

        parts = [trace.linear(weights[f"{name}_proj"], x, tokens) for name in "qkv"]
        mixed = convolve(trace, parts, 3 * self.inner, self.kernel, [weights["conv1d"]])
        decay = narrowed("f")
        beta = trace.linear(weights["b_proj"], x, tokens)
        small = (t for name in ("dt_bias", "A_log") for t in trace.stored(weights[name])[0])
        out = recur(trace, [mixed, beta, decay, *small], self.heads, self.head, self.head, 3, self.state)
        out = trace.norm("rms_norm", out, (weights["o_norm"],), "o_norm", tokens * self.heads, self.head)
        gate = trace.elementwise("sigmoid", (narrowed("g"),), "gate")
        out = trace.elementwise("multiply", (gate, out), "gated", like=gate)
        return trace.linear(weights["o_proj"], out, tokens)
