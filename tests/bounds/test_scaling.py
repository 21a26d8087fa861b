"""When does it scale: the conditions against answers of ``bound`` on both sides of them, and their messages."""

from __future__ import annotations

from typing import Any

import pytest

from roofline import bound, scaling
from roofline.bounds.scaling_conditions import CONDITIONS, SPLITS, list_conditions
from roofline.errors import RooflineError, SizeError
from roofline.sections import Pairs

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
    names = [name for name, _, _ in list_conditions()]
    assert names == [*CONDITIONS, *SPLITS]
    for name in names:
        target = {"on": "v5p:16x20x28:2", "mesh": {"X": 8960, "S": 2}} if name == "dcn" else {"on": "v5p"}
        found = scaling(name, **target)
        assert found.form.free_symbols, name
        pairs = next(each.pairs for each in found.sections() if isinstance(each, Pairs))
        assert ("plan", found.question.conventions.plan) in pairs
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
        ("dp", {"k": 4}, "size k plays no part in this condition; sizes are: B, F, D, X$"),
        ("tp", {"mesh": {"Y": 8}, "unknown": "Y"}, "Y is 8 chips here, and is what is solved for; leave its number"),
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


def test_chips_that_are_given_give_the_best_split_in_two_dimensions() -> None:
    D, F, N = 8192, 32768, 64
    found = scaling("2d", on="v5e", D=D, F=F, N=N)
    assert (found.value, found.best["X"]) == (16, (D * N / F) ** 0.5)
    assert scaling("2d", on="v5p:4x4x4", D=D, F=F).best == found.best
    assert scaling("2d", on="v5e", D=D, F=F, N=[64, 256]).best["X"].tolist() == [4, 8]
    assert scaling("mixed", on="v5p", B=2_000_000, F=F, N=[64, 256]).best["X"].tolist() == [62.5, 125]


@pytest.mark.parametrize(
    ("name", "on", "sizes", "said"),
    [
        ("mixed", "v5p", {"N": 16, "B": 2_000_000, "F": 32768}, "the best X is more than 16 chips: X = 16, all"),
        ("2d", "v5p", {"N": 4, "D": 8192, "F": 65536}, "the best X is below 1: X = 1, all 4 chips along Y"),
        ("mixed", "dgx-h100:1024", {"B": 1_500_000, "F": 28672}, "the best Y is 13.27, and nvlink joins 8 chips"),
        ("mixed", "dgx-h100", {"F": 28672}, "the best Y is 13.04, and nvlink joins 8 chips: take Y = 8 at the most"),
        ("mixed", "dgx-h100", {"F": 16384}, None),
        ("mixed", "v5p", {"N": 4096, "B": 2_000_000, "F": 32768}, None),
    ],
)
def test_a_best_split_that_chips_cannot_have_is_told(
    name: str, on: str, sizes: dict[str, int], said: str | None
) -> None:
    first = scaling(name, on=on, sizes=sizes).assumptions[0]
    assert first.startswith(said or "2 FLOPs")


def test_more_ways_than_a_link_joins_are_told() -> None:
    said = "nvlink joins 8 chips: take Y = 8 at the most"
    assert scaling("tp", on="h100", unknown="Y", F=28672).assumptions[0] == said
    assert scaling("decode-tp", on="dgx-h100", B=64, F=28672).assumptions[0] == said
    for on, F in (("h100", 16384), ("gb200", 28672), ("v5e", 28672), ("h100", [8192, 28672])):
        assert said not in scaling("tp", on=on, unknown="Y", F=F).assumptions


def test_experts_that_get_each_token_make_the_batch_one_of_all_tokens() -> None:
    figures = {"bf16": 9.9e14}
    assert scaling("moe-dp", on="dgx-h100:1024", set=figures, E=128, k=4).value == pytest.approx(79_200)
    with pytest.raises(SizeError, match="k=9, and there are E=8 experts; k of 1 to 8"):
        scaling("moe-dp", on="dgx-h100:1024", E=8, k=9)
    open_experts = scaling("moe-dp", on="dgx-h100:1024", k=4)
    assert (open_experts.what, str(open_experts.form)) == ("tokens per chip", "E*P_bf16/(8*W_ib*k)")
    each = scaling("moe-dp", on="dgx-h100:1024", set=figures, E=128)
    assert (each.what, each.value) == ("tokens per expert and chip", pytest.approx(79_200 * 4 / 128))


def test_between_slices_all_chips_of_a_slice_share_the_gradients() -> None:
    found = scaling("dcn", on="v5e:16x16:4", set={"bf16": 1.97e14})
    assert found.value == pytest.approx(1.97e14 / 3.125e9)
    assert found.assumptions[0].startswith("X is all 256 chips of v5e:16x16")
    assert not any("nothing is sharded" in said for said in found.assumptions)
    with pytest.raises(RooflineError, match="nothing crosses slices; name a target of several, as in v5e:16x16:2"):
        scaling("dcn", on="v5e:16x16")


def test_a_limit_says_which_axis_does_not_reach_it() -> None:
    line = scaling("tp", on="v5e:8").assumptions
    assert any(
        said.endswith("the book's limiting form V/W (a limit of rings, and axis Y does not close)") for said in line
    )
    for on in ("v5p", "v5p:16x16x16", "h100:8"):
        notes = [said for said in scaling("fsdp", on=on).assumptions if "limiting form" in said]
        assert notes
        assert all(said.endswith("V/W (a limit)") for said in notes)
