"""Recurrent layers, which keep a state in place of keys: delta nets, linear attention, Mamba, short convolutions.

A prefill is priced as the recurrence (:mod:`roofline.ops.recurrent`). A step reads and writes the state, which does
not grow with the sequence.

>>> mixer = Mamba2("mixer", 4096, 128, 64, 8, 128, 4)
>>> [weight.shape for weight in mixer.weights()][0], [part.elements for part in mixer.cache(1000)]
((18560, 4096), [1048576, 30720])
>>> mixer = Mamba1("mixer", 768, 1536, 16, 48, 4)
>>> [weight.shape for weight in mixer.weights() if weight.kind == "linear"], [part.elements for part in mixer.cache(9)]
([(3072, 768), (80, 1536), (1536, 48), (768, 1536)], [24576, 4608])
>>> block = KimiDeltaAttention("self_attn", 2304, 32, 128, 4)
>>> [part.elements for part in block.cache(1000)]
[524288, 36864]
"""

from __future__ import annotations

from typing import Any

from roofline.frozen import dataclass
from roofline.models.blocks.attention import rotate
from roofline.models.blocks.collectives import collective_operation
from roofline.models.blocks.feed_forward import ACTIVATIONS
from roofline.models.description import RecordedBlock
from roofline.models.operation_builder import OperationBuilder
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


@dataclass(frozen=True, slots=True)
class GatedDeltaNet(RecordedBlock, keeps="state"):
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

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        tokens, heads = builder.step.tokens, self.value_heads
        qkv = builder.linear("in_proj_qkv", x, self.channels)
        z = builder.linear("in_proj_z", x, heads * self.value)
        beta = builder.linear("in_proj_b", x, heads, kind="other")
        decay = builder.linear("in_proj_a", x, heads, kind="other")
        mixed = builder.convolve(qkv, self.channels, self.kernel)
        read = [mixed, beta, decay, *builder.declare_and_read({"dt_bias": heads, "A_log": heads})]
        out = recur(builder, read, heads, self.key, self.value, 3, self.state)
        out = builder.norm("rms_norm", out, "norm", tokens * heads, self.value)
        out = builder.elementwise("swiglu", (z, out), "gate")
        return builder.linear("out_proj", out, self.inputs)


@dataclass(frozen=True, slots=True)
class Mamba2(RecordedBlock, keeps="state"):
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

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        tokens = builder.step.tokens
        made = builder.linear("in_proj", x, self.inner + self.channels + self.heads, bias=self.bias)
        seen = Tensor(made.ident, (tokens, self.channels), made.dtype)
        mixed = builder.convolve(seen, self.channels, self.kernel, bias=self.conv_bias)
        small = builder.declare_and_read(dict.fromkeys(("dt_bias", "A_log", "D"), self.heads))
        steps = Tensor(made.ident, (tokens, self.heads), made.dtype)
        out = recur(builder, [mixed, steps, *small], self.heads, self.state_size, self.value, 2, self.state)
        gate = Tensor(made.ident, (tokens, self.inner), made.dtype)
        out = builder.elementwise("swiglu", (gate, out), "gate", like=out)
        if self.normed:
            out = builder.norm("rms_norm", out, "norm")
        return builder.linear("out_proj", out, self.inputs, bias=self.out_bias)


@dataclass(frozen=True, slots=True)
class KimiDeltaAttention(RecordedBlock, keeps="state"):
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

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        tokens = builder.step.tokens

        def made(letter: str, whole: bool) -> Tensor:
            if whole:
                return builder.linear(f"{letter}_proj", x, self.inner)
            return builder.linear(f"{letter}_b_proj", builder.linear(f"{letter}_a_proj", x, self.head), self.inner)

        parts = [builder.linear(f"{name}_proj", x, self.inner) for name in "qkv"]
        mixed = builder.convolve(parts, 3 * self.inner, self.kernel)
        decay = made("f", self.full_decay)
        beta = builder.linear("b_proj", x, self.heads, kind="other")
        small = builder.declare_and_read({"dt_bias": self.inner, "A_log": self.heads})
        out = recur(builder, [mixed, beta, decay, *small], self.heads, self.head, self.head, 3, self.state)
        out = builder.norm("rms_norm", out, "o_norm", tokens * self.heads, self.head)
        gate = builder.elementwise("sigmoid", (made("g", self.full_gate),), "gate")
        out = builder.elementwise("multiply", (gate, out), "gated", like=gate)
        return builder.linear("o_proj", out, self.inputs)


