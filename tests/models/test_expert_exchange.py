"""What chips with whole experts send each other, against formulas written by hand, and against published times."""

from __future__ import annotations

from math import comb
from typing import Any

import pytest

from roofline.errors import InputError, SizeError
from roofline.hardware import chip
from roofline.models import decode, load, prefill, serve_bound
from roofline.models.blocks.feed_forward import MixtureOfExperts
from roofline.models.parallelism.layout import Parallelism
from roofline.models.parallelism.splitting import local_model
from tests.models.test_parallel_exchange import sent
from tests.models.tiny import TINY


@pytest.mark.parametrize("exchange", ["all-to-all", "per-expert"])
@pytest.mark.parametrize(("tensor", "data", "each"), [(1, 8, 32), (2, 4, 64), (8, 1, 256)])
def test_two_all_to_alls_of_the_chosen_rows_a_layer(tensor: int, data: int, each: int, exchange: str) -> None:
    """Each chip sends tokens · c rows in fp8 and gets as many back in bf16, 1/n of them its own; then an AllGather.

    c are the chips that a token's experts lie on: 8 of the 128 on four of eight chips, as routing is limited to those.
    """
    model, n = load("deepseek-v3"), 8
    ways = {"tensor": tensor, "expert": 8, "exchange": exchange}
    sent_to = 8 if exchange == "per-expert" else 4 * (1 - comb(96, 8) / comb(128, 8))
    local, _ = local_model(model, chip("h200:8"), **ways)
    ops = decode(local, batch=each * data, context=100)
    own, k, width = each // tensor, 8, 7168
    for part, size in (("dispatch", 1), ("combine", 2)):
        (op,) = sent(ops, "AllToAll", part)
        assert op.repeat == 58
        # chips that split a layer have the same tokens: those are not sent to them
        having = tensor if part == "dispatch" and exchange == "all-to-all" else 1
        assert op.work.total("wire") == pytest.approx(own * sent_to * width * size * (n - having) / n)
    gathers = sent(ops, "AllGather", "mlp.gather")
    assert len(gathers) == (tensor > 1)
    if gathers:
        assert gathers[0].dims["bytes"] == each * width * 2
    # tokens reach each expert that all copies chose, and each chip has 32 of the 256
    up = next(op for op in ops if op.where.endswith("experts.up_proj"))
    everyone = each * data
    assert up.dims["m"] == everyone * k / n
    assert up.dims["groups"] == pytest.approx(256 * (1 - (1 - 8 / 256) ** everyone) / n)


def test_the_published_time_of_dispatch_and_combine() -> None:
    """(1 + 2) bytes · 32 tokens · 9 experts · 7,000 ÷ 50 GB/s = 120.96 µs for each layer.

    Zhao et al., "Insights into DeepSeek-V3", arXiv:2505.09343, section 2.3.2. It sends to the shared expert too, rounds
    7168 to 7k, and has no expert on a token's own chip; all of it over InfiniBand.
    """
    published = (1 + 2) * 32 * 9 * 7000 / 50e9
    assert published == pytest.approx(120.96e-6)
    chips = 256
    asked: dict[str, Any] = {"expert": chips, "batch": 32 * chips, "context": 1000, "expert_exchange": "per-expert"}
    found = serve_bound("deepseek-v3", "decode", on=f"h200:{chips}", **asked)
    over_ib = sum(
        use.time / part.op.repeat
        for part in found.ops
        if part.op.options.get("collective") == "AllToAll"
        for use in part.uses
        if use.resource == "nic"
    )
    assert over_ib == pytest.approx(published * (8 / 9) * (7168 / 7000) * (chips - 8) / chips)
    # 61 layers as in the paper: 14.76 ms a token, 67 tokens a second, with two micro-batches that hide the rest
    assert 2 * published * 61 == pytest.approx(14.76e-3, rel=1e-3)


