"""The shipped catalog: complete against the collected figures, consistent in itself, and found by its index."""

import csv
import json
import math
import os
import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest
from docs.generated_pages import source_pages
from tests.strategies import for_each

from roofline import bound
from roofline.frozen import Frozen
from roofline.hardware import catalog, chip, chips, names
from roofline.hardware.catalog import check_figures, read_chips, read_systems
from roofline.hardware.figures import VERDICTS, said_elsewhere, verdicts
from roofline.hardware.machine import Alternate, Figure
from roofline.hardware.rate import ROUNDED, ridge

DATA = Path(__file__).parent.parent / "data" / "hardware.csv"
ALL = chips()
BY_KEY = {machine.key: machine for machine in ALL}

#: What the CSV calls a unit → kinds of unit it may be in the catalog.
UNIT_KIND = {"vector": "vector", "vpu": "vector", "gpu": "vector"}
DTYPE = {"fp32_packed": "fp32", "fp16_acc32": "fp16", "fp8_acc32": "fp8", "mxfp8": "fp8", "mxfp4": "fp4"}
#: Names of chips in the CSV that the index does not know as they stand.
CHIP = {
    "NVIDIA GB200 (per GPU)": "gb200",
    "NVIDIA GB300 (per GPU)": "gb300",
    "NVIDIA GH200 (Hopper GPU)": "gh200",
    "Intel Xeon Sapphire Rapids (56c, e.g. 8480+)": "spr",
}


def rows():
    with DATA.open(encoding="utf-8") as handle:
        return list(csv.DictReader(line for line in handle if not line.startswith("#")))


def machine_of(row):
    name = row["chip"]
    key = CHIP.get(name) or catalog.read_index().key(name.replace("Google ", ""))
    return BY_KEY[key] if key else None


def figures_of(machine, row):
    """Every catalog figure a row of the CSV may be about."""
    quantity, dtype = row["quantity"], DTYPE.get(row["dtype"], row["dtype"])
    main = next(m for m in machine.memories if not m.link)
    level = {m.name: m for m in machine.memories}
    if quantity == "peak_flops":
        kind = UNIT_KIND.get(row["unit_kind"], "matrix")
        found = [u.peaks.get(dtype) for u in machine.units if u.kind == kind]
        return found
    return {
        "memory_bandwidth": [main.bandwidth],
        "memory_capacity": [main.capacity],
        "llc_bandwidth": [level["llc"].bandwidth] if "llc" in level else [],
        "llc_capacity": [level["llc"].capacity] if "llc" in level else [],
        "l2_capacity": [level["l2"].capacity] if "l2" in level else [],
        "sram_bandwidth": [level["sram"].bandwidth] if "sram" in level else [],
        "pcie_bandwidth_oneway": [level["pcie"].bandwidth] if "pcie" in level else [],
        "tdp": [machine.tdp],
        "scaleup_bandwidth_oneway": [link.bandwidth for link in machine.links],
        "link_bandwidth_oneway": [link.bandwidth for link in machine.links],
        "nic_bandwidth": [link.bandwidth for link in machine.links if link.name == "nic"],
    }[quantity]


def test_every_preferred_figure_is_in_the_catalog():
    missing = []
    preferred = [row for row in rows() if row["preferred"] == "yes"]
    assert len(preferred) > 250
    for row in preferred:
        found = [figure.value for figure in figures_of(machine_of(row), row) if figure]
        others = [other.figure.value for other in machine_of(row).alternates if not other.rejected]
        if not any(math.isclose(value, float(row["value"]), rel_tol=1e-9) for value in (*found, *others)):
            missing.append((row["chip"], row["quantity"], row["dtype"], row["value"], found))
    assert not missing


def test_no_rejected_figure_is_used():
    used = []
    for row in rows():
        machine = machine_of(row) if row["preferred"] == "no" and row["quantity"] == "peak_flops" else None
        if machine is None or not row["dtype"] or row["unit_kind"] in ("", "cpu"):
            continue
        for figure in figures_of(machine, row):
            if figure is not None and math.isclose(figure.value, float(row["value"]), rel_tol=1e-9):
                used.append((row["chip"], row["dtype"], row["value"]))
    # of a part whose sources conflict a floor takes the highest credible peak
    assert {chip for chip, _, _ in used} <= {"Intel Gaudi3", "NVIDIA L40S"}


