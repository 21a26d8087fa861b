"""Kernel: exponentials of fp32 vectors that lie in the first cache, as elementwise and softmax kernels compute them.

::

    n = round(x·log2 e);  r = x − n·ln 2 (in two parts);  exp x = 2ⁿ·(1 + r + r²/2 + … + r⁶/720)

Source: the classic reduction of Cody and Waite, Software Manual for the Elementary Functions, 1980, chapter 6.
"""

from __future__ import annotations

import struct
from math import factorial

from roofline.measurement.kernels import Kernel, loop

#: Terms of the polynomial beyond 1: relative error below 2⁻²² for |r| ≤ ½ ln 2.
TERMS = 6

#: Independent vectors in one turn of the loop.
UNROLLED = 4

_LOG2E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 0.693359375, -2.12194440e-4


def exp_kernel(vector_bits: int) -> Kernel:
    """Make the kernel for registers of this width; a count is a byte read, an element is four.

    >>> exp_kernel(512).unit, exp_kernel(512).step, exp_kernel(512).amount
    ('element/s', 256, 0.25)
    """
    lanes, width = vector_bits // 32, vector_bits // 8
    body = "\n".join(_one(n, n * width, lanes) for n in range(UNROLLED))
    floats = f"<{lanes} x float>"
    declared = (
        f"declare {floats} @llvm.fmuladd.v{lanes}f32({floats}, {floats}, {floats})\n"
        f"declare {floats} @llvm.rint.v{lanes}f32({floats})\n"
    )
    step = UNROLLED * width
    what = f"exp by a polynomial of degree {TERMS}, fp32, {vector_bits}-bit vectors, data in the first cache"
    return Kernel("exp fp32", loop(body, step, more=declared), what, "element/s", 0.25, step, 2, "fp32")


def _one(n: int, offset: int, lanes: int) -> str:
    kind, ints = f"<{lanes} x float>", f"<{lanes} x i32>"
    fma = f"@llvm.fmuladd.v{lanes}f32"

    def splat(value: float) -> str:
        return f"<{', '.join([f'float {_hex(value)}'] * lanes)}>"

    lines = [
        f"  %i{n} = add i64 %i, {offset}",
        f"  %pb{n} = getelementptr i8, i8* %b, i64 %i{n}",
        f"  %qb{n} = bitcast i8* %pb{n} to {kind}*",
        f"  %x{n} = load {kind}, {kind}* %qb{n}, align {4 * lanes}",
        f"  %y{n} = fmul {kind} %x{n}, {splat(_LOG2E)}",
        f"  %k{n} = call {kind} @llvm.rint.v{lanes}f32({kind} %y{n})",
        f"  %g{n} = call {kind} {fma}({kind} %k{n}, {kind} {splat(-_LN2_HIGH)}, {kind} %x{n})",
        f"  %r{n} = call {kind} {fma}({kind} %k{n}, {kind} {splat(-_LN2_LOW)}, {kind} %g{n})",
    ]
    sum_so_far = splat(1 / factorial(TERMS))
    for power in range(TERMS - 1, -1, -1):
        name = f"%h{n}.{power}"
        lines.append(
            f"  {name} = call {kind} {fma}({kind} {sum_so_far}, {kind} %r{n}, {kind} {splat(1 / factorial(power))})"
        )
        sum_so_far = name
    shift = f"<{', '.join(['i32 23'] * lanes)}>"
    return "\n".join(
        [
            *lines,
            f"  %e{n} = fptosi {kind} %k{n} to {ints}",
            f"  %s{n} = shl {ints} %e{n}, {shift}",
            f"  %u{n} = bitcast {kind} {sum_so_far} to {ints}",
            f"  %w{n} = add {ints} %u{n}, %s{n}",
            f"  %pa{n} = getelementptr i8, i8* %a, i64 %i{n}",
            f"  %qa{n} = bitcast i8* %pa{n} to {ints}*",
            f"  store {ints} %w{n}, {ints}* %qa{n}, align {4 * lanes}",
        ]
    )


def _hex(value: float) -> str:
    """Write a number that fp32 holds exactly as IR reads it: the hexadecimal of the double."""
    single = struct.unpack("<f", struct.pack("<f", value))[0]
    return "0x" + struct.pack(">d", single).hex().upper()
