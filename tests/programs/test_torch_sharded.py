"""Sharded modules on fake process groups: every device's own shapes, and what goes over the links."""

from __future__ import annotations

import pytest

from tests.programs.process_groups import run


def test_column_then_row_parallel_forward_and_backward():
    found = run("""
model = nn.Sequential(nn.Linear(512, 2048, bias=False), nn.GELU(), nn.Linear(2048, 512, bias=False))
parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
tell(trace(model, torch.empty(64, 512, device="meta", requires_grad=True), backward=True))
""")
    assert found["flops"] == 3 * 2 * 2 * 64 * 512 * 256
    whole = 2 * 7 * 64 * 512 * 4 / 8
    assert found["sent"] == [["all_reduce", 8, whole, "forward"], ["all_reduce", 8, whole, "backward"]]
    assert [[64, 512], [512, 256]] in found["shapes"] or [[64, 512], [256, 512]] in found["shapes"]
    assert found["complete"]
    assert found["parameters"] == 2 * 512 * 2048 / 8  # of this device


def test_sequence_parallel_gathers_and_scatters():
    found = run("""
x = DTensor.from_local(torch.empty(8, 512, device="meta"), mesh, [Shard(0)], run_check=False)
w = DTensor.from_local(torch.empty(512, 256, device="meta"), mesh, [Shard(1)], run_check=False)
v = DTensor.from_local(torch.empty(256, 512, device="meta"), mesh, [Shard(0)], run_check=False)
def block(x, w, v):
    h = x.redistribute(mesh, [Replicate()]) @ w
    return (h @ v).redistribute(mesh, [Shard(0)])
tell(trace(block, x, w, v))
""")
    whole = 7 * 64 * 512 * 4 / 8
    assert found["sent"] == [
        ["all_gather_into_tensor", 8, whole, "forward"],
        ["reduce_scatter_tensor", 8, whole, "forward"],
    ]
    assert found["shapes"] == [[[64, 512], [512, 256]], [[64, 256], [256, 512]]]
    assert found["flops"] == 2 * 2 * 64 * 512 * 256


def test_weights_sharded_as_fully_sharded_data_parallel_does():
    """Gather the weight before it is used, scatter the sum of its gradients: per layer (n − 1)/n of it each way."""
    found = run("""
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part):
        return torch.distributed._functional_collectives.all_gather_tensor(part, 0, dist.group.WORLD)
    @staticmethod
    def backward(ctx, grad):
        return torch.distributed._functional_collectives.reduce_scatter_tensor(grad, "sum", 0, dist.group.WORLD)
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = nn.Parameter(torch.empty(64, 512, device="meta"))
    def forward(self, x):
        return x @ Gather.apply(self.part).t()
tell(trace(nn.Sequential(Layer(), Layer()), torch.empty(16, 512, device="meta", requires_grad=True), backward=True))
""")
    each = 7 * 512 * 512 * 4 / 8
    assert [item[0] for item in found["sent"]] == ["all_gather_into_tensor"] * 2 + ["reduce_scatter_tensor"] * 2
    assert {item[2] for item in found["sent"]} == {each}
    assert found["flops"] == 3 * 2 * 2 * 16 * 512 * 512
    assert found["complete"]


def test_experts_exchange_tokens():
    found = run("""
def exchange(x):
    return torch.distributed._functional_collectives.all_to_all_single(x, None, None, dist.group.WORLD) * 2
tell(trace(exchange, "bf16[64, 512]"))
""")
    assert found["sent"] == [["all_to_all_single", 8, 7 * 64 * 512 * 2 / 8, "forward"]]


def test_fully_sharded_modules_of_pytorch_itself():
    found = run("""
from torch.distributed.fsdp import fully_shard
model = nn.Sequential(nn.Linear(64, 128, bias=False), nn.ReLU(), nn.Linear(128, 64, bias=False))
for layer in (model[0], model[2]):
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
tell(trace(model, torch.empty(4, 64, device="meta", requires_grad=True), backward=True))
""")
    assert found["flops"] == 3 * 2 * 2 * 4 * 64 * 128
    assert {item[2] for item in found["sent"]} == {7 * 64 * 128 * 4 / 8}
    forward = [name for name, _, _, phase in found["sent"] if phase == "forward"]
    backward = [name for name, _, _, phase in found["sent"] if phase == "backward"]
    assert forward == ["_allgather_base"] * 2
    assert sorted(backward) == ["_allgather_base"] * 2 + ["_reduce_scatter_base"] * 2
    assert found["complete"]


