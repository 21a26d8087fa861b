"""Figures with units: what reads, what does not and what the message says, and what is printed."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline
from roofline.bounds.memory import Footprint
from roofline.errors import QuantityError
from roofline.quantity import (
    UNITS,
    agree,
    format_apart,
    format_change,
    format_number,
    format_quantity,
    format_times,
    kind_of,
    parse,
)
from tests.strategies import for_each, some

READS = [
    ("8.1e11", "B/s", 8.1e11),
    (8.1e11, "B/s", 8.1e11),
    ("3.35 TB/s", "B/s", 3.35e12),
    ("3.35TB/s", "B/s", 3.35e12),
    ("819 GBps", "B/s", 8.19e11),
    ("819 GB/sec", "B/s", 8.19e11),
    ("400 Gb/s", "B/s", 5e10),
    ("400 Gbps", "B/s", 5e10),
    ("400 Gbit/s", "B/s", 5e10),
    ("800 GiB/s", "B/s", 800 * 2**30),
    ("80 GiB", "B", 80 * 2**30),
    ("80 GB", "B", 8e10),
    ("16 Mib", "B", 2**21),
    ("1 byte", "B", 1),
    ("128 KiB", "B", 2**17),
    ("312 TFLOPS", "FLOP/s", 3.12e14),
    ("312 TFLOP/s", "FLOP/s", 3.12e14),
    ("312 tflops", "FLOP/s", 3.12e14),
    ("312 TFLOPs", "FLOP/s", 3.12e14),
    ("393 TOPS", "FLOP/s", 3.93e14),
    ("1 PFLOP/s", "FLOP/s", 1e15),
    ("8.59 GFLOP", "FLOP", 8.59e9),
    ("8.59 GFLOPs", "FLOP", 8.59e9),
    ("5us", "s", 5e-6),
    ("5 µs", "s", 5e-6),
    ("5 μs", "s", 5e-6),
    ("3 ns", "s", 3e-9),
    ("2 min", "s", 120),
    ("1.83 GHz", "Hz", 1.83e9),
    ("700 W", "W", 700),
    ("1.2 kW", "W", 1200),
    ("240 FLOP/B", "FLOP/B", 240),
    ("0.5 flops/byte", "FLOP/B", 0.5),
    ("$3.50/h", "USD/h", 3.5),
    ("3.5 USD/hr", "USD/h", 3.5),
    ("3.5 $/h", "USD/h", 3.5),
    ("9.89×10¹⁴ FLOPs/s", "FLOP/s", 9.89e14),
    ("1.97x10^14", "FLOP/s", 1.97e14),
    ("8.2 \\times 10^{11} B/s", "B/s", 8.2e11),
    ("312*10**12 FLOP/s", "FLOP/s", 3.12e14),
    ("10¹² FLOP", "FLOP", 1e12),
    ("5·10⁻⁶ s", "s", 5e-6),
    ("$2×10¹/h", "USD/h", 20),
    ("１０ GB/s", "B/s", 1e10),
    ("1_000", "", 1000),
    ("80 %", "", 0.8),
    ("80 percent", "", 0.8),
    ("819 GB / s", "B/s", 8.19e11),
    ("819 GB per s", "B/s", 8.19e11),
    ("819 gigabytes per second", "B/s", 8.19e11),
    ("80 gigabytes", "B", 8e10),
    ("312 teraflops", "FLOP/s", 3.12e14),
    ("1 exaflop/s", "FLOP/s", 1e18),
    ("13 TMAC/s", "FLOP/s", 2.6e13),
    ("4.1 GMACs", "FLOP", 8.2e9),
    ("5 microseconds", "s", 5e-6),
    ("2 minutes", "s", 120),
    ("1 day", "s", 86400),
    ("1.83 gigahertz", "Hz", 1.83e9),
    ("0.7 KW", "W", 700),
    ("2 USD per GPU-hour", "USD/h", 2),
    ("+.5", "", 0.5),
    ("  7  ", "", 7),
]


@for_each(("text", "unit", "value"), READS)
def test_reads(text, unit, value):
    assert parse(text, unit) == pytest.approx(value, rel=1e-15)


def test_decimal_prefixes_add_no_noise():
    assert parse("66.9 TFLOP/s", "FLOP/s") == 66.9e12
    assert parse("989.4 TFLOP/s", "FLOP/s") == 989.4e12


def test_numbers_of_other_libraries_read():
    import numpy as np

    assert parse(np.float32(2.0), "B") == 2.0
    assert parse(np.int64(3), "s") == 3.0


WRONG = [
    ("80 GB", "B/s", "'80 GB' is an amount of bytes; expected a bandwidth in bytes per second, such as '3.35 TB/s'"),
    ("3 TB/s", "B", "'3 TB/s' is a bandwidth in bytes per second; expected an amount of bytes, such as '80 GiB'"),
    (
        "3 TB/s",
        "FLOP/s",
        "'3 TB/s' is a bandwidth in bytes per second; expected a rate of arithmetic, such as '312 TFLOP/s'",
    ),
    ("3 TFLOPS", "FLOP", "'3 TFLOPS' is a rate of arithmetic; expected an amount of arithmetic, such as '8.59 GFLOP'"),
    ("8 GFLOP", "FLOP/s", "'8 GFLOP' is an amount of arithmetic; expected a rate of arithmetic, such as '312 TFLOP/s'"),
    ("nan", "B", "'nan' is not finite; expected an amount of bytes, such as '80 GiB'"),
    ("-inf", "B", "'-inf' is not finite; expected an amount of bytes, such as '80 GiB'"),
    (math.nan, "s", "nan is not finite; expected a time, such as '5 us'"),
    (math.inf, "s", "inf is not finite; expected a time, such as '5 us'"),
    (-1, "s", "-1 is negative; expected a time above 0, such as '5 us'"),
    (0, "s", "0 is zero; expected a time above 0, such as '5 us'"),
    ("0 GB", "B", "'0 GB' is zero; expected an amount of bytes above 0, such as '80 GiB'"),
    (
        "fast",
        "B/s",
        "'fast' does not start with a number; expected a bandwidth in bytes per second, such as '3.35 TB/s'",
    ),
    ("", "B/s", "'' does not start with a number; expected a bandwidth in bytes per second, such as '3.35 TB/s'"),
    ("3 parsecs", "s", "unknown unit 'parsecs' in '3 parsecs'; expected a time, such as '5 us'"),
    ("80 gb", "B", "'80 gb' could be bits or bytes; write GB or Gb for bits"),
    ("80 mib/s", "B/s", "'80 mib/s' could be bits or bytes; write MiB/s or Mib/s for bits"),
    ("80 G", "B", "'80 G' has a prefix but no unit; write 80 GB, or 80 Gb for bits"),
    ("3.2G", "FLOP", "'3.2G' has a prefix but no unit; write 3.2GFLOP, or 3.2GMAC for multiply-adds"),
    ("3,35 TB/s", "B/s", "'3,35 TB/s' has a comma; write 3.35 or 1_000, with a point and no thousands separator"),
    (True, "B", "True is not a figure; expected an amount of bytes, such as '80 GiB'"),
    (None, "B", "None is not a figure; expected an amount of bytes, such as '80 GiB'"),
    ([1], "B", "[1] is not a figure; expected an amount of bytes, such as '80 GiB'"),
    ("1", "furlongs", "unknown unit 'furlongs'; units are: B, B/s, FLOP/s, FLOP, s, Hz, W, FLOP/B, USD/h"),
    (10**400, "B", "an amount of bytes"),
    ("1" + "0" * 400, "B", "is not finite"),
    ("1e300 EB", "B", "is out of range"),
    ("1__0", "", "does not read as a number"),
]


@pytest.mark.parametrize(("text", "unit", "message"), WRONG)
def test_says_what_is_wrong_and_what_would_be_right(text, unit, message):
    with pytest.raises(QuantityError) as caught:
        parse(text, unit)
    assert message in str(caught.value)


def test_zero_is_allowed_where_asked_for():
    assert parse("0 us", "s", zero=True) == 0
    with pytest.raises(QuantityError, match="is negative"):
        parse(-1, "s", zero=True)


@pytest.mark.fuzz
@given(
    st.text(max_size=20)
    | st.from_regex(r"\A[-+]?[0-9]{1,4}(\.[0-9]+)?(e[0-9]{1,3})? ?[kKMGTPEmnµ]?i?[A-Za-z/$%]{0,6}\Z")
)
def test_any_text_is_a_positive_number_or_a_quantity_error(text):
    for unit in some([*UNITS], 4, len(text)):
        try:
            value = parse(text, unit)
        except QuantityError:
            continue
        assert math.isfinite(value)
        assert value > 0


def test_a_figure_with_a_unit_is_of_one_kind():
    ambiguous = ("FLOPs", "flops", "MACs")  # the plural of FLOP, and a common way to write FLOP/s
    for text, unit, _ in READS:
        if isinstance(text, str) and kind_of(text) is not None and not text.endswith(ambiguous):
            assert kind_of(text) == unit


PRINTED = [
    (84.5e-6, "s", "84.5 µs"),
    (0.0123, "s", "12.3 ms"),
    (1.5, "s", "1.5 s"),
    (119, "s", "119 s"),
    (600, "s", "10 min"),
    (9000, "s", "2.5 h"),
    (10 * 86400, "s", "10 days"),
    (4e9, "s", "127 years"),
    (0, "s", "0 s"),
    (1e-30, "s", "1e-30 s"),
    (8.59e9, "FLOP", "8.59 GFLOP"),
    (8.589934592e9, "FLOP", "8.59 GFLOP"),
    (69.2e6, "B", "69.2 MB"),
    (999_999, "B", "1 MB"),
    (999.4, "B", "999 B"),
    (1, "B", "1 B"),
    (0.5, "B", "0.5 B"),
    (0, "B", "0 B"),
    (197e12, "FLOP/s", "197 TFLOP/s"),
    (1.9789e15, "FLOP/s", "1.98 PFLOP/s"),
    (819e9, "B/s", "819 GB/s"),
    (3.35e12, "B/s", "3.35 TB/s"),
    (1.83e9, "Hz", "1.83 GHz"),
    (700, "W", "700 W"),
    (124.12, "FLOP/B", "124 FLOP/B"),
    (0.5, "FLOP/B", "0.5 FLOP/B"),
    (8192, "FLOP/B", "8,192 FLOP/B"),
    (3.5, "USD/h", "$3.50/h"),
    (-5e-6, "s", "-5 µs"),
    (math.inf, "s", "inf s"),
    (math.nan, "s", "nan s"),
    (1e60, "FLOP", "1e+60 FLOP"),
    (1.2345e60, "FLOP", "1.23e+60 FLOP"),
    (0.00022786, "B", "0.000228 B"),
    (10**400, "FLOP", "over 1e308 FLOP"),
    (0.803, "", "0.803"),
]


@for_each(("value", "unit", "text"), PRINTED)
def test_prints(value, unit, text):
    assert format_quantity(value, unit) == text


def test_more_digits_on_request():
    assert format_quantity(84.512e-6, "s", digits=5) == "84.512 µs"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (136.0947, "136.1"),
        (8755.56, "8,756"),
        (240.2439, "240.2"),
        (128, "128"),
        (0, "0"),
        (0.5, "0.5"),
        (1234567, "1,234,567"),
        (1.5e-7, "1.5e-07"),
        (2.5e30, "2.5e+30"),
        (99.996, "100"),
        (-136.0947, "-136.1"),
        (10**400, "over 1e308"),
        (math.inf, "inf"),
    ],
)
def test_plain_numbers_print(value, text):
    assert format_number(value) == text


@given(st.floats(min_value=1e-12, max_value=1e26), st.sampled_from(["B", "B/s", "FLOP", "FLOP/s", "Hz"]))
def test_what_is_printed_reads_back(value, unit):
    assert parse(format_quantity(value, unit, digits=6), unit) == pytest.approx(value, rel=1e-5)


def test_percentages_are_written_by_one_helper() -> None:
    own = re.compile(r":[,.0-9]*%\}")
    source = Path(roofline.__file__).parent
    found = [p.name for p in source.rglob("*.py") if own.search(p.read_text(encoding="utf-8"))]
    assert own.search('f"{share:.0%}"')
    assert found == ["quantity.py"]


def test_ratios_have_no_more_digits_than_they_are_worth():
    told = {0.0: "0.00x", 1e-9: "<0.01x", 0.0051: "0.01x", 1: "1.00x", 4_106.4: "4,106x", 1e12: ">1,000,000x"}
    assert {ratio: format_times(ratio) for ratio in told} == told


def test_verbs_agree_with_their_number():
    several = "do not divide or compute so, or have no constants"
    assert agree(0, several) == agree(2, several) == several
    assert agree(1, several) == "does not divide or compute so, or has no constants"
    assert agree(1, "miss a limit under load or are no better") == "misses a limit under load or is no better"


@given(st.floats(1e3, 1e13), st.floats(1e-8, 1))
def test_two_amounts_against_each_other_never_read_alike(amount: float, more: float) -> None:
    one, other = format_apart(amount, amount * (1 + more), "B")
    assert parse(one, "B") < parse(other, "B")
    needs = Footprint({"weight": amount * (1 + more)}, "hbm", amount).needs_in_words()
    assert needs.startswith(f"needs {other}, hbm has {one}")


def test_a_change_that_nobody_would_see_is_said_to_be_none() -> None:
    assert format_change(1e-3, 1.0000001e-3, "s") == "1 ms as before"
    assert format_change(1e-3, 1.004e-3, "s") == "1 ms → 1.004 ms"
