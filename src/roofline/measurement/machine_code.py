"""IR → machine code in this process, through llvmlite: no compiler is needed on the user's machine.

Every kernel is compiled together with the same harness, which times windows of it inside machine code: threads meet,
read the clock and their own CPU time, run, and read both again. Python's lock plays no part. They meet in two steps:
until all are there they nap, so that the scheduler does not charge them for waiting and lets them run when it matters;
then they spin for the few microseconds until all are awake. Before and after every window each looks whether its core
is its own.

A look tells whether others use the same core, which no account of this system shows. Two threads of one core take turns
at fetching instructions. A run of instructions that do nothing goes as fast as they are fetched; a chain of additions,
each waiting for the one before, goes at the clock's own pace whoever else is there. The ratio of their times is a
constant of the core while it is alone and nearly twice that while another thread is busy on it, be it another program
or, on a rented machine, another customer. A look takes a few microseconds.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

from roofline.errors import RooflineError, load_extra
from roofline.measurement.kernels import Kernel
from roofline.measurement.processor import Processor, this_processor

#: Arguments of the compiled harness: barrier, threads, windows, repeats, a, b, c, count, stride, span, first, out.
_SIGNATURE = ctypes.CFUNCTYPE(
    None, *([ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 4 + [ctypes.c_void_p])
)

#: Signature of a look at the core: no arguments, returns what it found.
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

#: Instructions of a turn of the run that does nothing, additions of a turn of the chain, and turns of each: about
#: two microseconds on a core of today.
IDLE_STEPS, IDLE_TURNS, CHAIN_STEPS, CHAIN_TURNS = 240, 120, 64, 84

#: Where the upper half of a look begins, and its lower half.
HALF = 32
LOWER = 2**HALF - 1

_CHAIN = "\n".join(f"  %x{n + 1} = {('add', 'xor')[n % 2]} i64 %x{n}, %first" for n in range(CHAIN_STEPS))
_IDLE = "\\0A".join(["nop"] * IDLE_STEPS)

#: Machine code that looks once: the time of the run as millionths of the chain's in the upper 32 bits, the chain's in
#: nanoseconds in the lower ones. The chain is taken before and after the run. Where these two differ by more than one
#: in so many, since the clock changed, an interrupt came or the code was in no cache, it looks once more, then tells
#: 0. Needs ``@now``. There is one copy of it: where code lies changes how fast it is fetched.
APART = 32
FRONT_END = f"""
@odd = internal global i64 3

define internal i64 @chain() noinline {{{{
entry:
  %first = load volatile i64, i64* @odd
  %before = call i64 @now(i32 {{wall}})
  %begin = call i64 @now(i32 {{wall}})
  br label %turn
turn:
  %x0 = phi i64 [ %first, %entry ], [ %x{CHAIN_STEPS}, %turn ]
  %n = phi i64 [ 0, %entry ], [ %next, %turn ]
{_CHAIN}
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, {CHAIN_TURNS}
  br i1 %more, label %turn, label %end
end:
  store volatile i64 %x{CHAIN_STEPS}, i64* @odd
  %over = call i64 @now(i32 {{wall}})
  %whole = sub i64 %over, %begin
  %reading = sub i64 %begin, %before
  %took = sub i64 %whole, %reading
  ret i64 %took
}}}}

define i64 @front_end() noinline {{{{
entry:
  br label %look
look:
  %tried = phi i64 [ 0, %entry ], [ 1, %unknown ]
  %one = call i64 @chain()
  %begin = call i64 @now(i32 {{wall}})
  br label %turn
turn:
  %n = phi i64 [ 0, %look ], [ %next, %turn ]
  call void asm sideeffect "{_IDLE}", ""()
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, {IDLE_TURNS}
  br i1 %more, label %turn, label %end
end:
  %over = call i64 @now(i32 {{wall}})
  %two = call i64 @chain()
  %took = sub i64 %over, %begin
  %less = icmp ult i64 %one, %two
  %least = select i1 %less, i64 %one, i64 %two
  %most = select i1 %less, i64 %two, i64 %one
  %apart = sub i64 %most, %least
  %part = mul i64 %apart, {APART}
  %steady = icmp ult i64 %part, %least
  br i1 %steady, label %known, label %unknown
known:
  %scaled = mul i64 %took, 1000000
  %ratio = udiv i64 %scaled, %least
  %high = shl i64 %ratio, 32
  %packed = or i64 %high, %least
  %fits = icmp ult i64 %ratio, {2 ** (HALF - 1)}
  %told = select i1 %fits, i64 %packed, i64 0
  ret i64 %told
unknown:
  %first = icmp eq i64 %tried, 0
  br i1 %first, label %look, label %silent
silent:
  ret i64 0
}}}}
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
        llvm = load_extra("llvmlite.binding", "measure")
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
    """The system's number of a clock that is never set back."""
    return getattr(time, "CLOCK_MONOTONIC_RAW", time.CLOCK_MONOTONIC)
