"""Files of other profilers, known by what stands in them: refused in words that say what would serve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.errors import InputError

#: How Nsight Compute collects what a point needs.
COLLECT = (
    "collect it with: ncu --csv --page raw --metrics gpu__time_duration.sum,dram__bytes.sum,"
    "regex:sm__sass_thread_inst_executed_op_[dfh](add|mul|fma)_pred_on.sum,regex:sm__ops_path_tensor_src_.*"
)

#: How a file begins that always serves.
PLAIN = "write it as name,flops,bytes,seconds and one run a line, such as up projection,137 GFLOP,201 MB,210 us"

_TRACE = "export a trace made with record_shapes=True instead: export_chrome_trace"

_TIMES = "holds times, but neither FLOPs nor bytes"

#: What stands at the beginning of a file, what it is then, and what would serve.
_MARKS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("Total Time (ns)", "Instances"), f"is a summary of Nsight Systems, which {_TIMES}", COLLECT),
    (("Duration (ns)", "CorrId"), f"is a table of Nsight Systems, which {_TIMES}", COLLECT),
    (("NVPROF is profiling",), f"is a table of nvprof, which {_TIMES}", PLAIN),
    (("KernelName", "DurationNs"), f"is a table of rocprof, which {_TIMES}", PLAIN),
    (("Kernel_Name", "End_Timestamp"), f"is a table of rocprofv3, which {_TIMES}", PLAIN),
    (("Self CPU",), "is a table of torch.profiler's key_averages, which holds no single runs", _TRACE),
    (("Function Name", "Demangled Name"), "was saved by the window of Nsight Compute", COLLECT),
)

#: Files that are no text, by how their names end.
_BINARY = {
    ".ncu-rep": ("a report of Nsight Compute", "write it as CSV: ncu --import FILE --csv --page raw"),
    ".nsys-rep": ("a report of Nsight Systems, which holds neither FLOPs nor bytes", COLLECT),
    ".pb": ("a trace of XLA, which holds neither FLOPs nor bytes", "price the program: roofline trace"),
    ".xlsx": ("a workbook", "save the sheet as CSV"),
}

#: Bytes in which a file tells what it is.
HEAD = 4096


def check_plain(path: str, content: bytes) -> None:
    """Raise where a file is no plain CSV but of another profiler, or no text."""
    head = content[:HEAD]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path} is UTF-16 text", hint="save it as UTF-8")
    known = next((told for end, told in _BINARY.items() if path.endswith(end)), None)
    if known is not None or b"\0" in head:
        what, hint = known or ("no text", PLAIN)
        raise InputError(f"{path} is {what}", hint=hint)
    text = head.decode("utf-8", errors="replace")
    for marks, what, hint in _MARKS:
        if all(mark in text for mark in marks):
            raise InputError(f"{path} {what}", hint=hint)


def not_of_torch(path: str, events: Sequence[dict[str, Any]]) -> InputError:
    """Say what a file without operations of PyTorch is: a trace of another, or no trace at all."""
    if any("flops" in event and "seconds" in event for event in events):
        return InputError(f"{path} holds runs as JSON", hint=f"--csv writes them as they are read here; else {PLAIN}")
    told = [event.get("args") for event in events]
    if any(isinstance(one, dict) and ("hlo_op" in one or "hlo_module" in one) for one in told):
        wrong = f"{path} is a trace of XLA, which tells neither shapes nor FLOPs"
        return InputError(wrong, hint="price the program (roofline trace --jax), or write its runs as a plain CSV")
    return InputError(
        f"{path} holds no operations of PyTorch", hint="export it with torch.profiler's export_chrome_trace"
    )
