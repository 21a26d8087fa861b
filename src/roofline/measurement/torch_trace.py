"""A trace of torch.profiler (Chrome's JSON) → runs: time from the trace, FLOPs and bytes from our own rules.

An operation counts where its caller does not: of ``linear`` calling ``addmm`` the outermost that has a rule is taken.
On an accelerator its time is that of the kernels it launched, joined to it by the trace's own correlation numbers;
on a CPU it is the operation's own.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from roofline.bounds.traffic import traffic
from roofline.errors import InputError
from roofline.measurement.aten import operation
from roofline.measurement.runs import Measured
from roofline.work import Op

#: Categories of events that are work of a device.
DEVICE_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})

#: Operations that move or compute nothing: views and bookkeeping of the dispatcher.
FREE = frozenset(
    (  # noqa: SIM905
        "view reshape _reshape_alias as_strided transpose t permute expand squeeze unsqueeze slice select detach alias "
        "empty empty_like empty_strided resize_ to _to_copy result_type narrow split chunk unbind flatten numpy_T "
        "contiguous item _local_scalar_dense is_nonzero resolve_conj resolve_neg expand_as view_as size dropout "
        "lift_fresh zeros ones rand randn randint arange full zeros_like ones_like fill_ zero_ uniform_ normal_ random_"
    ).split()
)


@dataclass(frozen=True, slots=True)
class Imported:
    """What a profile held: ``runs`` that could be priced, and the seconds of ``unpriced`` operations by name."""

    runs: tuple[Measured, ...]
    unpriced: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_torch_trace(path: str | os.PathLike[str]) -> Imported:
    """Read a trace that ``torch.profiler.profile(record_shapes=True)`` exported; ``.json`` or ``.json.gz``.

    Raises :class:`~roofline.errors.InputError` for a file that is cut short, holds no operations, or holds no shapes.
    """
    name = os.fspath(path)
    events = _events(name)
    calls = [e for e in events if e.get("ph") == "X" and e.get("cat") == "cpu_op" and _timed(e)]
    if not calls:
        raise InputError(
            f"{name} holds no operations of PyTorch", hint="export it with torch.profiler's export_chrome_trace"
        )
    backwards = next((e for e in calls if e["dur"] < 0), None)
    if backwards is not None:
        raise InputError(f"{name}: {backwards['name']} took {backwards['dur']} us", hint="a time is not below 0")
    if not any("Input Dims" in e.get("args", {}) for e in calls):
        raise InputError(f"{name} holds no shapes", hint="profile with record_shapes=True")
    kernels = _kernel_seconds(events)
    runs: list[Measured] = []
    unpriced: dict[str, float] = {}
    for call, inside in _outermost(calls):
        plain = str(call["name"])
        op = _priced(call)
        seconds = _seconds(call, inside, kernels)
        if op is None or seconds <= 0:
            if seconds > 0 and plain.removeprefix("aten::").rstrip("_") not in FREE:
                unpriced[plain] = unpriced.get(plain, 0.0) + seconds
            continue
        runs.append(_run(plain, call, op, seconds))
    if not runs:
        names = ", ".join(sorted(unpriced)[:6])
        raise InputError(f"{name} holds no operation that has a rule", hint=f"it holds: {names}")
    on = "kernels of the device" if kernels else "operations of the CPU"
    return Imported(tuple(runs), unpriced, (f"times are those of the {on}",))


def _events(name: str) -> list[dict[str, Any]]:
    try:
        opened = gzip.open(name, "rt", encoding="utf-8") if name.endswith(".gz") else open(name, encoding="utf-8")  # noqa: SIM115
        with opened as file:
            data = json.load(file)
    except (OSError, EOFError) as error:
        raise InputError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from None
    except (ValueError, RecursionError) as error:
        at = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(
            f"{name} is not whole JSON{at}: the trace was cut short or is another file", hint="export it again"
        ) from None
    found = data.get("traceEvents") if isinstance(data, dict) else data
    if not isinstance(found, list):
        raise InputError(f"{name} holds no traceEvents", hint="export it with torch.profiler's export_chrome_trace")
    return [event for event in found if isinstance(event, dict)]


def _timed(event: dict[str, Any]) -> bool:
    return all(isinstance(event.get(key), int | float) for key in ("ts", "dur")) and isinstance(event.get("name"), str)


def _outermost(calls: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Pick, thread by thread, the outermost calls that are priced or hold nothing priced, with all they contain."""
    has_price = {id(call) for call in calls if _priced(call) is not None}
    picked: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    threads: dict[Any, list[dict[str, Any]]] = {}
    for call in calls:
        threads.setdefault((call.get("pid"), call.get("tid")), []).append(call)
    for listed in threads.values():
        listed.sort(key=lambda e: (e["ts"], -e["dur"]))
        position = 0
        while position < len(listed):
            call = listed[position]
            end = call["ts"] + call["dur"]
            stop = position + 1
            while stop < len(listed) and listed[stop]["ts"] < end:
                stop += 1
            inside = listed[position + 1 : stop]
            if id(call) in has_price or not any(id(event) in has_price for event in inside):
                picked.append((call, inside))
                position = stop
            else:
                position += 1
    return picked


def _priced(call: dict[str, Any]) -> Op | None:
    told = call.get("args", {})
    dims, kinds = told.get("Input Dims", []), told.get("Input type", [])
    if not isinstance(dims, list) or not isinstance(kinds, list):
        return None
    values = told.get("Concrete Inputs", [])
    return operation(str(call["name"]), dims, kinds, values if isinstance(values, list) else [])


def _kernel_seconds(events: Sequence[dict[str, Any]]) -> dict[Any, float]:
    """Seconds of device work by the External id of the operation that launched it."""
    found: dict[Any, float] = {}
    for event in events:
        if event.get("cat") in DEVICE_WORK and _timed(event):
            key = event.get("args", {}).get("External id")
            found[key] = found.get(key, 0.0) + event["dur"] * 1e-6
    return found


def _seconds(call: dict[str, Any], inside: Sequence[dict[str, Any]], kernels: dict[Any, float]) -> float:
    if not kernels:
        return float(call["dur"]) * 1e-6
    ids = {event.get("args", {}).get("External id") for event in (call, *inside)}
    return sum(kernels.get(key, 0.0) for key in ids if key is not None)


def _run(name: str, call: dict[str, Any], op: Op, seconds: float) -> Measured:
    [moved] = traffic([op])
    dtype = next((key.dtype for key in op.work if key.quantity == "flops"), "")
    dtype = dtype or (op.reads[0].dtype if op.reads else "fp32")
    shapes = " ".join("x".join(map(str, tensor.dims)) for tensor in op.reads[:2])
    flops = float(sum(amount for key, amount in op.work.items() if key.quantity == "flops"))
    return Measured(f"{name.removeprefix('aten::')} {shapes}", flops, float(moved.total("bytes")), seconds, dtype)
