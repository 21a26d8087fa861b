"""Kernels: a few lines of LLVM IR that do one kind of work and nothing else, and how much one count of it is.

The body of every kernel is ``void body(a, b, c, count)``. IR is text with explicit vectors: what is written is what
runs, since no optimiser passes over it. Pointers are typed, which every LLVM from 14 on reads.

**Memory** kernels move data: load, copy, triad, and triad past the caches. Bytes are those the program names. A store
that allocates its line first moves more bytes than are counted; a store past the caches does not. A load is volatile,
so that it is one instruction and its result is dropped: an extra OR for every load costs up to a third of the bandwidth
of the first level.

**Register** kernels compute in registers only: the most a core can do in a dtype, whatever a library reaches. They are
independent chains of one instruction, enough of them to cover its latency on two or more units. A floating multiply-add
is LLVM's own ``fma``, or two instructions on a processor that has none; dot-product and tile instructions, which IR
cannot say for every LLVM, are inline assembly. FLOPs are 2 for every multiply-add, integer ones too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from math import factorial

from roofline.frozen import NamedTuple, dataclass
from roofline.measurement.processor import Processor

#: The signature all bodies share.
HEAD = "define internal void @body(i8* %a, i8* %b, i8* %c, i64 %count) noinline {"

#: Cache lines are at most this long; buffers are aligned to it, and to every vector.
LINE = 64


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: its ``ir``, a description, and the ``amount`` of ``unit`` that one count does.

    ``arrays`` is how many arrays it walks, ``step`` the bytes (or counts) of one turn of its loop, ``dtype`` what it
    computes in, ``amx`` that it needs the system's leave to use matrix tiles.
    """

    name: str
    ir: str
    what: str
    unit: str
    amount: float
    step: int = 1
    arrays: int = 0
    dtype: str = ""
    amx: bool = False


def loop(
    body: str, step: int, *, before: str = "", carried: str = "", after: str = "", more: str = "", until: str = "%count"
) -> str:
    """Wrap lines of IR into a body that runs them for every ``step`` of ``count``; ``%i`` is where it stands.

    ``before`` runs once ahead, ``carried`` holds the phi nodes of what is kept in registers, ``after`` runs once at
    the end, ``more`` is what stands beside the body (declarations, metadata), ``until`` what the loop runs to.
    """
    return f"""{HEAD}
entry:
{before}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{carried}
{body}
  %next = add i64 %i, {step}
  %again = icmp ult i64 %next, {until}
  br i1 %again, label %loop, label %end
end:
{after}
  ret void
}}
{more}"""


#: Places a load kernel reads from at once: more misses are in flight than from one place, which main memory needs.
PLACES = 4

#: Vectors in one turn of the loop: enough to hide the loop, few enough for the smallest working set.
LOADED = 8

#: Vectors in one turn of kernels that store, and how many are stored together: fastest in the second cache level.
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


def new_page_kernel() -> Kernel:
    """Make the kernel that writes one word of every cache line, for pages that nothing has touched yet."""
    body = "  %p = getelementptr i8, i8* %a, i64 %i\n  %q = bitcast i8* %p to i64*\n  store volatile i64 1, i64* %q"
    return Kernel("fresh pages", loop(body, LINE), "first write to every line of new pages", "B/s", 1.0, LINE, 1)


def _kernel(name: str, what: str, arrays: int, width: int, *, past: bool = False) -> Kernel:
    """Make a kernel that stores what it reads, or with three arrays a sum of it; ``past`` writes past the caches."""
    made, value = (_sum, "%t") if arrays == 3 else (partial(_read, "b"), "%vb")
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
    each = LOADED // PLACES
    places = range(PLACES)
    before = [f"  %part = udiv i64 %count, {PLACES}", *(f"  %off{p} = mul i64 %part, {p}" for p in places)]
    before += [f"  %a{p} = getelementptr i8, i8* %a, i64 %off{p}" for p in places]
    lines = [_read(f"a{p}", n, n * width, width, volatile=True) for p in places for n in range(each)]
    ir = loop("\n".join(lines), each * width, before="\n".join(before), until="%part")
    said = f"reads every byte, at {PLACES} places at once; {8 * width}-bit vectors, {LOADED} a turn"
    return Kernel("load", ir, said, "B/s", 1.0, LOADED * width, 1)


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


