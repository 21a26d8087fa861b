"""Gradients that DistributedDataParallel averages: PyTorch's own reducer knows the weights and not their stand-ins.

Buckets are filled from the last parameter on: the first holds 1 MiB, each further one ``bucket_cap_mb`` (Li et al.,
"PyTorch Distributed", VLDB 2020, section 3.2). One all-reduce goes out for each, when its last gradient is there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

from roofline.programs.pytorch.recorder import Recorder
from roofline.programs.pytorch.rules.collectives import between, members

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
        self.recorder.emit(between("all_reduce", "AllReduce", reads, writes, nbytes, devices, ranks), place)


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
            from torch.nn.parallel import distributed

            for name in ("_verify_param_shape_across_processes", "_sync_module_states"):
                stack.enter_context(mock.patch.object(distributed, name))
        yield


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
