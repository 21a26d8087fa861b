"""ForwardPass: what one forward pass is run on, and how it is counted. Sizes may be numbers, arrays or symbols."""

from __future__ import annotations

from dataclasses import dataclass

from roofline import dtypes
from roofline.sizes import Size, exact_div

#: Options of a prefill that a decode step does not take.
PREFILL_ONLY = ("past", "logits", "images", "image_size")


@dataclass(frozen=True, slots=True, eq=False)
class ForwardPass:
    """``batch`` sequences, each with ``new`` tokens after ``past`` ones that are in the cache already.

    ``activations`` and ``kv`` are formats; ``full`` counts every pair of query and key, masked or not, as most
    counters do; ``absorbed`` runs latent attention on the latents rather than on keys and values made from them;
    ``unfused`` writes attention's scores to memory; ``wanted`` is the number of output rows of one sequence.
    ``skew`` is the share of the routed tokens that each expert gets, where it is not the same for all.

    Over several chips ``batch`` is what one copy of the model has; ``group`` that of all copies that share experts.
    ``context`` chips share each sequence: all run its new tokens, or where ``ring`` each a part of them. ``decoding``
    tells a step of few new tokens from a prompt's. ``asked_kv`` and ``asked_compute`` are formats that the caller
    chose: they replace those of an indexer's keys and scores.
    """

    batch: Size
    new: Size
    past: Size = 0
    wanted: Size = 1
    activations: str = "bf16"
    kv: str = "bf16"
    full: bool = False
    absorbed: bool = False
    unfused: bool = False
    skew: tuple[float, ...] | None = None
    group: Size | None = None
    context: int = 1
    ring: bool = False
    decoding: bool = False
    asked_kv: str = ""
    asked_compute: str = ""

    @property
    def attended(self) -> Size:
        """Sequences whose keys and values one chip holds and attends to: a part of each counts as that."""
        return exact_div(self.batch, self.context)

    @property
    def own(self) -> Size:
        """Sequences whose new tokens one chip runs, parts of sequences added up."""
        return self.attended if self.ring else self.batch

    @property
    def tokens(self) -> Size:
        """Tokens that pass through the layers of one chip."""
        return self.own * self.new

    def attention_arithmetic(self, queries: str) -> str:
        """Format of the products of attention: that of the queries, or fp8 where keys and values are kept as narrow.

        Public kernels cast the queries then: vLLM's with FlashAttention-3 (docs, "Quantized KV cache"), TensorRT-LLM's
        in prefill (FP8 context FMHA) and decoding (XQA, MLA). Where the caller chose the arithmetic, or the chip has no
        units for fp8, keys are widened on the way in.

        >>> ForwardPass(1, 1, kv="fp8").attention_arithmetic("bf16")
        'fp8'
        >>> ForwardPass(1, 1, kv="int8").attention_arithmetic("bf16")
        'bf16'
        >>> ForwardPass(1, 1, kv="fp8", asked_compute="bf16").attention_arithmetic("bf16")
        'bf16'
        """
        own = dtypes.get(queries).arithmetic
        narrow = dtypes.get(self.kv)
        if self.asked_compute not in ("", "fp8") or narrow.family != "float" or narrow.bits > 8 or own == "fp8":
            return own
        return "fp8"

    def index_format(self, dtype: str) -> str:
        """Format of an indexer's keys whose own is ``dtype``."""
        return self.asked_kv or dtype or self.kv

    @property
    def length(self) -> Size:
        """Tokens of one sequence, those in the cache and the new ones."""
        return self.past + self.new