#: Chains: 12 with their two operands fit 16 registers; with 32 registers more hide a longer latency.
CHAINS, MORE_CHAINS = 12, 24

#: Times the chains are written out in one turn of the loop.
TURNS = 4

#: Steps of the dependent chain that measures the clock, one cycle each.
CLOCK_STEPS = 64


class DotInstruction(NamedTuple):
    """A dot-product instruction of x86: the feature that brings it, multiply-adds for every 32 bits of its register."""

    dtype: str
    feature: str
    instruction: str
    per_lane: int


DOTS = (
    DotInstruction("bf16", "avx512bf16", "vdpbf16ps", 2),
    DotInstruction("int8", "avx512vnni", "vpdpbusd", 4),
    DotInstruction("int8", "avxvnni", "{vex} vpdpbusd", 4),
)

#: Element types that ``llvm.fma`` computes in, with the feature they need.
FMAS = (("fp64", "double", 64, ""), ("fp32", "float", 32, ""), ("fp16", "half", 16, "avx512fp16"))

#: Multiply-adds of one tile instruction: 16 rows of 64 bytes times 16 columns.
TILE_PRODUCTS = (("bf16", "amx-bf16", "tdpbf16ps", 16 * 16 * 32), ("int8", "amx-int8", "tdpbssd", 16 * 16 * 64))

#: FLOP a tile unit does in a cycle: 16 rows of a tile take 16 cycles (Intel optimization manual, chapter on AMX).
TILES_A_CYCLE = {"bf16": 1024.0, "int8": 2048.0}


def compute_kernels(processor: Processor) -> tuple[Kernel, ...]:
    """Make the register kernels this processor can run: at most one vector and one tile kernel a dtype.

    >>> plain = Processor("x", "aarch64", frozenset({"neon", "fp-armv8"}), (0,))
    >>> [(kernel.name, kernel.amount) for kernel in compute_kernels(plain)]
    [('register fp64', 384.0), ('register fp32', 768.0)]
    """
    return (*_fma(processor), *_dots(processor), *_tiles(processor))


def clock_kernel() -> Kernel:
    """Make the kernel whose count takes :data:`CLOCK_STEPS` cycles: additions and exclusive ors in one chain."""
    lines = []
    for n in range(CLOCK_STEPS):
        before = "%x" if n == 0 else f"%x{n}"
        after = "%xlast" if n == CLOCK_STEPS - 1 else f"%x{n + 1}"
        lines.append(f"  {after} = {('add', 'xor')[n % 2]} i64 {before}, {('%u', '%v')[n % 2]}")
    ir = loop(
        "\n".join(lines),
        1,
        before="  %w = bitcast i8* %a to i64*\n  %u = load volatile i64, i64* %w\n  %v = load volatile i64, i64* %w",
        carried="  %x = phi i64 [ 1, %entry ], [ %xlast, %loop ]",
        after="  store volatile i64 %xlast, i64* %w",
    )
    return Kernel("clock", ir, "a chain of additions, one a cycle", "Hz", float(CLOCK_STEPS))


def flops_per_cycle(kernel: Kernel) -> float | None:
    """The most FLOPs a cycle of one core of today's processors: two vector units of 512 bits or four of 128 to 256.

    >>> flops_per_cycle(Kernel("register fp32", "", "", "FLOP/s", 1.0, dtype="fp32"))
    64.0
    """
    bits = {"fp64": 64, "fp32": 32, "fp16": 16, "bf16": 16, "int8": 8}.get(kernel.dtype)
    if bits is None:
        return None
    return TILES_A_CYCLE.get(kernel.dtype) if kernel.amx else 2.0 * 1024 / bits


def _chains(processor: Processor) -> int:
    wide = processor.vector_bits == 512 or not processor.is_x86
    return MORE_CHAINS if wide else CHAINS


