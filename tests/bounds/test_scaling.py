"""When does it scale: the conditions against answers of ``bound`` on both sides of them, and their messages."""

from __future__ import annotations

from typing import Any

import pytest

from roofline import bound, scaling
from roofline.bounds.scaling_conditions import CONDITIONS, SPLITS, says_of_all
from roofline.errors import RooflineError

V5P = {"bf16": 4.59e14}


def waits(name: str, mesh: dict[str, int], **sizes: int) -> bool:
    """Whether sending a condition's line takes longer than its arithmetic, on so many v5p chips."""
    text = CONDITIONS[name].text.format("bf16")
    answer = bound(text, on="v5p", mesh=mesh, set=V5P, algorithm="book", plan="fewest", sizes=sizes)
    links = max(time for name, time in answer.times.items() if name in answer.wire)
    return bool(links > answer.math)


@pytest.mark.parametrize("name", ["dp", "fsdp"])
def test_a_batch_past_the_least_does_not_wait(name: str) -> None:
    found = scaling(name, on="v5p", set=V5P)
    assert not found.at_most
    least = int(found.value * 16)
    assert waits(name, {"X": 16}, B=least // 16 * 16 - 160, D=1024, F=4096)
    assert not waits(name, {"X": 16}, B=least // 16 * 16 + 160, D=1024, F=4096)


def test_ways_up_to_the_most_do_not_wait() -> None:
    found = scaling("tp", on="v5p", set=V5P, unknown="Y", F=30_720)
    assert found.at_most
    assert 8 < found.value < 16
    assert not waits("tp", {"Y": 8}, B=4096, D=8192, F=30_720)
    assert waits("tp", {"Y": 16}, B=4096, D=8192, F=30_720)
    assert scaling("fsdp", on="v5p", unknown="X", B=10**6).at_most
    assert scaling("mixed", on="v5p", unknown="N").at_most


def test_mixed_gives_the_split_at_which_both_kinds_of_sending_take_equally_long() -> None:
    B, F, N = 2_000_000, 32_768, 4096
    found = scaling("mixed", on="v5p", set=V5P, B=B, F=F, N=N)
    assert found.best["X"] == pytest.approx((B * N / F) ** 0.5)
    text = "In[B_X, D_Y] * Wi[D_X, F_Y] * Wo[F_Y, D_X] -> Out[B_X, D_Y]"
    answer = bound(text, on="v5p:16x16", algorithm="book", plan="fewest", B=F, D=8192, F=F)
    assert answer.times["ici X"] == pytest.approx(answer.times["ici Y"])
    assert scaling("mixed", on="v5p", B=F, F=F, N=256).best["X"] == pytest.approx(16)


def test_arrays_of_sizes_are_the_numbers_of_each() -> None:
    widths = [8192, 16384, 30_000]
    found = scaling("tp", on="v5p", unknown="Y", F=widths)
    each = [scaling("tp", on="v5p", unknown="Y", F=F).value for F in widths]
    assert found.value.tolist() == pytest.approx(each)
    assert found.to_dict()["value"] == pytest.approx(each)


def test_every_condition_is_worked_out_and_listed() -> None:
    names = [name for name, _, _ in says_of_all()]
    assert names == [*CONDITIONS, *SPLITS]
    for name in names:
        target = {"on": "v5p:16x20x28:2", "mesh": {"X": 8960, "S": 2}} if name == "dcn" else {"on": "v5p"}
        found = scaling(name, **target)
        assert found.form.free_symbols, name
        assert dict(found.lines())["plan"] == found.question.plan
        assert any("book" in said for said in found.assumptions)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tp", {"G": 8}, "size G plays no part in this condition"),
        ("tp", {"F": 8}, "F is what is solved for, and it is given; leave it out, or solve for another"),
        ("tp", {"F": 0, "unknown": "Y"}, "size F is 0"),
        ("tp", {"unknown": "Q"}, "Q does not decide whether this scales"),
        ("tp", {"torus_axes": {"X": 2}}, "torus_axes names 'X', which this condition does not have"),
        ("tp", {"torus_axes": {"Y": 0}}, "size of torus_axes for Y is 0"),
        ("tp", {"network": "ib"}, "nothing is sent over 'ib'"),
        ("dcn", {}, "TPU v5p is one slice here, and nothing crosses slices"),
        ("mixed", {"mesh": {"X": 4, "Y": 4}}, "mixed splits N chips over X and Y itself"),
        ("mixed", {"unknown": "F", "F": 8}, "F is what is solved for, and it is given"),
        ("2d", {"unknown": "B"}, "B does not decide"),
    ],
)
def test_messages(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RooflineError, match=message):
        scaling(name, on="v5p", **options)


