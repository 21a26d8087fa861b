"""Mixed precision: what autocast runs in the lower format, and that its products are counted there."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from roofline.programs import trace


def _formats(traced, kind="contraction"):
    return {key.dtype for op in traced.ops if op.kind == kind for key in op.work if key.place == "matrix"}


def _dtypes(function, device, dtype=torch.bfloat16):
    """The dtype of what a function gives: ours on shapes, and PyTorch's where the device is here."""
    found = {}

    def run(x, w):
        with torch.autocast(device, dtype=dtype):
            y = function(x, w)
        found["ours"] = y.dtype
        return y

    trace(run, "fp32[8, 8]", "fp32[8, 8]")
    if device == "cpu":
        with torch.autocast(device, dtype=dtype):
            found["theirs"] = function(torch.rand(8, 8), torch.rand(8, 8)).dtype
    return found


CALLS = [
    torch.mm, torch.matmul, F.linear, lambda x, w: x @ w, lambda x, w: torch.einsum("ij,jk->ik", x, w),
    lambda x, w: torch.addmm(x, x, w), lambda x, w: (x @ w).softmax(-1), lambda x, w: F.layer_norm(x @ w, (8,)),
    lambda x, w: F.mse_loss(x @ w, x), lambda x, w: F.gelu(x @ w), lambda x, w: x + w, lambda x, w: (x @ w) + x,
    lambda x, w: F.conv1d(x[None], w[:, :, None]), lambda x, w: torch.exp(x @ w), lambda x, w: (x @ w).sum(),
    lambda x, w: F.scaled_dot_product_attention(x[None], w[None], w[None]), lambda x, w: F.cross_entropy(x @ w, x),
    lambda x, w: torch.cat((x @ w, x)), lambda x, w: torch.mv(x, w[0]),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_on_a_cpu_as_pytorch_itself(call):
    found = _dtypes(call, "cpu")
    assert found["ours"] == found["theirs"]


@pytest.mark.parametrize(("call", "wanted"), [
    (lambda x, w: x @ w, torch.float16),
    (lambda x, w: (x @ w).softmax(-1), torch.float32),
    (lambda x, w: F.layer_norm(x @ w, (8,)), torch.float32),
    (lambda x, w: F.relu(x @ w), torch.float16),
    (lambda x, w: torch.mv(x, w[0]), torch.float16),
])  # fmt: skip
def test_for_a_gpu_that_is_not_here(call, wanted):
    assert _dtypes(call, "cuda", torch.float16)["ours"] == wanted


def test_a_training_step_with_checkpoints_and_adamw():
    net = nn.ModuleList(nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(3))
    optimizer = torch.optim.AdamW(net.parameters())

    def step(x, y):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            for block in net:
                x = checkpoint(block, x, use_reentrant=False)
            loss = F.mse_loss(x, y)
        loss.backward()
        optimizer.step()

    found = trace(step, "fp32[8, 64]", "fp32[8, 64]")
    one = 2 * 8 * 64 * 256
    assert _formats(found) == {"bf16"}
    assert found.only(phase="forward").flops() == 3 * 2 * one
    # both gradients of every layer but the first, whose input needs none; each block's first layer runs again,
    # and its last does not, for nothing of its result is needed
    assert found.only(phase="backward").flops() == 3 * 4 * one - one + 3 * one
    moments = [t for op in found.only(phase="optimizer").ops for t in op.writes]
    assert {t.dtype for t in moments} <= {"fp32", "int64"}
    casts = [op for op in found.only(phase="forward").ops if op.name == "cast"]
    assert sum(op.reads[0].role == "weight" for op in casts) == 3 * 4
    assert not torch.is_autocast_enabled("cuda")
    assert torch.cuda.amp.common.amp_definitely_not_available() == (not torch.cuda.is_available())


@pytest.mark.filterwarnings("ignore:Mismatch dtype")
@pytest.mark.parametrize(("given", "held"), [(torch.bfloat16, torch.float32), (torch.float32, torch.bfloat16)])
def test_a_norm_gives_the_format_that_it_is_given(given, held):
    norm = nn.RMSNorm(64).to(held)
    real = norm(torch.ones(8, 64, dtype=given))
    (op,) = trace(norm, torch.ones(8, 64, dtype=given)).ops
    assert op.writes[0].traffic_bytes == real.nbytes
