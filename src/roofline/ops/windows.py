"""A window sliding along one dimension: how many results it gives, how many of its taps meet an element.

Letters, as in the PyTorch documentation of ConvNd: L elements, window of k taps, stride s, dilation d, p padded
positions on each side, R results. Tap t of result o lies at position o·s − p + t·d, which is an element when it is in
0 … L − 1 and padding otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Literal, NamedTuple, TypeAlias

from roofline.errors import InputError, SizeError
from roofline.ops.rules import require, show
from roofline.sizes import Size, ceil_div, check, floor_div, maximum, minimum

#: Padded positions on each side, or ``same``: as many as give ⌈L/s⌉ results.
Padding: TypeAlias = int | Literal["same"]

_SAME: Padding = "same"

#: Counting taps goes through them one by one.
MOST_TAPS = 10_000


class Window(NamedTuple):
    """A window along one dimension."""

    k: Size
    stride: int = 1
    pad: Padding = 0
    dilation: int = 1

    def results(self, L: Size) -> Size:
        """Count results: ⌊(L + 2p − d·(k − 1) − 1)/s⌋ + 1, or ⌈L/s⌉ with padding ``same``.

        >>> Window(7, stride=2, pad=3).results(224), Window(3, stride=2, pad="same").results(5)
        (112, 3)
        >>> Window(5).results(3)
        Traceback (most recent call last):
        roofline.errors.SizeError: a window of 5 does not fit a size of 3; pad more, or take a smaller window
        """
        if self.pad == "same":
            return ceil_div(L, self.stride)
        found = floor_div(L + 2 * self.pad - self.dilation * (self.k - 1) - 1, self.stride) + 1
        message = f"a window of {show(self.k)} does not fit a size of {show(L)}"
        require(found >= 1, message, "pad more, or take a smaller window")
        return found

    def spread(self, L: Size, output_pad: int = 0) -> Size:
        """Count results of the transposed window: (L − 1)·s − 2p + d·(k − 1) + output_pad + 1.

        >>> Window(4, stride=2, pad=1).spread(8)
        16
        """
        low = self._low(L, L)
        found = (L - 1) * self.stride - 2 * low + self.dilation * (self.k - 1) + output_pad + 1
        require(found >= 1, f"nothing is left of a size of {show(L)}", "pad less")
        return found

    def taps(self, L: Size, R: Size) -> Size:
        """Count the taps of R results that meet one of L elements: Σ over t of the results whose tap t does.

        >>> Window(3, pad=1).taps(4, 4)                       # of 12, the first and the last meet padding
        10
        """
        if self.pad == 0:
            return R * self.k
        if not isinstance(self.k, int):
            raise SizeError(
                f"which taps of a window of {show(self.k)} meet padding is counted for a number only",
                hint="give the size of the kernel, or count padded positions",
            )
        if self.k > MOST_TAPS:
            raise SizeError(f"taps of a window of {self.k} are not told apart", hint="count padded positions")
        return valid_taps(L, R, self.k, stride=self.stride, low=self._low(L, R), dilation=self.dilation)

    def reached(self, L: Size, R: Size) -> Size:
        """Count results with at least one tap on an element.

        Windows that overlap the elements all have one, unless the taps are wider apart than the elements are
        many; then no two taps of a window can meet elements, and the taps are the results.

        >>> Window(1, pad=2).reached(3, 7), Window(2, pad=1, dilation=2).reached(1, 1)
        (3, 0)
        """
        low = self._low(L, R)
        return minimum(self.taps(L, R), _between(low - self.dilation * (self.k - 1), L - 1 + low, self.stride, R))

    def covered(self, L: Size, R: Size) -> Size:
        """Count the elements that at least one tap of R results meets.

        With stride or dilation 1 the taps cover a whole stretch, or else never meet twice.

        >>> Window(2, stride=3).covered(8, 3), Window(3).covered(5, 3)
        (6, 5)
        """
        if self.stride > 1 and self.dilation > 1:
            message = "the exact count of a transposed convolution knows stride or dilation, not both"
            raise InputError(message, hint="leave out exact: 2 FLOPs per multiply-add")
        low = self._low(L, R)
        end = minimum(L, (R - 1) * self.stride + self.dilation * (self.k - 1) - low + 1)
        return minimum(self.taps(L, R), end)

    def _low(self, L: Size, R: Size) -> Size:
        """Padded positions before the first element; ``same`` puts the odd one after the last."""
        if self.pad != "same":
            return self.pad
        return floor_div(maximum(0, (R - 1) * self.stride + self.dilation * (self.k - 1) + 1 - L), 2)


def valid_taps(
    length: Size, results: Size, taps: int, *, stride: int = 1, low: Size = 0, dilation: int = 1, base: int = 1
) -> Size:
    """Count the taps of ``results`` windows that meet one of ``length`` elements.

    Tap t of result o lies at o·stride − low + t·dilation; elements lie at 0, base, 2·base … (``base`` > 1: a
    transposed convolution seen as a plain one).

    >>> valid_taps(3, 3, 3, low=1), valid_taps(1, 524288, 524288, low=524287)
    (7, 524288)
    """
    end = (length - 1) * base
    total: Size = 0
    for t in range(taps):
        shift = t * dilation - low
        first = maximum(0, ceil_div(-shift, stride))
        last = minimum(results - 1, floor_div(end - shift, stride))
        if base == 1:
            total = total + maximum(0, last - first + 1)
        else:
            total = total + sum((o * stride + shift) % base == 0 for o in range(first, last + 1))
    return total


def adaptive_windows(length: Size, results: Size) -> Size:
    """Elements of ``results`` windows over ``length``, window i from ⌊i·length/results⌋ to ⌈(i + 1)·length/results⌉.

    Together length + results − gcd(length, results), since only edges at whole numbers do not overlap by one.

    >>> adaptive_windows(9, 2), adaptive_windows(8, 16), adaptive_windows(7, 1)
    (10, 16, 7)
    """
    if isinstance(length, int) and isinstance(results, int):
        return length + results - gcd(length, results)
    return length


def windows(
    kernel: Sequence[Size],
    stride: int | Sequence[int] = 1,
    pad: Padding | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
) -> tuple[Window, ...]:
    """Make the windows of all spatial dimensions; one number stands for each of them.

    >>> windows((3, 3), stride=2, pad=(1, 0))
    (Window(k=3, stride=2, pad=1, dilation=1), Window(k=3, stride=2, pad=0, dilation=1))
    """
    spatial = len(kernel)
    strides, dilations = each("stride", stride, spatial), each("dilation", dilation, spatial)
    pads: tuple[Padding, ...] = each("pad", pad, spatial, least=0) if pad != "same" else tuple(_SAME for _ in kernel)
    return tuple(Window(*parts) for parts in zip(kernel, strides, pads, dilations, strict=True))


def each(name: str, value: Size | Sequence[Size], spatial: int, least: int = 1) -> tuple[int, ...]:
    """One whole number for each spatial dimension.

    >>> each("stride", 0, 2)
    Traceback (most recent call last):
    roofline.errors.SizeError: size stride is 0; a size is a whole number of at least 1
    """
    values = tuple(value) if isinstance(value, list | tuple) else (value,) * spatial
    if len(values) != spatial:
        raise SizeError(f"{name} has {len(values)} numbers for {spatial} spatial dimensions", hint="one stands for all")
    return tuple(0 if least == 0 and item == 0 else check(name, item) for item in values)


def _between(low: Size, high: Size, stride: int, R: Size) -> Size:
    """Count results o in 0 … R − 1 with low ≤ o·stride ≤ high."""
    first, last = maximum(0, ceil_div(low, stride)), minimum(R - 1, floor_div(high, stride))
    return maximum(0, last - first + 1)
