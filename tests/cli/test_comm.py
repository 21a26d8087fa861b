"""``roofline comm``: what it prints, as text and as JSON, and the text of its errors."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofline import llm
from roofline.bounds.communication import comm
from roofline.cli import main
from roofline.errors import InputError
from roofline.quantity import format_amount

ALGORITHM = "--algorithm (or --sharp) has no effect"
GATHER = "AllGather_X(bf16[B_X, D])"
REDUCE = "AllReduce_X(bf16[B, D] {U_X})"
SHUFFLE = "AllToAll_{X,J}(bf16[I_X, J])"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_auto_takes_the_fastest_and_says_where_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("comm", REDUCE, "--on", "a100:8", "--algorithm", "auto", "D=8192")
    small, large = (json.loads(run(capsys, *words, f"B={n}", "--json")) for n in (1, 1024))
    assert (small["algorithm"], large["algorithm"]) == ("direct", "two-shot")
    assert [row["algorithm"] for row in small["fastest"]] == ["direct", "two-shot"]
    assert [row["from_bytes"] for row in small["fastest"]] == [0, pytest.approx(51428.57)]
    assert small["time"] == min(row["time"] for row in small["algorithms"] if not row["limit"])
    assert "fastest: direct below 51.4 kB, two-shot from there" in run(capsys, *words, "B=1")
    assert "the fastest at this size" in run(capsys, *words, "B=1")


def test_one_shot_is_a_name_too(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("comm", REDUCE, "--on", "a100:8", "--algorithm", "one-shot", "B=1", "D=8192", "--json")
    assert json.loads(run(capsys, *words))["algorithm"] == "direct"


def test_the_one_asked_for_names_a_faster_one(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("comm", REDUCE, "--on", "h100:8", "--algorithm", "two-shot", "B=1024", "D=8192", "--json")
    assumed = " ".join(json.loads(run(capsys, *words))["bound"]["assumptions"])
    assert "two-shot, a direct ReduceScatter, then a direct AllGather; at this size in-switch would take" in assumed


@pytest.mark.parametrize(
    ("on", "dtype", "algorithm", "milliseconds"),
    [
        ("h200:8", "bf16", "in-switch", 2.386),  # 2^30 B at 450 GB/s; nccl measures 4.00
        ("h200:8", "fp32", "in-switch", 4.772),
        ("h200:8", "int32", "in-switch", 4.772),
        ("h200:8", "int8", "two-shot", 2.088),  # 2·7/8 of 2^29 B
        ("h200:8", "fp8", "two-shot", 2.088),
        ("b200:8", "fp8", "in-switch", 0.597),
        ("b200:8", "mxfp8", "two-shot", 1.077),
        ("a100:8", "bf16", "two-shot", 6.263),
    ],
)
def test_the_headline_is_the_fastest_that_the_link_can_do(on: str, dtype: str, algorithm: str, milliseconds: float):
    """What a switch adds up is a figure of the link: int8 is among none, fp8 from Blackwell on."""
    found = comm(f"AllReduce_X({dtype}[B, D] {{U_X}})", on=on, B=8192, D=65536)
    assert found.algorithm == algorithm
    assert found.time * 1e3 == pytest.approx(milliseconds, rel=1e-3)
    able = [row for row in found.algorithms if not row.limit]
    assert found.time == min(row.time for row in able)
    assert ("in-switch" in {row.algorithm for row in able}) == (algorithm == "in-switch")
    assert found.bound.lower <= found.time


def test_a_format_that_switches_do_not_add_up_is_an_error_where_they_are_asked_for() -> None:
    with pytest.raises(InputError, match="the switches of nvlink add up fp16, bf16, fp32, fp64, int32, int64, and not"):
        comm("AllReduce_X(int8[B, D] {U_X})", on="h100:8", sharp=True, B=512, D=8)


def test_infiniband_adds_up_where_the_system_has_it_and_that_is_said() -> None:
    found = comm(REDUCE, on="dgx-h100:1024", B=8192, D=8192)
    assert found.algorithm == "in-switch"
    assert any("ib: SHARP of Quantum-2 switches, where the provider turns it on" in x for x in found.bound.assumptions)
    plain = comm(REDUCE, on="h100:64", B=8192, D=8192)
    assert plain.algorithm == "in-switch"
    assert not any("SHARP of Quantum" in said for said in plain.bound.assumptions)
    # inside a node the switches add up; between nodes each chip exchanges an eighth: 2·7/8·V/8 at 50 GB/s
    assert plain.time == pytest.approx(2 * 7 / 8 * 2**27 / 8 / 50e9)


def test_a_row_says_what_this_network_does_not_reach(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("comm", GATHER, "--on", "v5e:8", "B=1024", "D=8192")
    rows = {row["algorithm"]: row["limit"] for row in json.loads(run(capsys, *words, "--json"))["algorithms"]}
    assert rows["two-way ring"] == "axis X does not close"
    assert (rows["line"], rows["one-way ring"]) == ("", "")
    assert rows["book"] == "a limit of rings, and axis X does not close"
    assert "(axis X does not close)" in " ".join(run(capsys, *words).split())


def test_an_array_of_sizes_goes_by_the_fastest_of_each() -> None:
    found = comm(REDUCE, on="h100:8", B=np.array([1, 8, 1000]), D=8192, algorithm="auto")
    assert found.algorithm == "direct or in-switch"
    each = [comm(REDUCE, on="h100:8", B=n, D=8192, algorithm="auto") for n in (1, 8, 1000)]
    assert found.time.tolist() == [one.time for one in each]
    assert found.to_dict()["crossing"] == pytest.approx([one.crossing for one in each])


@pytest.mark.parametrize("on", ["h100:8", "v5e:8"])
def test_at_n_half_bytes_take_as_long_as_hops_and_half_of_the_bandwidth_is_reached(on: str) -> None:
    """Hockney's T = α + n/β: at n½ = α·β the rate n/T is half of what it tends to."""
    half = comm("allgather", bytes=comm("allgather", bytes=1e6, on=on, algorithm="one-way ring").crossing, on=on,
                algorithm="one-way ring")  # fmt: skip
    far = comm("allgather", bytes=1e15, on=on, algorithm="one-way ring")
    assert half.row.sent_both_ways == pytest.approx(2 * 7 / 8 * half.nbytes)
    assert half.row.time_in_turn == pytest.approx(2 * half.time, rel=1e-4)
    assert half.nbytes / half.row.time_in_turn == pytest.approx(far.nbytes / far.row.time_in_turn / 2, rel=1e-4)
    said = " ".join(str(half).split())
    assert "(n½: bytes take as long as hops); this is" in said
    assert "if bytes wait for the hops" in said


