"""Kernels compiled and run here: they do what they say, and the harness tells the time."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from itertools import pairwise

import pytest

pytest.importorskip("llvmlite")

from tests.strategies import some

from roofline.measurement import probes
from roofline.measurement.kernels import clock_kernel, compute_kernels, exp_kernel, memory_kernels, new_page_kernel
from roofline.measurement.machine_code import Compiler
from roofline.measurement.processor import Processor
from roofline.measurement.threads import Buffer, Job, ThreadTeam, samples_of


@pytest.fixture(scope="module")
def compiler():
    return Compiler()


@pytest.fixture(scope="module")
def team(compiler):
    with ThreadTeam(compiler.processor.cores[:2]) as team:
        yield team


def floats(address, count):
    return (ctypes.c_float * count).from_address(address)


def run(compiler, team, kernel, arrays, count, **options):
    return team.windows([Job(compiler.function(kernel), arrays, count, 1, **options)], 1)


@pytest.mark.parametrize("name", ["copy", "triad", "non-temporal triad"])
def test_streams_write_what_they_say(compiler, team, name):
    kernel = next(k for k in memory_kernels(compiler.processor.vector_bits) if k.name == name)
    memory = Buffer(2**20)
    count = 4 * kernel.step
    a, b, c = (memory.address + 65536 * n for n in range(3))
    for n in range(count // 4):
        floats(b, count // 4)[n], floats(c, count // 4)[n] = n, 2 * n
    run(compiler, team, kernel, (a, b, c), count)
    expected = [n if name == "copy" else n + 3.0 * 2 * n for n in range(count // 4)]
    assert list(floats(a, count // 4)) == expected
    assert floats(a, count // 4 + 1)[count // 4] == 0


def test_exp_is_exp(compiler, team):
    kernel = exp_kernel(compiler.processor.vector_bits)
    memory = Buffer(2**20)
    count = 8 * kernel.step
    source, result = floats(memory.address + 65536, count // 4), floats(memory.address, count // 4)
    for n in range(count // 4):
        source[n] = -20 + 40 * n / (count // 4)
    run(compiler, team, kernel, (memory.address, memory.address + 65536, 0), count)
    for n in range(count // 4):
        assert result[n] == pytest.approx(math.exp(source[n]), rel=2e-6)


def test_a_load_is_a_plain_load(compiler):
    """No arithmetic for every load: an extra OR costs a third of the first level's bandwidth."""
    text = compiler.assembly(memory_kernels(compiler.processor.vector_bits)[0])
    body = text[text.index("body") : text.index("now")]
    assert not any(word in body for word in ("vpor", "vorps", "vpxor", "orr ", "eor "))


def test_every_kernel_of_this_processor_runs(compiler, team):
    memory = Buffer(2**20)
    for kernel in (*compute_kernels(compiler.processor), clock_kernel()):
        if kernel.amx:
            continue
        [[window]] = run(compiler, team, kernel, (memory.address, memory.address + 4096, 0), 1000)
        assert window[2] > window[1]


def test_a_large_set_is_walked_piece_by_piece(compiler, team):
    """Windows go on where the last one stopped, and begin again at the end."""
    kernel = new_page_kernel()
    memory = Buffer(2**20)
    job = Job(compiler.function(kernel), (memory.address,) * 3, 4096, 3, stride=4096, span=4 * 4096)
    team.windows([job], 1)
    touched = [ctypes.c_int64.from_address(memory.address + 4096 * n).value for n in range(5)]
    assert touched == [1, 1, 1, 0, 0]
    team.windows([job], 2)
    touched = [ctypes.c_int64.from_address(memory.address + 4096 * n).value for n in range(5)]
    assert touched == [1, 1, 1, 1, 0]


def test_a_walk_goes_on_where_it_is_told_to(compiler, team):
    memory = Buffer(2**20)
    kernel = new_page_kernel()
    job = Job(compiler.function(kernel), (memory.address,) * 3, 4096, 2, stride=4096, span=4 * 4096, first=3 * 4096)
    team.windows([job], 1)
    touched = [ctypes.c_int64.from_address(memory.address + 4096 * n).value for n in range(5)]
    assert touched == [1, 0, 0, 1, 0]


def test_a_probe_of_a_large_set_walks_all_of_it(compiler, team, monkeypatch):
    """Every round begins where the last one ended: what it meets again has been out of the caches since."""
    monkeypatch.setattr(probes, "PIECE", 2**16)
    monkeypatch.setattr(probes, "WINDOW", 1e-9)
    bench = probes.Bench(team, compiler, 2**22 * len(team.cores))
    probe = bench.memory(new_page_kernel(), 1, 2**21)
    for _ in range(7):
        probe.take(5)
    words = range(bench.buffers[0].address, bench.buffers[0].address + 2**21, 2**16)
    assert all(ctypes.c_int64.from_address(word).value for word in words)
    bench.close()


def test_one_thread_has_room_beyond_the_largest_cache_even_where_many_share_the_memory(compiler, team):
    memory = 2**22 * len(team.cores)
    bench = probes.Bench(team, compiler, memory, cache=2**20)
    assert bench.room(1) >= min(memory, 8 * 2**20)
    assert 2**22 <= bench.room(len(team.cores)) <= 2**22 + 2**21 or len(team.cores) == 1
    bench.close()