def test_sums_or_tokens() -> None:
    """Eight chips that split attention: AllReduce adds up sums, AllToAll sends tokens; the work is the same."""
    options: dict[str, Any] = {"on": "h200:8", "tensor": 8, "expert": 8, "batch": 64, "context": 1000}
    summed = serve_bound("deepseek-v3", "decode", **options)
    tokens = serve_bound("deepseek-v3", "decode", expert_exchange="all-to-all", **options)

    def routed(found: Any) -> dict[str, float]:
        return {p.op.where: float(p.flops) for p in found.ops if ".experts." in p.op.where and "proj" in p.op.where}

    assert routed(summed) == pytest.approx(routed(tokens))
    reduced = next(part for part in summed.ops if part.op.where == "layers.3-60.mlp.all_reduce")
    assert reduced.op.dims["bytes"] == 64 * 7168 * 2
    assert not [part for part in tokens.ops if part.op.where == "layers.3-60.mlp.all_reduce"]
    assert any("a token is sent once to each chip that has some of its experts" in line for line in tokens.assumptions)
    each = serve_bound("deepseek-v3", "decode", expert_exchange="per-expert", **options)
    assert routed(each) == pytest.approx(routed(tokens))
    assert any("a token is sent once for each of its experts" in line for line in each.assumptions)


def test_the_busiest_chip_sets_the_time_of_skewed_experts() -> None:
    """Half of the choices fall on two of eight experts, which lie on the first of four chips."""
    model = load("mixtral-8x7b")
    skew = [2, 2] + [4 / 6] * 6
    local, _ = local_model(model, chip("h200:4"), expert=4)
    even = decode(local, batch=64, context=100)
    skewed = decode(local, batch=64, context=100, skew=skew)

    def rows(ops: Any) -> Any:
        return next(op for op in ops if op.where.endswith("up_proj")).dims

    assert rows(even)["m"] == 64 * 2 / 4
    assert rows(skewed)["m"] == pytest.approx(64 * 2 * 4 / 8)
    assert rows(skewed)["groups"] == pytest.approx(2 * (1 - (1 - 2 * 2 / 8) ** 64))

    def wire(ops: Any) -> float:
        return sum(op.work.total("wire") * op.repeat for op in sent(ops, "AllToAll"))

    # a quarter of the choices each: missed by half, then by a third of those that the first one leaves
    met, busiest = 1 - comb(6, 2) / comb(8, 2), 1 - (1 - 2 / 4) * (1 - 2 / 4 / (3 / 4))
    assert wire(skewed) / wire(even) == pytest.approx(busiest / met)
    back = next(op for op in skewed if op.where.endswith("experts.sum"))
    assert back.reads[0].dims[0] <= 64 / 4 * 2
    each, _ = local_model(model, chip("h200:4"), expert=4, exchange="per-expert")
    sizes: dict[str, Any] = {"batch": 64, "context": 100}
    assert wire(decode(each, **sizes, skew=skew)) == pytest.approx(2 * wire(decode(each, **sizes)))
    alike = decode(local, **sizes, skew=[3] * 8)
    assert wire(alike) == pytest.approx(wire(even))
    with pytest.raises(SizeError, match="the skew has 4 shares, and there are 8 experts"):
        decode(local, batch=64, context=100, skew=[1, 1, 1, 1])


