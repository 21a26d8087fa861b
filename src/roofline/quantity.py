"""Text ⇄ numbers in SI base units: the only place where units are read or written.

>>> parse("3.35 TB/s", "B/s"), parse("400 Gb/s", "B/s"), parse("312 TFLOPS", "FLOP/s")
(3350000000000.0, 50000000000.0, 312000000000000.0)
>>> parse("80 GiB", "B"), parse("80 GB", "B")
(85899345920.0, 80000000000.0)
>>> parse("5us", "s"), parse("8.1e11", "B/s"), parse(8.1e11, "B/s")
(5e-06, 810000000000.0, 810000000000.0)
>>> parse("9.89×10¹⁴ FLOP/s", "FLOP/s"), parse("3.35*10^12", "B/s")
(989000000000000.0, 3350000000000.0)
>>> format_quantity(84.5e-6, "s"), format_quantity(197e12, "FLOP/s"), format_quantity(69.2e6, "B")
('84.5 µs', '197 TFLOP/s', '69.2 MB')
>>> format_number(136.0947), format_number(8755.56)
('136.1', '8,756')

Prefixes are SI (k = 1000) or binary (Ki = 1024), never one for the other; ``b`` is a bit and ``B`` a byte. A MAC is a
multiply-add: two FLOPs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from roofline.counts import BINARY as _BINARY
from roofline.counts import DECIMAL as _DECIMAL
from roofline.counts import count as count
from roofline.counts import plain, powers
from roofline.errors import QuantityError, quoted
from roofline.signatures import spelled
from roofline.sizes import is_array, is_symbol, plain_number

#: A number, or text that reads as one: ``40%``, ``8k``, ``$2.50/h``.
Figure: TypeAlias = Any

#: What each unit measures, and how a figure in it is written.
UNITS: dict[str, tuple[str, str]] = {
    "B": ("an amount of bytes", "80 GiB"),
    "B/s": ("a bandwidth in bytes per second", "3.35 TB/s"),
    "FLOP/s": ("a rate of arithmetic", "312 TFLOP/s"),
    "FLOP": ("an amount of arithmetic", "8.59 GFLOP"),
    "s": ("a time", "5 us"),
    "Hz": ("a clock", "1.83 GHz"),
    "W": ("a power", "700 W"),
    "FLOP/B": ("an intensity", "240 FLOP/B"),
    "USD/h": ("a price per hour", "3.50 USD/h"),
    "": ("a plain number", "0.8"),
}

#: Figures that differ by less than this share are as good as each other.
EQUAL = 0.002

_SMALL = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15}
_LONG_TIMES = {
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("week", "weeks"), 7 * 86400.0),
}
_WORDS = {
    "kilo": "k", "mega": "M", "giga": "G", "tera": "T", "peta": "P", "exa": "E", "milli": "m", "micro": "u",
    "nano": "n",
}  # fmt: skip

#: The least figure above 0 and the largest, in SI base units: quotients of others leave the range of float64.
LEAST, MOST = 1e-60, 1e60

#: Patterns are compiled where they are used: most commands need none of them.
#: What stands behind the prefix of an amount or a rate, and what it may mean else.
_AFTER_PREFIX = {
    "FLOP": ("FLOP", "MAC for multiply-adds"),
    "FLOP/s": ("FLOP/s", "MAC/s for multiply-adds"),
    "B": ("B", "b for bits"),
    "B/s": ("B/s", "b/s for bits"),
}

_NUMBER = r"(?s)\s*([+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?)\s*(.*?)\s*"
_POWER_OF_TEN = r"\A(\$?[+-]?)(?:([\d_.]+)\s*(?:[x×*·⋅]|\\times|\\cdot)\s*)?10\s*(?:\^|\*\*)\s*\{?\s*([+-]?\d+)\}?"
_PREFIXED = r"(?P<prefix>[KMGTPE]i|[kKMGTPEZY]?)"
_PER_SECOND = r"(?:ps|(?:/|\s+per\s+)s(?:ec(?:ond)?)?)"
_BYTES = rf"{_PREFIXED}(?P<base>B|[Bb]ytes?|b|[Bb]its?)(?P<rate>{_PER_SECOND})?"
_FLOPS = rf"(?i)(?P<prefix>[kmgtpezy]?)\s*(?P<base>flop|op|mac)(?P<plural>s?)(?P<rate>{_PER_SECOND})?"
_INTENSITY = r"(?i)(?:flop|op)s?\s*(?:/|per)\s*b(?:yte)?s?"
_TIME = r"(?P<prefix>[munpfµμ]?)(?:s|sec|secs|second|seconds)"
_CLOCK = r"(?i)(?P<prefix>[kmgtpezy]?)h(?:z|ertz)"
_POWER = r"(?P<prefix>[mkKMG]?)[wW](?:atts?)?"
_HOUR = r"(?:/|per)\s*(?:(?:gpu|chip|device)[-/ ]?)?(?:h|hr|hour)"
_PRICE = rf"(?i)(?:USD|\$|dollars?)?\s*{_HOUR}(?:\s*USD)?|USD|\$|dollars?"


def whole_number(text: str) -> int | None:
    """A whole number of at least 0 in digits alone; None for any other text, and for one of over 300 digits.

    >>> whole_number(" 16 "), whole_number("²"), whole_number("-1"), whole_number("9" * 5000)
    (16, None, None, None)
    """
    digits = text.strip()
    return int(digits) if digits.isdecimal() and len(digits) <= 300 else None


def parse(text: Any, unit: str, *, zero: bool = False) -> float:
    """Read a figure as a number in ``unit``: SI base units, bytes not bits.

    A bare number is taken to be in ``unit`` already. ``zero=True`` allows 0 (an overhead may be none).

    >>> parse("819 GBps", "B/s"), parse("393 TOPS", "FLOP/s"), parse("1_000", "")
    (819000000000.0, 393000000000000.0, 1000.0)
    >>> parse("1.83 GHz", "Hz"), parse("700 W", "W"), parse("$3.50/h", "USD/h"), parse("80 %", "")
    (1830000000.0, 700.0, 3.5, 0.8)
    >>> parse("2 teraflops", "FLOP/s"), parse("4 GMAC", "FLOP"), parse("5 microseconds", "s")
    (2000000000000.0, 8000000000.0, 5e-06)
    >>> parse("80 GB", "B/s")
    Traceback (most recent call last):
    roofline.errors.QuantityError: '80 GB' is an amount of bytes; expected a bandwidth in bytes ...
    >>> parse("-1 GB", "B")
    Traceback (most recent call last):
    roofline.errors.QuantityError: '-1 GB' is negative; expected an amount of bytes above 0, such as '80 GiB'
    """
    if unit not in UNITS:
        raise QuantityError(f"unknown unit {unit!r}", hint=f"units are: {', '.join(filter(None, UNITS))}")
    text = plain_number(text)
    if isinstance(text, str):
        value = _parse_text(text, unit)
    elif isinstance(text, bool) or not hasattr(text, "__float__"):
        raise QuantityError(f"{quoted(text)} is not a figure", hint=_expected(unit))
    else:
        value = _as_float(text, unit)
    return _checked(value, text, unit, zero)


def given_amount(name: str, value: Any, unit: str = "s", *, zero: bool = False) -> float:
    """What an option gives as a number in ``unit``, a time where none is said; an error names the option.

    >>> given_amount("tpot", "30ms")
    0.03
    >>> given_amount("tpot", "30 GB")
    Traceback (most recent call last):
    roofline.errors.QuantityError: tpot: '30 GB' is an amount of bytes; expected a time, such as '5 us'
    """
    try:
        return parse(value, unit, zero=zero)
    except QuantityError as error:
        raise error.worded(f"{spelled(name).rstrip('=')}: ") from None


def figure(value: Any, unit: str) -> Any:
    """A figure that is given as text as a number in ``unit``; anything else as it is.

    >>> figure("40%", ""), figure("$2.50/h", "USD/h"), figure("2.664M", ""), figure(0.4, ""), figure(None, "")
    (0.4, 2.5, 2664000, 0.4, None)
    """
    if isinstance(value, Mapping):
        hint = f"one number, in {unit or 'parts of 1'}"
        raise QuantityError(f"{quoted(value)} is several figures where one is meant", hint=hint)
    if not isinstance(value, str):
        return value
    plain_count = count(value) if not unit and value.strip()[:1].isdigit() else None
    return parse(value, unit, zero=True) if plain_count is None or plain_count > MOST else plain_count


def kind_of(text: str) -> str | None:
    """Name the unit that the unit text of a figure belongs to, or None where it has none or is not known.

    >>> kind_of("80 GiB"), kind_of("312 TFLOPS"), kind_of("12")
    ('B', 'FLOP/s', None)
    """
    matched = re.fullmatch(_NUMBER, _typed_out(text).removeprefix("$"))
    if matched is None or not matched[2]:
        return None
    return next((unit for unit in UNITS if _factor(matched[2], unit) is not None), None)


def _parse_text(text: str, unit: str) -> float:
    typed_out = _typed_out(text)
    price = unit == "USD/h" and typed_out.startswith("$")
    matched = re.fullmatch(_NUMBER, typed_out[1:] if price else typed_out)
    if matched is None:
        word = typed_out.lower().lstrip("+-")
        if word.startswith(("nan", "inf")):
            raise QuantityError(f"{text!r} is not finite", hint=_expected(unit))
        raise QuantityError(f"{quoted(text)} does not start with a number", hint=_expected(unit))
    try:
        number = float(matched[1])
    except ValueError:
        raise QuantityError(f"{quoted(text)} does not read as a number", hint=_expected(unit)) from None
    written = matched[2]
    if not written:
        return number
    factor = _factor(written, unit)
    if factor is None:
        raise QuantityError(*_wrong_unit(text, written, unit))
    exponent = math.log10(abs(number)) if number else 0.0
    if exponent + math.log10(factor) > 300:
        raise QuantityError(f"{quoted(text)} is out of range", hint=_expected(unit))
    return _times(matched[1], number, factor)


def _typed_out(text: str) -> str:
    """A figure as it is typed: ``9.89e14`` for ``9.89×10¹⁴``."""
    return re.sub(_POWER_OF_TEN, lambda found: f"{found[1]}{found[2] or 1}e{found[3]}", powers(plain(text.strip())))


def _times(digits: str, number: float, factor: float) -> float:
    """Multiply; a power of ten shifts the decimal point instead, without the noise of ``66.9 * 1e12``."""
    power = round(math.log10(factor))
    if factor == float(f"1e{power}") and "e" not in digits.lower():
        return float(f"{digits}e{power}")
    return number * factor


def _factor(written: str, unit: str) -> float | None:
    """Return what one ``written`` is in ``unit``, or None where it is not of that kind."""
    written = re.sub(r"\s*/\s*", "/", written)
    word = next((word for word in _WORDS if written.lower().startswith(word)), "")
    written = _WORDS.get(word, "") + written[len(word) :]
    if unit in ("B", "B/s"):
        return _bytes_factor(written, rate=unit == "B/s")
    if unit in ("FLOP", "FLOP/s"):
        return _flops_factor(written, rate=unit == "FLOP/s")
    if unit == "FLOP/B":
        return 1.0 if re.fullmatch(_INTENSITY, written) else None
    if unit == "USD/h":
        return 1.0 if re.fullmatch(_PRICE, written) else None
    if unit == "":
        return 0.01 if written in ("%", "percent") else None
    if unit == "s" and written in _LONG_TIMES:
        return _LONG_TIMES[written]
    pattern = {"s": _TIME, "Hz": _CLOCK, "W": _POWER}[unit]
    matched = re.fullmatch(pattern, written)
    if matched is None:
        return None
    prefix = matched["prefix"]
    if unit == "Hz":
        return _DECIMAL[_upper(prefix)]
    return _SMALL[prefix] if prefix in _SMALL else _DECIMAL["k" if prefix == "K" else prefix]


def _bytes_factor(written: str, *, rate: bool) -> float | None:
    matched = re.fullmatch(_BYTES, written)
    if matched is None or (matched["rate"] is not None) is not rate:
        return None
    prefix = matched["prefix"]
    factor = _BINARY[prefix] if prefix.endswith("i") else _DECIMAL["k" if prefix == "K" else prefix]
    bits = matched["base"] == "b" or matched["base"].lower().startswith("bit")
    return factor / 8 if bits else factor


def _flops_factor(written: str, *, rate: bool) -> float | None:
    matched = re.fullmatch(_FLOPS, written)
    if matched is None:
        return None
    per_second = bool(matched["rate"]) or matched["plural"] == "S" or (matched["plural"] != "" and rate)
    per_second = per_second or (matched["base"].lower() == "op" and matched["plural"] != "")
    each = 2.0 if matched["base"].lower() == "mac" else 1.0
    return each * _DECIMAL[_upper(matched["prefix"])] if per_second is rate else None


def _upper(prefix: str) -> str:
    return "k" if prefix in ("k", "K") else prefix.upper()


def _wrong_unit(text: str, written: str, unit: str) -> tuple[str]:
    kind = kind_of(text)
    if kind is not None:
        return (f"{text.strip()!r} is {UNITS[kind][0]}; {_expected(unit)}",)
    if unit in ("B", "B/s") and re.fullmatch(r"[kmgtpe]i?b(?:ytes?|its?)?(?:ps|/s)?", written, re.I):
        letter, tail = written[0].upper() + written[1:].lower().split("b")[0], "/s" if unit == "B/s" else ""
        return (f"{text.strip()!r} could be bits or bytes; write {letter}B{tail} or {letter}b{tail} for bits",)
    if written.upper() in "KMGTPE" and unit != "":
        ends = _AFTER_PREFIX.get(unit)
        told = _expected(unit) if ends is None else "write " + ", or ".join(text.strip() + end for end in ends)
        return (f"{text.strip()!r} has a prefix but no unit; {told}",)
    if "," in written:
        return (f"{quoted(text)} has a comma; write 3.35 or 1_000, with a point and no thousands separator",)
    return (f"unknown unit {quoted(written)} in {quoted(text)}; {_expected(unit)}",)


def _as_float(number: Any, unit: str) -> float:
    try:
        return float(number)
    except Exception:  # of a value whose own methods may raise what they like
        raise QuantityError(f"{quoted(number)} is not a figure", hint=_expected(unit)) from None


def _checked(value: float, text: Any, unit: str, zero: bool) -> float:
    shown = quoted(text.strip() if isinstance(text, str) else text)
    if not math.isfinite(value):
        raise QuantityError(f"{shown} is not finite", hint=_expected(unit))
    if 0 < value < LEAST or value > MOST:
        limit = f"below {LEAST:g}" if value < LEAST else f"above {MOST:g}"
        raise QuantityError(f"{shown} is {limit}", hint=_expected(unit))
    if value < 0 or (value == 0 and not zero):
        wrong = "negative" if value < 0 else "zero"
        what, example = UNITS[unit]
        limit = "of at least 0" if zero else "above 0"
        raise QuantityError(f"{shown} is {wrong}", hint=f"expected {what} {limit}, such as {example!r}")
    return abs(value)  # of -0.0 too


def _expected(unit: str) -> str:
    what, example = UNITS[unit]
    return f"expected {what}, such as {example!r}"


def format_quantity(value: Any, unit: str, digits: int = 3) -> str:
    """Write a number in SI base units for a reader, with ``digits`` significant digits.

    >>> format_quantity(8.59e9, "FLOP"), format_quantity(819e9, "B/s"), format_quantity(124.4, "FLOP/B")
    ('8.59 GFLOP', '819 GB/s', '124 FLOP/B')
    >>> format_quantity(0, "s"), format_quantity(999_999, "B"), format_quantity(5e-6, "s")
    ('0 s', '1 MB', '5 µs')
    >>> format_quantity(9000, "s"), format_quantity(1.234e40, "FLOP"), format_quantity(3.5, "USD/h")
    ('2.5 h', '1.23e+40 FLOP', '$3.50/h')
    >>> format_quantity(1, "hops"), format_quantity(7, "hops")
    ('1 hop', '7 hops')
    """
    number = _finite(value)
    if number is None:
        return f"over 1e308 {unit}".rstrip()
    if not math.isfinite(number):
        return f"{number} {unit}".rstrip()
    if number < 0:
        return f"-{format_quantity(-number, unit, digits)}"
    if unit == "USD/h":
        return f"${number:,.2f}/h" if number == 0 or number >= 0.01 else f"${_significant(number, digits)}/h"
    if unit in ("FLOP/B", ""):
        return f"{_significant(number, digits)} {unit}".rstrip()
    if unit == "s":
        return _format_time(number, digits)
    return _with_prefix(number, "hop" if (number, unit) == (1, "hops") else unit, digits, _DECIMAL)


def _format_time(number: float, digits: int) -> str:
    if number and number < 1:
        table = {"": 1.0, "m": 1e-3, "µ": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15}
        return _with_prefix(number, "s", digits, table)
    for name, seconds in (("years", 365.25 * 86400), ("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if number >= 2 * seconds:
            return f"{_significant(number / seconds, digits)} {name}"
    return f"{_significant(number, digits)} s"


def _with_prefix(number: float, unit: str, digits: int, table: dict[str, float]) -> str:
    rounded = float(f"{number:.{digits - 1}e}")
    fitting = [(factor, prefix) for prefix, factor in table.items() if factor <= rounded * (1 + 1e-12)]
    factor, prefix = max(fitting, default=(min(table.values()), min(table, key=lambda p: table[p])))
    scaled = rounded / factor
    if rounded and not 1e-3 <= scaled < 10**6:
        return f"{number:.{digits}g} {unit}"
    return f"{_significant(scaled, digits)} {prefix}{unit}"


def format_number(value: Any, digits: int = 4) -> str:
    """Write a plain number for a reader: ``digits`` significant digits, whole numbers in full.

    >>> format_number(240.2439), format_number(0.5), format_number(128), format_number(1234567)
    ('240.2', '0.5', '128', '1,234,567')
    >>> format_number(0), format_number(1.5e-7), format_number(2.5e30)
    ('0', '1.5e-07', '2.5e+30')
    """
    number = _finite(value)
    return "over 1e308" if number is None else _significant(number, digits)


def format_amount(value: Any, unit: str = "", digits: int = 3) -> str:
    """Write a number with its unit, a formula as it is, an array as its range.

    >>> import numpy as np
    >>> format_amount(84.5e-6, "s"), format_amount(np.array([1.0, 2e3]), "B"), format_amount(np.array([3.0, 3.0]), "s")
    ('84.5 µs', '1 B … 2 kB', '3 s')
    >>> from roofline.sizes import symbol
    >>> format_amount(2 * symbol("B"), "B"), format_amount(np.array([np.nan, 2.0]), "s")
    ('2*B bytes', '2 s')
    """
    if is_symbol(value) and value.free_symbols:
        return f"{value} {'bytes' if unit == 'B' else unit}".rstrip()
    if is_array(value):
        known = value[value == value]
        ends = (known.min(), known.max()) if known.size else (value.min(),)
        return " … ".join(dict.fromkeys(format_quantity(float(end), unit, digits) for end in ends))
    return format_quantity(float(value), unit, digits)


def format_range(low: float, high: float, unit: str, digits: int = 3) -> str:
    """Write the two ends of an interval, a unit that both have once.

    >>> format_range(149e-6, 195e-6, "s"), format_range(990e-6, 1.2e-3, "s")
    ('149–195 µs', '990 µs–1.2 ms')
    """
    least, most = (format_quantity(each, unit, digits) for each in (low, high))
    number, _, word = least.partition(" ")
    return f"{number if most.endswith(f' {word}') else least}–{most}"


def format_apart(one: Any, other: Any, unit: str, most: int = 12) -> tuple[str, str]:
    """Write two amounts that are set against each other, with as many digits up to ``most`` as tell them apart.

    >>> format_apart(42.31e9, 42.29e9, "B"), format_apart(144e9, 84.9e9, "B"), format_apart(1e9, 1e9, "B")
    (('42.31 GB', '42.29 GB'), ('144 GB', '84.9 GB'), ('1 GB', '1 GB'))
    """
    written = [(format_amount(one, unit, digits), format_amount(other, unit, digits)) for digits in range(3, most + 1)]
    return next((pair for pair in written if pair[0] != pair[1]), written[0])


def format_change(before: Any, after: Any, unit: str) -> str:
    """Write what an amount was and what it becomes; that it stays where four digits do not tell the two apart.

    >>> format_change(15.72, 15.68, "s"), format_change(3.16, 1.39, "s"), format_change(15.72, 15.7201, "s")
    ('15.72 s → 15.68 s', '3.16 s → 1.39 s', '15.7 s as before')
    """
    was, becomes = format_apart(before, after, unit, most=4)
    return f"{was} as before" if was == becomes else f"{was} → {becomes}"


def format_percent(fraction: Any, decimals: int | None = None) -> str:
    """Write a share: two digits below a tenth, whole per cents above; an array as its range.

    ``decimals`` fixes the places, for figures under each other; what is less is said to be.

    >>> format_percent(0.834), format_percent(0.0123), format_percent(5.1e-9), format_percent(-0.004)
    ('83%', '1.2%', 'under 0.01%', '-0.4%')
    >>> format_percent(0.2831, 1), format_percent(0.01, 1), format_percent(4e-4, 1), format_percent(-4e-4, 1)
    ('28.3%', '1.0%', '<0.1%', '0.0%')
    """
    if is_array(fraction):
        return " … ".join((format_percent(fraction.min()), format_percent(fraction.max())))
    if decimals is not None:
        least = 0.1**decimals
        return f"<{least:.{decimals}f}%" if 0 < 100 * fraction < least / 2 else f"{float(fraction):z.{decimals}%}"
    if 0 < fraction < 1e-4:
        return "under 0.01%"
    return f"{float(fraction):,.0%}" if abs(fraction) >= 0.1 else f"{100 * float(fraction):z.2g}%"


def format_times(gain: Any) -> str:
    """Write how many times as fast, or as much, something is: two decimals, and no digits beyond a figure's worth.

    >>> format_times(1.5), format_times(0.004), format_times(4_103), format_times(4.1e12)
    ('1.50x', '<0.01x', '4,103x', '>1,000,000x')
    """
    if gain >= 1e3:
        return f"{float(gain):,.0f}x" if gain <= 1e6 else ">1,000,000x"
    return f"{float(gain):.2f}x" if not 0 < gain < 0.005 else "<0.01x"


def format_count(number: int) -> str:
    """Write a large count as people say it.

    >>> format_count(6738415616), format_count(124439808), format_count(423186)
    ('6.74B', '124M', '423,186')
    """
    for factor, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if number >= factor:
            return f"{number / factor:.3g}{letter}"
    return f"{number:,}"


def in_a_row(words: Iterable[str]) -> str:
    """Words as a sentence has them.

    >>> in_a_row(["m"]), in_a_row(["m", "n", "k"])
    ('m', 'm, n and k')
    """
    each = list(words)
    return " and ".join(filter(None, (", ".join(each[:-1]), *each[-1:])))


def agree(number: int, words: str) -> str:
    """Words of several with their verbs as ``number`` has them.

    >>> agree(2, "do not fit and are left out"), agree(1, "do not fit and are left out"), agree(1, "fit 80 GB")
    ('do not fit and are left out', 'does not fit and is left out', 'fits 80 GB')
    """
    one = {"are": "is", "do": "does", "have": "has", "miss": "misses", "cost": "costs", "fit": "fits"}
    return words if number != 1 else re.sub(r"\A(fit|miss|cost)\b|\b(are|do|have)\b", lambda seen: one[seen[0]], words)


def typed(amount: Any) -> str:
    """Write an amount as one would type it.

    >>> typed(2e9), typed(1234567.0), typed("2*B*D"), typed(8)
    ('2e9', '1234567', '2*B*D', '8')
    """
    if not isinstance(amount, float):
        return str(amount)
    short = f"{amount:.6g}"
    return short.replace("e+0", "e").replace("e+", "e") if float(short) == amount else f"{amount:.15g}"


def _significant(number: float, digits: int) -> str:
    """Write with significant digits, a comma every thousand, no trailing zeros."""
    if number == 0:
        return "0"
    if not math.isfinite(number):
        return str(number)
    size = abs(number)
    if size < 1e-4 or size >= 1e15:
        return f"{number:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(float(f"{size:.{digits - 1}e}"))))
    written = f"{number:,.{decimals}f}"
    return written.rstrip("0").rstrip(".") if "." in written else written


def _finite(value: Any) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None
