"""A process of PyTorch with eight fake devices, started once: its process groups are made once a session.

Programs are sent to it as text, so that the process of the tests has no process group.
"""

from __future__ import annotations

import atexit
import functools
import json
import subprocess
import sys
from typing import Any

_SERVER = """
import io, json, sys, traceback, warnings
from contextlib import redirect_stdout
warnings.simplefilter("ignore")
import torch, torch.distributed as dist
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
from roofline.programs import trace
mesh = init_device_mesh("cpu", (8,))
def tell(traced):
    links = traced.collectives()
    sent = [[op.name, op.dims["devices"], float(op.work.total("wire")), op.phase] for op in links]
    shapes = [[list(t.dims) for t in op.reads] for op in traced.ops if op.kind == "contraction"]
    print(json.dumps({"flops": traced.flops(), "sent": sent, "shapes": shapes, "complete": traced.complete,
                      "parameters": traced.parameters()}))
names = dict(globals())
for line in sys.stdin:
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            exec(json.loads(line), dict(names))
        answer = {"said": said.getvalue().splitlines()[-1]}
    except Exception:
        answer = {"error": traceback.format_exc()}
    print(json.dumps(answer), flush=True)
"""


@functools.cache
def _process() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    """Stop it, close its pipes, and wait until it is gone."""
    process.kill()
    process.communicate()


def run(code: str) -> Any:
    """Run a program where eight devices stand in the mesh ``mesh``; return what it prints last, JSON."""
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(code) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert "error" not in answer, answer["error"]
    return json.loads(answer["said"])
