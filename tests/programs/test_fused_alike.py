"""A program that is written in PyTorch and in JAX has the same floor where kernels fuse, and says where they do not."""

from __future__ import annotations

import pytest

import roofline
from roofline.quantity import format_quantity

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")


def test_the_same_layers_in_torch_and_jax_take_the_same_where_elementwise_work_is_fused() -> None:
    layers = torch.nn.Sequential(
        torch.nn.Linear(1024, 4096), torch.nn.GELU(approximate="tanh"), torch.nn.Linear(4096, 1024)
    ).bfloat16()

    def function(x, w, b, v, c):  # type: ignore[no-untyped-def]
        return jax.nn.gelu(x @ w + b) @ v + c

    shapes = ((8192, 1024), (1024, 4096), (4096,), (4096, 1024), (1024,))
    inputs = [jax.ShapeDtypeStruct(shape, jax.numpy.bfloat16) for shape in shapes]
    times = []
    for policy in ("each-op", "fused"):
        ours = roofline.trace(layers, "bf16[8192, 1024]", on="v5e", policy=policy)
        theirs = roofline.trace(function, *inputs, on="v5e", frontend="jax", policy=policy)
        times.append((ours.lower, theirs.lower))
        said = "is elementwise work in kernels of its own, which fused joins" in " ".join(str(theirs).split())
        assert said == (policy == "each-op")
    assert times[0][1] > 2 * times[0][0]
    assert times[1][0] == pytest.approx(times[1][1], rel=1e-3)


def test_a_program_says_in_one_sentence_the_times_that_fusing_gives() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)).bfloat16()
    for rows, gains in ((64, True), (65536, False)):  # many rows: elementwise work is 10%, and hides at best
        apart, fused, minimal = (
            roofline.trace(layers, f"bf16[{rows}, 1024]", on="a100", policy=policy)
            for policy in ("each-op", "fused", "minimal")
        )
        before, after = (format_quantity(float(each.op_by_op), "s") for each in (apart, fused))
        said = " ".join(str(apart).split())
        assert f"which fused joins to the operations before it: {before} → {after}, one after the other" in said
        floors = [format_quantity(float(each.lower), "s") for each in (apart, minimal)]
        head = said[: said.index("bytes op by op")]  # the time at best, and what it takes for granted, before any table
        assert f"at best {floors[0]}" in head
        assert ("every operation's reads and writes in memory, as eager kernels do" in head) == gains
        assert (f"may take less: fused {format_quantity(float(fused.lower), 's')}, {fused.kind}" in head) == gains
        assert ("; fused " in repr(apart)) == gains
        assert "as eager kernels do" not in str(fused) + str(minimal)
        assert "policy='each-op,fused,minimal' compares" in said
        assert "compares" not in str(fused)
    beside, policies = (
        " ".join(str(roofline.trace(layers, "bf16[64, 1024]", **more)).partition("at worst")[0].split())
        for more in ({"on": ["a100", "h100"]}, {"on": "a100", "policy": "each-op,fused"})
    )
    alone = roofline.trace(layers, "bf16[64, 1024]", on="h100", policy="fused")
    assert f"h100: fused {format_quantity(float(alone.lower), 's')}, {alone.kind}" in beside
    assert "as eager kernels do" not in policies


def test_attention_that_is_written_out_says_what_one_kernel_gains() -> None:
    def in_torch(q, k, v):  # type: ignore[no-untyped-def]
        return torch.softmax(q @ k.transpose(-1, -2) * 0.1, -1) @ v

    def in_jax(q, k, v):  # type: ignore[no-untyped-def]
        scores = jax.numpy.einsum("bhqd,bhkd->bhqk", q, k) * 0.1
        return jax.numpy.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)

    def by_powers_of_two(q, k, v):  # type: ignore[no-untyped-def]
        powers = jax.numpy.exp2(jax.numpy.einsum("bhqd,bhkd->bhqk", q, k) * 0.144)
        return jax.numpy.einsum("bhqk,bhkd->bhqd", powers / powers.sum(-1, keepdims=True), v)

    shape = (8, 32, 2048, 128)
    whole = roofline.bound(
        "attention(bf16[8, S, 32, 128], bf16[8, S, 32, 128], bf16[8, S, 32, 128])", on="h100", S=2048
    )
    said = f"→ {whole.lower * 1e6:.0f} µs at best"
    for program, given, frontend in (
        (in_torch, torch.empty(shape, dtype=torch.bfloat16, device="meta"), "torch"),
        (in_jax, jax.ShapeDtypeStruct(shape, jax.numpy.bfloat16), "jax"),
        (by_powers_of_two, jax.ShapeDtypeStruct(shape, jax.numpy.bfloat16), "jax"),
    ):
        shown = " ".join(str(roofline.trace(program, given, given, given, on="h100", frontend=frontend)).split())
        assert "of the bytes are scores and probabilities of attention, which one kernel" in shown
        assert said in shown
        floor = roofline.trace(program, given, given, given, on="h100", frontend=frontend, policy="minimal")
        assert "scores and probabilities" not in str(floor)
    norms = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.GELU(), torch.nn.Linear(64, 64)
    )
    assert "probabilities" not in str(roofline.trace(norms, "fp32[8, 64]", on="h100"))
