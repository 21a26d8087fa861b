"""What a profile says beside its table."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline.cli import main

CSV = "name,dtype,flops,bytes,seconds\nslow,bf16,1e9,1e6,1e-2\nslower,bf16,1e9,1e6,3e-2\nshort,bf16,1e9,1e6,1e-3\n"


def test_what_has_most_to_gain_and_a_doubt_where_no_run_comes_near_its_roof(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(CSV)
    assert main(["profile", str(path), "--on", "h100"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "most to gain: slower 30 ms, slow 10 ms, short 999 µs" in said
    assert "no run reaches 10% of its roof: did they run on this machine" in said
    path.write_text(CSV + "near,bf16,989.4e12,1e6,1.5\n")
    assert main(["profile", str(path), "--on", "h100"]) == 0
    assert "no run reaches" not in capsys.readouterr().out