#: Cards whose watts no source gives, or gives for more than the card.
LACK_WATTS = {"gh200", "gh200-144gb", "mi250x-gcd", "mi300a", "mi455x", "rubin", "turin", "v100-pcie"}


#: Higher figures that are not taken, and why not.
NOT_TAKEN = {
    ("v4", "ici.bandwidth"): "the book's effective figure is preferred; link=spec takes the other",
    ("v5e", "ici.bandwidth"): "the book's effective figure is preferred; link=spec takes the other",
    ("v5p", "ici.bandwidth"): "the book's effective figure is preferred; link=spec takes the other",
    ("v6e", "ici.bandwidth"): "the book's effective figure is preferred; link=spec takes the other",
}


def rates_of(machine):
    taken = {f"{unit.name}.{dtype}": figure for unit in machine.units for dtype, figure in unit.peaks.items()}
    return taken | {f"{part.name}.bandwidth": part.bandwidth for part in (*machine.memories, *machine.links)}


def test_a_floor_takes_the_highest_credible_figure():
    """Where public sources conflict on a peak or a bandwidth; 0.2 % is rounding, and runs vary their clocks."""
    higher = set()
    for key, machine in BY_KEY.items():
        taken = rates_of(machine)
        for other in machine.alternates:
            figure = taken.get(other.of)
            if figure is None or other.rejected or other.figure.basis == "measured":
                continue
            if other.figure.value > figure.value * ROUNDED:
                higher.add((key, other.of))
    assert higher == set(NOT_TAKEN)


@pytest.mark.parametrize(("key", "of"), NOT_TAKEN)
def test_an_answer_says_that_a_source_gives_a_link_more(key, of):
    link = of.partition(".")[0]
    for given, kinds in (({}, ["rates"]), ({link: "spec"}, []), ({link: "45 GB/s"}, [])):
        found = bound("AllReduce_X(bf16[N])", on=chip(f"{key}:4x4", **given), N=2**29)
        assert [line.kind for line in found.assumptions if f"{link}=spec" in line] == kinds


def test_a_figure_that_is_not_used_says_why():
    for key, machine in BY_KEY.items():
        taken = rates_of(machine)
        for other in machine.alternates:
            figure = taken.get(other.of)
            if other.rejected and figure is not None and other.figure.value > figure.value:
                assert other.figure.note, (key, other)


def test_no_peak_is_below_its_own_clock_times_units_times_width():
    """Cores x FLOP per clock x clock is taken where a data sheet rounds it down by more than 0.4 %."""
    for key, machine in BY_KEY.items():
        for unit in machine.units:
            for dtype, each in unit.per_clock.items() if machine.cores and unit.clock else ():
                made = machine.cores * each.value * unit.clock.value
                assert unit.peaks[dtype].value >= made * (1 - 4e-3), (key, unit.name, dtype, made)