def test_density_is_the_share_that_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("comm", SHUFFLE, "--on", "h100:8", "I=4096", "J=4096", "--json")
    dense, sparse = (json.loads(run(capsys, *words, *more)) for more in ((), ("--density", "0.25")))
    row, quarter = (found["algorithms"][-1] for found in (dense, sparse))
    assert (row["algorithm"], quarter["sent"], quarter["hops"]) == ("direct", row["sent"] / 4, row["hops"])
    assert any("0.25 of it is sent" in said for said in sparse["bound"]["assumptions"])


def test_what_is_not_sent_is_not_read() -> None:
    """By hand: 4,096 tokens of 7,168 B a chip in 8 copies, read and written; 24 of 32 of them leave a node."""
    found = comm("AllToAll_{X,E}(fp8[T_X, E, D])", on="h100:32", T=32 * 4096, E=256, D=7168, density=8 / 256)
    assert found.bound.bytes["hbm"] == pytest.approx(2 * 4096 * 7168 * 8)
    assert found.bound.times["nic"] == pytest.approx(4096 * 7168 * 8 * 24 / 32 / 50e9)
    dense = comm("AllToAll_{X,E}(fp8[T_X, E, D])", on="h100:32", T=32 * 4096, E=256, D=7168)
    assert found.crossing == pytest.approx(dense.crossing * 32)


