"""Layers that keep a state instead of keys and values: gated delta nets and Mamba-2.

Prefill is priced as the recurrence, the least arithmetic there is (chunked forms do more on the matrix unit); a step
reads and writes the state, which does not grow with the sequence.

>>> mixer = Mamba("mixer", 4096, 128, 64, 8, 128, 4)
>>> [weight.shape for weight in mixer.weights()][0]
(18560, 4096)
>>> [part.elements for part in mixer.cache(1000)]
[1048576, 30720]
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.models.description import Block, Cached, Weight
from roofline.models.step import is_zero
from roofline.models.trace import Trace
from roofline.sizes import Size
from roofline.work import Op, Tensor, Work


def convolve(trace: Trace, x: Tensor | list[Tensor], channels: int, kernel: int, weights: list[Weight]) -> Tensor:
    """A short causal convolution of each channel, its activation (4 FLOPs), and the last inputs kept."""
    step = trace.step
    out = trace.made("conv1d", step.tokens, channels)
    read = [*(x if isinstance(x, list) else [x]), *(tensor for weight in weights for tensor in trace.stored(weight)[0])]
    state = (step.batch, channels, kernel - 1)
    if not is_zero(step.past):
        read.append(Tensor(trace.place("cache", "inputs"), state, step.activations, "state"))
    kept = Tensor(trace.place("kept", "inputs"), state, step.activations, "state")
    work = Work.flops("vector", step.activations, step.tokens * channels * (2 * kernel + 4))
    trace.add(Op("", "convolution", work, tuple(read), (out, kept), {"elements": step.tokens * channels}), "conv1d")
    return out


def recur(trace: Trace, read: list[Tensor], heads: int, key: int, value: int, products: int, dtype: str) -> Tensor:
    """The recurrence over a state of heads x key x value: ``products`` products a token and a decay."""
    step = trace.step
    out = trace.made("recurrence", step.tokens, heads * value)
    state = (step.batch, heads, key, value)
    if not is_zero(step.past):
        read = [*read, Tensor(trace.place("cache", "state"), state, dtype, "state")]
    kept = Tensor(trace.place("kept", "state"), state, dtype, "state")
    count = step.tokens * heads * key * value
    work = Work.flops("matrix", step.activations, 2 * products * count) + Work.flops("vector", "fp32", count)
    dims = {"heads": heads, "head_size": key, "v_head_size": value, "tokens": step.tokens}
    trace.add(Op("", "recurrence", work, tuple(read), (out, kept), dims), "recurrence")
    return out


@dataclass(frozen=True, slots=True)
class DeltaNet(Block):
    """Gated delta net: for each value head a state of key x value, read, corrected and read again.

    ::

        state ← decay·state + k ⊗ β·(v − state·k);  out = state·q          3 products of key·value a token and head

    Source: Yang et al., arXiv:2412.06464; projections as in Qwen3-Next.
    """

    inputs: int
    key_heads: int
    value_heads: int
    key: int
    value: int
    kernel: int
    state: str = "fp32"

    @property
    def channels(self) -> int:
        """Channels of the convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key + self.value_heads * self.value

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        out = self.value_heads * self.value
        return (
            Weight("in_proj_qkv", (self.channels, self.inputs)),
            Weight("in_proj_z", (out, self.inputs)),
            Weight("in_proj_b", (self.value_heads, self.inputs), "other"),
            Weight("in_proj_a", (self.value_heads, self.inputs), "other"),
            Weight("conv1d", (self.channels, 1, self.kernel), "other"),
            Weight("dt_bias", (self.value_heads,), "other"),
            Weight("A_log", (self.value_heads,), "other"),
            Weight("norm", (self.value,), "norm"),
            Weight("out_proj", (self.inputs, out)),
        )

    def cache(self, length: Size) -> tuple[Cached, ...]:
        """What a sequence of ``length`` tokens keeps between steps."""
        return (
            Cached("state", self.value_heads * self.key * self.value, "state", self.state),
            Cached("inputs", self.channels * (self.kernel - 1), "state"),
        )

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        tokens = trace.step.tokens
        weights = {weight.name: weight for weight in self.weights()}
        qkv = trace.linear(weights["in_proj_qkv"], x, tokens)
        z = trace.linear(weights["in_proj_z"], x, tokens)
        beta = trace.linear(weights["in_proj_b"], x, tokens)
        decay = trace.linear(weights["in_proj_a"], x, tokens)
        mixed = convolve(trace, qkv, self.channels, self.kernel, [weights["conv1d"]])
        read = [mixed, beta, decay, *(t for name in ("dt_bias", "A_log") for t in trace.stored(weights[name])[0])]
        out = recur(trace, read, self.value_heads, self.key, self.value, 3, self.state)
        out = trace.norm("rms_norm", out, (weights["norm"],), "norm", tokens * self.value_heads, self.value)
        out = trace.elementwise("swiglu", (z, out), "gate")
        return trace.linear(weights["out_proj"], out, tokens)


