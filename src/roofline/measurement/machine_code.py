"""IR → machine code in this process, through llvmlite: no compiler is needed on the user's machine.

Every kernel is compiled together with the same harness, which times windows of it inside machine code: threads meet,
read the clock and their own CPU time, run, and read both again. Python's lock plays no part. They meet in two steps:
until all are there they nap, so that the scheduler does not charge them for waiting and lets them run when it matters;
then they spin for the few microseconds until all are awake. Before and after every window each looks whether its core
is its own (:mod:`roofline.measurement.core_share`).
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

from roofline.errors import MissingExtraError, RooflineError
from roofline.measurement.core_share import FRONT_END
from roofline.measurement.kernels import Kernel
from roofline.measurement.processor import Processor, this_processor

#: Arguments of the compiled harness: barrier, threads, windows, repeats, a, b, c, count, stride, span, first, out.
_SIGNATURE = ctypes.CFUNCTYPE(
    None, *([ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 4 + [ctypes.c_void_p])
)

#: Of a look at the core: no arguments, what it found.
_LOOK = ctypes.CFUNCTYPE(ctypes.c_int64)

#: The function that looks once at the core.
LOOK = "front_end"

#: Microseconds of a nap while other threads are not there yet.
NAP = 50

#: Words of the barrier: two counters on cache lines of their own.
BARRIER = 16

#: What a window writes: nanoseconds of CPU time and clock at its start, clock and CPU time at its end, and what a look
#: at the core found before and after it.
FIELDS = 6

CLOCKS = """
declare i32 @clock_gettime(i32, i8*)

define internal i64 @now(i32 %which) noinline {
  %place = alloca [2 x i64], align 16
  %raw = bitcast [2 x i64]* %place to i8*
  %ignored = call i32 @clock_gettime(i32 %which, i8* %raw)
  %first = bitcast i8* %raw to i64*
  %second = getelementptr i64, i64* %first, i64 1
  %s = load volatile i64, i64* %first
  %n = load volatile i64, i64* %second
  %sn = mul i64 %s, 1000000000
  %all = add i64 %sn, %n
  ret i64 %all
}
"""

HARNESS = """
declare i32 @usleep(i32)
declare i64 @front_end()

