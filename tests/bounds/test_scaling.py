"""When does it scale: the conditions against answers of ``bound`` on both sides of them, and their messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roofline import bound, scaling
from roofline.bounds.scaling import CONDITIONS, SPLITS, list_conditions
from roofline.cli import main
from roofline.errors import RooflineError, SizeError
from roofline.sections import Pairs
from tests.strategies import some

V5P = {"bf16": 4.59e14}


def waits(name: str, mesh: dict[str, int], **sizes: int) -> bool:
    """Whether sending a condition's line takes longer than its arithmetic, on so many v5p chips."""
    text = CONDITIONS[name].text.format("bf16", "bf16")
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
        plan = ("plan", found.question.conventions.plan)
        sent = name not in ("batch", "moe-batch")
        assert (plan in pairs) == sent
        assert any("book" in said for said in found.assumptions) == sent


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
        ("fsdp", {"weights": "="}, "^unknown dtype '='; dtypes are"),
        ("mixed", {"weights": ""}, "^unknown dtype ''; dtypes are"),
    ],
)
def test_messages(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RooflineError, match=message):
        scaling(name, on="v5p", **options)


def test_the_arithmetic_may_be_in_another_format_than_what_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    """Gradients in bf16 of products in fp8: twice the peak over the same bytes."""
    figures = {"fp8": 2e15, "link": 4e11}
    assert scaling("dp", on="h100", set=figures, compute="fp8").value == 2e15 / 4e11
    assert scaling("dp", on="h100", set=figures, dtype="fp8").value == 2e15 / (2 * 4e11)
    words = ["scaling", "dp", "--on", "h100", "--set", "fp8=2e15", "--link", "4e11", "--compute", "fp8", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["value"] == 2e15 / 4e11
    assert main(["scaling", "decode-tp", "--on", "gaudi3", "F=14336", "B=16"]) == 2
    assert "solve for another size, as in --for B, or" in capsys.readouterr().err


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


@pytest.mark.parametrize(("name", "on", "axes"), some([("fsdp", "v5p:16x16x16", 3), ("dp", "v5e:16x16", 2)], 2))
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
    some(
        [
            ("mixed", "v5p", {"N": 16, "B": 2_000_000, "F": 32768}, "the best X is more than 16 chips: X = 16, all"),
            ("2d", "v5p", {"N": 4, "D": 8192, "F": 65536}, "the best X is below 1: X = 1, all 4 chips along Y"),
            ("mixed", "dgx-h100:1024", {"B": 1_500_000, "F": 28672}, "the best Y is 13.27, and nvlink joins 8 chips"),
            (
                "mixed",
                "dgx-h100",
                {"F": 28672},
                "the best Y is 13.04, and nvlink joins 8 chips: take Y = 8 at the most",
            ),
            ("mixed", "dgx-h100", {"F": 16384}, None),
            ("mixed", "v5p", {"N": 4096, "B": 2_000_000, "F": 32768}, None),
        ],
        2,
    ),
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
    form = "the limiting form V/W of “How To Scale Your Model”"
    assert any(said.endswith(f"{form} (a limit of rings, and axis Y does not close)") for said in line)
    for on in ("v5p", "v5p:16x16x16", "h100:8"):
        notes = [said for said in scaling("fsdp", on=on).assumptions if "limiting form" in said]
        assert notes
        assert all(said.endswith(f"{form} (a limit)") for said in notes)


# ---- tokens of all chips, experts, two dimensions


def test_a_batch_that_is_given_is_held_against_the_condition() -> None:
    """Chapter 6: 1024 sequences of 4096 on 8960 v5p are 468 tokens a chip, and fully sharded training needs 850."""
    batch = scaling("fsdp", on="v5p:16x20x28", set={"bf16": 4.59e14}, sizes={"B": "1024*4096"}).batch
    assert batch is not None
    assert (batch.chips, batch.tokens, batch.holds) == (8960, 4_194_304, False)
    assert (batch.per, batch.least) == (pytest.approx(468.114285714), pytest.approx(850 * 8960))
    assert batch.ratio == pytest.approx(bound_ratio(468) * batch.per / 468)


def bound_ratio(per: int) -> float:
    """Arithmetic over communication of the line itself, at that many tokens a chip over three axes of a torus."""
    line = "In[B_{X,Y,Z}, D] * Wi[D_{X,Y,Z}, F] * Wo[F, D_{X,Y,Z}] -> Out[B_{X,Y,Z}, D]"
    plan = "AllGather_{X,Y,Z}(Wi[D_XYZ, F]); AllGather_{X,Y,Z}(Wo[F, D_XYZ])"
    options = {"on": "v5p:16x20x28", "set": {"bf16": 4.59e14}, "algorithm": "book", "plan": plan}
    answer = bound(line, B=per * 8960, D=8960, F=35840, **options)
    return float(answer.math / answer.comms)


def test_the_most_chips_of_a_batch_and_pods() -> None:
    """Chapter 5: 16 million tokens scale over 18,824 v5p, 2.1 pods."""
    batch = scaling("fsdp", on="v5p", set={"bf16": 4.59e14}, torus_axes={"X": 3}, B=16_000_000).batch
    assert batch is not None
    assert (batch.most, batch.pods) == (pytest.approx(18823.529411765), pytest.approx(2.1008403361345))
    assert (batch.per, batch.holds, batch.least) == (None, None, None)


def test_experts_raise_the_critical_batch() -> None:
    dense = scaling("batch", on="v5e", weights="int8").value
    routed = scaling("moe-batch", on="v5e", weights="int8", E=256, k=8, B=8192)
    assert routed.value == pytest.approx(dense * 256 / 8)
    assert routed.what == "tokens"
    assert routed.batch is not None
    assert routed.batch.holds
    assert str(routed.form) == "E*P_bf16/(2*W_hbm*k)"


def test_a_token_goes_to_a_node_once() -> None:
    """Chapter 12: T_comms counts min(8·k/Z, 1) of a dense AllToAll over Z GPUs."""
    alpha = scaling("ep", on="dgx-h100:1024", k=8).value
    assert scaling("ep", on="dgx-h100:1024").value == alpha
    few = {k: scaling("ep", on="dgx-h100:32", k=k).value for k in (2, 4, 8, 16)}
    assert few == {2: alpha, 4: alpha, 8: pytest.approx(alpha / 2), 16: pytest.approx(alpha / 4)}
    assert scaling("ep", on="dgx-h100:8", k=4).value == scaling("ep", on="dgx-h100:8").value  # one node: chips count
    assert scaling("ep", on="h100:4", k=8).value == pytest.approx(scaling("ep", on="h100:4").value / 2)


@pytest.mark.long
def test_two_dimensions_over_any_axes() -> None:
    """T = 4·B·D/(X·W·M_Y) + 4·B·F/(Y·W·M_X): the X where both are alike, the N from which it is less than in one."""
    for along_x, along_y in some([(1, 1), (1, 2), (2, 1)], 3, 1):
        found = scaling("2d", on="v5p", torus_axes={"X": along_x, "Y": along_y}, D=8192, F=32768, N=4096)
        assert found.best["X"] == pytest.approx((8192 / 32768 * along_x / along_y * 4096) ** 0.5)
        assert found.best["X"] * found.best["Y"] == pytest.approx(4096)
        assert found.value == pytest.approx(4 * (along_x + along_y) ** 2 / (along_x * along_y) * 32768 / 8192)

        def time(x: int, along_x: int = along_x, along_y: int = along_y) -> float:
            return 8192 / (x * along_y) + 32768 / (4096 // x * along_x)

        assert found.take["X"] == min((2**i for i in range(13)), key=time)


def test_a_mixed_split_in_whole_chips() -> None:
    found = scaling("mixed", on="v5p", torus_axes={"X": 2}, F=32768, B=2_000_000, N=4096, set={"bf16": 4.59e14})
    assert found.take == {"X": 512, "Y": 8}
    assert found.shares == {"tokens": 3906.25, "columns": 4096}
    assert found.batch is not None
    assert found.batch.least == pytest.approx(406406.25)
    assert found.batch.ratio == pytest.approx((2_000_000 / 406406.25) ** 0.5)


def test_slices_are_not_counted_in_pods() -> None:
    batch = scaling("dcn", on="v5p:16x20x28:4", B=32_000_000, set={"bf16": 4.59e14}).batch
    assert batch is not None
    assert (batch.chips, batch.per, batch.pods) == (4, 8_000_000, None)
    assert batch.most == pytest.approx(32_000_000 / 73_440)


def test_a_split_without_a_batch_is_that_of_the_least_batch_that_scales() -> None:
    split = scaling("mixed", on="v5p:4x4x4", F=13824, N=64)
    pairs = next(dict(part.pairs) for part in split.sections() if isinstance(part, Pairs))
    least = int(pairs["the batch"].split()[0].replace(",", ""))
    at_least = scaling("mixed", on="v5p:4x4x4", F=13824, N=64, B=least)
    assert split.take == at_least.take == {"X": 16, "Y": 4}  # sqrt(B·N/F) = 11.8 of divisors of 64
    assert at_least.batch.holds
    assert not scaling("mixed", on="v5p:4x4x4", F=13824, N=64, B=least - 1).batch.holds


def test_whole_ways_scale_from_the_least_batch_of_any_divisors() -> None:
    found = scaling("mixed", on="v5p:4x4x4", F=28672, B=20_401)
    flops, link = found.rates["P_bf16"][0], found.rates["W_ici_X"][0]
    # the weights over X take F D X / (N W) · 2, the batch over Y 2 B D / (X W); arithmetic 4 B D F / (N P)
    least = {x: x * flops / (2 * link) for x in (1, 2, 4, 8, 16, 32, 64) if 2 / (link * x) <= 4 * 28672 / (64 * flops)}
    ways = min(least, key=least.get)
    assert found.whole == {"X": ways, "Y": 64 // ways, "B": pytest.approx(least[ways])}
    assert ways == 8
    pairs = next(dict(part.pairs) for part in found.sections() if isinstance(part, Pairs))
    assert pairs["whole ways"] == "X = 8, Y = 8 scales from 20,400 tokens"
    assert scaling("mixed", on="v5p", F=28672).whole == {}  # no number of chips


def test_several_numbers_of_chips_share_a_condition(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scaling", "dp", "N=1000,2000", "--on", "v5p:2x2x2"]) == 0
    assert "tokens per chip ≥ 850" in capsys.readouterr().out
