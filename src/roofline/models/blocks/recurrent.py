"""Recurrent layers, which keep a state in place of keys: delta nets, linear attention, Mamba, short convolutions.

A prefill is priced as the recurrence (:mod:`roofline.ops.recurrent`). A step reads and writes the state, which does
not grow with the sequence.

>>> mixer = Mamba2("mixer", 4096, 128, 64, 8, 128, 4)
>>> [weight.shape for weight in mixer.weights()][0], [part.elements for part in mixer.cache(1000)]
((18560, 4096), [1048576, 30720])
>>> mixer = Mamba1("mixer", 768, 1536, 16, 48, 4)
>>> [weight.shape for weight in mixer.weights()][:2], [part.elements for part in mixer.cache(1000)]
([(3072, 768), (80, 1536)], [24576, 4608])
>>> block = KimiDeltaAttention("self_attn", 2304, 32, 128, 4)
>>> [part.elements for part in block.cache(1000)]
[524288, 36864]
"""

from __future__ import annotations

from typing import Any

from roofline.frozen import dataclass
from roofline.models.blocks.collectives import collective_operation
from roofline.models.blocks.feed_forward import ACTIVATIONS
from roofline.models.description import Block, Cached
from roofline.models.operation_builder import OperationBuilder
from roofline.models.weights import Weight, biases, where
from roofline.ops.recurrent import gated_scan, linear_recurrence, selective_scan
from roofline.work import Op, Tensor, Work


def recur(
    builder: OperationBuilder, read: list[Tensor], heads: int, key: int, value: int, products: int, dtype: str
) -> Tensor:
    """The recurrence over a state of heads x key x value: ``products`` products a token and a decay."""
    step = builder.step
    out = builder.output("recurrence", step.tokens, heads * value)
    state, kept = builder.states("state", (step.batch, heads, key, value), dtype)
    sizes = {"tokens": step.tokens, "heads": heads, "key": key, "value": value}
    op = linear_recurrence("", [*read, *state], [out, kept], **sizes, products=products, compute=step.activations)
    builder.add(op, "recurrence")
    return out


def kept_states(state: int, dtype: str, inputs: int) -> tuple[Cached, ...]:
    """What a sequence keeps: the state of the recurrence in its format, and the last inputs of the convolution."""
    return Cached("state", state, "state", dtype), Cached("inputs", inputs, "state")


@dataclass(frozen=True, slots=True)
class GatedDeltaNet(Block, keeps="state"):
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

    def kept_per_sequence(self) -> tuple[Cached, ...]:
        return kept_states(self.value_heads * self.key * self.value, self.state, self.channels * (self.kernel - 1))

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        tokens = builder.step.tokens
        qkv = builder.linear("in_proj_qkv", x)
        z = builder.linear("in_proj_z", x)
        beta = builder.linear("in_proj_b", x)
        decay = builder.linear("in_proj_a", x)
        mixed = builder.convolve(qkv, self.channels, self.kernel)
        read = [mixed, beta, decay, *builder.read_weights("dt_bias", "A_log")]
        out = recur(builder, read, self.value_heads, self.key, self.value, 3, self.state)
        out = builder.norm("rms_norm", out, "norm", tokens * self.value_heads, self.value)
        out = builder.elementwise("swiglu", (z, out), "gate")
        return builder.linear("out_proj", out)


@dataclass(frozen=True, slots=True)
class Mamba2(Block, keeps="state"):
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
        rows = self.inner + self.channels + self.heads
        return (
            Weight("in_proj", (rows, self.inputs)),
            Weight("conv1d", (self.channels, 1, self.kernel), "other"),
            Weight("dt_bias", (self.heads,), "other"),
            Weight("A_log", (self.heads,), "other"),
            Weight("D", (self.heads,), "other"),
            Weight("out_proj", (self.inputs, self.inner)),
            *where(self.normed, Weight("norm", (self.inner,), "norm")),
            *where(self.conv_bias, Weight("conv1d.bias", (self.channels,), "bias")),
            *where(self.bias, Weight("in_proj.bias", (rows,), "bias")),
            *where(self.out_bias, Weight("out_proj.bias", (self.inputs,), "bias")),
        )

    def kept_per_sequence(self) -> tuple[Cached, ...]:
        return kept_states(self.inner * self.state_size, self.state, self.channels * (self.kernel - 1))

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        tokens = builder.step.tokens
        made = builder.linear("in_proj", x)
        seen = Tensor(made.ident, (tokens, self.channels), made.dtype)
        mixed = builder.convolve(seen, self.channels, self.kernel)
        small = builder.read_weights("dt_bias", "A_log", "D")
        steps = Tensor(made.ident, (tokens, self.heads), made.dtype)
        out = recur(builder, [mixed, steps, *small], self.heads, self.state_size, self.value, 2, self.state)
        gate = Tensor(made.ident, (tokens, self.inner), made.dtype)
        out = builder.elementwise("swiglu", (gate, out), "gate", like=out)
        if self.normed:
            out = builder.norm("rms_norm", out, "norm")
        return builder.linear("out_proj", out)