def _fma(processor: Processor) -> Iterator[Kernel]:
    for dtype, element, bits, feature in FMAS:
        if feature and feature not in processor.features and "fullfp16" not in processor.features:
            continue
        lanes = processor.vector_bits // bits
        kind = f"<{lanes} x {element}>"
        name, terms, said = ("fma", "{y}, {z}, {acc}", "multiply-adds")
        if not processor.has_fma:  # a fused one would be worked out by a library, element by element
            name, terms, said = ("fmuladd", "{acc}, {y}, {z}", "multiplications and additions")
        intrinsic = f"@llvm.{name}.v{lanes}f{bits}"
        operands = terms.format(y=f"{kind} %y", z=f"{kind} %z", acc=f"{kind} {{0}}")
        call = f"call {kind} {intrinsic}({operands})"
        declared = f"declare {kind} {intrinsic}({kind}, {kind}, {kind})"
        said = f"{said} of {lanes} {dtype}"
        yield _chained(f"register {dtype}", dtype, kind, call, 2.0 * lanes, _chains(processor), said, declared)


def _dots(processor: Processor) -> Iterator[Kernel]:
    done: set[str] = set()
    for dot in DOTS:
        if dot.feature not in processor.features or dot.dtype in done or not processor.is_x86:
            continue
        done.add(dot.dtype)
        bits = 512 if dot.feature.startswith("avx512") else 256
        lanes = bits // 32
        kind = f"<{lanes} x i32>"
        call = f'call {kind} asm "{dot.instruction} $2, $1, $0", "=v,v,v,0"({kind} %y, {kind} %z, {kind} {{0}})'
        said = f"{dot.instruction} on {bits} bits"
        amount = 2.0 * lanes * dot.per_lane
        yield _chained(f"register {dot.dtype}", dot.dtype, kind, call, amount, _chains(processor), said)


def _chained(
    name: str, dtype: str, kind: str, call: str, flops: float, chains: int, said: str, declared: str = ""
) -> Kernel:
    """Keep ``chains`` accumulators in registers; every turn applies ``call`` to each of them TURNS times."""
    lines = []
    for turn in range(TURNS):
        for n in range(chains):
            before = f"%acc{n}" if turn == 0 else f"%r{n}.{turn - 1}"
            lines.append(f"  %r{n}.{turn} = {call.replace('{0}', before)}")
    last = TURNS - 1
    before = f"  %w = bitcast i8* %a to {kind}*\n  %x = bitcast i8* %b to {kind}*\n"
    before += f"  %y = load volatile {kind}, {kind}* %x, align 64\n  %z = load volatile {kind}, {kind}* %x, align 64"
    carried = [f"  %acc{n} = phi {kind} [ %y, %entry ], [ %r{n}.{last}, %loop ]" for n in range(chains)]
    after = [f"  store volatile {kind} %r{n}.{last}, {kind}* %w, align 64" for n in range(chains)]
    ir = loop("\n".join(lines), 1, before=before, carried="\n".join(carried), after="\n".join(after), more=declared)
    what = f"{said}, {chains} independent chains in registers"
    return Kernel(name, ir, what, "FLOP/s", flops * chains * TURNS, dtype=dtype)


def _tiles(processor: Processor) -> Iterator[Kernel]:
    """Make the tile kernels: six accumulators over the two other tiles, configured as 16 rows of 64 bytes.

    Palette 1, ``colsb`` from byte 16 (two bytes a tile), ``rows`` from byte 48; Intel SDM volume 1, section 18.3.
    """
    for dtype, feature, instruction, products in TILE_PRODUCTS:
        if feature not in processor.features:
            continue
        words = [1, 0, *[0x0040004000400040] * 2, 0, 0, 0x1010101010101010, 0]
        set_up = "\n".join(
            f"  %c{n} = getelementptr i8, i8* %a, i64 {8 * n}\n  %d{n} = bitcast i8* %c{n} to i64*\n"
            f"  store volatile i64 {word}, i64* %d{n}"
            for n, word in enumerate(words)
        )
        zero = "; ".join(f"tilezero %tmm{n}" for n in range(8))
        set_up += f'\n  call void asm sideeffect "ldtilecfg ($0); {zero}", "r,~{{memory}}"(i8* %a)'
        steps = "; ".join(f"{instruction} %tmm7, %tmm6, %tmm{n}" for n in range(6)) + "; "
        body = f'  call void asm sideeffect "{(steps * TURNS).strip("; ")}", "~{{memory}}"()'
        ir = loop(body, 1, before=set_up, after='  call void asm sideeffect "tilerelease", "~{memory}"()')
        what = f"{instruction} on 16 x 64-byte tiles, 6 accumulators"
        amount = 2.0 * products * 6 * TURNS
        yield Kernel(f"tile {dtype}", ir, what, "FLOP/s", amount, dtype=dtype, amx=True)


