"""Convolutions in one to three dimensions, grouped, depthwise and transposed; the windows that they and pooling slide.

>>> x = Tensor("x", (1, 224, 224, 3), "fp32")
>>> stem = convolve(x, Tensor("w", (7, 7, 3, 64), "fp32", "weight"), stride=2, pad=3)
>>> stem.writes[0].dims, stem.work.total("flops")
((1, 112, 112, 64), 236027904)
>>> convolve(x, Tensor("w", (7, 7, 3, 64), "fp32"), stride=2, pad=3, count_padding=False).work.total("flops")
232429056
>>> x, w = Tensor("x", (1, 8, 8, 16), "bf16"), Tensor("w", (4, 4, 16, 32), "bf16")
>>> up = convolve(x, w, stride=2, pad=1, transposed=True)
>>> up.writes[0].dims, up.work.total("flops") == 2 * 8 * 8 * 16 * 4 * 4 * 32
((1, 16, 16, 32), True)

Letters of a window along one dimension, as in the PyTorch documentation of ConvNd: L elements, k taps, stride s,
dilation d, p padded positions on each side, R results. Tap t of result o lies at position o·s − p + t·d, which is an
element when it is in 0 … L − 1 and padding otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd
from operator import eq, ge, gt, le
from typing import Any, Literal, TypeAlias

from roofline.errors import InputError, SizeError
from roofline.frozen import NamedTuple, replace
from roofline.lazy import sympy
from roofline.notation.structure import Step
from roofline.ops.basic import arithmetic
from roofline.ops.rules import Context, register, require, require_equal, require_multiple, show_size
from roofline.sizes import (
    Size,
    ceil_div,
    check,
    exact_div,
    floor_div,
    is_number,
    is_one,
    is_surely,
    is_symbol,
    is_zero,
    maximum,
    minimum,
    of_largest,
    product,
)
from roofline.work import Op, Tensor, Work

#: Taps over one channel up to which no transform is worth its adds: a transform of 2·16 points has 5 levels of them.
FEW_TAPS = 16


class ConvolutionSizes(NamedTuple):
    """Sizes of one convolution: every one of ``positions`` results sees ``kernel`` taps; transposed, every input does.

    >>> ConvolutionSizes.of_kernel((64, 3, 7, 7), batch=1, positions=112 * 112)
    ConvolutionSizes(batch=1, positions=12544, out_per_group=64, in_per_group=3, kernel=49, groups=1, transposed=False)
    """

    batch: Size
    positions: Size
    out_per_group: Size
    in_per_group: Size
    kernel: Size
    groups: Size = 1
    transposed: bool = False

    @classmethod
    def of_kernel(
        cls, kernel: Sequence[Size], *, batch: Size, positions: Size, groups: Size = 1, transposed: bool = False
    ) -> ConvolutionSizes:
        """With a kernel as frameworks lay it out: [O, C/groups, taps…], transposed [C, O/groups, taps…]."""
        first, second = exact_div(kernel[0], groups), kernel[1]
        made, given = (second, first) if transposed else (first, second)
        return cls(batch, positions, made, given, product(kernel[2:]), groups, transposed)


def convolution(
    name: str,
    reads: Sequence[Tensor],
    writes: Sequence[Tensor],
    sizes: ConvolutionSizes,
    *,
    places: Sequence[Reach] = (),
    over: int = 0,
    valid_taps: Size | None = None,
    only_valid: bool = False,
    fewer_adds: Size = 0,
    bias: Size = 0,
    compute: str | None = None,
    note: str = "",
) -> Op:
    """Convolve.

    ::

        channels      = groups·out_per_group·in_per_group
        multiply-adds = batch·positions·kernel·channels
        valid         = batch·valid_taps·channels            taps that meet an element, padding left out
        FLOPs         = 2·multiply-adds − fewer_adds         2·valid − fewer_adds with only_valid
        m, n, k       = batch·positions, out_per_group, in_per_group·kernel
                        batch·positions, out_per_group·kernel, in_per_group            transposed
        bytes         = each operand read once, the result written once

    ``places`` are the windows in each dimension, over operand number ``over``: see :func:`read_by_windows`. ``bias``
    adds that many FLOPs on the vector unit. A depthwise convolution is counted on the matrix unit like the rest, where
    n is then 1 or little more.

    ``options["taps"]`` is there where another way multiplies less: Winograd's and Fourier's, of windows over several
    channels, and Fourier's of long windows over one (:data:`FEW_TAPS`). The price is of the direct way.

    A result without elements is an error, but for an empty input. Source: Dumoulin and Visin, arXiv:1603.07285.
    """
    require_results(name, reads, writes)
    batch, positions, out_per_group, in_per_group, kernel, groups, transposed = sizes
    channels = groups * out_per_group * in_per_group
    macs = batch * positions * kernel * channels
    reads, unread = read_by_windows(reads, places, over)
    options = {"macs": macs, **unread}
    if not is_one(kernel) and not (is_one(in_per_group) and is_number(kernel) and kernel <= FEW_TAPS):
        options["taps"] = kernel
    if valid_taps is not None:
        options["valid_macs"] = batch * valid_taps * channels
    dtype = compute or arithmetic(reads[:2])
    counted = options["valid_macs"] if only_valid else macs
    work = Work.flops("matrix", dtype, 2 * counted - fewer_adds)
    if not is_zero(bias):
        work += Work.flops("vector", dtype, bias)
    n, k = (out_per_group * kernel, in_per_group) if transposed else (out_per_group, in_per_group * kernel)
    dims = {"m": batch * positions, "n": n, "k": k, "batch": groups}
    return Op(name, "convolution", work, tuple(reads), tuple(writes), dims, note=note, options=options)


def require_results(name: str, reads: Sequence[Tensor], writes: Sequence[Tensor]) -> None:
    """Raise where windows leave an empty result, as one that is wider than its padded input does.

    A result that is empty for its input is, as that of an empty batch, is none of theirs.

    >>> require_results("pool", [Tensor("x", (1, 5, 3), "bf16")], [Tensor("y", (1, 0, 3), "bf16")])
    Traceback (most recent call last):
    roofline.errors.SizeError: pool has no results: its output is [1, 0, 3]; a window fits its padded input, ...
    >>> require_results("pool", [Tensor("x", (0, 5, 3), "bf16")], [Tensor("y", (0, 4, 3), "bf16")])
    """
    if any(is_number(tensor.elements) and tensor.elements == 0 for tensor in reads):
        return
    empty = next((tensor for tensor in writes if is_number(tensor.elements) and tensor.elements <= 0), None)
    if empty is not None:
        wrong = f"{name} has no results: its output is [{', '.join(map(str, empty.dims))}]"
        raise SizeError(wrong, hint="a window fits its padded input, and sizes are at least 1")


def convolve(
    x: Tensor,
    kernel: Tensor,
    bias: Tensor | None = None,
    *,
    stride: int | Sequence[int] = 1,
    pad: Padding | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: Size = 1,
    transposed: bool = False,
    output_pad: int | Sequence[int] = 0,
    compute: str | None = None,
    exact: bool = False,
    count_padding: bool = True,
    name: str = "conv",
) -> Op:
    """Convolve x [B, spatial…, C] with kernel [taps…, C/groups, O] into [B, results…, O].

    A ``transposed`` one spreads x through kernel [taps…, C, O/groups]; ``output_pad`` is added to its results.

    Positions in the padding count, as is usual; with ``count_padding=False`` only taps that meet an element do, and
    results that meet none. So do products that ``pad`` crops away of a transposed one. ``exact`` counts one add fewer
    for each result that gets a product at all. A bias adds 1 FLOP for each result.

    Source: shapes as in the PyTorch documentation of ConvNd and ConvTransposeNd.
    """
    own = windows(kernel.dims[:-2], stride, pad, dilation)
    B, *spatial, C = x.dims
    first, last = kernel.dims[-2:]
    taken, O = (first, last * groups) if transposed else (first * groups, last)  # noqa: E741
    _check_channels(C, taken, O, groups)
    extra = per_dimension("output_pad", output_pad, len(own), least=0)
    sizes = zip(own, spatial, extra, strict=True)
    results = [window.spread(L, more) if transposed else window.results(L) for window, L, more in sizes]
    # each window, the size that it slides over, and how many places it has there
    places = list(zip(own, *((results, spatial) if transposed else (spatial, results)), strict=True))
    if transposed and count_padding:
        uncropped = [window._replace(pad=0) for window in own]
        places = [(window, window.spread(L), L) for window, L in zip(uncropped, spatial, strict=True)]
    kind, operands = ("conv_transpose" if transposed else "conv"), [x, kernel, *([] if bias is None else [bias])]
    out = Tensor(f"{kind}({x.ident})", (B, *results, O), x.dtype)
    met = (w.covered(L, r) if transposed else r if count_padding else w.reached(L, r) for w, L, r in places)
    made, given = (last, exact_div(C, groups)) if transposed else (exact_div(O, groups), first)
    positions, taps = product(spatial if transposed else results), product(kernel.dims[:-2])
    return convolution(
        name,
        operands,
        (out,),
        ConvolutionSizes(B, positions, made, given, taps, groups, transposed),
        places=() if transposed else [window.reach(L, r) for window, L, r in places],
        valid_taps=None if count_padding else product(w.taps(L, r) for w, L, r in places),
        only_valid=not count_padding,
        fewer_adds=B * O * product(met) if exact else 0,
        bias=0 if bias is None else out.elements,
        compute=compute or arithmetic(operands),
        note=_note(own, count_padding, "cropped" if transposed else "padded"),
    )


@register("convolution")
def rule(step: Step, context: Context) -> Op:
    """Price a convolution; its kernel and bias are weights, the sizes of its result are worked out here."""
    x, kernel, *rest = step.inputs
    options: dict[str, Any] = {key: value for key, value in step.options.items() if key in _OPTIONS}
    options["groups"] = context.groups(step)
    op = convolve(
        context.tensor(x),
        context.operand(kernel),
        context.operand(rest[0]) if rest else None,
        compute=context.arithmetic(step),
        exact=context.exact,
        count_padding=context.count_padding,
        name=step.text or step.function,
        transposed=step.function == "conv_transpose",
        **options,
    )
    return context.written_to(op, step.output)


_OPTIONS = ("stride", "pad", "dilation", "groups", "output_pad")


def _check_channels(C: Size, expected: Size, O: Size, groups: Size) -> None:  # noqa: E741
    for size, name in ((C, "channels"), (O, "output channels")):
        said = f"{show_size(size)} {name} do not fall into {show_size(groups)} groups"
        require_multiple(size, groups, said, rule=f"{name} do not fall into groups")
    said = f"x has {show_size(C)} channels, the kernel is for {show_size(expected)}"
    require_equal(C, expected, said, rule="the kernel is for another number of channels than x has")


def _note(own: Sequence[Window], count_padding: bool, what: str) -> str:
    if all(window.pad == 0 for window in own):
        return ""
    return f"{what} positions of a convolution are {'counted' if count_padding else 'not counted'}"


#: Padded positions on each side, or ``same``: as many as give ⌈L/s⌉ results.
Padding: TypeAlias = int | Literal["same"]

_SAME: Padding = "same"

#: With open sizes the count of taps has a term for each: a longer one takes seconds, and nobody reads it.
MOST_TAPS = 100
#: Strides of a dilated window with padding ``same`` up to which an open size has a term for each rest.
MOST_RESTS = 8
#: Strides of a dilated window whose elements are looked at one by one.
MOST_STEPS = 1_000


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
        least = self.dilation * (self.k - 1) + 1 - 2 * self.pad
        rule = f"a window of {show_size(self.k)} does not fit"
        if not isinstance(least, int) or least > 1:  # at least 1 every size is
            require(least <= L, f"{rule} a size of {show_size(L)}", "pad more, or take a smaller window", rule)
        return floor_div(L - least, self.stride) + 1

    def spread(self, L: Size, output_pad: int = 0) -> Size:
        """Count results of the transposed window: (L − 1)·s − 2p + d·(k − 1) + output_pad + 1.

        >>> Window(4, stride=2, pad=1).spread(8)
        16
        """
        low = self._low(L, L)
        single = self.dilation * (self.k - 1) + output_pad + 1 - 2 * low
        found = (L - 1) * self.stride + single
        if not isinstance(single, int) or single < 1:
            require(found >= 1, f"nothing is left of a size of {show_size(L)}", "pad less")
        return found

    def taps(self, L: Size, R: Size) -> Size:
        """Count the taps of R results that meet one of L elements: Σ over t of the results whose tap t does.

        >>> Window(3, pad=1).taps(4, 4)                       # of 12, the first and the last meet padding
        10
        """
        if self.pad == 0:
            return R * self.k
        if not isinstance(self.k, int):
            wrong = f"which taps of a window of {show_size(self.k)} meet padding is counted for a number only"
            raise SizeError(wrong, hint="give the size of the kernel, or count padded positions")
        if self.k > MOST_TAPS and not isinstance(L, int):
            wrong = f"with an open size at most {MOST_TAPS} taps of a window are counted, not {self.k}"
            raise SizeError(wrong, hint="give the size, or count padded positions")
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

        >>> Window(2, stride=3).covered(8, 3), Window(3).covered(5, 3), Window(3, stride=3, dilation=2).covered(9, 2)
        (6, 5, 6)
        """
        found = self.reach(L, R).covered(self.taps(L, R))
        if found is None:
            message = "the exact count of a transposed convolution with open sizes knows stride or dilation, not both"
            raise InputError(message, hint="leave out exact: 2 FLOPs per multiply-add")
        return found

    def reach(self, L: Size, R: Size) -> Reach:
        """These windows of R results over L elements."""
        return Reach(L, R, self.k, self.stride, self._low(L, R), 1 if is_one(self.k) else self.dilation)

    def _low(self, L: Size, R: Size) -> Size:
        """Padded positions before the first element; ``same`` puts the odd one after the last."""
        if self.pad != "same":
            return self.pad
        if is_one(self.k):
            return 0
        return floor_div(maximum(0, (R - 1) * self.stride + self.dilation * (self.k - 1) + 1 - L), 2)