@dataclass(frozen=True, slots=True)
class KimiDeltaAttention(Block, keeps="state"):
    """Kimi delta attention: a delta net whose state decays by one number for each channel of its keys.

    ``heads`` states of ``head`` x ``head``; decay and gate are made of the hidden state over ``head`` numbers, each by
    one matrix where ``full_decay`` (Ling 3) and ``full_gate`` (Kimi K3).

    Source: Kimi Linear technical report, arXiv:2510.26692; projections as in the transformers implementation.
    """

    inputs: int
    heads: int
    head: int
    kernel: int
    state: str = "fp32"
    full_gate: bool = False
    full_decay: bool = False

    @property
    def inner(self) -> int:
        """Width of all heads together."""
        return self.heads * self.head

    def weights(self) -> tuple[Weight, ...]:
        square, narrow, wide = (self.inner, self.inputs), (self.head, self.inputs), (self.inner, self.head)
        return (
            *(Weight(f"{name}_proj", square) for name in "qkv"),
            Weight("conv1d", (3 * self.inner, 1, self.kernel), "other"),
            *(
                [Weight("f_proj", square)]
                if self.full_decay
                else [Weight("f_a_proj", narrow), Weight("f_b_proj", wide)]
            ),
            Weight("b_proj", (self.heads, self.inputs), "other"),
            Weight("dt_bias", (self.inner,), "other"),
            Weight("A_log", (self.heads,), "other"),
            *([Weight("g_proj", square)] if self.full_gate else [Weight("g_a_proj", narrow), Weight("g_b_proj", wide)]),
            Weight("o_norm", (self.head,), "norm"),
            Weight("o_proj", (self.inputs, self.inner)),
        )

    def kept_per_sequence(self) -> tuple[Cached, ...]:
        return kept_states(self.inner * self.head, self.state, 3 * self.inner * (self.kernel - 1))

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        tokens = builder.step.tokens

        def made(letter: str, whole: bool) -> Tensor:
            if whole:
                return builder.linear(f"{letter}_proj", x)
            return builder.linear(f"{letter}_b_proj", builder.linear(f"{letter}_a_proj", x))

        parts = [builder.linear(f"{name}_proj", x) for name in "qkv"]
        mixed = builder.convolve(parts, 3 * self.inner, self.kernel)
        decay = made("f", self.full_decay)
        beta = builder.linear("b_proj", x)
        small = builder.read_weights("dt_bias", "A_log")
        out = recur(builder, [mixed, beta, decay, *small], self.heads, self.head, self.head, 3, self.state)
        out = builder.norm("rms_norm", out, "o_norm", tokens * self.heads, self.head)
        gate = builder.elementwise("sigmoid", (made("g", self.full_gate),), "gate")
        out = builder.elementwise("multiply", (gate, out), "gated", like=gate)
        return builder.linear("o_proj", out)