#: Terms of the polynomial beyond 1: relative error below 2⁻²² for |r| ≤ ½ ln 2.
TERMS = 6

#: Independent vectors in one turn of the loop.
EXP_VECTORS = 4

_LOG2E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 0.693359375, -2.12194440e-4


def exp_kernel(vector_bits: int) -> Kernel:
    """Make the kernel of fp32 exponentials in the first cache, as elementwise and softmax kernels compute them.

    ::

        n = round(x·log2 e);  r = x − n·ln 2 (in two parts);  exp x = 2ⁿ·(1 + r + r²/2 + … + r⁶/720)

    Source: the classic reduction of Cody and Waite, Software Manual for the Elementary Functions, 1980, chapter 6. A
    count is a byte read, an element is four.

    >>> exp_kernel(512).unit, exp_kernel(512).step, exp_kernel(512).amount
    ('element/s', 256, 0.25)
    """
    lanes, width = vector_bits // 32, vector_bits // 8
    body = "\n".join(_exp_vector(n, n * width, lanes) for n in range(EXP_VECTORS))
    floats = f"<{lanes} x float>"
    declared = (
        f"declare {floats} @llvm.fmuladd.v{lanes}f32({floats}, {floats}, {floats})\n"
        f"declare {floats} @llvm.rint.v{lanes}f32({floats})\n"
    )
    step = EXP_VECTORS * width
    what = f"exp by a polynomial of degree {TERMS}, fp32, {vector_bits}-bit vectors, data in the first cache"
    return Kernel("exp fp32", loop(body, step, more=declared), what, "element/s", 0.25, step, 2, "fp32")


def _exp_vector(n: int, offset: int, lanes: int) -> str:
    kind, ints = f"<{lanes} x float>", f"<{lanes} x i32>"
    fma = f"@llvm.fmuladd.v{lanes}f32"

    def splat(value: float) -> str:
        return f"<{', '.join([f'float {_hex(value)}'] * lanes)}>"

    lines = [
        _place("b", n, offset, 4 * lanes),
        f"  %x{n} = load {kind}, {kind}* %qb{n}, align {4 * lanes}",
        f"  %y{n} = fmul {kind} %x{n}, {splat(_LOG2E)}",
        f"  %k{n} = call {kind} @llvm.rint.v{lanes}f32({kind} %y{n})",
        f"  %g{n} = call {kind} {fma}({kind} %k{n}, {kind} {splat(-_LN2_HIGH)}, {kind} %x{n})",
        f"  %r{n} = call {kind} {fma}({kind} %k{n}, {kind} {splat(-_LN2_LOW)}, {kind} %g{n})",
    ]
    sum_so_far = splat(1 / factorial(TERMS))
    for power in range(TERMS - 1, -1, -1):
        name, term = f"%h{n}.{power}", splat(1 / factorial(power))
        lines.append(f"  {name} = call {kind} {fma}({kind} {sum_so_far}, {kind} %r{n}, {kind} {term})")
        sum_so_far = name
    shift = f"<{', '.join(['i32 23'] * lanes)}>"
    lines += [
        f"  %e{n} = fptosi {kind} %k{n} to {ints}",
        f"  %s{n} = shl {ints} %e{n}, {shift}",
        f"  %u{n} = bitcast {kind} {sum_so_far} to {ints}",
        f"  %w{n} = add {ints} %u{n}, %s{n}",
        f"  %z{n} = bitcast {ints} %w{n} to {kind}",
        _write(f"%z{n}", n, offset, 4 * lanes),
    ]
    return "\n".join(lines)


def _hex(value: float) -> str:
    """Write a number that fp32 holds exactly as IR reads it: the hexadecimal of the double."""
    single = struct.unpack("<f", struct.pack("<f", value))[0]
    return "0x" + struct.pack(">d", single).hex().upper()