@dataclass(frozen=True, slots=True)
class Mamba(Block):
    """Mamba-2: for each head a state of ``value`` x ``state_size``, with B and C shared by the heads of a group.

    ::

        state ← decay·state + x ⊗ Δ·B;  out = state·C + D·x                 2 products of value·state a token and head

    Source: Dao and Gu, arXiv:2405.21060, section 6; projections as in the Mamba-2 and Nemotron-H code.
    """

    inputs: int
    heads: int
    value: int
    groups: int
    state_size: int
    kernel: int
    bias: bool = False
    conv_bias: bool = True
    state: str = "fp32"
    normed: bool = True
    out_bias: bool = False

    @property
    def inner(self) -> int:
        """Width of all heads together."""
        return self.heads * self.value

    @property
    def channels(self) -> int:
        """Channels of the convolution: x, B and C."""
        return self.inner + 2 * self.groups * self.state_size

    def weights(self) -> tuple[Weight, ...]:
        """Every parameter tensor of the block."""
        rows = self.inner + self.channels + self.heads
        found = [
            Weight("in_proj", (rows, self.inputs)),
            Weight("conv1d", (self.channels, 1, self.kernel), "other"),
            Weight("dt_bias", (self.heads,), "other"),
            Weight("A_log", (self.heads,), "other"),
            Weight("D", (self.heads,), "other"),
            Weight("out_proj", (self.inputs, self.inner)),
        ]
        if self.normed:
            found.append(Weight("norm", (self.inner,), "norm"))
        if self.conv_bias:
            found.append(Weight("conv1d.bias", (self.channels,), "bias"))
        if self.bias:
            found.append(Weight("in_proj.bias", (rows,), "bias"))
        if self.out_bias:
            found.append(Weight("out_proj.bias", (self.inputs,), "bias"))
        return tuple(found)

    def cache(self, length: Size) -> tuple[Cached, ...]:
        """What a sequence of ``length`` tokens keeps between steps."""
        return (
            Cached("state", self.inner * self.state_size, "state", self.state),
            Cached("inputs", self.channels * (self.kernel - 1), "state"),
        )

    def run(self, trace: Trace, x: Tensor) -> Tensor:
        """Add the block's operations and return what they make of ``x``."""
        tokens = trace.step.tokens
        weights = {weight.name: weight for weight in self.weights()}
        made = trace.linear(weights["in_proj"], x, tokens, bias=weights.get("in_proj.bias"))
        convolved = [weights[name] for name in ("conv1d", "conv1d.bias") if name in weights]
        seen = Tensor(made.ident, (tokens, self.channels), made.dtype)
        mixed = convolve(trace, seen, self.channels, self.kernel, convolved)
        small = [t for name in ("dt_bias", "A_log", "D") for t in trace.stored(weights[name])[0]]
        steps = Tensor(made.ident, (tokens, self.heads), made.dtype)
        out = recur(trace, [mixed, steps, *small], self.heads, self.state_size, self.value, 2, self.state)
        gate = Tensor(made.ident, (tokens, self.inner), made.dtype)
        out = trace.elementwise("swiglu", (gate, out), "gate", like=out)
        if self.normed:
            out = trace.norm("rms_norm", out, (weights["norm"],), "norm", tokens, self.inner)
        return trace.linear(weights["out_proj"], out, tokens, bias=weights.get("out_proj.bias"))