@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize("shared", ["replicated", "split"])
def test_experts_over_everything(sequence: bool, shared: str) -> None:
    """Two copies of two parts of sequences of two halves of layers, all with the same experts."""
    model = load("deepseek-v3")
    ways = Parallelism.on(chip("h200:8"), tensor=2, context=2, data=2, expert=8, shared=shared, sequence=sequence)
    local, _ = local_model(model, chip("h200:8"), ways)
    for build, sizes in ((prefill, {"prompt": 64}), (decode, {"context": 64})):
        whole, part = (build(each, batch=4, **sizes) for each in (model, local))  # type: ignore[operator]
        tokens = 4 * sizes.get("prompt", 1)
        for ops, chips in ((whole, 1), (part, 8)):
            up = next(op for op in ops if op.where.endswith("mlp.experts.up_proj"))
            assert up.dims["m"] * chips == tokens * 8
            assert up.dims["groups"] * chips == pytest.approx(256 * (1 - (1 - 8 / 256) ** tokens))
        (there,) = sent(part, "AllToAll", "dispatch")
        assert there.dims["bytes"] == tokens * 8 * 7168
        # what shared experts do over all chips is one model's, whichever way they lie
        flops = [
            sum(op.work.total("flops", "matrix") * op.repeat for op in ops if "shared_experts" in op.where)
            for ops in (whole, part)
        ]
        assert flops[1] * 8 == flops[0]


V3: dict[str, Any] = {**TINY["deepseek_v3"], "n_routed_experts": 16, "num_experts_per_tok": 2}


def limits_of(**fields: Any) -> set[tuple[int, int]]:
    config = {key: value for key, value in {**V3, **fields}.items() if value is not ...}
    layers = load(config, name="tiny").layers
    return {block.group_limit for layer in layers for block in layer.blocks if isinstance(block, MixtureOfExperts)}


def test_routing_that_is_limited_to_groups_is_read() -> None:
    """As transformers' classes do: DeepSeek-V3 has 4 of 8 groups where nothing is said, V2 none unless it says so."""
    assert limits_of(n_group=4, topk_group=2) == {(2, 4)}
    assert limits_of(n_group=..., topk_group=...) == {(4, 8)}
    assert limits_of(n_group=4, topk_group=2, topk_method="greedy") == {(1, 1)}
    assert limits_of(n_group=1, topk_group=1) == {(1, 1)}
    assert limits_of(model_type="deepseek_v2", n_group=4, topk_group=2) == {(1, 1)}
    for groups, taken, each in ((3, 1, 2), (4, 5, 2), (8, 1, 4)):
        with pytest.raises(InputError, match=f"to {each} experts of {taken} of {groups} groups of its 16"):
            limits_of(n_group=groups, topk_group=taken, num_experts_per_tok=each)


def test_one_expert_a_chip_is_sent_to_as_often_either_way() -> None:
    """Then nothing is saved: a skewed token goes to each of its experts once, whichever way is asked for."""
    skew, model = [8, 1, 1, 1, 1, 1, 1, 1], load("mixtral-8x7b")
    found = []
    for exchange in ("all-to-all", "per-expert"):
        local, _ = local_model(model, chip("h100:8"), expert=8, exchange=exchange)
        ops = decode(local, batch=64, context=100, skew=skew)
        (dispatch,) = sent(ops, "AllToAll", "dispatch")
        up = next(op for op in ops if op.where.endswith("up_proj"))
        found.append((dispatch.work.total("wire"), dispatch.writes[0].dims[0], up.dims["m"]))
    assert found[0] == pytest.approx(found[1])
    assert found[0][1] == found[0][2] == 64


def test_the_answer_says_how_often_a_token_is_sent() -> None:
    asked: dict[str, Any] = {"batch": 512, "context": 1000}
    said = {
        (on, exchange, algorithm): next(
            line
            for line in serve_bound(
                "deepseek-v3", "decode", on=on, expert=32, expert_exchange=exchange, algorithm=algorithm, **asked
            ).assumptions
            if line.startswith("whole experts")
        )
        for on, exchange, algorithm in (
            ("h200:32", "all-to-all", None), ("h200:32", "all-to-all", "direct"), ("h200:32", "per-expert", None),
            ("v5p:4x4x2", "all-to-all", None),
        )
    }  # fmt: skip
    chips = "a token is sent once to each chip that has some of its experts"
    ends = (f"{chips}, and once to each node", chips, "a token is sent once for each of its experts",
            f"{chips}, and once over each link on its way")  # fmt: skip
    assert [line.split("; ")[1].split(" (")[0] for line in said.values()] == list(ends)
