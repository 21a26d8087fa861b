"""Machine files at random: a mutated file gives chips or a HardwareError, and nothing else."""

import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import HardwareError, InputError
from roofline.hardware import catalog, chip
from roofline.hardware.catalog import read_layer
from roofline.hardware.schema import build_chip

PIECES = [
    "nan", "inf", "-1", "0", "1e400", "true", '""', "[]", "{}", "[[1]]", "2026-01-01", "'x'", "\x00", "\\", '"', "]",
    "[", "=", "\n", ".", "bf61", "inherits = 'x'", "[chip]", "[[chip]]", "9" * 400, "é", "1979-05-27T07:32:00Z", "0x",
]  # fmt: skip


def source():
    with open(os.path.join(catalog.CATALOG, "google-tpu.toml"), encoding="utf-8") as handle:
        text = handle.read()
    start = text.index("[chip.v5e]")
    return text[: text.index("[chip.v2]")] + text[start : text.index("[chip.v5p]")]


def mutate(text, rng):
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text))
        kind = rng.randrange(4)
        if kind == 0:
            text = text[:at] + text[at + rng.randint(1, 12) :]
        elif kind == 1:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        elif kind == 2:
            lines = text.split("\n")
            lines.insert(rng.randrange(len(lines)), lines[rng.randrange(len(lines))])
            text = "\n".join(lines)
        else:
            head, equals, tail = text.partition(" = ") if rng.random() < 0.1 else text[at:].partition(" = ")
            rest = tail.partition("\n")[2]
            text = (text[:at] if len(head) < len(text) else "") + head + equals + rng.choice(PIECES) + "\n" + rest
    return text


@pytest.mark.fuzz
@given(seed=st.integers(0, 2**64))
def test_a_mutated_file_never_raises_anything_but_a_hardware_error(seed, tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "mutated.toml"
    rng = random.Random(seed)
    path.write_bytes(mutate(source(), rng).encode("utf-8", "surrogatepass"))
    said = attempt(lambda: every_peak(str(path)))
    assert said is None or said.startswith(str(path))
    said = attempt(lambda: chip("v5e", files=[path]))
    assert said is None or said


def attempt(action):
    """Return the message of the error that is allowed, or None where there was none."""
    try:
        action()
    except HardwareError as error:
        return str(error)
    return None


def every_peak(path):
    layer = read_layer(path)
    for key in layer.chips:
        machine = build_chip(key, layer.chips[key], layer.place.at("chip", key))
        for figure in (p for unit in machine.units for p in unit.peaks.values()):
            assert 0 < figure.value < float("inf")


@pytest.mark.fuzz
@given(st.text(max_size=30) | st.from_regex(r"\A[a-z0-9 -]{1,8}(:[0-9x]{0,6})?\Z"))
def test_any_target_resolves_or_says_why_not(text):
    try:
        said = chip(text).name
    except InputError as error:
        said = str(error)
    assert said


def test_the_file_that_is_mutated_is_valid(tmp_path):
    path = tmp_path / "whole.toml"
    path.write_text(source(), encoding="utf-8")
    assert chip("v5e", files=[path]).name == "TPU v5e"
