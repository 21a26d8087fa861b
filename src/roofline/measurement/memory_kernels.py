"""Kernels that move data: load, copy, triad, and triad past the caches. Bytes are those the program names.

A store that allocates its line first moves more bytes than are counted; a store past the caches does not. A load is
volatile, so that it is one instruction and its result is dropped: an extra OR for every load costs up to a third of
the bandwidth of the first level.
"""

from __future__ import annotations

from roofline.measurement.kernels import LINE, Kernel, loop

#: Places a load kernel reads from at once: more misses are on their way than from one, which main memory rewards.
PLACES = 4

#: Vectors in one turn of the loop: enough to hide the loop, few enough for the smallest working set.
UNROLLED = 8

#: Vectors in one turn where some are stored, and how many are stored together: what the second level likes best.
STORED, TOGETHER = 4, 2


def memory_kernels(vector_bits: int) -> tuple[Kernel, ...]:
    """Make the four kernels for registers of this width, the cheapest first.

    >>> [(kernel.name, kernel.amount, kernel.arrays, kernel.step) for kernel in memory_kernels(512)]
    [('load', 1.0, 1, 512), ('copy', 2.0, 2, 256), ('triad', 3.0, 3, 256), ('non-temporal triad', 3.0, 3, 256)]
    """
    width = vector_bits // 8
    return (
        _load_kernel(width),
        _kernel("copy", "a = b", 2, width),
        _kernel("triad", "a = b + s·c", 3, width),
        _kernel("non-temporal triad", "a = b + s·c, written past the caches", 3, width, past=True),
    )


def fresh_kernel() -> Kernel:
    """Make the kernel that writes one word of every line, for pages nobody has touched yet."""
    ir = loop(
        "  %p = getelementptr i8, i8* %a, i64 %i\n  %q = bitcast i8* %p to i64*\n  store volatile i64 1, i64* %q",
        LINE,
    )
    return Kernel("fresh pages", ir, "first write to every line of new pages", "B/s", 1.0, LINE, 1)


def _kernel(name: str, what: str, arrays: int, width: int, *, past: bool = False) -> Kernel:
    """Make a kernel that stores: what it reads, or with three arrays a sum of it, past the caches where so said."""
    made, value = (_sum, "%t") if arrays == 3 else (_source, "%vb")
    lines = []
    for start in range(0, STORED, TOGETHER):
        some = range(start, start + TOGETHER)
        lines += [made(n, n * width, width) for n in some]
        lines += [_write(f"{value}{n}", n, n * width, width, past=past) for n in some]
    said = f"{what}; {8 * width}-bit vectors, {STORED} a turn"
    before = ""
    if arrays == 3:
        before = f"  %one = insertelement {_vector(width)} undef, float 3.0, i32 0\n"
        lanes = width // 4
        before += f"  %s = shufflevector {_vector(width)} %one, {_vector(width)} undef, <{lanes} x i32> zeroinitializer"
    step = STORED * width
    after, more = ("  fence seq_cst", "!0 = !{i32 1}") if past else ("", "")
    ir = loop("\n".join(lines), step, before=before, after=after, more=more)
    return Kernel(name, ir, said, "B/s", float(arrays), step, arrays)


def _load_kernel(width: int) -> Kernel:
    each = UNROLLED // PLACES
    places = range(PLACES)
    before = [f"  %part = udiv i64 %count, {PLACES}", *(f"  %off{p} = mul i64 %part, {p}" for p in places)]
    before += [f"  %a{p} = getelementptr i8, i8* %a, i64 %off{p}" for p in places]
    lines = [_read(f"a{p}", n, n * width, width, volatile=True) for p in places for n in range(each)]
    ir = loop("\n".join(lines), each * width, before="\n".join(before), until="%part")
    said = f"reads every byte, at {PLACES} places at once; {8 * width}-bit vectors, {UNROLLED} a turn"
    return Kernel("load", ir, said, "B/s", 1.0, UNROLLED * width, 1)


def _source(n: int, offset: int, width: int) -> str:
    return _read("b", n, offset, width)


def _sum(n: int, offset: int, width: int) -> str:
    kind = _vector(width)
    return (
        f"{_read('b', n, offset, width)}\n{_read('c', n, offset, width)}\n"
        f"  %m{n} = fmul contract {kind} %s, %vc{n}\n  %t{n} = fadd contract {kind} %vb{n}, %m{n}"
    )


def _read(array: str, n: int, offset: int, width: int, *, volatile: bool = False) -> str:
    kind, word = _vector(width), "volatile " if volatile else ""
    return f"{_place(array, n, offset, width)}\n  %v{array}{n} = load {word}{kind}, {kind}* %q{array}{n}, align {width}"


def _write(value: str, n: int, offset: int, width: int, *, past: bool = False) -> str:
    kind, word = _vector(width), ", !nontemporal !0" if past else ""
    return f"{_place('a', n, offset, width)}\n  store {kind} {value}, {kind}* %qa{n}, align {width}{word}"


def _place(array: str, n: int, offset: int, width: int) -> str:
    return (
        f"  %i{array}{n} = add i64 %i, {offset}\n"
        f"  %p{array}{n} = getelementptr i8, i8* %{array}, i64 %i{array}{n}\n"
        f"  %q{array}{n} = bitcast i8* %p{array}{n} to {_vector(width)}*"
    )


def _vector(width: int) -> str:
    return f"<{width // 4} x float>"
