"""Machine files of the user's own: what they may say, how they lie over the catalog, each message if one is wrong."""

import os
import re

import pytest

from roofline import bound
from roofline.bounds.chip_list import chips as listed
from roofline.errors import HardwareError
from roofline.hardware import chip, chips
from roofline.hardware.rate import find_level

MINIMAL = """
schema = 1
family = "mine"
[sources]
sheet = { title = "The data sheet", url = "https://example.org/sheet" }
[chip.mine]
name = "My chip"
aliases = ["my chip", "prototype"]
cores = 4
tdp = "300 W"
notes = ["a note"]
[chip.mine.unit.tensor]
source = "sheet"
clock = "1.5 GHz"
tile = [128, 128]
peak = { bf16 = "200 TFLOP/s", int8 = { value = 4e14, basis = "derived", note = "2x", date = 2026-01-31 } }
per_clock = { bf16 = 33333 }
achievable.bf16 = { value = 0.8, basis = "measured" }
[chip.mine.unit.helper]
kind = "vector"
peak.fp32 = 1e13
[[chip.mine.memory]]
level = "hbm"
bandwidth = "2 TB/s"
capacity = "64 GiB"
[[chip.mine.memory]]
level = "scratch"
bandwidth = 1e13
per_core = "1 MiB"
[[chip.mine.link]]
name = "wire"
bandwidth = "400 Gb/s"
latency = "2 us"
links = 4
topology = "torus2d"
axes = [4, 4]
domain = 16
[chip.mine.price]
list = { value = "2.5 USD/h", date = "2026-02" }
"""


def test_a_file_may_say_all_of_this(write):
    machine = chip(write(MINIMAL))
    tensor, helper = machine.units
    assert machine.name == "My chip"
    assert tensor.kind == "matrix"
    assert tensor.peaks["bf16"].value == 2e14
    assert tensor.peaks["bf16"].source == "The data sheet, https://example.org/sheet"
    assert tensor.peaks["int8"].date == "2026-01-31"
    assert tensor.tile == (128, 128)
    assert helper.kind == "vector"
    assert find_level(machine, "scratch").per_core.value == 2**20
    assert machine.links[0].bandwidth.value == 5e10
    assert machine.prices["list"].value == 2.5
    assert machine.tdp.value == 300


def test_a_file_is_a_target_by_path_and_name(write):
    path = write(MINIMAL + "[chip.other]\n[chip.other.unit.tensor]\npeak.bf16 = 1e12\n")
    assert chip(f"{path}#mine").name == "My chip"
    assert chip(f"{path}#other:2x2").shape == (2, 2)
    assert chip(f"{path}#Proto-type").key == "mine"
    with pytest.raises(
        HardwareError, match=r"mine\.toml holds 2 chips; choose one: .*mine\.toml#mine, .*mine\.toml#other"
    ):
        chip(path)
    with pytest.raises(HardwareError, match=r"mine\.toml holds no chip 'othr'; did you mean 'other'\?"):
        chip(f"{path}#othr")


def test_a_file_beside_one_is_named_where_its_chip_is_meant(write, monkeypatch, tmp_path):
    write(MINIMAL)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HardwareError, match=r"on='mine\.toml' asks about that file; one in ~/\.config/roofline/chips/"):
        bound("bf16[8, 8] @ bf16[8, 8]", on="mine")
    with pytest.raises(HardwareError, match=r"on='mine\.toml:2' asks about that file"):  # the target of an answer
        bound("bf16[8, 8] @ bf16[8, 8]", on="2 x mine")


def test_a_file_among_chips_stands_for_its_own(write):
    path = write(MINIMAL + "[chip.other]\n[chip.other.unit.tensor]\npeak.bf16 = 1e12\n")
    assert [machine.key for machine in listed(path)] == ["mine", "other"]
    assert [machine.key for machine in listed("h100", path)] == ["h100", "mine", "other"]
    assert [machine.key for machine in listed(f"{path}#other")] == ["other"]


