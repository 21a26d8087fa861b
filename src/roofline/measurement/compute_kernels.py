"""Kernels that compute in registers only: the most a core can do in a dtype, whatever a library reaches.

Independent chains of one instruction, enough of them to cover its latency on two or more units. A floating multiply-add
is LLVM's own ``fma``, or two instructions on a processor that has none; dot-product and tile instructions, which IR
cannot say for every LLVM, are inline assembly. FLOPs are 2 for every multiply-add, integer ones too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from roofline.measurement.kernels import Kernel, loop
from roofline.measurement.processor import Processor

#: Chains: 12 with their two operands fit 16 registers; with 32 registers more hide a longer latency.
CHAINS, MORE_CHAINS = 12, 24

#: Times the chains are written out in one turn of the loop.
UNROLLED = 4

#: Steps of the dependent chain that measures the clock, one cycle each.
CLOCK_STEPS = 64


class Dot(NamedTuple):
    """A dot-product instruction of x86: the feature that brings it, multiply-adds for every 32 bits of its register."""

    dtype: str
    feature: str
    instruction: str
    per_lane: int


DOTS = (
    Dot("bf16", "avx512bf16", "vdpbf16ps", 2),
    Dot("int8", "avx512vnni", "vpdpbusd", 4),
    Dot("int8", "avxvnni", "{vex} vpdpbusd", 4),
)

#: Element types that ``llvm.fma`` computes in, with the feature they need.
FMAS = (("fp64", "double", 64, ""), ("fp32", "float", 32, ""), ("fp16", "half", 16, "avx512fp16"))

#: Multiply-adds of one tile instruction: 16 rows of 64 bytes times 16 columns.
TILES = (("bf16", "amx-bf16", "tdpbf16ps", 16 * 16 * 32), ("int8", "amx-int8", "tdpbssd", 16 * 16 * 64))


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


def most_per_cycle(kernel: Kernel) -> float | None:
    """FLOP one core can do in a cycle with vectors of today's processors: two units of 512 bits or four of 128 to 256.

    >>> most_per_cycle(Kernel("register fp32", "", "", "FLOP/s", 1.0, dtype="fp32"))
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
        if not processor.fuses:  # a fused one would be worked out by a library, element by element
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
    """Keep ``chains`` accumulators in registers; every turn applies ``call`` to each of them UNROLLED times."""
    lines = []
    for turn in range(UNROLLED):
        for n in range(chains):
            before = f"%acc{n}" if turn == 0 else f"%r{n}.{turn - 1}"
            lines.append(f"  %r{n}.{turn} = {call.format(before)}")
    last = UNROLLED - 1
    before = f"  %w = bitcast i8* %a to {kind}*\n  %x = bitcast i8* %b to {kind}*\n"
    before += f"  %y = load volatile {kind}, {kind}* %x, align 64\n  %z = load volatile {kind}, {kind}* %x, align 64"
    carried = [f"  %acc{n} = phi {kind} [ %y, %entry ], [ %r{n}.{last}, %loop ]" for n in range(chains)]
    after = [f"  store volatile {kind} %r{n}.{last}, {kind}* %w, align 64" for n in range(chains)]
    ir = loop("\n".join(lines), 1, before=before, carried="\n".join(carried), after="\n".join(after), more=declared)
    what = f"{said}, {chains} independent chains in registers"
    return Kernel(name, ir, what, "FLOP/s", flops * chains * UNROLLED, dtype=dtype)


def _tiles(processor: Processor) -> Iterator[Kernel]:
    """Make the tile kernels: six accumulators over the two other tiles, configured as 16 rows of 64 bytes.

    Palette 1, ``colsb`` from byte 16 (two bytes a tile), ``rows`` from byte 48; Intel SDM volume 1, section 18.3.
    """
    for dtype, feature, instruction, products in TILES:
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
        body = f'  call void asm sideeffect "{(steps * UNROLLED).strip("; ")}", "~{{memory}}"()'
        ir = loop(body, 1, before=set_up, after='  call void asm sideeffect "tilerelease", "~{memory}"()')
        what = f"{instruction} on 16 x 64-byte tiles, 6 accumulators"
        amount = 2.0 * products * 6 * UNROLLED
        yield Kernel(f"tile {dtype}", ir, what, "FLOP/s", amount, dtype=dtype, amx=True)