define void @windows(i64* %barrier, i64 %threads, i64 %windows, i64 %repeats, i8* %a, i8* %b, i8* %c,
                     i64 %count, i64 %stride, i64 %span, i64 %first, i64* %out) {{
entry:
  br label %window
window:
  %w = phi i64 [ 0, %entry ], [ %w.next, %done ]
  %start = phi i64 [ %first, %entry ], [ %off.next, %done ]
  %w.next = add i64 %w, 1
  %everyone = mul i64 %w.next, %threads
  %arrived = atomicrmw add i64* %barrier, i64 1 seq_cst
  br label %gather
gather:
  %here = load atomic i64, i64* %barrier seq_cst, align 8
  %missing = icmp ult i64 %here, %everyone
  br i1 %missing, label %sleep, label %ready
sleep:
  %slept = call i32 @usleep(i32 {nap})
  br label %gather
ready:
  %before = call i64 @front_end()
  %line = getelementptr i64, i64* %barrier, i64 8
  %awake = atomicrmw add i64* %line, i64 1 seq_cst
  br label %spin
spin:
  {pause}
  %seen = load atomic i64, i64* %line seq_cst, align 8
  %waiting = icmp ult i64 %seen, %everyone
  br i1 %waiting, label %spin, label %go
go:
  %cpu0 = call i64 @now(i32 {cpu})
  %wall0 = call i64 @now(i32 {wall})
  br label %repeat
repeat:
  %r = phi i64 [ 0, %go ], [ %r.next, %repeat ]
  %off = phi i64 [ %start, %go ], [ %off.next, %repeat ]
  %pa = getelementptr i8, i8* %a, i64 %off
  %pb = getelementptr i8, i8* %b, i64 %off
  %pc = getelementptr i8, i8* %c, i64 %off
  call void @body(i8* %pa, i8* %pb, i8* %pc, i64 %count)
  %r.next = add i64 %r, 1
  %further = add i64 %off, %stride
  %reach = add i64 %further, %count
  %over = icmp ugt i64 %reach, %span
  %off.next = select i1 %over, i64 0, i64 %further
  %more = icmp ult i64 %r.next, %repeats
  br i1 %more, label %repeat, label %done
done:
  %wall1 = call i64 @now(i32 {wall})
  %cpu1 = call i64 @now(i32 {cpu})
  %after = call i64 @front_end()
  %base = mul i64 %w, {fields}
  %o0 = getelementptr i64, i64* %out, i64 %base
  %o1 = getelementptr i64, i64* %o0, i64 1
  %o2 = getelementptr i64, i64* %o0, i64 2
  %o3 = getelementptr i64, i64* %o0, i64 3
  %o4 = getelementptr i64, i64* %o0, i64 4
  %o5 = getelementptr i64, i64* %o0, i64 5
  store i64 %cpu0, i64* %o0
  store i64 %wall0, i64* %o1
  store i64 %wall1, i64* %o2
  store i64 %cpu1, i64* %o3
  store i64 %before, i64* %o4
  store i64 %after, i64* %o5
  %left = icmp ult i64 %w.next, %windows
  br i1 %left, label %window, label %end
end:
  ret void
}}
"""


class Compiler:
    """Compiles kernels for this machine; keep it while they run, since it owns their code."""

    def __init__(self) -> None:
        try:
            import llvmlite.binding as llvm
        except ImportError:
            raise MissingExtraError("llvmlite", "measure") from None
        if not hasattr(time, "CLOCK_THREAD_CPUTIME_ID"):
            raise RooflineError("this system does not tell a thread's CPU time; measuring needs Linux or macOS")
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
        self._llvm: Any = llvm
        features = llvm.get_host_cpu_features()
        self.processor: Processor = this_processor(dict(features))
        self._target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=2, jit=True
        )
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), self._target)
        self._compiled: dict[str, Any] = {}

    def function(self, kernel: Kernel) -> Any:
        """Compile a kernel, once, and return its timing harness as a function of ctypes."""
        self.front_end()
        if kernel.name not in self._compiled:
            self._compiled[kernel.name] = _SIGNATURE(self._address(self._module(kernel)))
        return self._compiled[kernel.name]

    def front_end(self) -> Any:
        """Compile a look at the core by itself, for what is called from Python."""
        if LOOK not in self._compiled:
            self._compiled[LOOK] = _LOOK(self._address(self._parsed(LOOK, CLOCKS + FRONT_END.format(wall=_wall()))))
        return self._compiled[LOOK]

    def _address(self, module: Any) -> int:
        self._engine.add_module(module)
        self._engine.finalize_object()
        return int(self._engine.get_function_address(module.name))

    def assembly(self, kernel: Kernel) -> str:
        """Show the machine code of a kernel with its harness, as assembly."""
        return str(self._target.emit_assembly(self._module(kernel)))

    def _module(self, kernel: Kernel) -> Any:
        name = "windows_" + "".join(c if c.isalnum() else "_" for c in kernel.name)
        pause = 'call void asm sideeffect "pause", ""()' if self.processor.is_x86 else "fence seq_cst"
        harness = HARNESS.format(pause=pause, nap=NAP, cpu=time.CLOCK_THREAD_CPUTIME_ID, wall=_wall(), fields=FIELDS)
        return self._parsed(name, kernel.ir + CLOCKS + harness.replace("@windows", f"@{name}"))

    def _parsed(self, name: str, text: str) -> Any:
        module = self._llvm.parse_assembly(text)
        module.verify()
        module.name = name
        return module


def _wall() -> int:
    """The system's number of a clock that nobody sets."""
    return getattr(time, "CLOCK_MONOTONIC_RAW", time.CLOCK_MONOTONIC)