def test_files_and_folders_lie_over_the_catalog(write, tmp_path):
    write(MINIMAL)
    assert chip("prototype", files=[tmp_path]).name == "My chip"
    assert chip("prototype", files=str(tmp_path)).name == "My chip"
    assert chip("h100", files=[tmp_path]).name == "NVIDIA H100 SXM5 80GB"
    assert "My chip" in {machine.name for machine in chips([tmp_path])}
    with pytest.raises(
        HardwareError, match=r"unknown chip 'prototyp'; did you mean 'mine'|'prototype'|roofline.chips()"
    ):
        chip("prototyp", files=[tmp_path])


def test_the_later_file_wins(write):
    first = write('[chip.one]\nname = "first"\n[chip.one.unit.tensor]\npeak.bf16 = 1e12\n', "a.toml")
    second = write('[chip.one]\nname = "second"\n[chip.one.unit.tensor]\npeak.bf16 = 1e12\n', "b.toml")
    assert chip("one", files=[first, second]).name == "second"
    assert chip("one", files=[second, first]).name == "first"


def test_a_file_in_place_of_a_shipped_chip_is_said(write, tmp_path, monkeypatch):
    path = write(MINIMAL.replace("chip.mine", "chip.h100"))
    monkeypatch.setenv("HOME", str(tmp_path))
    said = bound("bf16[8, 8] * bf16[8, 8]", on="H100", files=[path]).assumptions
    assert f"h100 is as ~/{os.path.basename(path)} describes it, in place of the catalog" in said
    mine = bound("bf16[8, 8] * bf16[8, 8]", on="mine", files=[write(MINIMAL)]).assumptions
    assert not [each for each in mine if "describes it" in each]
    built = write(
        '[chip.mine]\ninherits = "h100"\n[[chip.mine.memory]]\nlevel = "hbm"\nbandwidth = 4e12\n', "built.toml"
    )
    said = bound("bf16[8, 8] * bf16[8, 8]", on="mine", files=[built]).assumptions
    assert "mine is as ~/built.toml describes it, built on NVIDIA H100 SXM5 80GB" in said


def test_two_chips_of_one_name_in_a_folder_are_an_error(write, tmp_path):
    write(MINIMAL, "a.toml")
    write(MINIMAL.replace("chip.mine", "chip.yours").replace('"my chip", "prototype"', '"Proto-Type"'), "b.toml")
    with pytest.raises(HardwareError, match=r"the name 'prototype' belongs to both .*a.toml and .*b.toml; keep it in"):
        chip("h100", files=[tmp_path])


@pytest.mark.parametrize("name", ["a,b", "a:8", "x=1", "--"])
def test_a_name_that_no_target_can_have_is_refused(write, name):
    with pytest.raises(HardwareError, match="is no name of a chip; letters, digits and dashes, as in my-chip"):
        chip("h100", files=[write(MINIMAL.replace("chip.mine", f'chip."{name}"'))])


def test_two_chips_of_one_name_in_a_file_are_an_error(write):
    path = write("[chip.one]\ncores = 1\n[chip.O-ne]\ncores = 2\n")
    with pytest.raises(HardwareError, match="one and O-ne have one name; case and dashes make no other name; keep one"):
        chip("h100", files=[path])


@pytest.mark.parametrize(
    ("name", "kind"), [("mine", "chip mine"), ("Proto-type", "chip mine"), ("o-ne", "system o-ne")]
)
def test_a_system_of_the_name_of_another_in_its_file_is_an_error(write, name, kind):
    system = '[system.{}]\nchip = "mine"\n'
    path = write(MINIMAL + system.format(name) + system.format("one" if name == "o-ne" else "two"))
    with pytest.raises(HardwareError, match=f"the {kind} and the system .* have one name; give the system another"):
        chip(f"{path}#{name}")


def test_a_chip_inherits_and_says_only_what_differs(write):
    path = write("""
[chip.h100-96]
inherits = "H100 SXM"
name = "H100 with 96 GB"
[chip.h100-96.unit.tensor]
peak.bf16 = "1 PFLOP/s"
[[chip.h100-96.memory]]
level = "hbm"
capacity = "96 GB"
[[chip.h100-96.memory]]
level = "host"
bandwidth = "50 GB/s"
""")
    machine, parent = chip("h100-96", files=[path]), chip("h100")
    assert machine.units[0].peaks["bf16"].value == 1e15
    assert machine.units[0].peaks["fp8"] == parent.units[0].peaks["fp8"]
    assert machine.units[0].clock == parent.units[0].clock
    assert machine.memories[0].capacity.value == 96e9
    assert machine.memories[0].bandwidth == parent.memories[0].bandwidth
    assert machine.memories[-1].link
    assert machine.links == parent.links
    assert machine.cores == 132
    assert machine.prices == {}
    assert machine.alternates == ()