@pytest.mark.parametrize("way", ["dispatch", "combine"])
@pytest.mark.parametrize(
    ("on", "algorithm"), [("h100:8", "direct"), ("h100:32", "hierarchical"), ("v5p:2x2x4", "torus")]
)
def test_tokens_go_to_their_experts_as_a_model_counts_them(way: str, on: str, algorithm: str) -> None:
    chips = {"h100:8": 8, "h100:32": 32, "v5p:2x2x4": 16}[on]
    model = llm("qwen3-235b-a22b", on=on, expert=chips, data=chips, batch=64 * chips, context=4096).decode
    sent = next(
        part for part in model.ops if part.op.name.endswith(f"{way}.all_to_all") or f"{way}.all_to_all" in part.op.where
    )
    found = comm(way, on=on, T=64, D=4096, E=128, k=8)
    assert (found.algorithm, found.exchange.experts) == (algorithm, 128)
    mine = next(part.op for part in found.bound.ops)
    assert {key.quantity: amount for key, amount in mine.work.items()} == pytest.approx(
        {key.quantity: amount for key, amount in sent.op.work.items()}
    )


def test_a_dispatch_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    """By brute force over all pairs of experts: how many of four nodes, and of 32 chips, have one of two experts."""
    pairs = list(itertools.combinations(range(64), 2))
    nodes, others = (sum(len({one // size for one in pair}) for pair in pairs) / len(pairs) for size in (16, 2))
    found = comm("dispatch", on="h100:32", dtype="fp8", T=1024, D=4096, E=64, k=2)
    assert found.bound.times["nic"] == pytest.approx(1024 * 4096 * nodes * 3 / 4 / 50e9)
    assert found.bound.bytes["hbm"] == pytest.approx(1024 * 4096 * (1 + others))
    shown = run(capsys, "comm", "dispatch", "T=1024", "D=4096", "E=64", "k=2", "--dtype", "fp8", "--on", "h100:32")
    assert shown.startswith("dispatch of 1,024 tokens a chip, fp8[4096], each to 2 of 64 experts  on NVIDIA H100")
    assert "nccl-tests" not in shown
    assert f"a token's experts lie on {others:.3g} of 32 chips on average; it is sent once to each chip" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["T=8", "D=8", "E=8"], "dispatch: k (experts of a token) is missing; its sizes are T tokens on each chip"),
        (["T=8", "D=8", "E=8", "k=2", "J=2"], "dispatch: J is no size of it"),
        (["T=8,9", "D=8", "E=8", "k=2"], "dispatch takes one number for each of its sizes"),
        (["T=8", "D=8", "E=8", "k=9"], "a row goes to 9 of 8 receivers"),
        (["T=8", "D=8", "E=8", "k=2", "--density", "0.5"], "follows from the experts of a token; leave out --density"),
        (
            ["T=8", "D=8", "E=8", "k=2", "--bytes", "1MB"],
            "the bytes of dispatch follow from its tokens; leave out --bytes",
        ),
    ],
)
def test_a_dispatch_has_four_sizes(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(["comm", "dispatch", "--on", "h100:8", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["bound", "shard"])
def test_other_commands_take_auto(capsys: pytest.CaptureFixture[str], command: str) -> None:
    line = "bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]"
    words = (command, line, "--on", "h100:8", "B=1024", "D=8192", "F=8192", "--json")
    auto, switches, usual = (
        json.loads(run(capsys, *words, *more)) for more in (("--algorithm", "auto"), ("--sharp",), ())
    )
    times = [(found["plans"][0] if command == "shard" else found)["upper"] for found in (auto, switches, usual)]
    assert times[0] == times[1] == times[2]


def test_a_model_takes_auto(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("llm", "llama-2-70b", "--on", "a100:8", "--tensor", "8", "--context", "1024", "--batch", "1")
    asked = " ".join(run(capsys, *words, "--algorithm", "two-shot").split())
    assert "at this size direct would take 600 ns rather than 1.2 µs" in asked
    for more in ((), ("--algorithm", "auto")):
        assert "the fastest at this size" in " ".join(run(capsys, *words, *more).split())


SIZES = ("B=512", "D=8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--on", "v5e:8"), "the collective is missing; for instance allreduce 1GB, or 'AllG"),
        (("allreduce", "--bytes", "1kB:1GB:*10", "--on", "h100:8"), "--bytes takes no range; several stand side by"),
        (("allreduce", "1GB", "--on", "h100"), "NVIDIA H100 SXM5 80GB is one chip; write its shape, as in h100:8, or"),
        ((GATHER, "--on", "v5e:8", "--algorithm", "rinf", *SIZES), "unknown algorithm 'rinf'; did you mean 'ring'?"),
        (("AllGather_Z(bf16[B_Z, D])", "--on", "v5e:4x4", *SIZES), "mesh axis Z is not declared; the axes are: X, Y; "),
        ((GATHER, "--on", "v5e", *SIZES), "mesh axis X is not declared: TPU v5e is one chip; declare it, as in "),
        (
            (GATHER, "--on", "v5e:1", *SIZES),
            "AllGather goes over axes of one chip: nothing is sent; name a larger mesh",
        ),
        (("AllGather_XX(bf16[B_XX, D])", "--on", "v5e:4", *SIZES), "'X' stands twice after AllGather_"),
        (("AllGather_X(bf16[B_X, D_X])", "--on", "v5e:4", *SIZES), "axis X stands twice in one tensor; "),
        ((GATHER, "--on", "v5e:4", "--mesh", "X=4,X=2", *SIZES), "mesh axis X is given twice; give it once"),
        (("AllGather_X(bf16[B, D])", "--on", "v5e:4", *SIZES), "AllGather_X: X shards no dimension of the operand; "),
        ((GATHER, "--on", "v5e:32x32", *SIZES), "TPU v5e has no slice of 32x32: its largest is 16x16; take several "),
        ((GATHER, "--on", "v5e:4x4", "--mesh", "X=32", *SIZES), "the axes X=32 make 32 chips, and v5e:4x4 has 16; "),
        (
            (GATHER, "--on", "mi300x", "--mesh", "X=16", *SIZES),
            "a mesh of 16 chips is larger than mi300x, which joins ",
        ),
        ((GATHER, "--on", "v5e:8", "B=12", "D=8"), "size B of 12 does not divide over 8 chips; give a multiple of 8, "),
        ((SHUFFLE, "--on", "v5e:8", "I=8", "J=4"), "size J of 4 does not divide over 8 chips; give a multiple of 8, "),
        ((GATHER, "--on", "v5e:8", "--algorithm", "tre", *SIZES), "unknown algorithm 'tre'; did you mean 'tree'?"),
        ((GATHER, "--on", "v5e:8", "--algorithm", "pigeon", *SIZES), "unknown algorithm 'pigeon'; "),
        (
            (GATHER, "--on", "v5e:8", "--algorithm", "tree", *SIZES),
            "tree does not do AllGather over X: ici has no switch; "
            "those that do: one-way ring, two-way ring, line, torus, book, direct",
        ),
        (
            (GATHER, "--on", "v5e:8", "--algorithm", "in-switch", *SIZES),
            "in-switch does not do AllGather over X: it does AllReduce, Broadcast, Reduce; those that do: ",
        ),
        ((REDUCE, "--on", "v5e:8", "--sharp", *SIZES), "in-switch does not do AllReduce over X: ici has no switches "),
        (
            (GATHER, "--on", "h100:8", "--sharp", *SIZES),
            f"{ALGORITHM}: no collective here is of that kind; leave it out",
        ),
        ((GATHER, "--on", "v5e:8", "--algorithm", "AllGathr=line", *SIZES), "unknown collective 'AllGathr'; did you "),
        ((GATHER, "--on", "v5e:8", "--density", "0.5", *SIZES), "--density has no effect: nothing here is an AllToAll"),
        ((GATHER, "--on", "v5e:8", "--plan", "1", *SIZES), "--plan has no effect: a collective alone has one plan"),
        ((GATHER, "--on", "v5e:8", "--use", "Y", *SIZES), "--use has no effect: a collective alone has one plan"),
        ((GATHER, "--on", "h100:8", "--no-wrap", *SIZES), "--wrap has no effect: no axis here is one of a torus"),
        ((SHUFFLE, "--on", "v5e:8", "--density", "1.5", "I=8", "J=8"), "density 1.5 is not a fraction; "),
    ],
)
def test_messages(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    assert main(["comm", *words]) == 2
    assert f"error: {message}" in capsys.readouterr().err


def test_sharp_in_the_library() -> None:
    with pytest.raises(InputError, match="the switches add up an AllReduce, and this is an AllGather; leave sharp out"):
        comm(GATHER, on="h100:8", sharp=True, B=512, D=8)
    with pytest.raises(InputError, match="sharp and the algorithm tree are both asked for; leave one of them out"):
        comm(REDUCE, on="h100:8", sharp=True, algorithm="tree", B=512, D=8)


@pytest.mark.filterwarnings("error")
def test_arrays_of_chips(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("comm", "AllReduce_X(bf16[B, D] {U_X})", "--on", "h100", "--mesh", "X=n", "n=1,2,4,8", "B=8192", "D=8192")
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["time"] == pytest.approx([0, *[2**27 / 4.5e11] * 3])
    assert main([*words[:-3], "n=2,4,8", *words[-2:]]) == 0
    shown = capsys.readouterr().out
    assert "at best 298 µs on the network by in-switch" in shown
    assert "hbm takes 80.1 µs to read and write it" in shown
    assert main([*words[:-3], "n=1,1", *words[-2:]]) != 0
    assert "goes over axes of one chip: nothing is sent" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "on", "buffer", "share"),
    [
        (REDUCE, "h100:8", 1, 2 * 7 / 8),
        (GATHER, "h100:16", 1, 15 / 16),
        ("ReduceScatter_{X,B}(bf16[B, D] {U_X})", "gb200:72", 1, 71 / 72),
        ("AllToAll_{X,D}(bf16[B_X, D])", "v5e:8", 1 / 8, 7 / 8),
        ("Broadcast_X(bf16[B, D])", "h100:8", 1, 1),
        ("Send_X(bf16[B, D])", "v5p:8", 1, 1),
    ],
)
def test_bandwidths_are_those_that_benchmarks_of_collectives_print(
    line: str, on: str, buffer: float, share: float
) -> None:
    """Algbw and busbw of nccl-tests' doc/PERFORMANCE.md, with the times of the network."""
    found = comm(line, on=on, B=7200, D=7200)
    assert found.algorithm_bandwidth == pytest.approx(7200 * 7200 * 2 * buffer / found.time)
    assert found.bus_bandwidth == pytest.approx(found.algorithm_bandwidth * share)
    assert found.to_dict()["bus_bandwidth"] == found.bus_bandwidth


def test_of_a_sparse_exchange_what_is_sent_counts() -> None:
    dense, sparse = (comm(SHUFFLE, on="h100:8", I=4096, J=8192, density=share) for share in (1, 0.25))
    assert (dense.bus_bandwidth, sparse.bus_bandwidth) == (pytest.approx(4.5e11), pytest.approx(4.5e11))


def test_the_bus_bandwidth_of_a_large_collective_is_a_links(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "comm", REDUCE, "--on", "h100:8", "--algorithm", "two-shot", "B=8192", "D=8192")
    assert "as nccl-tests count: 257 GB/s of the buffer (algbw), 450 GB/s on the bus (busbw)" in shown
    assert "nccl" not in run(capsys, "comm", REDUCE, "--on", "h100:8")


@pytest.mark.parametrize(
    ("name", "on", "milliseconds"),
    [
        ("allreduce", "h100:8", 2.222),  # V at 450 GB/s
        ("all-gather", "h100:8", 1.944),  # 7/8 of V
        ("reduce_scatter", "h100:8", 1.944),
        ("AllToAll", "h100:8", 0.243),  # 7/64 of V
        ("allreduce", "v5e:16x16", 11.068),  # 255/256 of V over two links each way at 45 GB/s
    ],
)
def test_a_name_and_bytes_are_a_collective_over_all_chips(
    capsys: pytest.CaptureFixture[str], name: str, on: str, milliseconds: float
) -> None:
    found = json.loads(run(capsys, "comm", name, "--bytes", "1e9", "--on", on, "--json"))
    assert found["time"] * 1e3 == pytest.approx(milliseconds, rel=1e-3)
    assert found["bytes"] == pytest.approx(1e9, rel=1e-6)


def test_bytes_that_whole_elements_make_more_are_told() -> None:
    def said(kind: str, on: str, **asked: float) -> list[str]:
        return [line for line in comm(kind, on=on, **asked).bound.assumptions if "are taken as" in line]

    each = "whole elements of bf16 that every chip has for every other"
    assert said("alltoall", "h100:512", bytes=10e6) == [f"10 MB are taken as 10.5 MB: {each}"]
    assert said("alltoall", "h100:512", bytes_per_chip=19_600) == [f"19.6 kB are taken as 20.5 kB: {each}"]
    assert said("allgather", "h100:512", bytes=1e3) == [
        "1 kB are taken as 1.02 kB: whole elements of bf16 on each chip"
    ]
    for kind, on, asked in (
        ("alltoall", "v5e:16x16", 1e9),
        ("allgather", "h100:512", 1024),
        ("allreduce", "h100:8", 1e3),
    ):
        assert said(kind, on, bytes=asked) == []


def test_bytes_go_with_the_name_of_a_collective(capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in ((("gossip", "--on", "h100:8"), "no collective's name"), (("allreduce",), "target")):
        assert main(["comm", *words, "--bytes", "1e9"]) == 2
        assert message in capsys.readouterr().err


def test_what_to_expect_stands_beside_the_floor(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    words = ["comm", "allreduce", "--bytes", "1GB", "--on", "h100:8", "--estimate"]
    assert main(words) == 0
    assert "expect" in capsys.readouterr().out.splitlines()[3]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bound"]["estimate"] >= found["time"]


@pytest.mark.parametrize(
    ("amount", "way", "binding"),
    [
        ("1GiB", "balanced", "nvlink binds (hops 3.3 µs) nvlink carries 906 MB: 2.01 ms; nic 101 MB: 2.01 ms"),
        ("1kB", "direct", "hops bind nic carries 512 B: 10.2 ns; nvlink 448 B: 996 ps"),
    ],
)
def test_what_binds_stands_in_the_first_line(
    amount: str, way: str, binding: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["comm", "allgather", "--bytes", amount, "--on", "h100:16"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    upper = comm("allgather", bytes=amount, on="h100:16").bound.upper
    assert f"by {way}, {format_amount(upper, 's')} if nothing overlaps; {binding}" in said


def test_each_tier_says_what_it_carries_and_the_algorithm_what_it_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 GB in an NVSwitch that adds up; an eighth over a NIC: 250 MB / 50 GB/s. Without it 2·(15/16)·2 GB over both."""
    monkeypatch.setenv("COLUMNS", "120")
    words = ["comm", "allreduce", "--bytes-per-chip", "2GB", "--on"]
    said = run(capsys, *words, "h100:16")
    assert "  nic carries 250 MB: 5 ms; nvlink 2 GB: 4.44 ms, at the same time\n" in said
    assert "  needs in-network reduction (SHARP) on nvlink; without it balanced takes 7.5 ms\n" in said
    assert "over nvlink  over nic" in said
    assert "through the switches: nvlink 32 GB, nic 4 GB" in said
    alone = run(capsys, *words, "a100:8")
    assert "each link" in alone
    assert "carries" not in alone
    assert "needs" not in alone.partition("algorithm")[0]
    several = run(capsys, *words, "h100:16,a100:16")
    assert "each link carries" not in several
    rows = {line[:24].strip(): line[24:].split() for line in several.splitlines()}
    assert rows["nic carries"] == ["250", "MB", "288", "MB"]
    row = next(
        row
        for row in json.loads(run(capsys, *words, "h100:16", "--json"))["algorithms"]
        if row["algorithm"] == "in-switch"
    )
    assert row["sent_by_link"] == {"nvlink": 2e9, "nic": 2.5e8}
    assert "takes as long without in-network multicast on nvlink" in run(
        capsys, "comm", "broadcast", "--bytes", "1GB", "--on", "h100:8"
    )


def test_the_sources_of_link_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["comm", "allgather", "--bytes", "1GiB", "--on", "h100:16", "--explain"]) == 0
    shown = capsys.readouterr().out
    assert "T_nvlink = 906 MB / 450 GB/s = 2.01 ms" in shown
    assert "T_nic = 101 MB / 50 GB/s = 2.01 ms" in shown
    assert "  nic 50 GB/s  [spec, " in shown


@pytest.mark.parametrize(("name", "whole"), [("alltoall", 64e6), ("allgather", 64e6), ("allreduce", 4e6)])
def test_bytes_per_chip_are_what_each_chip_holds_before(
    capsys: pytest.CaptureFixture[str], name: str, whole: float
) -> None:
    words = ["comm", name, "--bytes-per-chip", "4MB", "--on", "v5e:4x4"]
    assert json.loads(run(capsys, *words, "--json"))["bytes"] == whole
    said = "64 MB in all, 4 MB on each chip" if whole > 4e6 else "of 4 MB, whole on each chip"
    assert said in " ".join(run(capsys, *words).split())


def test_sizes_are_told_of_each_chip_where_they_are_asked_so(capsys: pytest.CaptureFixture[str]) -> None:
    whole = comm("allgather", bytes="16MB", on="h100:16")
    part = comm("allgather", bytes_per_chip="1MB", on="h100:16")
    assert (part.crossing, part.subject) == (whole.crossing, "AllGather over X (bytes on each chip)")
    assert f"latency-bound below {format_amount(whole.crossing / 16, 'B')} on each chip" in " ".join(str(part).split())
    several = run(capsys, "comm", "allgather", "--bytes-per-chip", "1MB", "--on", "h100:16,h100:32")
    rows = {line[:36].strip(): line[36:].split() for line in several.splitlines()}
    assert rows["latency-bound below, on each chip"] == ["110", "kB", "53.2", "kB"]
    assert rows["all chips send over nvlink"] == ["216", "MB", "893", "MB"]  # 16·13.5 MB, 32·27.9 MB
    assert rows["all chips send over nic"] == ["24", "MB", "99.2", "MB"]


def test_several_collectives_are_one_word(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--bytes", "1GB"], ["1GB"], ["1", "GB"]):
        assert main(["comm", "alltoall", "allgather", *words, "--on", "h100:8"]) == 2
        assert capsys.readouterr().err.endswith("collectives are written as one word; as in alltoall,allgather\n")


def test_bytes_are_of_the_array_or_of_each_chip(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["comm", "allgather", "--bytes", "1GB", "--bytes-per-chip", "1MB", "--on", "h100:8"]) == 2
    assert "bytes are given twice: of the array, and of each chip" in capsys.readouterr().err
    assert main(["comm", "allreduce", "--bytes", "1MB", "--on", "h100:8", "N=4"]) == 2
    assert "size N goes with a line, and bytes say how large this is; leave it out" in capsys.readouterr().err


def test_collectives_beside_each_other_name_what_binds(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "comm", "alltoall", "--bytes-per-chip", "64MB", "--on", "h100:16,v5e:4x4")
    rows = {line[:24].strip(): line[24:].split() for line in found.splitlines()}
    assert rows["bound by"] == ["nic", "ici", "X"]
    assert rows["on each chip"] == ["64", "MB", "64", "MB"]


def test_switches_that_gain_nothing_are_not_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["comm", "allreduce", "--bytes", "500MB", "--on", "b200:16"]) == 0
    said = capsys.readouterr().out
    assert "at best 1.25 ms on the network by outer one-shot" in said
    assert "  hierarchical takes as long without in-network reduction (SHARP) on nvlink\n" in said
    assert "  needs in-network reduction" not in said


def test_lists_of_bytes_and_formats_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["comm", "allreduce", "--on", "h100:32x8", "--algorithm", "ring"]
    assert main([*line, "--bytes", "28GB,14GB"]) == 0
    shown = capsys.readouterr().out
    rows = [line.split()[:4] for line in shown.splitlines() if " h100:32x8 " in line]
    # 2·V·31/32 over eight links of 50 GB/s a node; half the bytes are less work, and no better
    assert rows == [["28GB", "h100:32x8", "136", "ms"], ["14GB", "h100:32x8", "67.8", "ms"]]
    assert "lowest floor" not in shown
    assert main(["comm", "allreduce 28GB,14GB", *line[2:]]) == 0
    assert capsys.readouterr().out == shown
    assert main([*line, "--bytes", "28GB", "--dtype", "fp32,bf16"]) == 0
    assert "dtype fp32" in capsys.readouterr().out
    assert main(["comm", "allreduce,alltoall", "--on", "h100:8", "--bytes", "1GB"]) == 0
    assert "h100:8 allreduce  h100:8 alltoall" in capsys.readouterr().out
    assert main(["comm", "reduce-scatter,all_gather", "1GB", "--on", "h100:8"]) == 0
    assert "h100:8 reduce-scatter 1GB  h100:8 all_gather 1GB" in capsys.readouterr().out
    assert main(["comm", "dispatch,combine", "T=4096", "D=7168", "E=256", "k=8", "--on", "h100:32"]) == 0
    assert capsys.readouterr().out.startswith("dispatch, combine  side by side")
    assert main([*line, "--bytes", "28GB,14GB", "--measured", "1s"]) == 2
    assert "--measured is a time of one answer, and these are 2; name the machine" in capsys.readouterr().err
    assert main([*line, "--bytes", "1,000MB"]) == 2
    assert "has a comma" in capsys.readouterr().err
    assert main([*line, "--bytes", "28GB"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "one way round a ring in each tier; one over all chips is a flat ring" in said


def test_policies_of_a_line_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """A softmax of several operations passes over its tensor eight times, and a fused one twice."""
    line = ["bound", "x = bf16[64, 64]; m = max_1(x); e = exp(x - m); s = sum_1(e); e / s", "--on", "h100", "--policy"]
    assert main([*line, "each-op,minimal"]) == 0
    shown = capsys.readouterr().out
    assert "h100 policy each-op  h100 policy minimal" in shown
    assert "times the least" in shown
    assert main([*line, "each-op,minimal", "--measured", "1ms"]) == 2
    assert "--measured is a time of one answer, and these are 2" in capsys.readouterr().err
    assert main([*line, "each-op,best"]) == 2
    assert "unknown byte policy 'best'" in capsys.readouterr().err


def test_a_number_of_bytes_is_titled_by_its_collective_and_of_no_format(capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "comm", "allreduce", "--bytes", "28GB", "--on", "h100:8")
    assert said.startswith("AllReduce over X  of 28 GB, whole on each chip, on NVIDIA H100")
    assert "bf16" not in said.splitlines()[0]
    assert run(capsys, "comm", "allreduce", "--bytes", "28GB", "--dtype", "fp32", "--on", "h100:8").startswith(
        "AllReduce_X(fp32"
    )


def test_a_frame_over_sizes_has_a_row_a_size_and_algorithm_as_of_one_size(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"on": "a100:32", "mesh": {"X": 32}}
    found = comm("AllReduce_X(bf16[N])", N=[10**7, 10**8], **asked)
    frame = found.to_pandas()
    assert frame["N"].tolist() == sorted([10**7, 10**8] * len(found.algorithms))
    for row in frame.to_dict("records"):
        alone = comm("AllReduce_X(bf16[N])", N=row["N"], algorithm=row["algorithm"], **asked)
        assert (row["bytes"], row["time"]) == (alone.nbytes, pytest.approx(alone.time))
        assert row["latency_bound_below"] == pytest.approx(alone.latency_bound_below)
    found.save(tmp_path / "comm.csv")
    assert len((tmp_path / "comm.csv").read_text(encoding="utf-8").splitlines()) == 1 + len(frame)
    mixed = comm("AllReduce_{X,Y}(bf16[N])", N=[512, 10**8], on="v5e:16", mesh={"X": 4, "Y": 4})
    assert mixed.latency_bound_below == pytest.approx([48e3, 720e3])


def test_the_algorithm_taken_stands_first_and_limits_last(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["500MB", "--on", "h100:8"], ["64kB", "--on", "v5e:4x4"], ["8B", "--on", "a100:8"]):
        assert main(["comm", "allreduce", *words]) == 0
        found = comm(f"allreduce {words[0]}", on=words[2])
        rows = {row.algorithm: row for row in found.algorithms}
        shown = [name for name, *_ in found.to_pandas("algorithms").itertuples(index=False)]
        assert shown[0] == found.algorithm
        others = [(bool(rows[name].limit), rows[name].time, rows[name].hops) for name in shown[1:]]
        assert others == sorted(others)
        lines = [
            line.split("  ")[1] for line in capsys.readouterr().out.splitlines() if line[2:].startswith(tuple(rows))
        ]
        assert [line for line in lines if line in rows][: len(rows)] == shown


def test_only_where_all_chips_send_alike_is_it_told_what_all_send_together(capsys: pytest.CaptureFixture[str]) -> None:
    """A Broadcast leaves one chip, and a Gather comes to one."""
    for kind in ("broadcast", "reduce", "gather", "scatter", "collective-permute", "send"):
        said = run(capsys, "comm", kind, "--bytes", "1MB", "--on", "h100:8")
        assert "chips together send" not in said, kind
        assert "to every other" not in said, kind
        assert comm(kind, bytes="1MB", on="h100:8").sent_by_all is None
    assert comm("allgather", bytes=8e6, on="h100:8").sent_by_all == 56_000_000
    said = run(capsys, "comm", "reduce", "--bytes", "1MB", "--on", "h100:8")
    assert "two-shot takes as long without in-network reduction (SHARP) on nvlink" in said