@dataclass(frozen=True, slots=True)
class LightningAttention(Block, keeps="state"):
    """Linear attention: ``heads`` states of ``head`` x ``head`` that decay by a constant of their head.

    ::

        state ← decay·state + k ⊗ v;  out = q·state                        2 products of head² a token and head

    Source: MiniMax-01, arXiv:2501.08313, section 2.2; the state in fp32, as its code for serving keeps it.
    """

    inputs: int
    heads: int
    head: int
    activation: str = "silu"
    state: str = "fp32"

    def weights(self) -> tuple[Weight, ...]:
        inner = self.heads * self.head
        return (
            Weight("qkv_proj", (3 * inner, self.inputs)),
            Weight("output_gate", (inner, self.inputs)),
            Weight("norm", (inner,), "norm"),
            Weight("out_proj", (self.inputs, inner)),
        )

    def kept_per_sequence(self) -> tuple[Cached, ...]:
        return (Cached("state", self.heads * self.head**2, "state", self.state),)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        qkv = builder.linear("qkv_proj", x)
        qkv = builder.elementwise(ACTIVATIONS[self.activation], (qkv,), "act")
        out = recur(builder, [qkv], self.heads, self.head, self.head, 2, self.state)
        out = builder.norm("rms_norm", out, "norm")
        gate = builder.elementwise("sigmoid", (builder.linear("output_gate", x),), "gate")
        out = builder.elementwise("multiply", (gate, out), "gated", like=gate)
        return builder.linear("out_proj", out)


