"""Files of other people are read within limits, and files of our own are written whole or not at all."""

from __future__ import annotations

import gzip
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from roofline import files, profile
from roofline.cli import main
from roofline.errors import InputError
from roofline.files import is_left_over, read_bytes, read_json, read_toml, replaced, table_rows, write_text

DEEP = "[" * 200_000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not valid JSON at line 1, column 1; is it cut short?"),
        (b'{"a": ', "is not valid JSON at line 1, column 7"),
        (b'{"a": "\xff"}', "is not UTF-8 text at byte 7; save the file as UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
        (DEEP.encode(), "is nested too deeply; some hundred lists within lists at most"),
        (b'{"a": ' + b"9" * 5000 + b"}", "holds a number of over 300 digits; sizes go up to 1e30"),
        (b'{"a": 1.' + b"9" * 5000 + b"}", "holds a number of over 300 digits"),
        (b" " * 16_000_001, "is too large; a configuration has at most 16,000,000 bytes, unpacked"),
        (
            gzip.compress(b" " * 40_000_000, mtime=0),
            "is too large; a configuration has at most 16,000,000 bytes, unpacked",
        ),
        (gzip.compress(b"{}", mtime=0)[:-4], "is packed and cut short or damaged"),
        (gzip.compress(b"{}", mtime=0) + b"rest", "is packed and cut short or damaged"),
    ],
)
def test_json_that_does_not_read_says_why(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_json(path, "configuration")
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.long
def test_json_of_many_small_lists_would_take_too_much_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json"
    path.write_text(f"[{','.join(['[]'] * 100_000)}]")
    assert len(read_json(path, "trace")) == 100_000
    monkeypatch.setattr(files, "MOST_MEMORY", 10_000_000)
    with pytest.raises(InputError, match=r"would take 0.0 GB of memory; at most 0 GB is read"):
        read_json(path, "trace")


@pytest.mark.parametrize("before", ["", " ", "a", "_", "\n", '"'])
@pytest.mark.parametrize("digits", [300, 301, 302])
def test_a_number_is_as_long_as_its_word(before: str, digits: int) -> None:
    plain, hexadecimal = f"{before}{'7' * digits} 1", f"{before}0x{'f' * (digits - 51)}"
    too_long = digits + (before == "_") > 300
    assert any(re.search(long, plain) for long in files._LONG_NUMBERS) == too_long
    assert any(re.search(long, hexadecimal) for long in files._LONG_NUMBERS) == (
        digits > 300 and before not in ("a", "_")
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a = ", "does not read as TOML: Invalid value"),
        (f"a = {DEEP}", "nested too deeply"),
        (f"a = {'9' * 5000}", "holds a number of over 300 digits"),
        (f"a = 0x{'f' * 5000}", "holds a number of over 300 digits"),
        (f"{'.'.join(['a'] * 20_000)} = 1", "has a key of over 32 parts"),
        (f"a = {{ {' . '.join(['a'] * 20_000)} = 1 }}", "has a key of over 32 parts"),
        (f"[{'.'.join(['a'] * 20_000)}]", "has a key of over 32 parts"),
        ("#" * 1_000_001, "is too large; a machine file has at most 1,000,000 bytes"),
    ],
)
def test_toml_that_does_not_read_says_why(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "chip.toml"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        read_toml(path, "machine file")
    assert said in str(caught.value)


def test_lists_of_figures_and_long_texts_are_no_long_keys(tmp_path: Path) -> None:
    path = tmp_path / "chip.toml"
    path.write_text(f"a = [{', '.join(['1.5'] * 500)}]\nb = '{'.' * 500}'\nc = '{'a' * 100_000}'")
    assert len(read_toml(path, "machine file")["a"]) == 500


@pytest.mark.parametrize("path", ["nowhere/x.json", ".", "a\0b"])
def test_what_is_no_file_says_so(path: str) -> None:
    with pytest.raises(InputError, match=r"cannot read .*; check the path"):
        read_bytes(path, "configuration")


def test_a_pipe_of_the_shell_is_read_as_often_as_a_file() -> None:
    out, into = os.pipe()
    os.write(into, b"name,flops,bytes,seconds\nup,1e12,2e9,2 ms\n")
    os.close(into)
    try:
        assert [point.run.name for point in profile(f"/dev/fd/{out}", on="h100")] == ["up"]
    finally:
        os.close(out)


def test_a_device_or_a_pipe_is_no_file_and_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", os.fspath(tmp_path / "pipe")):
        with pytest.raises(InputError, match=r"^cannot read .[^:]*: it is a device or a pipe, no file; write it to a"):
            read_bytes(path, "configuration")
        for command in (["profile", path, "--on", "h100"], ["calibrate", path, "--on", "h100"], ["model", path]):
            assert main(command) == 2
            assert capsys.readouterr().err.count("\n") == 1


def test_threads_that_write_one_file_each_write_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    with ThreadPoolExecutor(8) as pool:
        for made in [pool.submit(write_text, path, str(number) * 100_000) for number in range(10) for _ in range(8)]:
            made.result()
    assert len(set(path.read_text())) == 1
    assert path.stat().st_size == 100_000
    assert os.listdir(tmp_path) == ["x.txt"]


def test_rows_of_a_table_have_their_lines() -> None:
    assert list(table_rows('a,b\n\n"x\ny",2\n', "t.csv", "")) == [(1, ["a", "b"]), (4, ["x\ny", "2"])]
    assert list(table_rows("a;b;;\n1;2;;\n3\n", "t.csv", "")) == [(1, ["a", "b"]), (2, ["1", "2"]), (3, ["3"])]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('a,"b', "t.csv is not a CSV file: line 1: unexpected end of data; so"),
        ("a\n" + "b" * 200_000, "t.csv is not a CSV file: line 2: field larger than field limit"),
        ("a\n" * 20, "t.csv has over 10 rows; keep those that matter"),
        ("a,us\nx[2, 3],4\n", "t.csv:2: 3 values in 2 columns; quote a cell that holds the sign between cells"),
    ],
)
def test_a_table_that_does_not_read_says_where(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        list(table_rows(text, "t.csv", "so", most=10))
    assert said in str(caught.value)


def test_a_file_is_replaced_when_all_is_written(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("before")
    path.chmod(0o640)
    with replaced(path) as part:
        Path(part).write_text("after")
        assert path.read_text() == "before"
        assert part.endswith(".txt")
    assert path.read_text() == "after"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["x.txt"]


def _stopped(part: str) -> None:
    Path(part).write_text("half")
    raise KeyboardInterrupt


def _full(part: str) -> None:
    Path(part).write_text("half")
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(("write", "raised"), [(_stopped, KeyboardInterrupt), (_full, InputError)])
def test_a_file_stays_where_writing_stops(
    tmp_path: Path, write: Callable[[str], None], raised: type[BaseException]
) -> None:
    path = tmp_path / "x.txt"
    path.write_text("before")
    with pytest.raises(raised), replaced(path) as part:
        write(part)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["x.txt"]


def test_a_link_stays_a_link_and_a_device_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "x.txt")
    write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "x.txt").read_text() == "text"
    write_text("/dev/null", "text")


