"""Attention and recurrent layers.

Attention: the call a user makes, the kernels behind it, their gradients, and the pairs that masks let see. LSTM, GRU
and plain recurrent layers stand whole: two matmuls a step for every layer and direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.frozen import dataclass, replace
from roofline.lazy import np
from roofline.ops.attention import AttentionSizes
from roofline.ops.masks import TOP_LEFT, BandMask, packed_pairs
from roofline.ops.recurrent import CELLS
from roofline.programs.positions import EVERYWHERE, Visible, broadcast
from roofline.programs.pytorch import registry
from roofline.programs.pytorch.registry import Call, Priced, TensorOperand, operands_in, pricing, rule
from roofline.programs.regions import HIDDEN, count_where
from roofline.sizes import Size, exact_div, product
from roofline.work import Op, Tensor

#: What is said of an attention whose mask is looked at.
MASKS_NOTE = "attention masks are looked at: only scores they let through are counted"
#: What is said of an attention whose mask is not known.
UNKNOWN_NOTE = "the values of an attention mask are not known: every score is counted"


def attention_sizes(
    shapes: Sequence[Sequence[Size]], mask: TensorOperand | None = None, causal: bool = False
) -> AttentionSizes:
    """Read sizes off q [.., N, S, H], k [.., K, T, H], v [.., K, T, V], and count the pairs that see each other."""
    q, k, v = shapes
    S, H = q[-2:]
    T, V = k[-2], v[-1]
    lead = broadcast(q[:-3], k[:-3])
    heads = q[-3] if len(q) > 2 else 1
    batch = product(lead)
    sizes = AttentionSizes(batch, S, T, heads, k[-3] if len(k) > 2 else 1, H, V, batch * heads * S * T, T)
    if causal:
        pairs, keys = batch * heads * TOP_LEFT.pairs(S, T), TOP_LEFT.keys(S, T)
        return sizes._replace(pairs=pairs, keys=keys, note="causal attention")
    if mask is None:
        return sizes
    chosen = let_through(mask)
    if chosen is None:
        return sizes._replace(note=UNKNOWN_NOTE)
    return with_mask(sizes, chosen)


def let_through(mask: TensorOperand) -> Any:
    """Which scores a mask lets through, None where its values are not known; of an open size as :class:`Visible`."""
    if mask.formulas is not None:
        return mask.formulas.visible(is_added=mask.dtype != "bool")
    if mask.values is None:
        return None
    return np.asarray(mask.values if mask.dtype == "bool" else mask.values > HIDDEN)


def with_mask(sizes: AttentionSizes, chosen: Any) -> AttentionSizes:
    """The sizes of an attention that sees all pairs, under a mask that says which it lets through."""
    S, T = sizes.q_length, sizes.kv_length
    if isinstance(chosen, Visible) and chosen.parts != EVERYWHERE:
        pairs = chosen.pairs(S, T)
        if pairs is None:
            return sizes._replace(note=UNKNOWN_NOTE)
        return sizes._replace(pairs=sizes.batch * sizes.heads * pairs, keys=chosen.keys(S, T), note=MASKS_NOTE)
    if isinstance(chosen, Visible) or chosen.all():
        return sizes
    pairs = count_where(chosen) * (sizes.pairs // max(1, chosen.size))
    known = chosen.ndim > 1 and chosen.shape[-1] == T
    keys = keys_seen(chosen.any(-2), sizes.heads, sizes.kv_heads, T) if known else T
    return sizes._replace(pairs=pairs, keys=keys, note=MASKS_NOTE)


def keys_seen(seen: Any, heads: Size, kv_heads: Size, T: Size) -> Size:
    """Keys of one head, on average over the heads of keys, from which of them the queries of each head see."""
    if seen.ndim > 1 and seen.shape[-2] == heads != kv_heads:
        seen = seen.reshape(*seen.shape[:-2], kv_heads, -1, T).any(-2)
    return int(seen.sum()) * int(T) // max(1, seen.size)


@rule("scaled_dot_product_attention", "_scaled_dot_product_flash_attention",
      "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_efficient_attention",
      "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_attention_math",
      "_scaled_dot_product_attention_math_for_mps", "_scaled_dot_product_fused_attention_overrideable",
      "_scaled_dot_product_flash_attention_for_xpu")  # fmt: skip
def kernel(call: Call) -> Priced:
    """Attention in one kernel; a mask is read beside the operands."""
    return _kernel(call, call.operands(0, 1, 2), ())


@rule("_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_efficient_attention_backward",
      "_scaled_dot_product_cudnn_attention_backward", "_scaled_dot_product_flash_attention_for_cpu_backward",
      "_scaled_dot_product_fused_attention_overrideable_backward")  # fmt: skip
def kernel_backward(call: Call) -> Priced:
    """The gradient of such a kernel, which works the scores out again: 5 matmuls."""
    grad, *operands = call.operands(0, 1, 2, 3)
    return _kernel(call, operands, call.read(grad), matmuls=registry.ATTENTION_BACKWARD)


def _kernel(call: Call, operands: Sequence[TensorOperand], more: Sequence[Tensor], matmuls: int = 2) -> Op:
    q, k, v = operands
    mask = call.operand("attn_bias") or call.operand("attn_mask")
    causal = bool(call.stated("is_causal", False))
    sizes = attention_sizes((q.shape, k.shape, v.shape), mask, causal)
    reads = (*call.read(q, k, v), *more, *call.read(mask))
    writes = call.writes[:1] if matmuls == 2 else call.writes
    return pricing.attention(call.name.strip("_"), reads, writes, sizes, matmuls=matmuls)


@rule("_flash_attention_forward", "_efficient_attention_forward", "_flash_attention_backward",
      "_efficient_attention_backward", "torch_attn._varlen_attn", "torch_attn._varlen_attn_backward")  # fmt: skip
def packed(call: Call) -> Priced:
    """Kernels in the layout [B, S, N, H]; sequences packed into one need their lengths, which have to be known."""
    q, k, v = call.operands(1, 2, 3) if call.is_backward else call.operands(0, 1, 2)
    starts = _first(call, "cum_seq_q", "cu_seqlens_q", "cu_seq_q")
    causal = bool(call.get("is_causal", call.get("causal", call.get("custom_mask_type", 0))))
    sizes = attention_sizes((_heads_first(q.shape), _heads_first(k.shape), _heads_first(v.shape)), causal=causal)
    if starts is not None:
        ends = _first(call, "cum_seq_k", "cu_seqlens_k", "cu_seq_k") or starts
        if starts.values is None or ends.values is None:
            return call.unknown("how long its sequences are is not known: give them as a tensor with values")
        lengths = starts.values.diff().tolist(), ends.values.diff().tolist()
        note = "sequences packed into one see only themselves"
        pairs = sizes.heads * packed_pairs(_mask(call, causal), *lengths)
        sizes = sizes._replace(batch=1, pairs=pairs, keys=sizes.kv_length, note=note)
    reads = (*call.read(q, k, v), *call.read_without(q, k, v))
    matmuls, results = (registry.ATTENTION_BACKWARD, 3) if call.is_backward else (2, 1)
    return pricing.attention(call.name.strip("_"), reads, call.writes[:results], sizes, matmuls=matmuls)


def _first(call: Call, *names: str) -> TensorOperand | None:
    return next((found for name in names if (found := call.operand(name)) is not None), None)


def _heads_first(shape: Sequence[Size]) -> tuple[Size, ...]:
    *batch, length, heads, size = shape
    return (*batch, heads, length, size)


def _mask(call: Call, causal: bool) -> BandMask:
    """The mask within each sequence, whose last query stands at its last key; −1 is no limit."""
    both: Any = call.get("window_size")
    sides = (call.get("window_size_left"), call.get("window_size_right")) if both is None else both
    before, after = (None if side is None or int(side) < 0 else int(side) for side in sides)
    return BandMask(before=before, after=0 if causal else after)


#: Kinds of layers by the number that libraries give them.
MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Layers and directions of a recurrent layer: ``weights`` of all of them in order, ``state`` before the first step.

    A weight is one of the input, of the hidden state, their biases where there are any, and a projection.
    """

    kind: str
    x: TensorOperand
    state: tuple[TensorOperand, ...]
    weights: tuple[TensorOperand, ...]
    layers: int
    directions: int

    @property
    def parts(self) -> int:
        """Weights of one layer in one direction."""
        return len(self.weights) // (self.layers * self.directions)

    @property
    def steps(self) -> Size:
        """Steps of all sequences."""
        return product(self.x.shape[:-1])

    @property
    def is_projected(self) -> bool:
        """Whether the hidden state is projected to a smaller one."""
        return self.parts in (3, 5)

    @property
    def width(self) -> Size:
        """Elements that one direction gives a step."""
        return self.weights[self.parts - 1].shape[0] if self.is_projected else self.weights[1].shape[1]

    def label(self, index: int) -> str:
        """Layer and direction of one part, as in ``0f``."""
        return f"{index // self.directions}{'fb'[index % 2] if self.directions == 2 else ''}"

    def own(self, index: int) -> tuple[TensorOperand, ...]:
        """The weights of one layer in one direction."""
        return self.weights[index * self.parts : (index + 1) * self.parts]

    def results(self) -> list[tuple[tuple[Size, ...], str]]:
        """Shapes and formats of what comes out: every step, and the state after the last."""
        out = (*self.x.shape[:-1], self.width * self.directions)
        return [(out, self.x.dtype), *((item.shape, item.dtype) for item in self.state)]

    def products(self) -> list[int]:
        """Which weights are multiplied with: of the input, of the hidden state, of the projection."""
        return [0, 1, self.parts - 1] if self.is_projected else [0, 1]

    def between(self, out: Tensor, layer: int, what: str = "") -> Tensor:
        """What one layer hands to the next, or its gradient."""
        return Tensor(f"{out.ident}.layer{layer}{what}", out.dims, out.dtype)

    def half(self, tensor: Tensor) -> Tensor:
        """The share of one direction of what a layer gives."""
        return replace(tensor, touched=self.steps * self.width) if self.directions == 2 else tensor

    def layer_inputs(self, x: Tensor, out: Tensor) -> list[Tensor]:
        """What each layer takes, and what the last one gives."""
        return [x, *(self.between(out, layer) for layer in range(self.layers - 1)), out]

    def cell(self, label: str, own: Sequence[TensorOperand], macs: Size, passes: int = 1) -> Op:
        """One layer in one direction over all steps of all sequences, ``macs`` multiply-adds a step."""
        return pricing.recurrent(
            self.kind,
            label,
            (),
            (),
            steps=self.steps,
            hidden=exact_div(own[0].shape[0], CELLS[self.kind].gates),
            macs=macs,
            inner=own[0].shape[1] + own[1].shape[1],
            passes=passes,
            compute=own[0].dtype,
        )