def test_a_new_level_or_link_of_a_like_name_stands_beside_the_one_it_is_like(write):
    path = write("""
[chip.more]
inherits = "h100"
[[chip.more.memory]]
level = "hbms"
bandwidth = "1 TB/s"
capacity = "64 GB"
[[chip.more.memory]]
level = "hbm"
[[chip.more.memory]]
level = "host"
bandwidth = "50 GB/s"
[[chip.more.link]]
name = "nvlink"
[[chip.more.link]]
name = "nvlinks"
bandwidth = "100 GB/s"
""")
    machine = chip("more", files=[path])
    assert [each.name for each in machine.memories][-2:] == ["hbms", "host"]
    assert machine.links[-1].name == "nvlinks"


def test_a_chip_may_correct_itself(write):
    path = write('[chip.h100]\ninherits = "h100"\n[[chip.h100.memory]]\nlevel = "hbm"\nbandwidth = 3e12\n')
    machine = chip("H100 SXM", files=[path])
    assert machine.memories[0].bandwidth.value == 3e12
    assert machine.name == "NVIDIA H100 SXM5 80GB"
    again = write('[chip.h100]\ninherits = "h100"\n[[chip.h100.memory]]\nlevel = "hbm"\ncapacity = 1e9\n', "z.toml")
    both = chip("h100", files=[path, again])
    assert (both.memories[0].bandwidth.value, both.memories[0].capacity.value) == (3e12, 1e9)
    listed = {m.key: m for m in chips([path])}
    assert listed["h100"].memories[0].bandwidth.value == 3e12


def test_inherits_looks_in_the_same_file(write):
    path = write(MINIMAL + '[chip.big]\ninherits = "mine"\ncores = 8\n')
    assert chip(f"{path}#big").cores == 8
    assert chip(f"{path}#big").units[0].peaks["bf16"].value == 8 * 33333 * 1.5e9  # with the cores, as it is counted
    assert chip(f"{path}#big").units[0].peaks["int8"].value == 8e14  # as is that which is not counted per clock
    slow = chip({"inherits": "h100", "cores": 66, "unit": {"tensor": {"clock": "0.915 GHz"}}})
    assert slow.figure("tensor.fp64").value == chip("h100").figure("tensor.fp64").value / 4
    assert slow.figure("tensor.bf16").value == 66 * 4096 * 0.915e9


def test_a_chain_of_inheritance_has_an_end(write):
    links = "".join(f'[chip.c{i}]\ninherits = "c{i + 1}"\n' for i in range(400))
    path = write(links + "[chip.c400.unit.tensor]\npeak.bf16 = 1e12\n")
    assert chip(f"{path}#c360").units[0].peaks["bf16"].value == 1e12
    with pytest.raises(HardwareError, match="goes through more than 50 chips; inherit from nearer the root"):
        chip(f"{path}#c0")


def test_this_is_a_chip_once_it_is_measured(write):
    path = write(
        '[chip.this]\nname = "this machine"\n[[chip.this.memory]]\nlevel = "dram"\nbandwidth = 1e11\n', "this.toml"
    )
    assert chip("this", files=[path]).name == "this machine"
    assert chip("this:4", files=[path]).shape == (4,)


def test_a_chip_with_only_a_peak_or_only_a_bandwidth_is_fine(write):
    assert chip(write("[chip.x.unit.tensor]\npeak.bf16 = 1\n")).memories == ()
    assert chip(write('[[chip.x.memory]]\nlevel = "hbm"\nbandwidth = 1\n')).units == ()


