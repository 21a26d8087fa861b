"""Slices, nodes and systems: which axes a target has, over which links, and the message when it cannot be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import HardwareError, InputError
from roofline.hardware import chip
from roofline.hardware.catalog import system_names
from roofline.hardware.mesh import smallest_slice, with_mesh
from roofline.hardware.network import bisection_bandwidth, network
from roofline.hardware.rate import rate
from roofline.sizes import symbol
from roofline.work import Key

CLUSTER = """
schema = 1
[system.mine]
chip = "h100"
name = "Our cluster"
aliases = ["ours"]

[[system.mine.link]]
name = "nvlink"

[[system.mine.link]]
name = "ib"
topology = "switch"
bandwidth = "25 GB/s"
domain = 512
"""

MESHES = {
    "v5e:2": "X=2 ici line",
    "v5e:4x4": "X=4 ici line, Y=4 ici line",
    "v5e:16x8": "X=16 ici ring, Y=8 ici line",
    "v6e:16x16": "X=16 ici ring, Y=16 ici ring",
    "v5p:2x2x4": "X=2 ici line, Y=2 ici line, Z=4 ici line",
    "v5p:4x4x4": "X=4 ici ring, Y=4 ici ring, Z=4 ici ring",
    "v4:8x16x4": "X=8 ici ring, Y=16 ici ring, Z=4 ici ring",
    "v5p:4x4": "X=4 ici line, Y=4 ici line",
    "tpu7x:8x8x8": "X=8 ici ring, Y=8 ici ring, Z=8 ici ring",
    "v3:32x4": "X=32 ici ring, Y=4 ici line",
    "v5e:16x16:4": "X=16 ici ring, Y=16 ici ring, S=4 dcn switch",
    "v5p:2x1x1": "X=2 ici line, Y=1, Z=1",
    "h100:8": "X=8 nvlink switch",
    "h100:64": "X=64 nvlink switch 8, nic switch 8",
    "gaudi3:8": "X=8 ethernet mesh",
    "gaudi3:64": "X=64 ethernet mesh 8, nic switch 8",
    "h800:16": "X=16 nvlink switch 8, nic switch 2",
    "h100:12": "X=12 nvlink switch 6, nic switch 2",
    "dgx-h100:512": "X=512 nvlink switch 8, ib switch 32, spine switch 2",
    "dgx-h100:257": "X=257 nvlink switch 8, ib switch 17, spine switch 2",  # 33 nodes, and 32 under one leaf
    "dgx-h100:128x8": "X=128 ib switch 32, spine switch 4, Y=8 nvlink switch",
    "dgx-h100:32x32": "X=32 ib switch 8, spine switch 4, Y=32 nvlink switch 8, ib switch 4",
    "dgx-h100:4x2": "X=4 nvlink switch, Y=2 nvlink switch",
    "gb200:72": "X=72 nvlink switch",
    "gb200-superpod:576": "X=576 nvlink switch 72, ib switch 8",
    "mi300x:8": "X=8 xgmi mesh",
    "a40:2": "X=2 nvlink switch",
    "trn2-ultraserver:4x4x4": "X=4 neuronlink ring, Y=4 neuronlink ring, Z=4 neuronlink-z ring",
}


@pytest.mark.parametrize(("target", "axes"), MESHES.items())
def test_targets(target, axes):
    assert str(chip(target).mesh) == f"Mesh({axes})"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("v5e:16x32", "TPU v5e has no slice of 16x32: its largest is 16x16; take several slices, as in v5e:16x16:2"),
        ("v5e:3", "TPU v5e has no slice of 3: its axes are powers of 2"),
        ("v5e:256", "TPU v5e has no slice of 256: its largest is 16x16; write all its axes, as in v5e:16x16"),
        ("v5p:4096", "TPU v5p has no slice of 4096: its largest is 16x20x28; write all its axes, as in v5p:16x16x16"),
        ("v5p:8192", "TPU v5p has no slice of 8192: its largest is 16x20x28; take several slices, as in v5p:"),
        ("v5e:2x2x2", "TPU v5e has no slice of 2x2x2: it has 3 axes; it is a torus of 2"),
        ("v5p:3x4x4", "TPU v5p has no slice of 3x4x4: its axes are 1, 2 or a multiple of 4"),
        ("v5p:20x28x20", "TPU v5p has no slice of 20x28x20: its largest is 16x20x28"),
        ("tpu7x:64x64x64", "TPU7x (Ironwood) has no slice of 64x64x64: it joins at most 9216 chips"),
        ("mi300x:16", "a mesh of 16 chips is larger than mi300x, which joins 8; take at most 8 chips, or name a"),
        ("dgx-h100:2048", "a mesh of 2048 chips is larger than dgx-h100, which joins 1024"),
        ("trn2:4x4x4", "how many neuronlink links AWS Trainium2 has, and what one carries, is not known; "),
        ("v5e:16x16:0", "shape '16x16:0' of 'v5e:16x16:0' does not read"),
        ("v5e:16x16:", "shape '16x16:' of 'v5e:16x16:' does not read"),
        ("tpu7x:4x4x4:2", "no network between slices of TPU7x (Ironwood) is known; give one, as in dcn='6 GB/s'"),
        ("h100:1x1x1x1x1x1x2", "h100:1x1x1x1x1x1x2 has 7 axes; write at most 6"),
        ("dgx-h10", "unknown chip 'dgx-h10'; did you mean 'dgx-h100'?"),
    ],
)
def test_targets_that_cannot_be(target, message):
    with pytest.raises(HardwareError) as error:
        chip(target)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("target", "axes", "message"),
    [
        ("v5e:4x4", {"X": 4, "Y": 8}, "the axes X=4, Y=8 make 32 chips, and v5e:4x4 has 16; their sizes multiply"),
        (
            "v5p:4x12",
            {"X": 6, "Y": 8},
            "axis X of 6 does not fit the axes of v5p:4x12; an axis takes axes of the slice",
        ),
        (
            "v5p:12x4",
            {"X": 8, "Y": 6},
            "axis X of 8 does not fit the axes of v5p:12x4; an axis takes axes of the slice",
        ),
        (
            "h100:24",
            {"X": 4, "Y": 6},
            "axis Y does not fill whole units of 8 chips on nvlink; let the axes inside divide 8",
        ),
        ("h100", {"X": 0}, "size X is 0; a size is a whole number of at least 1"),
        ("h100", {"2x": 2}, "'2x' is no name of a mesh axis; a name is letters and digits"),
        ("h100", {"a_b": 2}, "'a_b' is no name of a mesh axis"),
        ("h100", None, "NVIDIA H100 SXM5 80GB is one chip; write its shape, as in h100:8, or name its axes"),
        ("m1", {"X": 2}, "no link from Apple M1 to other chips is known; give the bandwidth of one"),
        ("v5e:16x16:3", {"X": 3, "Y": 16, "Z": 16}, "the axes X=3, Y=16, Z=16 do not fit 3 slices of v5e:16x16:3"),
        ("v5e", {"X": np.array([2, 32])}, "TPU v5e has no slice of that shape: an axis of 32 is longer than 16"),
        (
            "mi300x",
            {"X": symbol("n"), "Y": symbol("m")},
            "axis X of n chips has no link on mi300x beside those inside it; ",
        ),
        ("mi300x", {"X": np.array([2, 16])}, "a mesh of 16 chips is larger than mi300x, which joins 8"),
    ],
)
def test_axes_that_cannot_be(target, axes, message):
    with pytest.raises(InputError) as error:
        with_mesh(chip(target), axes)
    assert str(error.value).startswith(message)


def test_axes_by_other_names():
    assert str(with_mesh(chip("v5e:4x4"), {"data": 16}).mesh) == "Mesh(data=16 ici line 4, ici line 4)"
    assert (
        str(with_mesh(chip("v5p:4x4x8"), {"a": 16, "b": 8}).mesh) == "Mesh(a=16 ici ring 4, ici ring 4, b=8 ici ring)"
    )
    assert str(with_mesh(chip("h100:64"), {"data": 16, "model": 4}).mesh) == (
        "Mesh(data=16 nvlink switch 2, nic switch 8, model=4 nvlink switch)"
    )
    inside = with_mesh(chip("v5e:16x16:2"), {"X": 2, "Y": 16, "Z": 16}).mesh
    assert inside is not None
    assert [str(part.size) for part in inside["Z"].segments] == ["8", "2"]
    assert str(with_mesh(chip("v5e:16x16:2"), {"X": 256, "P": 2}).mesh) == (
        "Mesh(X=256 ici ring 16, ici ring 16, P=2 dcn switch)"
    )
    assert str(with_mesh(chip("v5e"), {"X": 4, "Y": 4}).mesh) == str(chip("v5e:4x4").mesh)


CUTS = [
    ("v5e:4x4", {"X": 2, "Y": 8}, "X=2 ici line, Y=8 ici line 2, ici line 4", "X X Y.2"),
    ("v5e:16x16", {"a": 4, "b": 4, "c": 16}, "a=4 ici line, b=4 ici line, c=16 ici ring", "X X Y"),
    ("v5e:16x16", {"a": 1, "b": 32, "c": 8}, "a=1, b=32 ici ring 16, ici line 2, c=8 ici line", "X Y Y"),
    ("v5p:8x12", {"a": 2, "b": 8, "c": 6}, "a=2 ici line, b=8 ici line 4, ici line 2, c=6 ici line", "X X Y Y"),
    ("v5p:4x4x12", {"a": 4, "b": 16, "c": 3}, "a=4 ici ring, b=16 ici ring 4, ici line 4, c=3 ici line", "X Y Z Z"),
    ("v5p:8x8:2", {"a": 2, "b": 32, "S": 2}, "a=2 ici line, b=32 ici line 4, ici line 8, S=2 dcn switch", "X X Y"),
]


@pytest.mark.parametrize(("target", "axes", "text", "along"), CUTS)
def test_an_axis_of_a_slice_may_be_cut(target, axes, text, along):
    machine = with_mesh(chip(target), axes)
    assert str(machine.mesh) == f"Mesh({text})"
    levels = [level for axis in machine.mesh for level in axis.segments if level.topology == "torus"]
    busy = [f"ici {name}" for name in along.split()]
    assert [rate(machine, Key("wire", level.place)).resource for level in levels] == busy
    said = [note.split(" is ")[0] for note in machine.mesh.notes if "is cut into" in note]
    assert said == sorted({name for name in busy if busy.count(name) > 1})


def test_wrap_that_is_asked_for_holds_for_whole_axes_only():
    mesh = with_mesh(chip("v5e:4x4"), {"X": 2, "Y": 8}, wrap=True).mesh
    assert str(mesh) == "Mesh(X=2 ici line, Y=8 ici line 2, ici ring 4)"


def test_selecting_axes():
    mesh = chip("v4:4x4x4").mesh
    assert [axis.name for axis in mesh.select("XZ")] == ["X", "Z"]
    assert mesh.chips == 64
    assert dict(mesh.sizes) == {"X": 4, "Y": 4, "Z": 4}
    with pytest.raises(
        HardwareError, match="mesh axis 'W' is not declared; the axes are: X, Y, Z; declare it, as in mesh W=4"
    ):
        mesh["W"]
    with pytest.raises(HardwareError, match="mesh axis 'X' is named twice; name each axis once"):
        mesh.select("XX")


def test_arrays_and_symbols():
    sizes = np.array([4, 8, 16])
    (axis,) = with_mesh(chip("v5e"), {"X": sizes}).mesh
    assert axis.segments[0].wrap.tolist() == [False, False, True]
    assert axis.segments[0].directions.tolist() == [1, 1, 2]
    (axis,) = with_mesh(chip("dgx-h100"), {"X": np.array([4, 64, 1024])}).mesh
    assert [level.size.tolist() for level in axis.segments] == [[4, 8, 8], [1, 8, 32], [1, 1, 4]]
    machine = with_mesh(chip("v5p"), {"X": symbol("n")})
    assert machine.mesh.axes[0].segments[0].shape == "ring"
    assert machine.mesh.notes == ("axis X: taken to have wrap-around and an even size above 2",)
    assert with_mesh(chip("h100"), {"X": symbol("n")}).mesh.notes == ("axis X: taken to stay within nvlink",)
    assert str(with_mesh(chip("h100"), {"X": symbol("n"), "Y": 8}).mesh) == "Mesh(X=n nic switch, Y=8 nvlink switch)"
    whole = with_mesh(chip("dgx-h100"), {"X": 8 * symbol("n")}).mesh
    assert str(whole) == "Mesh(X=8*n nvlink switch 8, ib switch n)"
    assert whole.notes == ("axis X: 8*n chips, whole units of 8 on nvlink; ib joins the units",)
    assert str(with_mesh(chip("dgx-h100"), {"X": 4 * symbol("n")}).mesh) == "Mesh(X=4*n nvlink switch)"
    both = with_mesh(chip("dgx-h100"), {"X": symbol("n"), "Y": symbol("m")}).mesh
    assert str(both) == "Mesh(X=n ib switch, Y=m nvlink switch)"  # every axis of several chips runs over a link


def test_notes_say_what_was_assumed():
    row = ("axis X: 4 chips in a line, without wrap-around",)
    assert chip("v5e:4").mesh.notes == (
        *row, "the slice of 4 chips nearest to a square is v5e:2x2, which has more links"
    )  # fmt: skip
    assert with_mesh(chip("v5e:4"), wrap=True).mesh.notes == ("axis X: with wrap-around, as asked",)
    assert with_mesh(chip("v5e"), {"X": 4}).mesh.notes == row
    assert [len(chip(each).mesh.notes) for each in ("v5e:16", "v5e:4x1", "v5e:2", "v5e:2x2")] == [0, 1, 1, 2]
    assert "how many chips" in chip("910c:4").mesh.notes[0]


@pytest.mark.parametrize(
    ("lines", "chips", "shape"),
    [
        ("domain = 8", "8", ["ring"]),
        ("domain = 8", "4", ["line"]),
        ("", "4", ["ring"]),
        ('domain = 8\nwrap = "full axis"', "8", ["ring"]),
        ('domain = 8\nwrap = "never"', "8", ["line"]),
        ('domain = 8\nwrap = "always"', "4", ["ring"]),
        ("axes = [8]", "8", ["ring"]),
        ("axes = [8]", "4", ["line"]),
    ],
)
def test_a_ring_closes_where_all_of_its_chips_are_asked_for(tmp_path, lines, chips, shape):
    file = tmp_path / "mine.toml"
    link = f'[[chip.mine.link]]\nname = "wire"\ntopology = "ring"\nbandwidth = "400 GB/s"\n{lines}\n'
    file.write_text(f'schema = 1\n[chip.mine]\nname = "Mine"\nunit.matrix.peak.bf16 = "1 PFLOP/s"\n{link}')
    mesh = chip(f"{file}:{chips}").mesh
    assert [part.shape for axis in mesh for part in axis.segments] == shape
    found = smallest_slice(chip(f"{file}:{chips}"), 2)
    assert found is not None
    assert (found.target, found.chips) == ("mine:2", 2)


def test_a_torus_without_a_rule_closes_its_largest_axes(tmp_path):
    file = tmp_path / "mine.toml"
    link = 'name = "wire"\ntopology = "torus2d"\nlinks = 4\naxes = [4, 4]\nbandwidth = "50 GB/s"\n'
    file.write_text(f'schema = 1\n[chip.mine]\nname = "Mine"\nunit.matrix.peak.bf16 = 1e15\n[[chip.mine.link]]\n{link}')
    shapes = [[part.shape for axis in chip(f"{file}:{on}").mesh for part in axis.segments] for on in ("4x4", "2x4")]
    assert shapes == [["ring", "ring"], ["line", "ring"]]


# ---- rates


@pytest.mark.parametrize(
    ("target", "place", "resource", "value"),
    [
        ("v5e:4x4", "Y", "ici Y", 45e9),
        ("v5e:16x16:2", "S", "dcn", 3.125e9),
        ("h100:8", "X", "nvlink", 450e9),
        ("h100:64", "X.nic", "nic", 50e9),
        ("dgx-h100:1024", "X.spine", "spine", 50e9),
        ("mi300x:8", "X", "xgmi", 64e9),
        ("trn2-ultraserver:4x4x4", "Z", "neuronlink-z Z", 64e9),
    ],
)
def test_rates_of_mesh_axes(target, place, resource, value):
    found = rate(chip(target), Key("wire", place))
    assert (found.resource, found.value) == (resource, value)


def test_hops_on_all_axes_share_a_resource():
    machine = chip("v4:4x4x4")
    assert {rate(machine, Key("hops", axis)).resource for axis in "XYZ"} == {"hop latency"}
    assert rate(machine, Key("hops", "X")).value == pytest.approx(1e6)
    assert rate(machine, Key("wire", "W")) is None


def test_figures_of_links_can_be_set():
    assert rate(chip("v5e:2", link=4.4e10), Key("wire", "X")).value == 4.4e10
    assert rate(chip("v5e:2", link="spec"), Key("wire", "X")).value == 50e9
    assert rate(chip("v5p:4x4x4", ici="spec"), Key("wire", "Z")).value == 100e9
    assert rate(chip("dgx-h100:16", ib="45 GB/s"), Key("wire", "X.ib")).value == 45e9
    assert rate(chip("gtx-1080-ti:2", link="8 GB/s"), Key("wire", "X")).value == 8e9
    assert rate(chip("h100:8", achievable=True), Key("wire", "X")).value == pytest.approx(450e9 * 0.8222)
    with pytest.raises(HardwareError, match=r"the catalog has one figure for nvlink\.bandwidth of NVIDIA H100"):
        chip("h100:8", link="spec")


@given(
    st.sampled_from(["v5e", "v6e", "v5p", "v4", "h100", "gb200", "mi300x", "dgx-h100"]),
    st.integers(0, 3),
    st.integers(0, 2),
)
def test_levels_multiply_to_the_axis(key, first, second):
    machine = with_mesh(chip(key), {"X": 2**first, "Y": 2**second} if key != "mi300x" else {"X": 2**first})
    for axis in machine.mesh:
        size = 1
        for level in axis.segments:
            assert level.below == size or level.topology == "torus"
            size *= level.size
        assert size == axis.size
        assert all(rate(machine, Key("wire", level.place)) is not None for level in axis.segments)


# ---- systems and tiers


def test_every_shipped_system_loads():
    for key in system_names():
        machine = chip(key)
        assert machine.key == key
        assert network(machine).chips is None or network(machine).chips >= 8
        assert chip(f"{key}:4x4" if key.startswith("trn2") else f"{key}:8").mesh.chips in (8, 16)


def test_a_system_of_ones_own(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER)
    machine = chip(f"{path}:64")
    assert machine.name == "NVIDIA H100 SXM5 80GB in Our cluster"
    assert str(machine.mesh) == "Mesh(X=64 nvlink switch 8, ib switch 8)"
    assert rate(machine, Key("wire", "X.ib")).value == 25e9
    assert rate(machine, Key("wire", "X.nvlink")).value == 450e9
    assert str(chip("ours:16", files=[path]).mesh) == "Mesh(X=16 nvlink switch 8, ib switch 2)"
    with pytest.raises(HardwareError, match="a mesh of 1024 chips is larger than mine, which joins 512"):
        chip(f"{path}:1024")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (('chip = "h100"', ""), "system.mine.chip: is missing; name the chip it is made of, such as 'h100'"),
        (('chip = "h100"', 'chip = "h10"'), "system.mine.chip: names 'h10', which is not known; did you mean 'h100'?"),
        (
            ("domain = 512", "domain = 4"),
            "system.mine.link: 'ib' joins 4 chips and the one before it 8; list the links",
        ),
        (("domain = 512", "domain = 12"), "system.mine.link: 'ib' joins 12 chips; expected a multiple of 8"),
        (("aliases", "alias"), "system.mine: unknown key 'alias'; did you mean 'aliases'?"),
        (
            ('topology = "switch"', 'wrap = "sometimes"'),
            "system.mine.link[1].wrap: is 'sometimes'; rules are: full axis, ",
        ),
        (
            ('topology = "switch"', 'slices = "cubes"'),
            "system.mine.link[1].slices: is 'cubes'; did you mean 'cubes of 4'?",
        ),
    ],
)
def test_broken_systems(tmp_path, changed, message):
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER.replace(*changed))
    with pytest.raises(HardwareError) as error:
        chip(f"{path}:8")
    assert message in str(error.value)


def test_a_system_without_links(tmp_path):
    path = tmp_path / "bare.toml"
    path.write_text('[system.bare]\nchip = "h100"\n')
    with pytest.raises(HardwareError, match=r"has no link; add .*the innermost first"):
        chip(str(path))


def test_tiers():
    tiers = network(chip("h100"))
    assert [(t.name, t.chips, t.degree) for t in tiers.tiers] == [("nvlink", 8, 8), ("nic", None, None)]
    assert tiers["nic"].unit_bandwidth == 400e9
    assert tiers.chips is None
    assert network(chip("v5e")).hosts(256) == 32
    assert network(chip("h100")).hosts(8) is None
    assert network(chip("m1")).chips == 1
    with pytest.raises(HardwareError, match="has no tier 'ib'; its tiers are: nvlink, nic"):
        tiers["ib"]


def _fewest_links(shape: tuple[int, ...], closed: tuple[bool, ...]) -> int:
    """The links between halves of a torus, of all halves those with the fewest."""
    chips = list(itertools.product(*map(range, shape)))
    links = []
    for one, other in itertools.combinations(range(len(chips)), 2):
        apart = [(n, abs(a - b)) for n, (a, b) in enumerate(zip(chips[one], chips[other], strict=True)) if a != b]
        if len(apart) == 1 and (apart[0][1] == 1 or (closed[apart[0][0]] and apart[0][1] == shape[apart[0][0]] - 1)):
            links.append((one, other))
    halves = map(set, itertools.combinations(range(len(chips)), len(chips) // 2))
    return min(sum((a in half) != (b in half) for a, b in links) for half in halves)


@pytest.mark.parametrize(
    ("target", "axes", "shape", "closed"),
    [
        ("v5e:2x4", None, (2, 4), (False, False)),
        ("v5e:2x4", {"a": 4, "b": 2}, (2, 4), (False, False)),
        ("v5e:1x16", None, (1, 16), (False, True)),
        ("v5e:1x16", {"a": 4, "b": 4}, (1, 16), (False, True)),  # the slice keeps the links that no mesh axis uses
        ("v5p:2x2x4", None, (2, 2, 4), (False, False, False)),
    ],
)
def test_halves_of_a_torus_are_cut_where_the_fewest_links_are(target, axes, shape, closed):
    machine = with_mesh(chip(target), axes)
    each = machine.links[0].bandwidth.value
    assert bisection_bandwidth(machine) == _fewest_links(shape, closed) * each


@pytest.mark.parametrize(("axes", "links"), [(2, 1), (4, 4), (8, 16), ({"a": 2, "b": 4}, 16), (3, 2)])
def test_halves_of_chips_that_are_all_joined_share_a_link_for_every_two(axes, links):
    sizes = {"X": axes} if isinstance(axes, int) else axes
    machine = with_mesh(chip("mi355x"), sizes)
    assert bisection_bandwidth(machine) == links * machine.links[0].bandwidth.value


def test_a_link_to_every_other_chip_joins_one_chip_more_than_a_chip_has_links() -> None:
    assert str(chip("mi355x:8").mesh["X"]) == "X=8 xgmi mesh"
    with pytest.raises(HardwareError, match="a mesh of 64 chips is larger than mi355x, which joins 8"):
        chip("mi355x:64")