def recurrence_of(call: Call) -> Recurrence:
    """Read a call of a recurrent layer; a packed sequence has the sizes of its steps as second argument.

    cuDNN takes all layers and directions at once, oneDNN one of each.
    """
    if call.name == "_cudnn_rnn":
        kind, layers, is_both = MODES[call.args[6]], call.args[9], call.args[13]
        hidden, weights = call.args[4:6], call.tensors(1)
    elif call.name.startswith("mkldnn"):
        kind, layers, is_both = MODES[call.stated("mode")], 1, False
        hidden, weights = call.args[5:7], call.args[1:5]
    else:
        is_packed = "batch_sizes" in call.names or isinstance(call.args[3], list | tuple)
        hidden, weights, _, layers, _, _, is_both = call.args[2:9] if is_packed else call.args[1:8]
        kind = call.name
    x, state = call.operands(0)[0], tuple(operands_in(hidden))
    return Recurrence(kind, x, state, tuple(operands_in(weights)), layers, 2 if is_both else 1)


@rule("mkldnn_rnn_layer_backward")
def onednn_backward(call: Call) -> Priced:
    """The gradients of one layer: of the weights and of what they met, twice the work."""
    layer = recurrence_of(call)
    macs = 2 * sum(layer.weights[place].elements for place in layer.products())
    return replace(layer.cell(call.name, layer.weights, macs, passes=2), reads=call.reads, writes=call.writes)


def forward(call: Call, layer: Recurrence) -> list[Op]:
    """One operation for every layer and direction: each weight once a step."""
    (x,), begun = call.read(layer.x), call.read(*layer.state)
    out, *ends = call.writes
    taken = layer.layer_inputs(x, out)
    last = [
        replace(end, touched=product(item.shape[1:] if len(item.shape) > 2 else item.shape))
        for end, item in zip(ends, layer.state, strict=False)
    ]
    found = []
    for index in range(layer.layers * layer.directions):
        own, number = layer.own(index), index // layer.directions
        macs = sum(own[place].elements for place in layer.products())
        cost = layer.cell(f"{layer.kind}[{layer.label(index)}]", own, macs)
        reads = (taken[number], *call.read(*own), *(begun if index == 0 else ()))
        found.append(replace(cost, reads=reads, writes=(layer.half(taken[number + 1]), *last)))
    return found


# A recurrent layer over a sequence.
rule("lstm", "gru", "rnn_tanh", "rnn_relu", "_cudnn_rnn", "mkldnn_rnn_layer")(
    lambda call: forward(call, recurrence_of(call))
)
