"""From which size on sending hides behind the arithmetic: held against the answer at sizes one by one."""

import math

import pytest

from roofline import bound, shard, sweep
from roofline.bounds.scaling import hiding_in_words, size_that_hides
from tests.strategies import some

CASES = [
    ("bf16[B_Y, D] * bf16[D_X, F] -> bf16[B_Y, F]", "v5p:4x4", {"B": 4096, "D": 8192, "F": 32768}),
    ("bf16[B_Y, D] * bf16[D_X, F] -> bf16[B_Y, F]", "v5p:4x4", {"B": 4096, "D": 65536, "F": 32768}),
    ("A[I_X, J] * B[J_X, K_Y] -> C[I_X, K_Y]", "v5e:4x4", {"I": 8192, "J": 8192, "K": 8192}),
    ("In[B_X, D] * Wi[D_X, F] * Wo[F, D_X] -> Out[B_X, D]", "h100:16", {"B": 16384, "D": 8192, "F": 32768}),
]


@pytest.mark.parametrize(("line", "on", "sizes"), some(CASES, 2))
def test_it_hides_from_the_size_on_that_is_named(line: str, on: str, sizes: dict[str, int]) -> None:
    found, seen = shard(line, on=on, **sizes), 0

    def hides(name: str, size: float) -> bool:
        at = bound(line, on=on, plan=found.best.name, **{**sizes, name: int(size)})
        return bool(at.comms <= at.math)

    for name in sizes:
        first, step = size_that_hides(found.question, found.best, name), 16
        assert first is not None
        if first == math.inf:
            assert not any(hides(name, sizes[name] * times) for times in (1, 4, 64, 1024))
        elif first > 1:
            seen += 1
            assert [hides(name, first + k * step) for k in (-2, -1, 0, 1, 9, first)] == [False] * 2 + [True] * 4
        else:
            assert hides(name, step)
            assert hides(name, sizes[name])
    assert seen
    said = " ".join(hiding_in_words(found.question, found.best))
    assert ("does not hide" in said) is (found.best.comms > found.best.math)
    assert said in " ".join(str(found).split())


@pytest.mark.parametrize("D", [8192, 16384])
def test_a_size_that_follows_from_another_grows_with_it(D: int) -> None:
    line = "bf16[B_X, D] * bf16[D_X, F] -> bf16[B_X, F]"
    found = shard(line, on="h100:8", B=4096, D=D, F="4*D")
    first = size_that_hides(found.question, found.best, "D")
    assert first is not None
    at = [bound(line, on="h100:8", plan=found.best.name, B=4096, D=int(n), F=4 * int(n)) for n in (first - 8, first)]
    assert [bool(each.comms <= each.math) for each in at] == [False, True]
    last = [*hiding_in_words(found.question, found.best)][-1]
    assert f"D = {first:,.0f} on" in last
    assert "F" not in last


def test_no_larger_size_is_said_to_be_needed_where_sending_hides() -> None:
    line = "bf16[B_X, D] * bf16[D_X, F] -> bf16[B_X, F]; AllGather_X(bf16[M_X, N])"
    found = shard(line, on="h100:8", B=65536, D=8192, F=32768, M=1024, N=1024)
    assert size_that_hides(found.question, found.best, "M") == math.inf  # a larger one ends it
    said = " ".join(hiding_in_words(found.question, found.best))
    assert "sending hides behind it" in said
    assert "does not do it" not in said


def test_a_plan_without_collectives_or_numbers_says_nothing() -> None:
    for sizes in ({"B": 1024, "D": 1024, "F": 1024}, {}):
        found = shard("bf16[B_X, D] * bf16[D, F] -> bf16[B_X, F]", on="v5e:4", **sizes)
        assert not list(hiding_in_words(found.question, found.best))


def test_hops_without_a_latency_are_not_taken_for_none() -> None:
    sizes = {"I": 8192, "J": 8192, "K": 8192}
    found = shard("A[I_X, J] * B[J_X, K] -> C[I_X, K]", on="mi300x:8", **sizes)
    assert next(hiding_in_words(found.question, found.best)).startswith("by what is timed, AllGather over X takes")


def test_a_sweep_takes_a_plan_that_slices() -> None:
    line, on, sizes = CASES[0]
    plan = shard(line, on=on, **sizes).best.name
    assert plan.startswith("slice_")
    table = sweep(line, on=on, plan=plan, **{**sizes, "B": [4096, 8192]})
    each = [bound(line, on=on, plan=plan, **{**sizes, "B": B}).lower for B in (4096, 8192)]
    assert table["lower"].tolist() == pytest.approx(each, rel=1e-12)
