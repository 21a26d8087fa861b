"""Recognises files of profilers that cannot be read, by their content, and says which file to export instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.errors import InputError

#: How Nsight Compute collects what a point needs.
COLLECT = (
    "collect it with: ncu --csv --page raw --metrics gpu__time_duration.sum,dram__bytes.sum,"
    "regex:sm__sass_thread_inst_executed_op_[dfh](add|mul|fma)_pred_on.sum,regex:sm__ops_path_tensor_src_.*"
)

#: A plain table, which can always be read.
PLAIN = "write it as name,flops,bytes,seconds and one run a line, such as up projection,137 GFLOP,201 MB,210 us"

_TRACE = "export a trace made with record_shapes=True instead: export_chrome_trace"

_TIMES = "holds times, but neither FLOPs nor bytes"

#: Marks at the beginning of a file, what the file is, and what to export instead.
_MARKS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("Total Time (ns)", "Instances"), f"is a summary of Nsight Systems, which {_TIMES}", COLLECT),
    (("Duration (ns)", "CorrId"), f"is a table of Nsight Systems, which {_TIMES}", COLLECT),
    (("NVPROF is profiling",), f"is a table of nvprof, which {_TIMES}", PLAIN),
    (("KernelName", "DurationNs"), f"is a table of rocprof, which {_TIMES}", PLAIN),
    (("Kernel_Name", "End_Timestamp"), f"is a table of rocprofv3, which {_TIMES}", PLAIN),
    (("Self CPU",), "is a table of torch.profiler's key_averages, which holds no single runs", _TRACE),
    (("Function Name", "Demangled Name"), "was saved by the window of Nsight Compute", COLLECT),
)

#: Binary files, by the ending of their names.
_BINARY = {
    ".ncu-rep": ("a report of Nsight Compute", "write it as CSV: ncu --import FILE --csv --page raw"),
    ".nsys-rep": ("a report of Nsight Systems, which holds neither FLOPs nor bytes", COLLECT),
    ".pb": ("a trace of XLA, which holds neither FLOPs nor bytes", "price the program: roofline trace"),
    ".xlsx": ("a workbook", "save the sheet as CSV"),
}

#: Bytes at the beginning of a file that are searched for marks.
HEAD = 4096


def check_plain(path: str, content: bytes) -> None:
    """Raise an error if a file is not a plain CSV: another profiler's, or binary."""
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
    """The error for a file without operations of PyTorch: it says what the file is."""
    if any("flops" in event and "seconds" in event for event in events):
        return InputError(f"{path} holds runs as JSON", hint=f"--csv writes them as they are read here; else {PLAIN}")
    told = [event.get("args") for event in events]
    if any(isinstance(one, dict) and ("hlo_op" in one or "hlo_module" in one) for one in told):
        wrong = f"{path} is a trace of XLA, which tells neither shapes nor FLOPs"
        return InputError(wrong, hint="price the program (roofline trace --jax), or write its runs as a plain CSV")
    return InputError(
        f"{path} holds no operations of PyTorch", hint="export it with torch.profiler's export_chrome_trace"
    )
