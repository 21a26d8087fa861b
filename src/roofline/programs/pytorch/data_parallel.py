"""Gradients that DistributedDataParallel averages: PyTorch's own reducer knows the weights and not their stand-ins.

FullyShardedDataParallel, which is built on accelerators alone, becomes ``fully_shard``, which sends the same: each
wrapped module is gathered before it runs, forward and backward, and its gradients are reduced and scattered.

Buckets are filled from the last parameter on: the first holds 1 MiB, each further one ``bucket_cap_mb`` (Li et al.,
"PyTorch Distributed", VLDB 2020, section 3.2). One all-reduce goes out for each, when its last gradient is there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

from roofline.errors import InputError
from roofline.ops import pricing
from roofline.programs.pytorch.recorder import Recorder
from roofline.programs.pytorch.rules.moving import groups_of, members

#: Bytes an element of gradients that a hook of PyTorch compresses before they are sent.
_COMPRESSED = {"fp16_compress_hook": 2, "bf16_compress_hook": 2, "fp16_compress_wrapper": 2}


class _Bucket:
    """Gradients that go out together."""

    def __init__(self, recorder: Recorder, module: Any, parameters: list[Any]) -> None:
        self.recorder, self.module, self.parameters = recorder, module, parameters
        self.ready: dict[int, Any] = {}

    def take(self, parameter: Any) -> None:
        """Note that a gradient is there; send all of them with the last one."""
        if not self.module.require_backward_grad_sync:  # no_sync: gradients of several steps are added up first
            return
        self.ready[id(parameter)] = parameter
        if len(self.ready) == len(self.parameters):
            self.send()

    def send(self) -> None:
        """Write the all-reduce of what is there down."""
        names = self.recorder.identities
        grads = [parameter.grad for parameter in self.ready.values()]
        self.ready = {}
        reads = [names.read(grad, "gradient") for grad in grads]
        writes = [names.wrote(grad, "gradient", in_place=True) for grad in grads]
        hooks = [getattr(hook, "__name__", "") for hook, _ in getattr(self.module, "_comm_hooks", ())]
        size = next((_COMPRESSED[hook] for hook in hooks if hook in _COMPRESSED), None)
        nbytes = sum(grad.numel() * (size or grad.element_size()) for grad in grads)
        devices, ranks = members(self.module.process_group)
        place = self.recorder.locations.now()._replace(phase="backward")
        sent = {"nbytes": nbytes, "devices": devices, "groups": groups_of(devices, ranks)}
        self.recorder.emit(pricing.least_collective("all_reduce", reads, writes, does="AllReduce", **sent), place)


@contextmanager
def averaging_gradients(roots: Mapping[str, Any], recorder: Recorder) -> Iterator[None]:
    """Write down what data-parallel modules send; gradients that no other followed are sent at the end."""
    kind = getattr(sys.modules.get("torch.nn.parallel"), "DistributedDataParallel", None)
    wrapped = [module for root in roots.values() for module in root.modules() if kind and isinstance(module, kind)]
    buckets = [_Bucket(recorder, module, some) for module in wrapped for some in _buckets(module)]
    hooks = [p.register_post_accumulate_grad_hook(bucket.take) for bucket in buckets for p in bucket.parameters]
    try:
        yield
        for bucket in buckets:
            if bucket.ready:
                bucket.send()
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def building_on_shapes() -> Iterator[None]:
    """Let a program wrap a module without values: the weights are neither compared between devices nor sent."""
    with ExitStack() as stack:
        stack.enter_context(torch.device("meta"))
        if torch.distributed.is_available():
            from torch.distributed.fsdp import FullyShardedDataParallel
            from torch.nn.parallel import distributed

            stack.enter_context(mock.patch.object(FullyShardedDataParallel, "__init__", _shard))

            for name in ("_verify_param_shape_across_processes", "_sync_module_states"):
                stack.enter_context(mock.patch.object(distributed, name))
        yield


class ShardedModule(torch.nn.Module):  # type: ignore[misc]
    """What a FullyShardedDataParallel becomes: it runs the module that it holds, and has that one's attributes."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module."""
        return self.module(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


def _shard(
    self: torch.nn.Module,
    module: torch.nn.Module,
    process_group: Any = None,
    sharding_strategy: Any = None,
    cpu_offload: Any = None,
    auto_wrap_policy: Any = None,
    backward_prefetch: Any = None,
    mixed_precision: Any = None,
    ignored_modules: Iterable[torch.nn.Module] | None = None,
    *_: Any,
    device_mesh: Any = None,
    ignored_states: Iterable[Any] | None = None,
    **__: Any,
) -> None:
    """Build a FullyShardedDataParallel, with the same parameters, by ``fully_shard``."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, ShardingStrategy, fully_shard

    if getattr(cpu_offload, "offload_params", False):
        raise InputError("weights in the host's memory are not traced", hint="leave cpu_offload out")
    strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
    mesh = device_mesh or _mesh(process_group, strategy)
    ignored = {item for item in ignored_states or () if isinstance(item, torch.nn.Parameter)}
    left_out = {*(ignored_modules or ()), *(item for item in ignored_states or () if item not in ignored)}
    left_out = {inner for outer in left_out for inner in outer.modules()}
    ignored |= {parameter for inner in left_out for parameter in inner.parameters()}
    formats = [getattr(mixed_precision, name, None) for name in ("param_dtype", "reduce_dtype")]
    reshard = strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)

    def shard(part: torch.nn.Module, **_: Any) -> torch.nn.Module:
        fully_shard(
            part, mesh=mesh, reshard_after_forward=reshard, mp_policy=MixedPrecisionPolicy(*formats),
            ignored_params=ignored,
        )  # fmt: skip
        return part

    _shard_parts(module, auto_wrap_policy, shard, left_out, ignored)
    self.__class__ = ShardedModule
    torch.nn.Module.__init__(self)
    self.module = shard(module)


def _shard_parts(
    module: torch.nn.Module, policy: Any, shard: Any, left_out: set[torch.nn.Module], ignored: set[Any]
) -> None:
    """Shard the modules that a policy chooses, the inner ones first."""
    from torch.distributed.fsdp import wrap

    if isinstance(policy, wrap._Policy):
        chosen = policy._run_policy(module, left_out, {})
        for part in reversed([part for part in chosen if part is not module]):
            shard(part)
    elif policy is not None:
        wrap._recursive_wrap(module, policy, shard, left_out, ignored, only_wrap_children=True)


def _mesh(process_group: Any, strategy: Any) -> Any:
    """The devices that weights are sharded over, and in a second dimension those that hold the same part."""
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
    from torch.distributed.fsdp import ShardingStrategy

    if strategy in (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2):
        raise InputError("a hybrid sharding needs its two groups", hint="device_mesh=init_device_mesh('cpu', (2, 4))")
    ways = torch.distributed.get_world_size(process_group)
    if strategy is ShardingStrategy.NO_SHARD:
        return init_device_mesh("cpu", (ways, 1), mesh_dim_names=("replicate", "shard"))
    return init_device_mesh("cpu", (ways,)) if process_group is None else DeviceMesh.from_group(process_group, "cpu")


def _buckets(module: Any) -> list[list[Any]]:
    ignored = getattr(module, "parameters_to_ignore", ())
    named = [(name, p) for name, p in module.module.named_parameters() if p.requires_grad and name not in ignored]
    found: list[list[Any]] = []
    limit, held = torch.distributed._DEFAULT_FIRST_BUCKET_BYTES, 0
    for _, parameter in reversed(named):
        if not found or held >= limit:
            limit = module.bucket_bytes_cap if found else limit
            held = 0
            found.append([])
        found[-1].append(parameter)
        held += parameter.nbytes
    return found