def test_figures_that_sources_conflict_about_are_the_highest():
    assert BY_KEY["b200"].memories[0].bandwidth.value == 8e12
    assert {a.figure.value for a in BY_KEY["b200"].alternates if a.of == "hbm.bandwidth" and not a.rejected} >= {7.7e12}
    assert BY_KEY["gaudi3"].units[0].peaks["fp8"].value == 1835e12
    assert BY_KEY["b580"].units[0].peaks["bf16"].value == 20 * 2048 * 2.85e9
    assert BY_KEY["gb10"].units[0].peaks["bf16"].value == 125e12
    for key, highest, other in (("gb10", 301e9, 273e9), ("trn1", 820 * 2**30, 820e9), ("trn2", 3e12, 2.9e12)):
        machine = BY_KEY[key]
        assert machine.memories[0].bandwidth.value == highest
        assert other in {a.figure.value for a in machine.alternates if not a.rejected}
    assert BY_KEY["b300"].units[0].peaks["fp4"].value == 15e15
    for key, highest, other in (
        ("mi300x", 5.325e12, 5.3e12),
        ("xeon-max", 1.6384e12, 1e12),
        ("turin", 614.4e9, 576e9),
        ("m1-max", 409.6e9, 400e9),
        ("tpu7x", 7.38e12, 7.37e12),
        ("tpu8t", 6.528e12, 6.4e12),
        ("910b", 1.6384e12, 1.6e12),
        ("h100-nvl", 3.938e12, 3.9e12),
        ("h20", 4.022e12, 4e12),
        ("gaudi3", 3.7e12, 3.67e12),
        ("910c", 3.2768e12, 3.2e12),
        ("grace", 512e9, 500e9),
        ("m1", 68.256e9, 68.25e9),
    ):
        machine = BY_KEY[key]
        assert machine.memories[0].bandwidth.value == highest
        assert other in {a.figure.value for a in machine.alternates if not a.rejected}
    assert BY_KEY["v2"].memories[0].capacity.value == 16 * 2**30
    assert [BY_KEY["950dt"].units[0].peaks[dtype].value for dtype in ("fp8", "fp4")] == [1e15, 2e15]
    assert [BY_KEY[key].links[0].bandwidth.value for key in ("mi350x", "mi355x")] == [76.8e9, 76.8e9]
    assert BY_KEY["h200"].memories[0].bandwidth.value == 4.8e12  # 4.917 follows from a clock, and no source prints it
    assert BY_KEY["910b"].units[0].peaks["bf16"].value == 376e12
    assert BY_KEY["l40s"].memories[1].capacity.value == 96 * 2**20
    assert BY_KEY["b60"].memories[1].capacity.value == 18 * 2**20
    turing = BY_KEY["rtx-2080-ti"]  # the Founders Edition; the reference card stands beside it
    assert [turing.units[0].peaks[dtype].value for dtype in ("fp16", "int8", "int4")] == [56.9e12, 227.7e12, 455.4e12]
    assert {a.figure.value for a in turing.alternates if not a.rejected} >= {53.8e12, 215.2e12, 430.3e12}
    assert BY_KEY["orin-nano"].memories[0].bandwidth.value == 102.4e9
    assert BY_KEY["m4"].units[0].peaks["fp16"].value == pytest.approx(BY_KEY["m4-pro"].units[0].peaks["fp16"].value / 2)
    # what joins the two dies of a package is not what leaves it
    between, other = BY_KEY["mi250"].links[0], BY_KEY["mi250x"].links[0]
    assert (between.bandwidth.value, between.links) == (other.bandwidth.value, other.links) == (50e9, 7)
    # 1.61 TB/s were measured over six times the L2 of the Server Edition, whose data sheet says 1.597
    assert BY_KEY["rtx-pro-6000"].memories[0].bandwidth.value == 1.792e12


def test_cards_with_the_same_memory_have_the_same_capacity():
    """What drivers report of one form of a chip holds for its other forms; the label stands beside it."""
    for key, twin, label in (
        ("h800", "h100", 80e9),
        ("h100-pcie", "h100", 80e9),
        ("a800", "a100", 80e9),
        ("a100-pcie", "a100", 80e9),
        ("a100-pcie-40gb", "a100-40gb", 40e9),
    ):
        capacity, reported = (BY_KEY[name].memories[0].capacity.value for name in (key, twin))
        assert capacity == pytest.approx(reported, rel=2e-3)
        listed = BY_KEY[key if BY_KEY[key].alternates else twin].alternates
        assert label in {other.figure.value for other in listed if other.of == "hbm.capacity" and not other.rejected}
    assert BY_KEY["h200"].memories[0].capacity.value == 141e9


def test_formats_that_a_card_of_a_generation_has():
    """What one card of a generation multiplies, the others do too, unless its sources say that it was cut."""
    formats = {"tf32": "rtx-3090 rtx-4090 rtx-5090 rtx-5070 rtx-pro-6000 gb10 l20 a10g", "int4": "l4 l20 l40 l40s b60"}
    for dtype, keys in formats.items():
        for key in keys.split():
            peaks = BY_KEY[key].units[0].peaks
            ratio = peaks[dtype].value / peaks["bf16" if dtype == "tf32" else "int8"].value
            assert ratio == pytest.approx(0.5 if dtype == "tf32" else 2, rel=1e-2), key
    lacks = {key for key, chip in BY_KEY.items() if not any("fp64" in unit.peaks for unit in chip.units)}
    lacks &= {key for key, chip in BY_KEY.items() if chip.vendor == "NVIDIA"}
    assert lacks == {"agx-orin", "agx-orin-32gb", "agx-thor", "gb300", "orin-nano", "orin-nx", "rubin"}


def test_every_card_has_its_watts():
    """Expected times on a chip without constants go by its watts; GH200 has one power of GPU and CPU together."""
    lacks = {key for key, machine in BY_KEY.items() if machine.tdp is None and machine.vendor in ("NVIDIA", "AMD")}
    assert lacks == LACK_WATTS
    for key, watts in (("rtx-4070-super", 220), ("a10", 150), ("rtx-3060", 170), ("h800", 700), ("mi250", 500)):
        assert BY_KEY[key].tdp.value == watts