@dataclass(frozen=True, slots=True)
class LightningAttention(RecordedBlock, keeps="state"):
    """Linear attention: ``heads`` states of ``head`` x ``head`` that decay by a constant of their head.

    ::

        state ← decay·state + k ⊗ v;  out = q·state                        2 products of head² a token and head

    In Ling queries and keys are normalised where ``qk_norm`` and rotated by ``rotary`` of each head, nothing goes
    through an ``activation`` unless it says so, and ``groups`` of heads are normalised apart before the gate.

    Source: MiniMax-01, arXiv:2501.08313, section 2.2; the state in fp32, as its code for serving keeps it. Ling:
    Ring-linear, arXiv:2510.19338, section 2.
    """

    inputs: int
    heads: int
    head: int
    activation: str = "silu"
    state: str = "fp32"
    groups: int = 1
    qk_norm: bool = False
    rotary: int = 0
    bias: bool = False
    out_bias: bool = False
    names: tuple[str, str, str, str] = ("qkv_proj", "norm", "output_gate", "out_proj")

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        inner, (qkv, norm, gate_name, out_name) = self.heads * self.head, self.names
        made = builder.linear(qkv, x, 3 * inner, bias=self.bias)
        if self.activation:
            made = builder.elementwise(ACTIVATIONS[self.activation], (made,), "act")
        parts, rows = [made], builder.step.tokens * self.heads
        if self.qk_norm or self.rotary:
            parts *= 3
        for number, part in enumerate(("query", "key")):
            if self.qk_norm:
                parts[number] = builder.norm("rms_norm", parts[number], f"{part}_layernorm", rows, self.head)
            if self.rotary:
                parts[number] = rotate(
                    builder, parts[number], f"{part[0]}_rope", builder.step.tokens, self.heads, self.rotary
                )
        out = recur(builder, parts, self.heads, self.head, self.head, 2, self.state)
        out = builder.norm("rms_norm", out, norm)
        gate = builder.elementwise("sigmoid", (builder.linear(gate_name, x, inner),), "gate")
        out = builder.elementwise("multiply", (gate, out), "gated", like=gate)
        return builder.linear(out_name, out, self.inputs, bias=self.out_bias)