FSDP = """
import functools
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecision, ShardingStrategy, wrap
from roofline.programs.pytorch.data_parallel import building_on_shapes
def build():
    return nn.Sequential(nn.Linear(64, 128, bias=False), nn.ReLU(), nn.Linear(128, 64, bias=False))
"""


@pytest.mark.parametrize(("asked", "gathered", "scattered", "averaged"), [
    ("", [(1, "forward"), (1, "backward")], 1, 0),
    ("auto_wrap_policy=wrap.ModuleWrapPolicy({nn.Linear})", [(0.5, "forward")] * 2 + [(0.5, "backward")] * 2, 1, 0),
    ("auto_wrap_policy=wrap.CustomPolicy(lambda m: isinstance(m, nn.Linear)), "
     "sharding_strategy=ShardingStrategy.SHARD_GRAD_OP", [(0.5, "forward")] * 2, 1, 0),
    ("auto_wrap_policy=functools.partial(wrap.size_based_auto_wrap_policy, min_num_params=8000)",
     [(0.5, "forward")] * 2 + [(0.5, "backward")] * 2, 1, 0),
    ("mixed_precision=MixedPrecision(torch.bfloat16, torch.bfloat16)", [(0.5, "forward"), (0.5, "backward")], 0.5, 0),
    ("sharding_strategy=ShardingStrategy.NO_SHARD", [], 0, 2),
])  # fmt: skip
def test_fully_sharded_data_parallel_gathers_and_scatters(asked, gathered, scattered, averaged):
    """Shares of what all weights in fp32 take over a link: (n - 1)/n of them; an all-reduce takes that twice."""
    found = run(f"""{FSDP}
with building_on_shapes():
    model = FSDP(build(), {asked})
tell(trace(model, torch.empty(4, 64, device="meta", requires_grad=True), backward=True))
""")
    whole = 7 * 2 * 64 * 128 * 4 / 8
    sent = [(name, nbytes / whole, phase) for name, _, nbytes, phase in found["sent"] if nbytes]
    gathers = [(share, phase) for name, share, phase in sent if "gather" in name]
    assert sorted(gathers, key=lambda item: item[1] != "forward") == gathered
    assert sum(share for name, share, _ in sent if "scatter" in name) == scattered
    assert sum(share for name, share, _ in sent if "all_reduce" in name or "allreduce" in name) == averaged
    assert found["flops"] == 3 * 2 * 2 * 4 * 64 * 128
    assert found["complete"]
    assert found["parameters"] == 2 * 64 * 128 / (1 if averaged else 8)  # of this device


def test_distributed_data_parallel_averages_its_gradients():
    found = run("""
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
tell(trace(model, "fp32[8, 64]", backward=True))
""")
    weights = 64 * 128 + 128 + 128 * 10 + 10
    assert found["sent"] == [["all_reduce", 8, 2 * 7 * weights * 4 / 8, "backward"]]


def test_data_parallel_gradients_go_in_buckets_and_compressed():
    found = run("""
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
layers = [nn.Linear(512, 512, bias=False) for _ in range(4)]
model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=2)
whole = trace(model, "fp32[8, 512]", optimizer="sgd")
model.register_comm_hook(None, default_hooks.fp16_compress_hook)
half = trace(model, "fp32[8, 512]", backward=True)
with model.no_sync():
    none = trace(model, "fp32[8, 512]", backward=True)
sent = [[float(op.work.total("wire")) for op in traced.collectives()] for traced in (whole, half, none)]
print(json.dumps(sent))
""")
    one = 2 * 7 * 512 * 512 * 4 / 8
    assert found == [[one, 2 * one, one], [one / 2, one, one / 2], []]