def test_every_chip_with_a_peak_and_a_bandwidth_is_there():
    peak, bandwidth = set(), set()
    for row in rows():
        if row["quantity"] == "peak_flops":
            peak.add(row["chip"])
        elif row["quantity"] in ("memory_bandwidth", "sram_bandwidth"):
            bandwidth.add(row["chip"])
    both = [row["chip"] for row in rows() if row["chip"] in peak & bandwidth]
    assert len(set(both)) >= 74
    assert all(machine_of({"chip": name}) for name in both)
    assert len(ALL) >= 162


#: Figures of the first rank that one source alone gives, by chip.
ONE_SOURCE = {
    "mi250": "xgmi.bandwidth",
    "mi250x": "xgmi.bandwidth",
    "mi250x-gcd": "hbm.bandwidth",
    "mi455x": "matrix.bf16",
    "mi50": "hbm.bandwidth",
    "mi60": "hbm.bandwidth",
    "rx-9070": "dram.bandwidth",
    "rx-7800-xt": "dram.bandwidth",
    "w7900": "dram.bandwidth",
    "strix-halo": "dram.capacity",
    "m1": "gpu.fp16 dram.capacity",
    "m1-pro": "gpu.fp16",
    "m1-max": "gpu.fp16",
    "m1-ultra": "gpu.fp16",
    "m2": "gpu.fp16",
    "m2-pro": "gpu.fp16 dram.bandwidth dram.capacity",
    "m2-max": "gpu.fp16",
    "m2-ultra": "gpu.fp16",
    "m3": "gpu.fp16 dram.capacity",
    "m3-pro": "gpu.fp16 dram.bandwidth dram.capacity",
    "m3-max": "gpu.fp16",
    "m4": "gpu.fp16 dram.capacity",
    "m4-pro": "gpu.fp16",
    "m4-max": "gpu.fp16",
    "m5": "dram.capacity",
    "trn1": "hbm.capacity",
    "trn3": "tensor.bf16",
    "v1": "dram.bandwidth dram.capacity",
    "v3": "ici.bandwidth",
    "v4i": "hbm.bandwidth",
    "tpu8i": "mxu.bf16",
    "tpu8t": "mxu.bf16",
    "gaudi2": "ethernet.bandwidth",
    "gaudi3": "ethernet.bandwidth",
    "a800": "nvlink.bandwidth",
    "a40": "nvlink.bandwidth",
    "a2": "dram.bandwidth dram.capacity",
    "a16": "dram.bandwidth dram.capacity",
    "agx-orin": "dram.bandwidth dram.capacity",
    "agx-orin-32gb": "dram.bandwidth",
    "orin-nx": "dram.bandwidth",
    "rtx-5060-ti": "dram.bandwidth dram.capacity",
    "rtx-5060": "dram.bandwidth",
    "rtx-5050": "dram.bandwidth",
    "rtx-pro-4500": "dram.bandwidth",
    "rubin": "tensor.bf16",
    "rtx-2080-ti": "nvlink.bandwidth",
    "v100": "nvlink.bandwidth",
}


def first_rank(machine):
    """The peak of products in 16 bits or the widest there is, main memory, and what joins chips."""
    main = next(memory for memory in machine.memories if not memory.link)
    unit = next((unit for unit in sorted(machine.units, key=lambda unit: unit.kind) if unit.peaks), None)
    formats = ("bf16", "fp16", "fp32", "int8") if unit else ()
    dtype = next((dtype for dtype in formats if dtype in unit.peaks), None)
    links = [f"{link.name}.bandwidth" for link in machine.links if link.name not in ("pcie", "nic", "dcn")]
    return [*([f"{unit.name}.{dtype}"] if dtype else []), f"{main.name}.bandwidth", f"{main.name}.capacity", *links]


def test_every_chip_was_held_against_a_second_source():
    found = {}
    for key, machine in BY_KEY.items():
        said = verdicts(machine)
        assert set(said.values()) <= set(VERDICTS)
        alone = [path for path in first_rank(machine) if said.get(path) == "one source"]
        found |= {key: " ".join(alone)} if alone else {}
    assert found == ONE_SOURCE


