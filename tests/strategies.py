"""What property tests draw from: an expression of every kind with its sizes, every chip of the catalog."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from roofline.hardware import chips

Item = TypeVar("Item")
Test = TypeVar("Test", bound=Callable[..., None])

#: Whether this is ``make test-long``, which tries more examples, each time others.
LONG = "ROOFLINE_LONG" in os.environ


def some(items: Iterable[Item], every: int, stratum: int = 0) -> list[Item]:
    """Take each so-manieth item of a long list in ``make test``, and the whole list in ``make test-long``.

    Tests that go over the same list take another stratum of it each, so that together they ask about more of it.
    """
    listed = list(items)
    return listed if LONG else listed[stratum % every :: every]


def for_each(names: str | Sequence[str], rows: Iterable[Any], ids: object = None) -> Callable[[Test], Test]:
    """Run a test on each row of a long list, as one test: a test of its own costs more than most rows do.

    It takes what ``pytest.mark.parametrize`` takes. All rows are run; what fails is told with its row.
    """
    listed = [{names: row} if isinstance(names, str) else dict(zip(names, row, strict=True)) for row in rows]

    def over(test: Test) -> Test:
        taken = inspect.signature(test)

        @wraps(test)
        def each(**fixtures: Any) -> None:
            assert listed, "no rows"
            failed: list[Exception] = []
            for row in listed:
                try:
                    test(**row, **fixtures)
                except Exception as error:
                    error.add_note(f"of {len(listed)} rows this one: {row!r}")
                    failed.append(error)
            if failed:
                raise failed[0] if len(failed) == 1 else ExceptionGroup(f"{len(failed)} rows fail", failed)

        left = [each for name, each in taken.parameters.items() if name not in listed[0]]
        vars(each)["__signature__"] = taken.replace(parameters=left)
        return cast("Test", each)

    return over


@contextmanager
def short_fits() -> Iterator[None]:
    """Fits of constants end after two steps, for tests of what is read and said: how well a fit goes is not asked."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("roofline.estimates.calibration.MOST_STEPS", 2)
        patched.setattr("roofline.estimates.fitting.LOOK", 2)
        patched.setattr("roofline.estimates.fitting.STEPS", 2)
        yield


def few(examples: int) -> settings:
    """Try a slow law on fewer examples than the others in ``make test``, on as many in ``make test-long``."""
    return settings() if LONG else settings(max_examples=examples)


#: One line for every kind of operation, with the labels that are free to vary.
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "matmul": ("bf16[B, D] * int8[D, F] -> bf16[B, F]", ("B", "D", "F")),
    "batched matmul": ("bf16[B, M, K] * bf16[B, K, N] -> bf16[B, M, N]", ("B", "M", "K", "N")),
    "batched weights": ("int8[B, D] * int8[B, D, F] -> int8[B, F]", ("B", "D", "F")),
    "dot": ("bf16[N] . bf16[N] -> bf16[]", ("N",)),
    "batched dot": ("bf16[B, N] . bf16[B, N] -> bf16[B]", ("B", "N")),
    "outer product": ("bf16[B] * bf16[D] -> bf16[B, D]", ("B", "D")),
    "add": ("bf16[B, D] + bf16[D]", ("B", "D")),
    "gelu": ("gelu(bf16[B, F])", ("B", "F")),
    "copy": ("copy(fp32[N])", ("N",)),
    "softmax": ("softmax(fp32[B, T])", ("B", "T")),
    "sum": ("sum_T(fp32[B, T])", ("B", "T")),
    "cumsum": ("cumsum_T(fp32[B, T])", ("B", "T")),
    "top k": ("topk(bf16[B, V], k=2)", ("B", "V")),
    "fourier": ("fft(complex64[B, N])", ("B", "N")),
    "layer norm": ("layer_norm(bf16[B, D], bf16[D], bf16[D])", ("B", "D")),
    "rms norm": ("rms_norm(bf16[B, D], bf16[D])", ("B", "D")),
    "attention": ("attention(bf16[B, S, N, H], bf16[B, T, N, H], bf16[B, T, N, H])", ("B", "S", "T", "N", "H")),
    "causal": ("attention(bf16[B, S, N, H], bf16[B, S, N, H], bf16[B, S, N, H], causal)", ("B", "S", "N", "H")),
    "convolution": ("conv(bf16[B, X, Y, C], bf16[3, 3, C, O], stride=1, pad=1)", ("B", "X", "Y", "C", "O")),
    "depthwise": ("conv(bf16[B, X, Y, C], bf16[3, 3, 1, C], pad=1, depthwise)", ("B", "X", "Y", "C")),
    "transposed": ("conv_transpose(bf16[B, X, C], bf16[2, C, O], stride=2)", ("B", "X", "C", "O")),
    "pool": ("pool(bf16[B, X, Y, C], window=2, stride=2, pad=1)", ("B", "X", "Y", "C")),
    "embedding": ("embedding(bf16[V, D], int32[B])", ("V", "D", "B")),
    "program": ("h = bf16[B, D] * bf16[D, F]; g = gelu(h); g * bf16[F, D]", ("B", "D", "F")),
}  # fmt: skip

CHIPS = {machine.key: machine for machine in chips()}

SIZES = st.integers(2, 4096)


@st.composite
def expressions(draw: st.DrawFn) -> tuple[str, dict[str, int]]:
    """A line of notation of any kind, with a size for every label."""
    text, labels = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    return text, {label: draw(SIZES) for label in labels}


machines = st.sampled_from(sorted(CHIPS)).map(CHIPS.__getitem__)
