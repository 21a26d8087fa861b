"""Attention masks: how many pairs of a query and a key see each other, which keys and queries see any at all.

S queries attend to T keys. Most masks are a band of the S×T score matrix (:class:`BandMask`), the others have a
function of their own. Sizes may be ints, arrays or symbols.

>>> CAUSAL.pairs(3, 3), CAUSAL.pairs(1, 5), CAUSAL.pairs(5, 2)             # the last query sees all keys
(6, 5, 3)
>>> TOP_LEFT.pairs(3, 3), TOP_LEFT.pairs(1, 5), TOP_LEFT.pairs(5, 2)       # the first query sees one key
(6, 1, 9)
>>> sliding_window(2).pairs(4, 4), chunked_pairs(2, 5, 4), packed_pairs(CAUSAL, [3, 1], [3, 5])
(7, 5, 11)
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.frozen import NamedTuple
from roofline.sizes import Size, exact_div, floor_div, is_number, is_zero, maximum, minimum


class BandMask(NamedTuple):
    """Query i stands at key i + ``offset`` and sees the keys from ``before`` positions back to ``after`` ahead.

    No ``before`` or ``after`` is no limit on that side. No ``offset`` is T − S: the last query stands at the last key,
    as in FlashAttention from version 2.1 on. PyTorch's ``is_causal`` has the offset 0.

    >>> BandMask(before=1, after=1).pairs(4, 4)                            # 2 + 3 + 3 + 2
    10
    >>> BandMask(offset=7).pairs(2, 9), BandMask(before=3).keys(2, 9), TOP_LEFT.keys(16, 64)
    (17, 5, 16)
    """

    offset: Size | None = None
    before: Size | None = None
    after: Size | None = 0

    def pairs(self, S: Size, T: Size) -> Size:
        """Count the pairs of S queries and T keys.

        ::

            pairs = △(S + offset + after) − △(S + offset − before − 1)
            △(t)  = Σ over k < S of min(max(t − k, 0), T)          the last query sees t keys, each before it one fewer

        One query at the last key sees min(before + 1, T).
        """
        if self._is_empty():
            return 0
        aligned = self.offset is None
        if aligned and _is_one(S) and self.before is not None and _is_from_zero(self.before, self.after):
            return minimum(self.before + 1, T)
        last = T if aligned else S + self.offset
        ahead = S * T
        if self.after is not None:
            ahead = _staircase(S, T, last + self.after, self.after if aligned else None)
        if self.before is None:
            return ahead
        return ahead - _staircase(S, T, last - minimum(self.before + 1, last), 0 if aligned else None)

    def keys(self, S: Size, T: Size) -> Size:
        """Count the keys that at least one query sees: the others need not be read."""
        if self._is_empty():
            return 0
        if self.offset is None:
            return T if self.before is None else minimum(T, S + self.before)
        end = T if self.after is None else minimum(T, maximum(S + self.offset + self.after, 0))
        return end if self.before is None else maximum(0, minimum(end, end - self.offset + self.before))

    def queries(self, S: Size, T: Size) -> Size:
        """Count the queries that see at least one key."""
        if self._is_empty():
            return 0
        if self.offset is None:
            return S if self.after is None else minimum(S, T + self.after)
        first = 0 if self.after is None else maximum(0, -(self.offset + self.after))
        end = S if self.before is None else minimum(S, T - self.offset + self.before)
        return maximum(0, end - first)

    def _is_empty(self) -> bool:
        if self.before is None or self.after is None:
            return False
        width = self.before + self.after + 1
        return isinstance(width, int) and width <= 0


#: Every query sees every key.
FULL = BandMask(after=None)
#: A query sees the keys up to its own; the last query stands at the last key.
CAUSAL = BandMask()
#: The same where the first query stands at the first key.
TOP_LEFT = BandMask(offset=0)


def sliding_window(width: Size) -> BandMask:
    """Causal, and of the keys up to its own a query sees the last ``width``."""
    return BandMask(before=width - 1)


def any_window_pairs(S: Size, T: Size, width: Size) -> Size:
    """Count the pairs where every query sees ``width`` keys wherever they lie, at the edges too: S·min(width, T)."""
    return S * minimum(width, T)


def packed_pairs(mask: BandMask, queries: Sequence[Size], keys: Sequence[Size]) -> Size:
    """Count the pairs of sequences packed into one (ragged): each sequence sees only itself, under ``mask``.

    >>> packed_pairs(FULL, [3, 5], [3, 5]), packed_pairs(sliding_window(2), [4], [4])
    (34, 7)
    """
    return sum(mask.pairs(S, T) for S, T in zip(queries, keys, strict=True))


def selected_pairs(S: Size, T: Size, most: Size) -> Size:
    """Count the pairs where a query picks ``most`` of the keys up to its own, whole blocks of them too.

    As many as a window of that width leaves, since only the number of keys matters.
    """
    return sliding_window(most).pairs(S, T)


def chunked_pairs(S: Size, T: Size, chunk: Size) -> Size:
    """Count the pairs where a query sees the keys of its own chunk up to itself; the queries stand at the last keys.

    Position p sees p mod c + 1 keys, so t positions see F(t) = ⌊t/c⌋·c·(c + 1)/2 + r·(r + 1)/2 with r = t mod c.
    """
    if _is_one(S):
        return T - floor_div(T - 1, chunk) * chunk

    def total(t: Size) -> Size:
        full = floor_div(t, chunk)
        rest = t - full * chunk
        return full * exact_div(chunk * (chunk + 1), 2) + exact_div(rest * (rest + 1), 2)

    return total(T) - total(T - S)


def compressed_pairs(S: Size, T: Size, rate: Size, most: Size | None = None) -> Size:
    """Count the pairs of queries and compressed entries, one for ``rate`` keys: position p sees ⌊(p + 1)/m⌋ of them.

    With ``most``, at most that many. Σ ⌊i/m⌋ for i ≤ t is G(t) = m·q·(q − 1)/2 + q·(t − m·q + 1) with q = ⌊t/m⌋; what
    exceeds K is G(t − K·m).

    >>> compressed_pairs(8, 8, 4), compressed_pairs(8, 8, 4, most=1)
    (6, 5)
    """
    if _is_one(S):
        seen = floor_div(T, rate)
        return seen if most is None else minimum(most, seen)

    def total(t: Size) -> Size:
        q = floor_div(t, rate)
        return exact_div(rate * q * (q - 1), 2) + q * (t - rate * q + 1)

    def capped(t: Size) -> Size:
        return total(t) if most is None else total(t) - total(maximum(t - most * rate, 0))

    return capped(T) - capped(T - S)


def _is_one(size: Size) -> bool:
    """Whether it is the number 1: one query has a count of its own, which is short in closed forms."""
    return is_number(size) and bool(size == 1)


def _is_from_zero(*sides: Size | None) -> bool:
    return all(side is None or (isinstance(side, int) and side >= 0) for side in sides)


def _staircase(S: Size, T: Size, t: Size, beyond: Size | None = None) -> Size:
    """Σ over k < S of min(max(t − k, 0), T): first the queries that see all T keys, then a triangle.

    ``beyond`` is by how much t exceeds T, where that is known.
    """
    if beyond is None:
        t = maximum(t, 0)
        beyond = maximum(t - T, 0)
    if is_zero(beyond):
        s = minimum(S, t)
        return exact_div(s * (2 * t - s + 1), 2)
    full = minimum(S, beyond)
    last = t - beyond
    s = minimum(S - full, last)
    return full * T + exact_div(s * (2 * last - s + 1), 2)