def pressed_at(step, call):
    """Run a call with Ctrl-C pressed at one step of :meth:`Team.each`: whether it was, and what the call gave."""
    left = step

    def trace(frame, event, _):
        nonlocal left
        if frame.f_code is not ThreadTeam.each.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    usual = sys.gettrace()
    sys.settrace(trace)
    try:
        got = call()
        return left <= 0, got
    except KeyboardInterrupt:
        return True, None
    finally:
        sys.settrace(usual)


def test_ctrl_c_within_looks_ends_them_and_loses_nothing(team):
    """Pressed at every step there is, also between a result and its return: it is told, and later looks come back."""
    found, pressed = [7] * len(team.cores), 0
    while True:
        was_pressed, got = pressed_at(pressed + 1, lambda: team.look(lambda: 7, 2))
        assert team.look(lambda: 7, 2) == found
        if not was_pressed:
            break
        assert got is None
        pressed += 1
    assert got == found
    assert pressed > 50


def test_a_window_begins_when_all_threads_have_ended_the_one_before(compiler, team):
    memory = Buffer(2**20)
    job = Job(compiler.function(clock_kernel()), (memory.address,) * 3, 20000, 1)
    readings = team.windows([job] * len(team.cores), 20)
    windows = list(zip(*readings, strict=True))
    assert len(windows) == len(samples_of(readings, 1.0)) == 20
    for before, after in pairwise(windows):
        assert max(end for _, _, end, *_ in before) <= min(start for _, start, *_ in after)


def test_threads_that_may_not_be_pinned_are_told(monkeypatch):
    """A container forbids it; the report said nothing of it."""

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refuse, raising=False)
    with ThreadTeam((0,)) as team:
        team.each([lambda: None])
        assert not team.pinned


def test_what_a_thread_raises_is_raised(team):
    def fail():
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        team.each([fail])
    team.each([lambda: None])


@pytest.mark.parametrize(
    ("features", "names"),
    [
        ({"avx", "fma"}, ["register fp64", "register fp32"]),
        ({"avx", "fma", "avxvnni"}, ["register fp64", "register fp32", "register int8"]),
        ({"avx512f", "avx512vnni"}, ["register fp64", "register fp32", "register int8"]),
        (
            {"avx512f", "avx512fp16", "avx512bf16", "avx512vnni", "avxvnni", "amx-bf16", "amx-int8"},
            [
                *("register fp64", "register fp32", "register fp16", "register bf16", "register int8"),
                *("tile bf16", "tile int8"),
            ],
        ),
    ],
)
def test_kernels_follow_the_features(compiler, features, names):
    kernels = compute_kernels(Processor("x", "x86_64", frozenset(features), (0,)))
    assert [kernel.name for kernel in kernels] == names


def test_tiles_do_what_they_count(compiler):
    """A bf16 tile instruction is 16 x 16 x 32 multiply-adds, an int8 one twice as many."""
    processor = Processor("x", "x86_64", frozenset({"avx512f", "amx-bf16", "amx-int8"}), (0,))
    tiles = {kernel.dtype: kernel for kernel in compute_kernels(processor) if kernel.amx}
    steps = tiles["bf16"].ir.count("tdpbf16ps")
    assert tiles["bf16"].amount == 2 * 16 * 16 * 32 * steps
    assert tiles["int8"].amount == 2 * 16 * 16 * 64 * steps


@pytest.mark.parametrize(
    ("triple", "chip", "architecture", "features", "word"),
    some(
        [
            ("x86_64-unknown-linux-gnu", "sandybridge", "x86_64", {"avx"}, "vmulps"),
            ("x86_64-unknown-linux-gnu", "westmere", "x86_64", {"sse4.2"}, "mulps"),
            ("x86_64-unknown-linux-gnu", "sapphirerapids", "x86_64", {"avx512f", "amx-bf16", "amx-int8"}, "tdpbssd"),
            ("x86_64-unknown-linux-gnu", "alderlake", "x86_64", {"avx", "fma", "avxvnni"}, "{vex}\tvpdpbusd"),
            ("aarch64-unknown-linux-gnu", "neoverse-v2", "aarch64", {"neon"}, "fmla"),
        ],
        2,
    ),
)
def test_kernels_of_other_processors_assemble(triple, chip, architecture, features, word):
    import platform

    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    processor = Processor("x", architecture, frozenset(features), (0,))
    try:
        target = llvm.Target.from_triple(triple).create_target_machine(cpu=chip, opt=2)
    except RuntimeError:
        pytest.skip("llvmlite was built without this target")
    if processor.is_x86 and platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip("inline assembly needs the target's own parser")
    called = "\ndefine void @go(i8* %a) { call void @body(i8* %a, i8* %a, i8* %a, i64 8)\n ret void }"
    bits = processor.vector_bits
    found = ""
    for kernel in (*compute_kernels(processor), *memory_kernels(bits), exp_kernel(bits)):
        module = llvm.parse_assembly(kernel.ir + called)
        module.verify()
        assert target.emit_object(module)
        found += target.emit_assembly(module)
    assert word in found
    assert "fmaf" not in found  # a library's, element by element, where the processor fuses nothing