X = "[chip.x.unit.tensor]\npeak.bf16 = 1e12\n"
BROKEN = [
    ("this is not toml", "does not read as TOML: Expected '=' after a key in a key/value pair (at line 1, column 6)"),
    ("a = 1\na = 2", "does not read as TOML: Cannot overwrite a value"),
    ("", "holds no chip; start one with [chip.NAME]"),
    ("schema = 2\n" + X, "schema: is 2; this version reads schema = 1"),
    ("schema = true\n" + X, "schema: is True; this version reads schema = 1"),
    ("inherits = 'h100'\n" + X, "'inherits' stands outside a chip; put it under [chip.NAME]"),
    ("famly = 'x'\n" + X, "unknown key 'famly'; did you mean 'family'?"),
    ("family = 7\n" + X, "family: is 7; expected text"),
    ("chip = 3", "chip: is 3; expected a table"),
    ("[chip]\nx = 3", "chip.x: is 3; expected a table"),
    ("sources = 3\n" + X, "sources: is 3; expected a table"),
    ("[sources]\na = 3\n" + X, "sources.a: is 3; expected a title or an address, or a table { title, url }"),
    ("[sources.a]\nlink = 'x'\n" + X, "sources.a: unknown key 'link'; keys are: title, url, read"),
    ("[chip.x]\nnmae = 'y'\n" + X, "chip.x: unknown key 'nmae'; did you mean 'name'?"),
    ("[chip.x]\ncores = 'four'\n" + X, "chip.x.cores: is 'four'; expected a whole number of at least 1"),
    ("[chip.x]\ncores = 0\n" + X, "chip.x.cores: is 0; expected a whole number of at least 1"),
    ("[chip.x]\naliases = 'one'\n" + X, "chip.x.aliases: is 'one'; expected a list of texts, such as [\"one\"]"),
    ("[chip.x]\naliases = [1]\n" + X, 'chip.x.aliases: is [1]; expected a list of texts, such as ["one"]'),
    (
        "[chip.x]\nname = 'y'\n",
        "chip.x: has neither a peak nor a bandwidth; add a peak to [chip.x.unit.NAME] or a bandwidth to",
    ),
    ("[chip.x]\ninherits = 'h10'\n", "chip.x.inherits: names 'h10', which is not known; did you mean 'h100'?"),
    ("[chip.x]\ninherits = 'x'\n", "chip.x.inherits: names 'x', which is not known"),
    ("[chip.x]\ninherits = 7\n", "chip.x.inherits: is 7; expected the name of one chip, such as 'h100'"),
    (
        "[chip.x]\ninherits = 'y'\n[chip.y]\ninherits = 'x'\n",
        "chip.x.inherits: goes round in a circle through 'y'; let one of them",
    ),
    (
        "[chip.x]\ninherits = 'h100'\n[[chip.x.memory]]\nlevel = 'hmb'\nbandwidth = '4 TB/s'\ncapacity = '80 GB'\n",
        "chip.x.memory[0].level: 'hmb' is new here; did you mean 'hbm'? there are hbm, l2",
    ),
    (
        "[chip.x]\ninherits = 'h100'\n[[chip.x.link]]\nname = 'nvlnk'\nbandwidth = '900 GB/s'\n",
        "chip.x.link[0].name: 'nvlnk' is new here; did you mean 'nvlink'? there are nvlink",
    ),
    (
        "[system.s]\nchip = 'h100'\n[[system.s.link]]\nname = 'nvlnk'\nbandwidth = '900 GB/s'\n",
        "system.s.link[0].name: 'nvlnk' is new here; did you mean 'nvlink'?",
    ),
    ("[chip.x]\ntdp = -1\n" + X, "chip.x.tdp: -1 is negative; expected a power above 0, such as '700 W'"),
    ("[chip.x]\ntdp = '3 GB'\n" + X, "chip.x.tdp: '3 GB' is an amount of bytes; expected a power, such as '700 W'"),
    (
        "[chip.x.unit.tensor]\npeak.bf16 = nan\n",
        "chip.x.unit.tensor.peak.bf16: nan is not finite; expected a rate of arithmetic",
    ),
    ("[chip.x.unit.tensor]\npeak.bf16 = -1.0\n", "chip.x.unit.tensor.peak.bf16: -1.0 is negative"),
    ("[chip.x.unit.tensor]\npeak.bf16 = true\n", "chip.x.unit.tensor.peak.bf16: True is not a figure"),
    (
        "[chip.x.unit.tensor]\npeak.bf61 = 1\n",
        "chip.x.unit.tensor.peak.bf61: unknown dtype 'bf61'; did you mean 'bf16'?",
    ),
    ("[chip.x.unit.tensor]\npeak = 1\n", "chip.x.unit.tensor.peak: is 1; expected a table"),
    ("[chip.x.unit.tensor]\nbf16 = 1\n", "chip.x.unit.tensor: unknown key 'bf16'; a peak is written peak.bf16"),
    (
        "[chip.x.unit.tensor]\npeak = { fp8 = 1e15, mxfp8 = 2e15 }\n",
        "peak.mxfp8: is fp8 again, with another figure; formats that run alike have one: peak.fp8",
    ),
    ("[chip.x.unit.tensor]\npaek.bf16 = 1\n", "chip.x.unit.tensor: unknown key 'paek'; did you mean 'peak'?"),
    ("[chip.x.unit.tensor]\npeak.bf16 = { valu = 1 }\n", "peak.bf16: unknown key 'valu'; did you mean 'value'?"),
    (
        "[chip.x.unit.tensor]\npeak.bf16 = { note = 'n' }\n",
        "chip.x.unit.tensor.peak.bf16: has no value; write { value = …",
    ),
    ("[[chip.x.memory]]\nlevel = 'l2'\ncurve = 3\n", "curve: is 3; expected pairs of bytes and B/s with rising bytes"),
    (
        "[[chip.x.memory]]\nlevel = 'l2'\ncurve = [[1, 'x']]\n",
        "; expected pairs of bytes and B/s with rising bytes, such",
    ),
    (
        "[chip.x.unit.tensor]\npeak.bf16 = { value = 1, basis = 'guess' }\n",
        "bf16.basis: is 'guess'; bases are: spec, derived",
    ),
    ("[chip.x.unit.tensor]\npeak.bf16 = { value = 1, date = 7 }\n", "bf16.date: is 7; expected text or a date"),
    (
        "[chip.x.unit.tensor]\nbasis = 'speck'\npeak.bf16 = 1\n",
        "chip.x.unit.tensor.basis: is 'speck'; did you mean 'spec'?",
    ),
    (
        "[chip.x.unit.tensor]\nachievable.bf16 = 1.2\npeak.bf16 = 1\n",
        "achievable.bf16: is 1.2; a fraction is above 0 and at most 1",
    ),
    (
        "[chip.x.unit.tensor]\ntile = [128]\npeak.bf16 = 1\n",
        "tile: is [128]; expected rows and columns, such as [128, 128]",
    ),
    (
        "[chip.x.unit.tensor]\ntile = 128\npeak.bf16 = 1\n",
        "tile: is 128; expected rows and columns, such as [128, 128]",
    ),
    (
        "[chip.x.unit.turbo]\npeak.bf16 = 1\n",
        "chip.x.unit.turbo.kind: is missing; a unit's kind is 'matrix' or 'vector'",
    ),
    (
        "[chip.x.unit.turbo]\nkind = 'fast'\npeak.bf16 = 1\n",
        "chip.x.unit.turbo.kind: is 'fast'; a unit's kind is 'matrix' or",
    ),
    ("[chip.x]\nmemory = 3\n" + X, "chip.x.memory: is 3; expected a list of tables, [[chip.x.memory]]"),
    ("[chip.x]\nmemory = [3]\n" + X, "chip.x.memory: is [3]; expected a list of tables, [[chip.x.memory]]"),
    (
        "[[chip.x.memory]]\nlevel = 'hbm'\n" * 101 + X,
        "chip.x.memory: has 101 tables, and one chip has fewer; at most 100",
    ),
    (
        "".join(f"[chip.x.unit.u{at}]\n" for at in range(101)),
        "chip.x.unit: has 101 tables, and one chip has fewer; at most 100",
    ),
    ("[[chip.x.memory]]\nbandwidth = 1\n", "chip.x.memory[0].level: is missing; name the level: 'hbm'"),
    (
        "[[chip.x.memory]]\nlevel = 'h b m'\nbandwidth = 1\n",
        "chip.x.memory[0].level: is 'h b m'; a name is letters, digits,",
    ),
    (
        "[[chip.x.memory]]\nlevel = 'nan'\nbandwidth = 1\n",
        "chip.x.memory[0].level: is 'nan'; a name is letters, digits, '_'",
    ),
    ("[chip.x.unit.7]\nkind = 'matrix'\npeak.bf16 = 1\n", "chip.x.unit.7: is '7'; a name is letters, digits, '_' and"),
    (
        "[[chip.x.memory]]\nlevel = 'hbm'\nbandwidth = '80 GB'\n",
        "memory[0].bandwidth: '80 GB' is an amount of bytes; expected a",
    ),
    (
        "[[chip.x.memory]]\nlevel = 'hbm'\nbandwith = 1\n",
        "chip.x.memory[0]: unknown key 'bandwith'; did you mean 'bandwidth'?",
    ),
    (
        "[[chip.x.memory]]\nlevel = 'hbm'\nbandwidth = 1\nlink = 'yes'\n",
        "memory[0].link: is 'yes'; expected true or false",
    ),
    (
        "[[chip.x.memory]]\nlevel = 'hbm'\nbandwidth = 1\n[[chip.x.memory]]\nlevel = 'hbm'\n",
        "chip.x: lists the memory level 'hbm' twice; join the two tables",
    ),
    ("[[chip.x.link]]\nbandwidth = 1\n" + X, "chip.x.link[0].name: is missing; name the link: 'nvlink'"),
    ("[[chip.x.link]]\nname = 'a'\ntopology = 'swich'\n" + X, "link[0].topology: is 'swich'; did you mean 'switch'?"),
    ("[[chip.x.link]]\nname = 'a'\naxes = [0]\n" + X, "link[0].axes: is [0]; expected whole numbers of at least 1"),
    ("[[chip.x.link]]\nname = 'a'\nlinks = 1.5\n" + X, "link[0].links: is 1.5; expected a whole number of at least 1"),
    ("[chip.x]\nalternates = [{ value = 1 }]\n" + X, "alternates[0].of: is missing; say which figure it is, such as"),
    (
        "[chip.x]\nalternates = [{ of = 'hbm.bandwidth', value = '3 W' }]\n" + X,
        "alternates[0]: '3 W' is a power; expected a bandwidth",
    ),
    (
        "[chip.x.price]\nlist = 'free'\n" + X,
        "chip.x.price.list: 'free' does not start with a number; expected a price per hour",
    ),
]


