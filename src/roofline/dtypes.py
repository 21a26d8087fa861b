"""Number formats: how many bits one element takes, and which arithmetic it runs as.

>>> get("bfloat16").name, get("bf16").bits
('bf16', 16)
>>> get("int4").nbytes(3)                  # whole bytes: 12 bits are 2 bytes
2
>>> get("int3").nbytes(64)                 # nothing computes in 3, 5, 6 or 7 bits: the next wider format does
24
>>> get("mxfp4").nbytes(64)                # 64 x 4 bits, and one scale byte for every 32
34
>>> get("nvfp4").nbytes(64)                # one scale byte for every 16
36
>>> get("int4_g128").nbytes(4096)          # groups of 128, each with an fp16 scale
2112
>>> arithmetic(["bf16", "int8"])           # the wider operand's
'bf16'
>>> wider("int8")[:2]
(('int16',), ('fp16', 'bf16'))

Sources: IEEE 754-2019; OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats (MX) 1.0 (blocks of
32 with an 8-bit scale); NVIDIA Blackwell documentation for nvfp4 (blocks of 16 with an fp8 scale; the one fp32
scale of a whole tensor is not counted); Dettmers et al. 2023 (QLoRA) for nf4 (blocks of 64 with an fp32 scale, widened
before it is multiplied); ggml for q4_0 and q8_0 (blocks of 32 with an fp16 scale); Frantar et al. 2023 (GPTQ) and
Lin et al. 2024 (AWQ) for groups of integers (an fp16 scale, and of unsigned ones a zero point of their own width);
DeepSeek-V3, arXiv:2412.19437, section 3.3, for groups of fp8 (an fp32 scale).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from roofline.errors import DTypeError, did_you_mean, quoted, suggest
from roofline.frozen import NamedTuple
from roofline.signatures import spelled
from roofline.sizes import exact_div, nbytes


class DType(NamedTuple):
    """One number format.

    ``bits`` is the storage of one element, ``arithmetic`` the name peaks are listed under (every fp8 variant runs
    at the fp8 rate), ``family`` is float, int or complex, ``block`` the number of elements that share one scale
    of ``scale_bits``.
    """

    name: str
    bits: int
    family: str
    arithmetic: str
    block: int = 0
    scale_bits: int = 0

    def nbytes(self, elements: Any) -> Any:
        """Bytes of ``elements`` (a number, an array or a symbol) in this format, scales included.

        Numbers and arrays are rounded up to whole bytes and whole blocks; symbols are the exact ratio, valid
        where the elements fill whole bytes and blocks.
        """
        if type(elements) is int and not self.block and self.bits % 8 == 0:  # most are
            return elements * (self.bits // 8)
        total = nbytes(elements, self.bits)
        if self.block:
            total = total + nbytes(elements, self.scale_bits, per=self.block)
        return total

    def average_bytes(self, elements: Any) -> Any:
        """Bytes of what is expected on average, not rounded: also where that is a whole number of elements.

        >>> get("nvfp4").nbytes(17), get("nvfp4").average_bytes(17)
        (11, 9.5625)
        """
        bits, per = (self.bits * self.block + self.scale_bits, self.block) if self.block else (self.bits, 1)
        return exact_div(elements * bits, 8 * per)

    @property
    def bits_per_element(self) -> float:
        """Bits of one element with its share of the block scale.

        >>> get("mxfp4").bits_per_element
        4.25
        """
        return self.bits + (self.scale_bits / self.block if self.block else 0)

    def __str__(self) -> str:
        return self.name


DTYPES: dict[str, DType] = {
    row.name: row
    for row in (
        DType("fp64", 64, "float", "fp64"),
        DType("fp32", 32, "float", "fp32"),
        DType("tf32", 32, "float", "tf32"),
        DType("fp16", 16, "float", "fp16"),
        DType("bf16", 16, "float", "bf16"),
        DType("fp8", 8, "float", "fp8"),
        DType("fp8_e4m3", 8, "float", "fp8"),
        DType("fp8_e5m2", 8, "float", "fp8"),
        DType("fp8_e8m0", 8, "float", "fp8"),
        DType("fp6", 6, "float", "fp6"),
        DType("fp6_e2m3", 6, "float", "fp6"),
        DType("fp6_e3m2", 6, "float", "fp6"),
        DType("fp4", 4, "float", "fp4"),
        DType("fp4_e2m1", 4, "float", "fp4"),
        DType("mxfp8", 8, "float", "fp8", 32, 8),
        DType("mxfp6", 6, "float", "fp6", 32, 8),
        DType("mxfp4", 4, "float", "fp4", 32, 8),
        DType("nvfp4", 4, "float", "fp4", 16, 8),
        DType("nf4", 4, "float", "nf4", 64, 32),
        DType("mxint8", 8, "int", "int8", 32, 8),
        DType("q8_0", 8, "int", "int8", 32, 16),
        DType("q4_0", 4, "int", "int4", 32, 16),
        *(
            DType(f"{sign}int{bits}", bits, "int", f"int{bits}")
            for sign in ("", "u")
            for bits in (64, 32, 16, *range(8, 0, -1))
        ),
        DType("bool", 8, "int", "int8"),
        DType("complex32", 32, "complex", "fp16"),
        DType("complex64", 64, "complex", "fp32"),
        DType("complex128", 128, "complex", "fp64"),
    )
}

ALIASES: dict[str, str] = {
    "float64": "fp64", "f64": "fp64", "double": "fp64",
    "float32": "fp32", "f32": "fp32", "float": "fp32", "single": "fp32",
    "float16": "fp16", "f16": "fp16", "half": "fp16",
    "bfloat16": "bf16", "b16": "bf16",
    "float8": "fp8", "f8": "fp8", "float8_e4m3": "fp8_e4m3", "float8_e4m3fn": "fp8_e4m3", "f8e4m3": "fp8_e4m3",
    "float8_e4m3fnuz": "fp8_e4m3", "fp8_e4m3fn": "fp8_e4m3", "fp8_e4m3fnuz": "fp8_e4m3", "fp8e4m3": "fp8_e4m3",
    "f8e4m3fn": "fp8_e4m3", "f8e4m3fnuz": "fp8_e4m3", "f8e4m3b11fnuz": "fp8_e4m3", "float8_e4m3b11fnuz": "fp8_e4m3",
    "e4m3": "fp8_e4m3", "e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2", "float8_e5m2fnuz": "fp8_e5m2", "fp8_e5m2fnuz": "fp8_e5m2", "fp8e5m2": "fp8_e5m2",
    "f8e5m2": "fp8_e5m2", "f8e5m2fnuz": "fp8_e5m2", "e5m2": "fp8_e5m2",
    "float8_e8m0fnu": "fp8_e8m0", "f8e8m0fnu": "fp8_e8m0", "e8m0": "fp8_e8m0",
    "float6": "fp6", "float6_e2m3fn": "fp6_e2m3", "float6_e3m2fn": "fp6_e3m2", "f6e2m3fn": "fp6_e2m3",
    "f6e3m2fn": "fp6_e3m2", "e2m3": "fp6_e2m3", "e3m2": "fp6_e3m2",
    "float4": "fp4", "f4": "fp4", "float4_e2m1fn": "fp4_e2m1", "float4_e2m1fn_x2": "fp4_e2m1", "f4e2m1fn": "fp4_e2m1",
    "fp4e2m1": "fp4_e2m1", "e2m1": "fp4_e2m1",
    "mxfp8_e4m3": "mxfp8", "mxfp8_e5m2": "mxfp8", "mxfp6_e2m3": "mxfp6", "mxfp6_e3m2": "mxfp6", "mxfp4_e2m1": "mxfp4",
    "i64": "int64", "long": "int64", "i32": "int32", "int": "int32", "s32": "int32", "i16": "int16", "i8": "int8",
    "s8": "int8", "i4": "int4", "s4": "int4", "i2": "int2", "u64": "uint64", "u32": "uint32", "u16": "uint16",
    "u8": "uint8", "u4": "uint4", "pred": "bool", "binary": "int1", "chalf": "complex32",
    "c64": "complex64", "c128": "complex128",
}  # fmt: skip

# How formats begin that are often written in capitals: FP8, BF16, INT8.
_SPELLED = ("fp", "bf16", "bfloat16", "float", "tf32", "int", "uint", "mx", "nvfp", "nf4", "q4_0", "q8_0", "complex")


def _grouped(name: str) -> DType | None:
    """The format of ``int4_g128``: elements in groups that share a scale; None for a name of another form."""
    base, marked, size = name.rpartition("_g")
    plain = DTYPES.get(ALIASES.get(base, base))
    block = int(size) if size.isdecimal() and len(size) < 10 else 0
    if not marked or plain is None or plain.block or plain.bits > 8 or block < 2:
        return None
    zero = plain.bits if plain.name.startswith("uint") else 0
    scale = 32 if plain.arithmetic == "fp8" else 16 + zero
    return plain._replace(name=f"{plain.name}_g{block}", block=block, scale_bits=scale)


# Arithmetic formats by width; a chip without a rate for one runs it as the next wider.
_FLOAT_LADDER: tuple[tuple[str, ...], ...] = (("fp4",), ("fp6",), ("fp8",), ("fp16", "bf16"), ("fp32",), ("fp64",))
_INT_LADDER = ("int2", "int4", "int8", "int16", "int32", "int64")
#: Formats whose codes stand for values of a table: matrices wait in them, and no unit computes in them.
STORED_ONLY = frozenset({"nf4"})
#: Bits of an element where its storage has others: tf32 keeps 19 of 32; codes of 4 stand for values of less than 16.
_BITS_WITHIN = {"tf32": 19, "nf4": 15}

#: Names that others have for formats, and what they are called here.
_OF_OTHERS = {"bf8": "AMD calls fp8_e5m2 so; fp8 is e4m3"}


def is_dtype(name: str) -> bool:
    """Say whether ``name`` is a format or an alias of one; capitals are another spelling only where no name has them.

    >>> is_dtype("FP8"), is_dtype("Float16"), is_dtype("half"), is_dtype("HALF"), is_dtype("F8")
    (True, True, True, False, False)
    """
    if name in DTYPES or name in ALIASES or ("_g" in name and _grouped(name)):
        return True
    plain = name.lower()
    return plain != name and plain.startswith(_SPELLED) and is_dtype(plain)


def names() -> list[str]:
    """List the canonical names."""
    return list(DTYPES)


@cache
def get(name: str) -> DType:
    """Look a format up by name or alias, in small letters or capitals.

    >>> get("float8_e4m3fn").arithmetic, get("FP16").name
    ('fp8', 'fp16')
    >>> get("bf61")
    Traceback (most recent call last):
    roofline.errors.DTypeError: unknown dtype 'bf61'; did you mean 'bf16'?
    """
    if not isinstance(name, str):
        raise DTypeError(f"a dtype is text, not {quoted(name)}", hint="as in 'bf16', 'fp8' or 'int8'")
    plain = name if name in DTYPES or name in ALIASES else name.lower()
    found = DTYPES.get(ALIASES.get(plain, plain)) or _grouped(plain)
    if found is None:
        several = "one format at a time; a model's weights, activations and kv take several" * ("," in name)
        hint = several or two_formats(name) or suggest(name, [*DTYPES, *ALIASES], what="dtypes")
        raise DTypeError(f"unknown dtype {quoted(name)}", hint=hint)
    return found


def two_formats(name: str) -> str:
    """Say which two formats a name such as ``w4a16`` stands for, or which one that of others; empty for any other.

    >>> two_formats("W8A16"), two_formats("bf16")
    ('that is two formats, each said where it belongs: int8 or fp8 weights, bf16 or fp16 activations', '')
    """
    found = re.fullmatch(r"w(4|8|16)a(4|8|16)", name, re.I)
    if found is None:
        return _OF_OTHERS.get(name.lower(), "")
    formats = {"4": "int4 or fp4", "8": "int8 or fp8", "16": "bf16 or fp16"}
    said = f"{formats[found[1]]} weights, {formats[found[2]]} activations"
    return f"that is two formats, each said where it belongs: {said}"


def looks_like_dtype(name: str) -> str | None:
    """Return the dtype that ``name`` is probably a slip of, or None.

    >>> looks_like_dtype("bf61"), looks_like_dtype("weights")
    ('bf16', None)
    """
    if is_dtype(name) or not re.fullmatch(r"(bf|b?float|fp|f|u?int|i|u|s|mxfp|nvfp|tf|complex)_?\d\w*", name, re.I):
        return None

    return did_you_mean(name, [*DTYPES, *ALIASES])


def arithmetic_name(name: str) -> str:
    """Return the name arithmetic in this format is listed under, keeping ``fp16_acc16``-like names as they are.

    >>> arithmetic_name("fp8_e5m2"), arithmetic_name("fp16_acc16")
    ('fp8', 'fp16_acc16')
    """
    base, _, accumulate = name.partition("_acc") if isinstance(name, str) else (name, "", "")
    return get(base).arithmetic + (f"_acc{accumulate}" if accumulate else "")


def peak_name(name: str) -> str | None:
    """Name what a peak is listed under: the arithmetic of a format, with its accumulate width if that is not 32.

    >>> peak_name("fp8_e4m3"), peak_name("float16"), peak_name("nvfp4"), peak_name("fp16_acc32")
    ('fp8', 'fp16', 'fp4', 'fp16')
    >>> peak_name("fp16_acc16"), peak_name("bf61"), peak_name("complex64")
    ('fp16_acc16', None, None)
    """
    base, marked, width = name.partition("_acc")
    if not is_dtype(base) or (marked and not width.isdecimal()) or get(base).family == "complex":
        return None
    return arithmetic_name(base) + (f"_acc{width}" if width not in ("", "32") else "")


def arithmetic(dtypes: Iterable[str]) -> str:
    """Choose the arithmetic format of an operation: the wider operand's.

    An integer beside a float that is at least as wide computes in the float. Two different formats of equal width,
    or an integer wider than the float beside it, need a choice:

    >>> arithmetic(["fp8_e4m3", "fp8_e5m2"])
    'fp8'
    >>> arithmetic(["bf16", "fp16"])
    Traceback (most recent call last):
    roofline.errors.DTypeError: bf16 and fp16 are equally wide, so the arithmetic dtype needs a choice; say ...
    """
    formats = [get(name) for name in dtypes]
    widest = formats[0].arithmetic
    for item in formats[1:]:
        widest = _wider_of(widest, item.arithmetic)
    return widest


def storage(dtypes: Iterable[str]) -> str:
    """Choose the storage format of a result nobody wrote out: the wider operand's, by name.

    >>> storage(["int4", "bf16"])
    'bf16'
    """
    wanted = [get(name) for name in dtypes]
    chosen = arithmetic([item.name for item in wanted])
    return max((item for item in wanted if item.arithmetic == chosen), key=lambda item: item.bits).name


def _wider_of(a: str, b: str) -> str:
    if a == b:
        return a
    first, second = DTYPES[a], DTYPES[b]
    if first.family != second.family:
        real, whole = (first, second) if first.family == "float" else (second, first)
        if real.bits >= whole.bits:
            return real.name
        reason = f"{whole.name} is wider than {real.name}, which cannot hold it"
    elif first.bits != second.bits:
        return a if first.bits > second.bits else b
    elif {a, b} == {"tf32", "fp32"}:
        return "fp32"
    else:
        reason = f"{a} and {b} are equally wide"
    hint = f"say {spelled('compute', a)} or {spelled('compute', b)}"
    raise DTypeError(f"{reason}, so the arithmetic dtype needs a choice", hint=hint)


@cache
def wider(name: str) -> tuple[tuple[str, ...], ...]:
    """List, group by group, the arithmetic formats wider than ``name`` that can stand in for it.

    For whole numbers these are ints of up to 8 bits or of twice as many, then floats of twice as many.

    >>> wider("bf16")
    (('fp32',), ('fp64',))
    >>> wider("tf32")
    (('fp32',), ('fp64',))
    >>> wider("nf4")
    (('fp16', 'bf16'), ('fp32',), ('fp64',))
    """
    base = arithmetic_name(name.partition("_acc")[0])
    bits = _BITS_WITHIN.get(base, DTYPES[base].bits)
    if DTYPES[base].family != "int":
        return tuple(group for group in _FLOAT_LADDER if DTYPES[group[0]].bits > bits)
    ints = tuple((name,) for name in _INT_LADDER if bits < DTYPES[name].bits <= max(8, 2 * bits))
    return ints + tuple(group for group in _FLOAT_LADDER if DTYPES[group[0]].bits >= max(16, 2 * bits))