def test_what_confirms_a_figure():
    figure = Figure(100e12, "a data sheet")
    for said, kept, verdict in (
        (Figure(100.5e12, "a table"), False, "confirmed"),
        (Figure(100.5e12, "a data sheet"), False, "one source"),
        (Figure(100.5e12, "a run", "measured"), False, "one source"),
        (Figure(200e12, "a sparse table"), True, "one source"),
        (Figure(90e12, "a table"), False, "conflict"),
    ):
        unit = BY_KEY["b200"].units[0]._replace(peaks=Frozen({"bf16": figure}))
        machine = replace(BY_KEY["b200"], units=(unit,), alternates=(Alternate("tensor.bf16", said, kept),))
        assert verdicts(machine)["tensor.bf16"] == verdict


def test_a_capacity_that_others_round_to_a_label_is_confirmed_up_to_that():
    said = " ".join(str(chip("h100").explain()).split())
    assert "confirmed up to the rounding of a label, which other sources give: hbm.capacity (80 GB)" in said
    plain = said.partition("by the clock: ")[2].partition(" confirmed up")[0]
    assert "hbm.bandwidth" in plain
    assert "hbm.capacity" not in plain


def test_an_answer_says_what_others_give():
    asked = "bf16[16, 8192] * bf16[8192, 8192]"
    for name, said in (("b200", "others give 7.7 TB/s, 7.67 TB/s"), ("gaudi3", "others give 1.68 PFLOP/s")):
        assert said in bound(asked, on=name).explain()
    for mine in (bound(asked, on="b200", set={"hbm": "8 TB/s"}), bound(asked, on="h100")):
        assert "others give" not in mine.explain()
    taken = BY_KEY["b200"].memories[0].bandwidth
    again = pickle.loads(pickle.dumps(BY_KEY["b200"]))  # a catalog that was read anew has equal figures, not the same
    assert said_elsewhere(again, taken) == said_elsewhere(BY_KEY["b200"], taken) != ()


def test_what_other_sources_say_is_kept():
    v5e = BY_KEY["v5e"]
    said = {a.figure.value: a.rejected for a in v5e.alternates if a.of == "hbm.bandwidth"}
    assert said[8.1e11] is True
    assert said[8.2e11] is False
    book = [a.rejected for a in BY_KEY["h800"].alternates if (a.of, a.figure.value) == ("nvlink.bandwidth", 300e9)]
    assert book == [True]
    sparse = [a for a in BY_KEY["h100"].alternates if a.figure.value == 1979e12 and a.of == "tensor.bf16"]
    assert sparse
    assert all(a.rejected for a in sparse)


def test_the_index_is_current():
    expected = catalog.make_index(read_chips(catalog.CATALOG), read_systems(catalog.CATALOG))
    with open(os.path.join(catalog.CATALOG, catalog.INDEX), encoding="utf-8") as handle:
        assert json.load(handle) == expected, "run: python -m roofline.hardware.catalog"
    said = {each.key: "(announced)" in each.name for each in catalog.summaries()}
    assert said == {each.key: each.announced for each in catalog.summaries()}


def test_the_index_writes_what_it_reads(tmp_path):
    text = 'schema = 1\nfamily = "one"\n[chip.one]\nname = "One"\naliases = ["uno"]\nmatch = ["Dev One"]\n'
    (tmp_path / "one.toml").write_text(text + "[chip.one.unit.tensor]\npeak = { bf16 = 1e12 }\n")
    catalog.write_index(str(tmp_path))
    written = json.loads((tmp_path / "index.json").read_text())
    assert written["chips"] == {"one": "one.toml"}
    assert written["aliases"] == {"one": "one", "uno": "one"}
    assert written["match"] == {"Dev One": "one"}


def test_two_chips_cannot_share_a_name():
    from roofline.errors import HardwareError

    double = replace(BY_KEY["h200"], aliases=("h100",))
    with pytest.raises(HardwareError, match="the name 'h100' belongs to both h100 and h200; keep it in one of them"):
        catalog.make_index([BY_KEY["h100"], double])


def every_figure(machine):
    for unit in machine.units:
        for table in (unit.peaks, unit.achievable, unit.per_clock):
            yield from ((f"{unit.name}.{dtype}", figure) for dtype, figure in table.items())
        yield f"{unit.name}.clock", unit.clock
    for memory in machine.memories:
        for part in ("bandwidth", "capacity", "per_core", "achievable"):
            yield f"{memory.name}.{part}", getattr(memory, part)
    for link in machine.links:
        for part in ("bandwidth", "latency", "achievable"):
            yield f"{link.name}.{part}", getattr(link, part)
    yield "tdp", machine.tdp
    yield from machine.prices.items()
    yield from ((a.of, a.figure) for a in machine.alternates)