@pytest.mark.parametrize(("text", "message"), BROKEN, ids=[text[:40] for text, _ in BROKEN])
def test_a_broken_file_is_named_with_the_place_and_the_fix(write, text, message):
    path = write(text)
    with pytest.raises(HardwareError) as caught:
        chip(f"{path}#x" if "[chip.x" in text else path)
    assert str(caught.value).startswith(path)
    assert message in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(HardwareError, match=r"cannot read '.*none\.toml': No such file or directory; check the path"):
        chip("h100", files=[tmp_path / "none.toml"])
    (tmp_path / "latin.toml").write_bytes(b"family = '\xff'")
    with pytest.raises(HardwareError, match=r"latin\.toml is not UTF-8 text at byte 10; save the file as UTF-8"):
        chip("h100", files=[tmp_path])
    deep = tmp_path / "deep"
    deep.mkdir()
    (deep / "deep.toml").write_text("a = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(HardwareError, match=r"deep\.toml: (is nested too deeply|does not read as TOML)"):
        chip("h100", files=[deep])


def test_a_file_in_the_home_folder(write, tmp_path, monkeypatch):
    write(MINIMAL)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert chip("~/mine.toml").name == "My chip"
    assert chip("prototype", files=["~"]).name == "My chip"


def test_an_empty_folder_changes_nothing(tmp_path):
    assert chip("h100", files=[tmp_path]).name == "NVIDIA H100 SXM5 80GB"


def test_a_chip_is_made_of_a_dictionary() -> None:
    figures = {"name": "Mine", "bf16": "300 TFLOP/s", "hbm": {"bandwidth": 2e12, "capacity": "80 GB"}}
    mine = chip(figures)
    assert (mine.name, mine.figure("bf16").value, mine.figure("hbm.capacity").value) == ("Mine", 3e14, 8e10)
    assert chip({**figures, "bf16": 6e14}).figure("bf16").value == 2 * mine.figure("bf16").value
    table = {
        "name": "Mine",
        "unit": {"matrix": {"peak": {"bf16": 3e14}}},
        "memory": [{"level": "hbm", "bandwidth": 2e12}],
    }
    assert chip(table).units == chip({"name": "Mine", "bf16": 3e14, "hbm": 2e12}).units
    whole = {**figures, "vector.fp32": "30 TFLOP/s", "link": "200 GB/s", "link.latency": "2 us", "link.domain": 16}
    unit = {"matrix": {"peak": {"bf16": 3e14}}, "vector": {"peak": {"fp32": 3e13}}}
    link = {"name": "link", "topology": "switch", "bandwidth": 2e11, "latency": 2e-6, "domain": 16}
    memory = [{"level": "hbm", "bandwidth": 2e12, "capacity": 8e10}]
    one, other = chip(whole), chip({"name": "Mine", "unit": unit, "memory": memory, "link": [link]})
    assert (one.units, one.memories, one.links) == (other.units, other.memories, other.links)
    assert chip({**figures, "vector": {"fp32": 3e13}}).units == chip(whole).units
    line = "x = bf16[B, D] * bf16[D, F]; gelu(x)"
    assert not bound(line, on=whole, B=8, D=1024, F=1024).incomplete
    (gap,) = bound(line, on=figures, B=8, D=1024, F=1024).incomplete
    assert gap == "not timed: flops on vector in bf16 (41 kFLOP); Mine has no figure for it: vector.bf16 gives it one"
    assert chip({**figures, "buffer": {"bandwidth": 9e12}, "power": 400}).figure("buffer").value == 9e12
    fast = chip({"inherits": "h100", "name": "Fast", "hbm": 4e12})
    assert (fast.figure("hbm").value, fast.figure("bf16").value) == (4e12, chip("h100").figure("bf16").value)
    more = chip({"inherits": "h100", "tdp": "+100 W", "hbm": {"bandwidth": "+100 GB/s"}, "nvlink.latency": "1.2 us"})
    assert (more.figure("tdp").value, more.figure("hbm").value - chip("h100").figure("hbm").value) == (800, 1e11)
    assert not more.warnings  # a latency of twice the catalog's is no duplex figure
    for figures_given in ({"bf16": "1979 TFLOP/s sparse"}, {"inherits": "h100", "bf16": "1979 TFLOPS Sparse"}):
        assert chip({"hbm": 2e12, **figures_given}).figure("bf16").value == 989.5e12
    said = [str(line) for line in chip({"bf16": 312, "hbm": 2e12}).warnings]
    assert said == ["matrix.bf16 is 312 FLOP/s: is its unit missing?"]
    for wrong, said in (
        ({}, "has neither a peak nor a bandwidth"),
        ({"name": "Mine", "bf16": "3 GB"}, "unit.matrix.peak.bf16: '3 GB' is an amount of bytes"),
        ({"inherits": "nope"}, "names 'nope', which is not known"),
        ({"bf16": 3e14, "hbm": "2 TB/s sparse"}, "unknown unit 'TB/s sparse'"),
        ({"bf16": 3e14, "hbm": "+100 GB/s"}, "'+100 GB/s' starts from another figure"),
        ({"inherit": "h100", "hbm": 4e12}, "chip({…}): unknown key 'inherit'; did you mean 'inherits'? a level of"),
        ({"base": "h100", "hbm": 4e12}, "unknown key 'base'; did you mean 'inherits'?"),
        ({"bf16": 3e14, "hbm": 2e12, "pric": 2}, "unknown key 'pric'; did you mean 'price'?"),
        ({"bf61": 3e14, "hbm": 2e12}, "unknown key 'bf61'; did you mean 'bf16'?"),
        ({"bf16": 3e14, "hbm": 2e12, "hmb": 3}, "unknown key 'hmb'; did you mean 'hbm'?"),
        (
            {"bf16": 3e14, "hbm": 2e12, "foo": 3},
            "a level of memory of that name is a dictionary, as in {'foo'",
        ),
        ({"bf16": 3e14, "hbm": 2e12, "count": 4}, "unknown key 'count'; four of a chip are tensor=4 of a model, or"),
        ({"bf16": 3e14, "vector": 3e13}, "a peak is that of a format; name the format, as in {'vector.fp32': 3"),
    ):
        with pytest.raises(HardwareError, match=re.escape(said)):
            chip(wrong)
    assert bound("bf16[64, 64] * bf16[64, 64]", on=figures).lower == bound("bf16[64, 64] * bf16[64, 64]", on=mine).lower