def valid_taps(
    length: Size, results: Size, taps: int, *, stride: int = 1, low: Size = 0, dilation: int = 1, base: int = 1
) -> Size:
    """Count the taps of ``results`` windows that meet one of ``length`` elements.

    Tap t of result o lies at o·stride − low + t·dilation; elements lie at 0, base, 2·base … (``base`` > 1: a
    transposed convolution seen as a plain one). Of numbers the count is a formula, so it takes no time at any size.

    >>> valid_taps(3, 3, 3, low=1), valid_taps(1, 524288, 524288, low=524287)
    (7, 524288)
    >>> valid_taps(10**9, 10**9, 10**6 + 1, low=10**6, dilation=2)
    999500999000000
    """
    if all(isinstance(size, int) for size in (length, results, taps, low)):
        return _taps_of_numbers(int(length), int(results), taps, stride, int(low), dilation, base)
    total: Size = 0
    for t in range(taps):
        shift = t * dilation - low
        first = maximum(0, ceil_div(-shift, stride))
        last = minimum(results - 1, floor_div(length - 1 - shift, stride))
        total = total + maximum(0, last - first + 1)
    return total


def _taps_of_numbers(length: int, results: int, taps: int, stride: int, low: int, dilation: int, base: int) -> int:
    """Σ over the taps t = r + base·j and results o = first + step·q that meet an element, for each remainder r."""
    end, shared = (length - 1) * base + low, gcd(stride, base)
    step = base // shared
    total = 0
    for r in range(min(base, taps)):
        away = (low - r * dilation) % base  # o·stride has to leave this remainder
        if away % shared:
            continue
        first = away // shared * pow(stride // shared, -1, step) % step if step > 1 else 0
        shift = r * dilation + first * stride
        sizes = (-(-(results - first) // step), -(-(taps - r) // base), stride * step, dilation * base)
        total += _pairs_below(end - shift, *sizes) - _pairs_below(low - 1 - shift, *sizes)
    return total


def _pairs_below(limit: int, results: int, taps: int, stride: int, dilation: int) -> int:
    """Count pairs of a result o and a tap t with o·stride + t·dilation ≤ limit."""
    if limit < 0 or results <= 0 or taps <= 0:
        return 0
    last = min(taps - 1, limit // dilation)
    whole = min(last + 1, max(0, (limit - (results - 1) * stride) // dilation + 1))  # taps of all results
    rest = last + 1 - whole
    return results * whole + rest + _floor_sum(rest, stride, dilation, limit - last * dilation)


def _floor_sum(n: int, m: int, a: int, b: int) -> int:
    """Σ ⌊(a·i + b)/m⌋ for i = 0 … n − 1, by Euclid's steps.

    >>> _floor_sum(5, 3, 2, 1), sum((2 * i + 1) // 3 for i in range(5))
    (7, 7)
    """
    total = 0
    while n > 0:
        total += (a // m) * (n * (n - 1) // 2) + (b // m) * n
        a, b = a % m, b % m
        above = a * n + b
        if above < m:
            break
        n, b, m, a = above // m, above % m, a, m
    return total


class Reach(NamedTuple):
    """One dimension of a convolution as :func:`valid_taps` takes it."""

    length: Size
    results: Size
    taps: Size
    stride: int = 1
    low: Size = 0
    dilation: int = 1
    base: int = 1

    def covered(self, valid: Size) -> Size | None:
        """Count the elements that at least one tap meets, of ``valid`` taps that meet one; None where that is unknown.

        With stride or dilation 1 the taps cover a whole stretch, or else never meet twice. Otherwise elements are
        looked at by the remainder of their place, in each of which this holds.
        """
        if self.base != 1:
            return None
        if self.stride == 1 or self.dilation == 1:
            return minimum(valid, self.stretch)
        if (alone := self._of_one_remainder()) is not None:
            return alone.stretch
        if not isinstance(self.taps, int) or is_symbol(self.low):  # sympy simplifies steps within steps too long
            return None
        taps, shared = self.taps, gcd(self.stride, self.dilation)
        step, apart = self.stride // shared, self.dilation // shared
        if min(step, taps) > MOST_STEPS:
            return None
        low = ceil_div(self.low, shared)
        length = maximum(0, ceil_div(self.length + self.low - low * shared, shared))
        whole: Size = 0
        single: Size = 0
        for r in range(min(step, taps)):
            shift, many = low - r * apart, -(-(taps - r) // step)
            whole = whole + _between(shift, length - 1 + shift, step, self.results + (many - 1) * apart)
            single = single + valid_taps(length, self.results, many, stride=step, low=shift, dilation=apart * step)
        return whole if apart == 1 else of_largest((self.results, apart), (whole, single))

    def met(self) -> Size | None:
        """Count the elements that at least one window meets; None where that is unknown.

        >>> Reach(8, 4, 3, 2, 1).met(), Reach(9, 4, 2, 2).met(), Reach(9, 2, 3, 5).met()
        (8, 8, 6)
        """
        if self.base == self.dilation == 1 and is_surely(ge, self.taps, self.stride):
            return self.stretch
        valid = valid_taps_of([self])
        return None if valid is None else self.covered(valid)

    def apart(self) -> Size:
        """Count the windows that share no place with one before; of windows side by side those that meet an element.

        >>> Reach(9, 4, 3, 2).apart(), Reach(9, 3, 3, 3).apart(), Reach(9, 5, 3, 1, 0, 2).apart()
        (1, 3, 2)
        >>> Reach(3, 7, 1, 1, 2).apart()
        3
        """
        shared = gcd(self.stride, self.dilation) if isinstance(self.stride, int) else 1
        if not is_surely(ge, self.stride // shared, self.taps):
            return minimum(self.results, self.dilation // shared)
        return self.meeting(self.dilation * (self.taps - 1))

    def meeting(self, before: Size) -> Size:
        """Count the windows that begin so many places before an element or nearer, or at one."""
        if is_symbol(self.results):  # padding as wide as a window is rare, and its form long
            return self.results
        return _between(self.low - before, (self.length - 1) * self.base + self.low, self.stride, self.results)

    @property
    def stretch(self) -> Size:
        """Elements from the first to the last that a tap could meet, those between them included."""
        last = floor_div((self.results - 1) * self.stride + self.dilation * (self.taps - 1) - self.low, self.base)
        first = ceil_div(-self.low, self.base) if is_number(self.low) and self.low < 0 else 0
        found = minimum(self.length, last + 1) - first
        return max(0, found) if isinstance(found, int) else found

    def read(self) -> Size:
        """Count the elements without those between windows that stand wider apart than they reach.

        >>> [Reach(*each).read() for each in ((56, 28, 1, 2), (57, 28, 2, 2), (7, 1, 3, 5), (10, 1, 3, 1, 0, 3))]
        [28, 57, 3, 3]
        """
        if self.dilation == 1 and (self.stride == 1 or not isinstance(self.taps, int) or self.taps >= self.stride):
            return self.length
        if is_symbol(self.low):
            return self._of_each_rest()
        valid = valid_taps_of([self])
        covered = None if valid is None else self.covered(valid)
        if covered is None:
            return self.length
        if self.dilation == 1 or self._of_one_remainder() is not None:
            return covered  # past the last window as between two
        if is_surely(eq, covered, self.stretch):
            return self.length
        keys = (self.results, self.dilation) if self.stride == 1 else (covered, self.stretch)
        return of_largest(keys, (self.length, covered))  # those past the last window count where none is left out

    def _of_each_rest(self) -> Size:
        """Elements that are read with padding ``same`` of an open size, by what is left of its last stride."""
        if not isinstance(self.taps, int) or self.stride > MOST_RESTS:
            return self.length
        rest = self.results * self.stride - self.length
        least = self.dilation * (self.taps - 1) + 1 - self.stride
        known = [self._replace(low=max(0, least + own) // 2).read() for own in range(self.stride)]
        cases = [(read, sympy.Le(rest, own, evaluate=False)) for own, read in enumerate(known[:-1])]
        return sympy.Piecewise(*cases, (known[-1], True), evaluate=False)

    def _of_one_remainder(self) -> Reach | None:
        """The elements that taps meet, without those between, where all lie a stride apart and none is left out.

        A stride that the dilation is a divisor of, and windows that then meet: of an even pad, every second element.

        >>> Reach(10, 4, 3, 2, 0, 2)._of_one_remainder()
        Reach(length=5, results=4, taps=3, stride=1, low=0, dilation=1, base=1)
        """
        if self.dilation == 1 or self.stride % self.dilation or not (is_number(self.low) and is_number(self.taps)):
            return None
        step, first = self.stride // self.dilation, int(-self.low % self.dilation)
        if self.taps < step:
            return None
        length = maximum(0, ceil_div(self.length - first, self.dilation))
        return Reach(length, self.results, self.taps, step, (self.low + first) // self.dilation)


def read_by_windows(
    reads: Sequence[Tensor], places: Sequence[Reach], over: int = 0
) -> tuple[tuple[Tensor, ...], dict[str, Size]]:
    """Operands as windows in so many dimensions of operand ``over`` read them, and what need not be read of it.

    Elements between windows that stand wider apart than they reach are not read: ``between`` are their bytes. A rest
    past the last window, where no other begins, counts as read, as every counter has it: ``beyond`` are its bytes.

    >>> x = Tensor("x", (1, 56, 56, 256), "bf16")
    >>> (read,), rest = read_by_windows([x], [Reach(56, 28, 1, 2)] * 2)
    >>> read.traffic_bytes, rest
    (401408, {'between': 1204224})
    >>> read_by_windows([x], [Reach(56, 27, 3, 2)] * 2)[1]
    {'beyond': 56832}
    """
    found = tuple(reads)
    if not places or over >= len(found) or found[over].touched is not None:
        return found, {}
    unread: dict[str, Size] = {}
    x, lengths = found[over], product(place.length for place in places)
    each = [place.read() for place in places]
    if any(read is not place.length for read, place in zip(each, places, strict=True)):
        x = replace(x, touched=exact_div(x.elements, lengths) * product(each))
        unread["between"] = found[over].traffic_bytes - x.traffic_bytes
    if all(isinstance(size, int) for size in (x.elements, *(size for place in places for size in place[:3]))):
        kept = product(minimum(read, place.stretch) for read, place in zip(each, places, strict=True))
        if kept < product(each):
            rest = replace(x, touched=exact_div(x.elements, lengths) * kept)
            unread["beyond"] = x.traffic_bytes - rest.traffic_bytes
    return (*found[:over], x, *found[over + 1 :]), unread


def valid_taps_of(places: Iterable[Reach]) -> Size | None:
    """The same over all dimensions; None where a kernel is open, or too large to go through with open sizes.

    >>> valid_taps_of([Reach(3, 3, 3, low=1), Reach(4, 4, 1)])
    28
    """
    found: Size = 1
    for length, results, taps, stride, low, dilation, base in places:
        is_open = not all(isinstance(size, int) for size in (length, results, low))
        if not isinstance(taps, int) or (is_open and (taps > MOST_TAPS or base > 1)):
            return None
        found = found * valid_taps(length, results, taps, stride=stride, low=low, dilation=dilation, base=base)
    return found


def padding_note(places: Iterable[Reach]) -> str:
    """What is said of a convolution that counts padded positions; nothing where no window surely reaches one.

    >>> padding_note([Reach(8, 7, 3)]), padding_note([Reach(8, 6, 3)])
    ('padded positions of a convolution are counted', '')
    """
    padded = False
    for length, results, taps, stride, low, dilation, base in places:
        if base != 1:
            return ""
        beyond = (results - 1) * stride + dilation * (taps - 1) - low - (length - 1)
        padded = padded or not is_surely(le, low, 0) or is_surely(gt, beyond, 0)
    return "padded positions of a convolution are counted" * padded


def window_count(
    length: Size, taps: Size, stride: int, low: int = 0, high: int = 0, dilation: int = 1, *, beyond: bool = False
) -> Size:
    """Windows along a dimension with so much padding before and behind it.

    A last one ``beyond`` the padding counts where it begins on an element or before it.

    >>> [window_count(16, 3, 2, beyond=beyond) for beyond in (False, True)], window_count(3, 1, 2, beyond=True)
    ([7, 8], 2)
    """
    many = (ceil_div if beyond else floor_div)(length + low + high - dilation * (taps - 1) - 1, stride) + 1
    return minimum(many, ceil_div(length + low, stride)) if beyond else many


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
    strides, dilations = per_dimension("stride", stride, spatial), per_dimension("dilation", dilation, spatial)
    pads: tuple[Padding, ...] = (
        per_dimension("pad", pad, spatial, least=0) if pad != "same" else tuple(_SAME for _ in kernel)
    )
    return tuple(Window(*parts) for parts in zip(kernel, strides, pads, dilations, strict=True))


def per_dimension(name: str, value: Size | Sequence[Size], spatial: int, least: int = 1) -> tuple[int, ...]:
    """One whole number for each spatial dimension.

    >>> per_dimension("stride", 0, 2)
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