@for_each("machine", ALL, ids=lambda m: m.key)
def test_every_figure_has_a_source_and_is_positive(machine):
    assert machine.name
    assert machine.vendor
    for path, figure in every_figure(machine):
        if figure is not None:
            assert isinstance(figure, Figure)
            assert len(figure.source) > 2, path
            assert 0 < figure.value < 1e20, path
            assert figure.basis in ("spec", "derived", "measured", "table"), path


@for_each("machine", ALL, ids=lambda m: m.key)
def test_one_file_gives_the_same_chip_as_all_files(machine):
    alone = chip(machine.key)
    assert alone.name == machine.name
    assert [u.name for u in alone.units] == [u.name for u in machine.units]


#: Peaks that a source's own clock does not reproduce within 2 %: known, explained in the chip's sources.
KNOWN = {
    "gb200": 5,  # device-reported tensor clock gives 2398, the vendor says 2500
    "gb300": 4,
}


@for_each("machine", ALL, ids=lambda m: m.key)
def test_figures_fit_together(machine):
    assert len(check_figures(machine)) == KNOWN.get(machine.key, 0), check_figures(machine)


def test_a_kernel_that_beats_the_data_sheet_is_told() -> None:
    """An RTX 5090 reached 993 TFLOP/s with scales of blocks that are 1, its white paper says 419 for fp32 sums."""
    told = bound("fp8[8192, 8192] @ fp8[8192, 8192]", on="rtx-5090").explain()
    assert "scales of blocks, which may all be 1, reached 993 TFLOP/s" in " ".join(told.split())


#: FLOP/s that makers' papers give, against those made of cores, clocks and FLOPs per clock.
WHITE_PAPERS = [
    ("a2", "int8", 36.25e12),
    ("a16", "bf16", 17.97e12),
    ("a770", "bf16", 157.28e12),
    ("agx-orin", "int8", 85.2e12),
    ("rtx-5000-ada", "int4", 1044.4e12),
    ("rtx-5070-ti", "fp4", 703e12),
    ("rtx-5060-ti", "fp32", 23.7e12),
    ("rx-7900-xt", "fp32", 51.6e12),
    ("rx-9070-xt", "int8", 779e12 / 2),
    ("rx-9070", "int4", 1165e12 / 2),
    ("rtx-3080", "fp16", 59.5e12),
    ("rtx-3070", "fp16", 40.6e12),
    ("rtx-4080", "fp16", 97.5e12),
    ("rtx-4080", "fp8", 194.9e12),
    ("rtx-5080", "fp8", 225.1e12),
    ("rtx-5080", "fp8_acc16", 450.2e12),
    ("rtx-pro-4500", "fp32", 54.94e12),
    ("mi60", "int8", 58.95e12),
    ("orin-nano", "int4", 66.85e12),
    ("agx-orin", "tf32", 85.2e12 / 4),
    ("agx-thor", "tf32", 2070e12 / 16),
    ("rtx-5070", "bf16", 61.7e12),
    ("rtx-a6000", "bf16", 154.8e12),
    ("rtx-6000-ada", "fp8", 728.5e12),
    ("rtx-pro-6000", "fp32", 126e12),
]


@pytest.mark.parametrize(("key", "dtype", "expected"), WHITE_PAPERS)
def test_peaks_of_cards_that_share_a_core(key, dtype, expected):
    found = [unit.peaks[dtype] for unit in BY_KEY[key].units if dtype in unit.peaks]
    assert found[0].value == pytest.approx(expected, rel=1e-3)


def test_what_runs_bf16_on_tensor_cores_runs_fp16_as_fast():
    for machine in ALL:
        for unit in machine.units:
            if machine.vendor == "NVIDIA" and unit.kind == "matrix" and "bf16" in unit.peaks:
                assert unit.peaks["fp16"].value == pytest.approx(unit.peaks["bf16"].value, rel=3e-3), machine.key


def test_the_arithmetic_of_apples_gpus_is_as_fast_in_fp16_as_in_fp32():
    for machine in ALL:
        if machine.vendor == "Apple":
            gpu = next(unit for unit in machine.units if unit.name == "gpu")
            assert gpu.peaks["fp16"].value == gpu.peaks["fp32"].value