@dataclass(frozen=True, slots=True)
class Mamba1(Block, keeps="state"):
    """Mamba: each of ``inner`` channels has a state of ``state_size``, with a step width of its own.

    ::

        state ← exp(Δ·A)·state + Δ·x·B;  out = state·C + D·x               9 FLOPs a channel and entry of the state

    ``rank`` is the width the step widths are made from; ``norms`` normalises it, B and C (Jamba), without a scale
    where ``plain`` (Falcon Mamba). With ``heads`` (Zamba) each makes these of its own part of the channels. With
    ``steps`` (PLaMo 2) so many heads of channels have one step width each, and recur as those of Mamba-2. Chips that
    split the channels add up their parts of these three over ``axes``.

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
    heads: int = 1
    axes: tuple[Any, ...] = ()
    algorithm: Any = None
    steps: int = 0

    def weights(self) -> tuple[Weight, ...]:
        made, rows = self.heads * (self.rank + 2 * self.state_size), self.steps or self.inner
        return (
            Weight("in_proj", (2 * self.inner, self.inputs)),
            Weight("x_proj", (made, self.inner // self.heads)),
            Weight("dt_proj", (rows, self.rank)),
            Weight("dt_proj.bias", (rows,), "bias"),
            Weight("conv1d", (self.inner, 1, self.kernel), "other"),
            Weight("A_log", (rows,) if self.steps else (rows, self.state_size), "other"),
            Weight("D", (rows,), "other"),
            Weight("out_proj", (self.inputs, self.inner)),
            *where(self.conv_bias, Weight("conv1d.bias", (self.inner,), "bias")),
            *where(self.bias, Weight("in_proj.bias", (2 * self.inner,), "bias")),
            *where(self.bias, Weight("out_proj.bias", (self.inputs,), "bias")),
            *where(not self.plain, *(Weight(name, (size,), "norm") for name, size in self._norms.items())),
        )

    @property
    def _norms(self) -> dict[str, int]:
        """Norms of the step widths, of B and of C, with their widths."""
        widths = {"dt": self.rank, "b": self.state_size, "c": self.state_size} if self.norms else {}
        return {f"{name}_layernorm": width for name, width in widths.items()}

    def kept_per_sequence(self) -> tuple[Cached, ...]:
        return kept_states(self.inner * self.state_size, self.state, self.inner * (self.kernel - 1))

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        step = builder.step
        tokens = step.tokens
        both = builder.linear("in_proj", x)
        half = Tensor(both.ident, (tokens, self.inner), both.dtype)
        mixed = builder.convolve(half, self.inner, self.kernel)
        made = builder.linear("x_proj", mixed, copies=self.heads)
        if self.axes:
            part, made = made, builder.output("x_proj.all_reduce", *made.dims, dtype=made.dtype)
            summed = collective_operation("AllReduce", self.axes, made.traffic_bytes, part, made, self.algorithm)
            builder.add(summed, "x_proj.all_reduce")
        for name, width in self._norms.items():
            made = builder.norm("rms_norm", made, name, tokens, width)
        narrow = Tensor(made.ident, (tokens, self.heads * self.rank), made.dtype)
        steps = builder.linear("dt_proj", narrow, copies=self.heads)
        steps = builder.elementwise("softplus", (steps,), "dt")
        read = [mixed, steps, made, *builder.read_weights("A_log", "D")]
        if self.steps:
            out = recur(builder, read, self.steps, self.state_size, self.inner // self.steps, 2, self.state)
        else:
            state, kept = builder.states("state", (step.batch, self.inner, self.state_size), self.state)
            out = builder.output("scan", tokens, self.inner)
            sizes = {"tokens": tokens, "channels": self.inner, "state_size": self.state_size}
            builder.add(selective_scan("", [*read, *state], [out, kept], **sizes), "scan")
        out = builder.elementwise("swiglu", (half, out), "gate", like=out)
        return builder.linear("out_proj", out)


@dataclass(frozen=True, slots=True)
class RealGatedRecurrence(Block, keeps="state"):
    """Griffin's recurrent block: a convolution and a recurrence (RG-LRU) of ``width`` numbers, beside a GELU branch.

    Gates of input and decay are made of ``blocks`` parts of the width, each by itself.

    Source: De et al., Griffin, arXiv:2402.19427, section 2.4.
    """

    inputs: int
    width: int
    blocks: int
    kernel: int
    activation: str = "gelu_pytorch_tanh"

    def weights(self) -> tuple[Weight, ...]:
        gates = "rg_lru.input_gate", "rg_lru.recurrent_gate"
        found = [
            Weight("linear_y", (self.width, self.inputs)),
            Weight("linear_x", (self.width, self.inputs)),
            *(Weight(gate, (self.width, self.width // self.blocks)) for gate in gates),
            Weight("conv_1d", (self.width, 1, self.kernel), "other"),
            Weight("linear_out", (self.inputs, self.width)),
        ]
        return (*found, *biases(found), Weight("rg_lru.recurrent_param", (self.width,), "other"))

    def kept_per_sequence(self) -> tuple[Cached, ...]:
        return kept_states(self.width, "fp32", self.width * (self.kernel - 1))

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        step = builder.step
        tokens = step.tokens
        beside = builder.linear("linear_y", x)
        beside = builder.elementwise(ACTIVATIONS[self.activation], (beside,), "act")
        made = builder.linear("linear_x", x)
        mixed = builder.convolve(made, self.width, self.kernel, "conv_1d", activated=False)
        read = [mixed, *builder.read_weights("rg_lru.recurrent_param")]
        for gate in ("rg_lru.input_gate", "rg_lru.recurrent_gate"):
            opened = builder.linear(gate, mixed, copies=self.blocks)
            read.append(builder.elementwise("sigmoid", (opened,), f"{gate}.act"))
        state, kept = builder.states("state", (step.batch, self.width), "fp32")
        out = builder.output("scan", tokens, self.width)
        builder.add(gated_scan("", [*read, *state], [out, kept], tokens=tokens, channels=self.width), "scan")
        out = builder.elementwise("multiply", (out, beside), "gated", like=out)
        return builder.linear("linear_out", out)


@dataclass(frozen=True, slots=True)
class ResidualConvolution(Block, keeps="state", runs_whole=True):
    """A convolution of each channel over the last ``kernel`` tokens, added to its input: that adds 1 to one weight."""

    width: int
    kernel: int

    def weights(self) -> tuple[Weight, ...]:
        return (Weight("conv1d", (self.width, 1, self.kernel), "other"),)

    def kept_per_sequence(self) -> tuple[Cached, ...]:
        return (Cached("inputs", self.width * (self.kernel - 1), "state"),)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        return builder.convolve(x, self.width, self.kernel, activated=False)


@dataclass(frozen=True, slots=True)
class ShortConvolution(Block, keeps="state"):
    """LFM2's mixer: ``out(c · conv(b · x))`` with b, c and x from one matrix, over the last ``kernel`` tokens.

    A chip of several has some of the ``channels``, which are as many as the inputs where nothing is said.
    """

    inputs: int
    kernel: int
    bias: bool = False
    channels: int = 0

    @property
    def width(self) -> int:
        """How many channels there are."""
        return self.channels or self.inputs

    def weights(self) -> tuple[Weight, ...]:
        found = [
            Weight("in_proj", (3 * self.width, self.inputs)),
            Weight("conv", (self.width, 1, self.kernel), "other"),
            Weight("out_proj", (self.inputs, self.width)),
        ]
        return (*found, *where(self.bias, *biases(found)))

    def kept_per_sequence(self) -> tuple[Cached, ...]:
        return (Cached("inputs", self.width * (self.kernel - 1), "state"),)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        tokens = builder.step.tokens
        made = builder.linear("in_proj", x)
        part = Tensor(made.ident, (tokens, self.width), made.dtype)
        gated = builder.elementwise("multiply", (part, part), "gate", like=part)
        mixed = builder.convolve(gated, self.width, self.kernel, "conv", activated=False)
        out = builder.elementwise("multiply", (part, mixed), "out", like=mixed)
        return builder.linear("out_proj", out)


def mix_with_last(builder: OperationBuilder, x: Tensor, width: int, names: tuple[str, ...]) -> Tensor:
    """Mixtures of each token's input with the token's before, one for each vector of shares: 3 FLOPs an element."""
    step = builder.step
    out, elements = builder.output("mix", step.tokens, width), step.tokens * width * len(names)
    before, kept = builder.states("inputs", (step.batch, width), step.activations)
    read = (x, *builder.read_weights(*names), *before)
    work = Work.flops("vector", builder.arithmetic, 3 * elements)
    builder.add(Op("", "convolution", work, read, (out, kept), {"elements": elements}), "mix")
    return out


@dataclass(frozen=True, slots=True)
class TimeMix(Block, keeps="state"):
    """RWKV's mixing of tokens: for each of ``hidden`` channels a weighted mean of values that decays.

    ::

        out = (num + e^(u+k)·v) ÷ (den + e^(u+k));  num ← e^(−w)·num + e^k·v;  den ← e^(−w)·den + e^k       12 FLOPs

    Numerator, denominator and the maximum that keeps them in range are kept in fp32.

    Source: Peng et al., RWKV, arXiv:2305.13048, section 3.
    """

    inputs: int
    hidden: int

    def weights(self) -> tuple[Weight, ...]:
        return (
            *(Weight(f"time_{name}", (self.hidden,), "other") for name in ("decay", "first")),
            *(Weight(f"time_mix_{name}", (self.inputs,), "other") for name in ("key", "value", "receptance")),
            *(Weight(name, (self.hidden, self.inputs)) for name in ("key", "value", "receptance")),
            Weight("output", (self.inputs, self.hidden)),
        )

    def kept_per_sequence(self) -> tuple[Cached, ...]:
        return kept_states(3 * self.hidden, "fp32", self.inputs)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        step = builder.step
        names = ("key", "value", "receptance")
        mixed = mix_with_last(builder, x, self.inputs, tuple(f"time_mix_{name}" for name in names))
        k, v, r = (builder.linear(name, mixed) for name in names)
        read = [k, v, *builder.read_weights("time_decay", "time_first")]
        state, kept = builder.states("state", (step.batch, self.hidden, 3), "fp32")
        out = builder.output("scan", step.tokens, self.hidden)
        sizes = {"tokens": step.tokens, "channels": self.hidden}
        builder.add(gated_scan("", [*read, *state], [out, kept], **sizes, each=12, state_size=3), "scan")
        gate = builder.elementwise("sigmoid", (r,), "gate")
        return builder.linear("output", builder.elementwise("multiply", (gate, out), "gated", like=out))


@dataclass(frozen=True, slots=True)
class ChannelMix(Block, keeps="state"):
    """RWKV's feed-forward block: ``sigmoid(receptance)·value(relu(key)²)`` of mixtures with the token before."""

    inputs: int
    hidden: int

    def weights(self) -> tuple[Weight, ...]:
        return (
            *(Weight(f"time_mix_{name}", (self.inputs,), "other") for name in ("key", "receptance")),
            Weight("key", (self.hidden, self.inputs)),
            Weight("receptance", (self.inputs, self.inputs)),
            Weight("value", (self.inputs, self.hidden)),
        )

    def kept_per_sequence(self) -> tuple[Cached, ...]:
        return (Cached("inputs", self.inputs, "state"),)

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        mixed = mix_with_last(builder, x, self.inputs, ("time_mix_key", "time_mix_receptance"))
        inner = builder.elementwise("relu2", (builder.linear("key", mixed),), "act")
        gate = builder.elementwise("sigmoid", (builder.linear("receptance", mixed),), "gate")
        return builder.elementwise("multiply", (gate, builder.linear("value", inner)), "gated", like=gate)