def test_arrays_over_several_links_ask_for_one() -> None:
    with pytest.raises(RooflineError, match="the link that binds may differ"):
        scaling("tp", on="dgx-h100:64", unknown="F", mesh={"Y": 64}, B=[8, 16])


def test_a_single_axis_of_a_shape_goes_by_the_name_the_condition_wants() -> None:
    figures = {"bf16": 9.9e14}
    node = scaling("tp", on="h100:8", set=figures)
    assert node.value == pytest.approx(8 * 9.9e14 / 4.5e11)
    assert node.value == scaling("tp", on="h100", mesh={"Y": 8}, set=figures).value
    ring = scaling("tp", on="v5e:16", set={"bf16": 1.97e14}, algorithm="torus")
    assert ring.value == pytest.approx(15 / 2 * 1.97e14 / 4.5e10)
    decoding = scaling("decode-tp", on="h100:8", set={"hbm": 3.35e12}, F=28672, unknown="B")
    assert decoding.value == pytest.approx(28672 * 4.5e11 / 8 / 3.35e12)
    with pytest.raises(RooflineError, match="size Y plays no part"):
        scaling("tp", on="h100:8", Y=4)


@pytest.mark.parametrize(("name", "on", "axes"), [("fsdp", "v5p:16x16x16", 3), ("dp", "v5e:16x16", 2)])
def test_one_axis_takes_all_axes_of_a_shape(name: str, on: str, axes: int) -> None:
    """The book's batch per chip on M_X axes: C/W_ici over their number."""
    chip = on.partition(":")[0]
    one = scaling(name, on=chip).value
    found = scaling(name, on=on)
    assert found.value == pytest.approx(one / axes)
    assert found.value == pytest.approx(scaling(name, on=chip, torus_axes={"X": axes}).value)
    chips = 16**axes
    said = f"X is all {chips:,} chips of {on}, over its axes at once; a mesh takes fewer, as in X=16, Y={chips // 16}"
    assert found.assumptions[0] == said
    fewer = scaling(name, on=on, mesh={"X": 16, "Y": chips // 16})
    assert fewer.value == pytest.approx(one)
    assert said not in fewer.assumptions
    assert scaling(name, on=f"{on}:2").value == found.value
    with pytest.raises(RooflineError, match=f"torus_axes are of open axes, and {on} has a shape; leave them out"):
        scaling(name, on=on, torus_axes={"X": 2})


def test_a_mesh_axis_may_be_a_formula_of_a_size() -> None:
    assert scaling("tp", on="h100", mesh={"Y": "n"}, n=4).value == scaling("tp", on="h100", mesh={"Y": 4}).value


def test_mixed_parallelism_takes_the_chips_of_a_shape() -> None:
    asked = {"torus_axes": {"X": 2}, "F": 32768, "B": 2_000_000}
    assert scaling("mixed", on="v5p:16x16x16", **asked).best == scaling("mixed", on="v5p", N=4096, **asked).best
    with pytest.raises(RooflineError, match="N=64, and v5p:16x16x16 has 4096 chips"):
        scaling("mixed", on="v5p:16x16x16", N=64, **asked)
    with pytest.raises(RooflineError, match="the 8 chips of h100:8 are joined by nvlink alone"):
        scaling("mixed", on="h100:8", F=32768)