def test_a_wrong_figure_is_found():
    assert "102.1 % off" in check_figures(chip("h100", fp8="4 PFLOP/s"))[0]
    assert check_figures(chip("v5e", peak={"int8": 788e12})) == [
        "mxu.int8 is 4 x bf16, where most chips have 2 x: check it, or "
        'write irregular = ["int8"] in the unit where it is so',
        "mxu.int4 is 1 x int8, where most chips have 2 x: check it, or "
        'write irregular = ["int4"] in the unit where it is so',
    ]
    assert check_figures(chip("v5e", vmem="1e11")) == ["vmem is slower than hbm: 1e+11 against 8.19e+11 B/s"]


RIDGES = [
    ("v5e", "bf16", {"hbm": "8.2e11"}, 240.24),
    ("h100", "bf16", {}, 295.1),
    ("h100", "bf16", {"bf16": 1e15, "hbm": 3.35e12}, 298.5),
    ("1080ti", "fp32", {}, 23.35),
    ("v100", "fp16", {}, 138.9),
    ("a100", "bf16", {}, 153.0),
    ("a100-40gb", "bf16", {}, 200.6),
]


@pytest.mark.parametrize(("target", "dtype", "given", "expected"), RIDGES)
def test_ridges(target, dtype, given, expected):
    assert ridge(chip(target, **given), dtype) == pytest.approx(expected, rel=1e-3)


def test_vector_ridges_of_tpus_are_per_chip():
    assert ridge(chip("v5p"), "fp32", unit="vpu") == pytest.approx(14e12 / 2.765e12)
    assert ridge(chip("v5e"), "fp32", unit="vpu") == pytest.approx(8 * 128 * 4 * 1.5e9 / 8.19e11)


def test_facts_that_sources_disagree_about():
    assert BY_KEY["b300"].units[0].peaks["int8"].value == 153.5e12
    assert BY_KEY["rtx-4090"].units[0].peaks["fp16"].value == 165.2e12
    assert BY_KEY["rtx-4090"].units[0].peaks["fp16_acc16"].value == 330.3e12
    assert BY_KEY["mi325x"].units[0].peaks["bf16"].value == 1307.4e12
    assert BY_KEY["mi325x"].memories[0].bandwidth.value == 6e12
    assert BY_KEY["mi250x"].units[0].peaks["bf16"].value == 2 * BY_KEY["mi250x-gcd"].units[0].peaks["bf16"].value
    assert BY_KEY["gaudi3"].units[0].peaks["bf16"].value == 1835e12
    assert BY_KEY["h100"].memories[0].capacity.value == 84942979072
    assert BY_KEY["h100"].memories[0].label == "80 GB"
    assert "fp32" not in BY_KEY["h100"].units[0].peaks
    assert BY_KEY["h100"].units[0].peaks["tf32"].value == 494.7e12


def test_names_lists_keys():
    assert set(names()) == set(BY_KEY)


def test_loading_one_chip_parses_its_tables_in_one_file(monkeypatch):
    parsed = []
    read_layer = catalog.read_layer

    def reads(path, part):
        parsed.append((os.path.basename(path), read_layer(path, part)))
        return parsed[-1][1]

    monkeypatch.setattr(catalog, "read_layer", reads)
    catalog.shipped_chip.cache_clear()
    chip("TPU v5e")
    assert [(file, list(layer.chips)) for file, layer in parsed] == [("google-tpu.toml", ["v5e"])]


def test_the_tables_of_a_chip_are_all_that_its_file_says_of_it():
    for file in set(catalog.read_index().chips.values()):
        path = os.path.join(catalog.CATALOG, file)
        whole = catalog.read_layer(path)
        for key, raw in whole.chips.items():
            alone = catalog.read_layer(path, lambda text, key=key: catalog.tables_of_chip(text, key))
            assert dict(alone.chips) == {key: raw}
            assert (alone.family, alone.place.sources) == (whole.family, whole.place.sources)


def test_a_device_name_finds_its_chip():
    for machine in ALL:
        for pattern in machine.match:
            assert catalog.chip_of_device(pattern) == machine.key
    assert catalog.chip_of_device("NVIDIA GeForce RTX 4090") == "rtx-4090"
    assert catalog.chip_of_device("NVIDIA H200 NVL") == "h200-nvl"
    assert catalog.chip_of_device("NVIDIA GeForce RTX 5090 D") is None
    assert catalog.chip_of_device("NVIDIA A100-SXM4-80GB") == "a100"