@dataclass(frozen=True, slots=True)
class Mamba1(RecordedBlock, keeps="state"):
    """Mamba: each of ``inner`` channels has a state of ``state_size``, with a step width of its own.

    ::

        state ← exp(Δ·A)·state + Δ·x·B;  out = state·C + D·x               7 FLOPs a channel and entry of the state

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

    @property
    def _norms(self) -> dict[str, int]:
        """Norms of the step widths, of B and of C, with their widths."""
        widths = {"dt": self.rank, "b": self.state_size, "c": self.state_size} if self.norms else {}
        return {f"{name}_layernorm": width for name, width in widths.items()}

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        step = builder.step
        tokens = step.tokens
        both = builder.linear("in_proj", x, 2 * self.inner, bias=self.bias)
        half = Tensor(both.ident, (tokens, self.inner), both.dtype)
        mixed = builder.convolve(half, self.inner, self.kernel, bias=self.conv_bias)
        made = builder.linear("x_proj", mixed, self.heads * (self.rank + 2 * self.state_size), copies=self.heads)
        if self.axes:
            part, made = made, builder.output("x_proj.all_reduce", *made.dims, dtype=made.dtype)
            summed = collective_operation("AllReduce", self.axes, made.traffic_bytes, part, made, self.algorithm)
            builder.add(summed, "x_proj.all_reduce")
        for name, width in self._norms.items():
            made = builder.norm("rms_norm", made, name, tokens, width, scaled=not self.plain)
        narrow = Tensor(made.ident, (tokens, self.heads * self.rank), made.dtype)
        rows = self.steps or self.inner
        steps = builder.linear("dt_proj", narrow, rows, copies=self.heads, bias=True)
        steps = builder.elementwise("softplus", (steps,), "dt")
        small = {"A_log": rows if self.steps else (rows, self.state_size), "D": rows}
        read = [mixed, steps, made, *builder.declare_and_read(small)]
        if self.steps:
            out = recur(builder, read, self.steps, self.state_size, self.inner // self.steps, 2, self.state)
        else:
            state, kept = builder.states("state", (step.batch, self.inner, self.state_size), self.state)
            out = builder.output("scan", tokens, self.inner)
            sizes = {"tokens": tokens, "channels": self.inner, "state_size": self.state_size}
            builder.add(selective_scan("", [*read, *state], [out, kept], **sizes), "scan")
        out = builder.elementwise("swiglu", (half, out), "gate", like=out)
        return builder.linear("out_proj", out, self.inputs, bias=self.bias)


@dataclass(frozen=True, slots=True)
class RealGatedRecurrence(RecordedBlock, keeps="state"):
    """Griffin's recurrent block: a convolution and a recurrence (RG-LRU) of ``width`` numbers, beside a GELU branch.

    Gates of input and decay are made of ``blocks`` parts of the width, each by itself.

    Source: De et al., Griffin, arXiv:2402.19427, section 2.4.
    """

    inputs: int
    width: int
    blocks: int
    kernel: int
    activation: str = "gelu_pytorch_tanh"

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        step = builder.step
        tokens = step.tokens
        beside = builder.linear("linear_y", x, self.width, bias=True)
        beside = builder.elementwise(ACTIVATIONS[self.activation], (beside,), "act")
        made = builder.linear("linear_x", x, self.width, bias=True)
        mixed = builder.convolve(made, self.width, self.kernel, "conv_1d", activated=False, bias=True)
        read = [mixed, *builder.declare_and_read({"rg_lru.recurrent_param": self.width})]
        for gate in ("rg_lru.input_gate", "rg_lru.recurrent_gate"):
            opened = builder.linear(gate, mixed, self.width, copies=self.blocks, bias=True)
            read.append(builder.elementwise("sigmoid", (opened,), f"{gate}.act"))
        state, kept = builder.states("state", (step.batch, self.width), "fp32")
        out = builder.output("scan", tokens, self.width)
        builder.add(gated_scan("", [*read, *state], [out, kept], tokens=tokens, channels=self.width), "scan")
        out = builder.elementwise("multiply", (out, beside), "gated", like=out)
        return builder.linear("linear_out", out, self.inputs, bias=True)


@dataclass(frozen=True, slots=True)
class ResidualConvolution(RecordedBlock, keeps="state", runs_whole=True):
    """A convolution of each channel over the last ``kernel`` tokens, added to its input: that adds 1 to one weight."""

    width: int
    kernel: int

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        return builder.convolve(x, self.width, self.kernel, activated=False)


@dataclass(frozen=True, slots=True)
class ShortConvolution(RecordedBlock, keeps="state"):
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

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        tokens = builder.step.tokens
        made = builder.linear("in_proj", x, 3 * self.width, bias=self.bias)
        part = Tensor(made.ident, (tokens, self.width), made.dtype)
        gated = builder.elementwise("multiply", (part, part), "gate", like=part)
        mixed = builder.convolve(gated, self.width, self.kernel, "conv", activated=False, bias=self.bias)
        out = builder.elementwise("multiply", (part, mixed), "out", like=mixed)
        return builder.linear("out_proj", out, self.inputs, bias=self.bias)


def mix_with_last(builder: OperationBuilder, x: Tensor, width: int, names: tuple[str, ...]) -> Tensor:
    """Mixtures of each token's input with the token's before, one for each vector of shares: 3 FLOPs an element."""
    step = builder.step
    out, elements = builder.output("mix", step.tokens, width), step.tokens * width * len(names)
    before, kept = builder.states("inputs", (step.batch, width))
    read = (x, *builder.declare_and_read(dict.fromkeys(names, width)), *before)
    work = Work.flops("vector", builder.arithmetic, 3 * elements)
    builder.add(Op("", "convolution", work, read, (out, kept), {"elements": elements}), "mix")
    return out


@dataclass(frozen=True, slots=True)
class TimeMix(RecordedBlock, keeps="state"):
    """RWKV's mixing of tokens: for each of ``hidden`` channels a weighted mean of values that decays.

    ::

        out = (num + e^(u+k)·v) ÷ (den + e^(u+k));  num ← e^(−w)·num + e^k·v;  den ← e^(−w)·den + e^k       12 FLOPs

    Numerator, denominator and the maximum that keeps them in range are kept in fp32.

    Source: Peng et al., RWKV, arXiv:2305.13048, section 3.
    """

    inputs: int
    hidden: int

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        step = builder.step
        names = ("key", "value", "receptance")
        mixed = mix_with_last(builder, x, self.inputs, tuple(f"time_mix_{name}" for name in names))
        k, v, r = (builder.linear(name, mixed, self.hidden) for name in names)
        read = [k, v, *builder.declare_and_read({"time_decay": self.hidden, "time_first": self.hidden})]
        state, kept = builder.states("state", (step.batch, self.hidden, 3), "fp32")
        out = builder.output("scan", step.tokens, self.hidden)
        sizes = {"tokens": step.tokens, "channels": self.hidden}
        builder.add(gated_scan("", [*read, *state], [out, kept], **sizes, each=12, state_size=3), "scan")
        gate = builder.elementwise("sigmoid", (r,), "gate")
        out = builder.elementwise("multiply", (gate, out), "gated", like=out)
        return builder.linear("output", out, self.inputs)


@dataclass(frozen=True, slots=True)
class HeadedTimeMix(RecordedBlock, keeps="state"):
    """RWKV-5's mixing of tokens: ``heads`` states of ``head`` x ``head``, with a decay for each channel of a key.

    ::

        out = r·(state + u ⊙ k ⊗ v);  state ← w ⊙ state + k ⊗ v           2 products of head² a token and head

    Source: Peng et al., Eagle and Finch, arXiv:2404.05892, section 4.1.
    """

    inputs: int
    heads: int
    head: int

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        inner, names = self.heads * self.head, ("key", "value", "receptance", "gate")
        mixed = mix_with_last(builder, x, self.inputs, tuple(f"time_mix_{name}" for name in names))
        *read, gate = (builder.linear(name, mixed, inner) for name in names)
        read += builder.declare_and_read({"time_decay": inner, "time_faaaa": inner})
        out = recur(builder, read, self.heads, self.head, self.head, 2, "fp32")
        out = builder.norm("layer_norm", out, "ln_x", shift=True)
        out = builder.elementwise("swiglu", (gate, out), "gate")
        return builder.linear("output", out, self.inputs)


@dataclass(frozen=True, slots=True)
class ChannelMix(RecordedBlock, keeps="state"):
    """RWKV's feed-forward block: ``sigmoid(receptance)·value(relu(key)²)`` of mixtures with the token before."""

    inputs: int
    hidden: int

    def run(self, builder: OperationBuilder, x: Tensor) -> Tensor:
        mixed = mix_with_last(builder, x, self.inputs, ("time_mix_key", "time_mix_receptance"))
        inner = builder.elementwise("relu2", (builder.linear("key", mixed, self.hidden),), "act")
        gate = builder.elementwise("sigmoid", (builder.linear("receptance", mixed, self.inputs),), "gate")
        value = builder.linear("value", inner, self.inputs)
        return builder.elementwise("multiply", (gate, value), "gated", like=gate)
