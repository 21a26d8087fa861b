"""Step: what one forward pass is run on, and how it is counted. Sizes may be numbers, arrays or symbols."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.sizes import Size, is_array, is_symbol


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """``batch`` sequences, each with ``new`` tokens after ``past`` ones that are in the cache already.

    ``activations`` and ``kv`` are formats; ``full`` counts every pair of query and key, masked or not, as most
    counters do; ``absorbed`` runs latent attention on the latents rather than on keys and values made from them;
    ``unfused`` writes attention's scores to memory; ``wanted`` is the number of output rows of one sequence.
    ``skew`` is the share of the routed tokens that each expert gets, where it is not the same for all.
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

    @property
    def tokens(self) -> Size:
        """Tokens that pass through the layers."""
        return self.batch * self.new

    @property
    def length(self) -> Size:
        """Tokens of one sequence, those in the cache and the new ones."""
        return self.past + self.new


def is_zero(size: Size) -> bool:
    """Say whether a size is plainly nothing (an array or a symbol never is)."""
    return not is_array(size) and not is_symbol(size) and size == 0