def test_the_pages_of_sources_have_every_figure_and_every_conflict():
    pages = {
        name: page.replace("<wbr>", "").replace("\\_", "_") for name, page in source_pages().items()
    }  # where a name may break
    text = "\n".join(pages.values())
    assert text.count("\n## ") == len(chips())
    of_b200 = pages["sources/nvidia-blackwell"].partition("(`b200`)\n")[2].partition("\n## ")[0]
    assert "hbm.bandwidth 8 TB/s" in of_b200
    for machine in chips():
        head, _, *rows = text.partition(f"(`{machine.key}`)\n\n")[2].partition("\n## ")[0].splitlines()
        cells = [row.strip("|").rsplit(" | ", head.count(" | ")) for row in rows if row.startswith("| ")]
        columns = [", ".join(filter(str.strip, column)) for column in list(zip(*cells, strict=True))[1:]]
        assert all(columns), machine.key  # a column in which nothing stands is left out
        taken, besides = [*columns, ""][:2]
        parts = (*machine.memories, *machine.links)
        figures = sum(len(unit.peaks) for unit in machine.units) + sum(bool(each.bandwidth) for each in parts)
        assert len(re.findall(r"\w\.\w+ [\d.]+ \w+/s", taken)) == figures, machine.key
        said = [each.of for each in machine.alternates if f"{each.of} " in taken]
        assert len(re.findall(r"\w\.\w+ [\d.]+ \w+/s", besides)) == len(said), machine.key


def test_the_address_of_a_source_is_whole():
    texts = (path.read_text(encoding="utf-8") for path in Path(catalog.__file__).with_name("catalog").glob("*.toml"))
    named = [found for text in texts for found in re.findall(r"https?://[^\"\n]*", text)]
    assert len(named) > 100
    # what follows an address is a sentence, no further part of the address
    broken = re.compile(r"https?://\S*\(|https?://\S+ (?!\(|[a-z]+\W? )\S*[./_-]\w")
    assert [text for text in named if broken.match(text)] == []


@pytest.mark.parametrize("name", ["nvlink", "xgmi", "ici", "link"])
def test_a_link_named_by_its_own_name_in_a_dictionary_joins_chips(name: str) -> None:
    mine = {"bf16": 3e14, "hbm": 2e12, name: 45e9}
    found = bound("AllReduce_X(bf16[B, D] {U_X})", on=mine, B=1024, D=8192, mesh={"X": 8})
    assert found.bound_by == ("ici X" if name == "ici" else name)
    passes = 7 / 8 if name == "ici" else 2 * 7 / 8  # both ways round a ring, two shots over a switch
    assert found.lower == pytest.approx(passes * 1024 * 8192 * 2 / 45e9)
    assert [level.name for level in chip(mine).memories] == ["hbm"]


@pytest.mark.parametrize(
    "beside", [{"nvlink": 4.5e11}, {"link": [{"name": "own", "topology": "mesh", "bandwidth": 1e11}]}]
)
@pytest.mark.parametrize("name", ["nic", "dcn"])
def test_a_network_in_a_dictionary_is_a_link_beside_others(name: str, beside: dict[str, object]) -> None:
    mine = chip({"bf16": 3e14, "hbm": 2e12, name: 5e10, **beside})
    assert [level.name for level in mine.memories] == ["hbm"]
    assert [(link.name, link.topology) for link in mine.links][1:] == [(name, "network")]


def test_figures_of_ones_own_are_without_a_source():
    own = {"name": "orca", "unit": {"mxu": {"kind": "matrix", "peak": {"bf16": "100 TFLOP/s"}}}}
    mine = chip({**own, "memory": [{"level": "hbm", "bandwidth": "1 TB/s"}]})
    assert "without a source: mxu.bf16, hbm.bandwidth" in str(mine.explain())


def test_the_bf16_peak_of_an_h100_is_that_of_the_makers_paper() -> None:
    (tensor,) = (unit for unit in chip("h100").units if unit.name == "tensor")
    peak = tensor.peaks["bf16"]
    assert (peak.value, peak.source.partition(",")[0]) == (989.4e12, "NVIDIA H100 Tensor Core GPU Architecture")