@pytest.mark.parametrize("path", ["nowhere/x.txt", ".", "/dev/null/x.txt"])
def test_what_cannot_be_written_says_so(path: str) -> None:
    with pytest.raises(InputError, match=r"cannot write '.*': .*; name another file: -o FILE"):
        write_text(path, "text")
    with pytest.raises(InputError, match="cannot write 'x': Permission denied; name"), replaced("x", keep=False):
        raise PermissionError(13, "Failed to open 'x.1.part'. Detail: [errno 13] Permission denied")


def test_a_file_is_held_once_while_it_is_read(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "runs.csv"
    path.write_bytes(gzip.compress(bytes(40_000_000), 1))
    tracemalloc.start()
    try:
        assert len(read_bytes(path, "trace")) == 40_000_000
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


#: Writes half of a file, says so, and waits to be ended.
_HALF = """
import signal, sys, time
from roofline.files import is_left_over, replaced
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process is started without it
with replaced(sys.argv[1]) as part, open(part, "w") as file:
    file.write("half")
    file.flush()
    print("half", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_process_that_ends_while_it_writes_leaves_the_old_file(tmp_path: Path, how: signal.Signals) -> None:
    path = tmp_path / "x.txt"
    path.write_text("before")
    writing = subprocess.Popen(
        [sys.executable, "-c", _HALF, str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert writing.stdout is not None
    assert writing.stdout.readline() == "half\n"
    writing.send_signal(how)
    writing.communicate()
    assert path.read_text() == "before"
    left = [name for name in os.listdir(tmp_path) if name != "x.txt"]
    assert len(left) == (how is not signal.SIGINT)
    assert all(map(is_left_over, left))
    # a process and a thread of the same numbers find it there, and may not write to it
    for name in left:
        same = tmp_path / f"x.{os.getpid()}{threading.get_ident()}.part.txt"
        (tmp_path / name).rename(same)
        same.chmod(0o400)
    write_text(path, "after")
    assert path.read_text() == "after"
    assert os.listdir(tmp_path) == ["x.txt"]


def test_a_grid_goes_on_in_a_folder_where_the_first_file_was_left_half_written(tmp_path: Path) -> None:
    import roofline

    folder = tmp_path / "grid"
    folder.mkdir()
    (folder / "grid.123.part.json").write_text("{")
    asked = {"on": "h100", "B": [8, 16], "D": 64, "F": 64, "keep": "front"}
    assert len(roofline.sweep("bf16[B, D] * bf16[D, F]", out=str(folder), **asked).to_dict())
