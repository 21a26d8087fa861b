"""Hold every served run of a folder of measurements against its bound: ``python -m tests.cases.served DATA``.

DATA has ``served.csv`` and lies beside ``model_configs``. The first token of a run is held against the prefill of one
prompt alone, a further token against a decode step at the run's batch, each on the chips that the run states. Some
runs split between prefill and decode state neither the batch nor the workers of the decode. By Little's law
``concurrency · decode time / (time to first token + decode time)`` of their sequences decode at once: one worker is
asked with all of them, then two, four … share them, until the time can be; how many it needs is counted. A run below
its bound is printed with what the answer says of itself; one that the answer does not excuse is exit code 1.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.estimates.served import CHIPS, FORMATS, MODELS, layout

from roofline.errors import RooflineError
from roofline.models import load, serve_bound

#: Columns of the part of a run that makes the first token, and of the one that makes the others.
WAYS = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size", "pp_size", "batch_size")


class Checked(NamedTuple):
    """A run, what of it was held against a bound, both times in seconds, and whether the answer fits its chips."""

    name: str
    what: str
    measured: float
    lower: float
    excused: str
    workers: int = 1


@cache
def _model(name: str, data: Path) -> Any:
    return load(data.parent / "model_configs" / name) if name.endswith(".json") else load(name)


@cache
def _bound(name: str, data: Path, what: str, options: tuple[tuple[str, Any], ...]) -> tuple[float, str]:
    found = serve_bound(_model(name, data), what, **dict(options))
    said = [text for text in found.assumptions if "not modelled" in text or "above the data sheet" in text]
    fits = found.footprint is None or found.footprint.fits is not False
    return float(found.lower), "; ".join([*([] if fits else ["does not fit its chips"]), *said])


def checked(row: Mapping[str, str], data: Path) -> Iterator[Checked | str]:
    """The first and the further tokens of a run against their bounds; a text says why one cannot be asked."""
    name, form = MODELS[row["model_path"]], FORMATS[row["precision"]]
    for what, column, own in (("prefill", "silicon_ttft_ms", "prefill_"), ("decode", "silicon_tpot_ms", "decode_")):
        prefix = "" if row["mode"] == "agg" else own
        part = {key: row[prefix + key] for key in WAYS}
        ways = layout(part)
        if ways is None:
            yield f"{what}: numbers of chips contradict each other"
            continue
        if int(part["pp_size"] or 1) > 1:
            yield f"{what}: over pipelines"
            continue
        tensor, copies, expert = ways
        chips = tensor * copies
        options: dict[str, Any] = {"on": f"{CHIPS[row['system']]}:{chips}" if chips > 1 else CHIPS[row["system"]]}
        options |= {
            key: value for key, value in (("tensor", tensor), ("data", copies), ("expert", expert)) if value > 1
        }
        if name != "gpt-oss-120b" and form != "bf16":
            options |= {"weights": form, "activations": form}
        prompt, output = int(row["isl"]), int(row["osl"])
        batch = int(part["batch_size"]) * copies if part["batch_size"] else 1
        sizes: dict[str, Any] = {"batch": 1, "prompt": prompt}
        if what == "decode":
            sizes = {"batch": batch, "context": prompt + output // 2, "kv": "fp8"}
        measured, workers = float(row[column]) / 1e3, 1
        shared = what == "decode" and not part["batch_size"] and row["concurrency"]
        try:
            while True:
                if shared:
                    sizes["batch"] = max(1, round(decoding(row) / workers))
                lower, excuse = _bound(name, data, what, tuple((options | sizes).items()))
                if not shared or lower <= measured or sizes["batch"] == 1:
                    break
                workers *= 2
        except RooflineError as error:
            yield f"{what}: {error}"
            continue
        yield Checked(row["id"], what, measured, lower, excuse, workers)


def decoding(row: Mapping[str, str]) -> float:
    """Sequences of a run that decode at once, by Little's law.

    >>> decoding({"osl": "101", "silicon_tpot_ms": "10", "silicon_ttft_ms": "1000", "concurrency": "8"})
    4.0
    """
    seconds = (int(row["osl"]) - 1) * float(row["silicon_tpot_ms"])
    return int(row["concurrency"]) * seconds / (float(row["silicon_ttft_ms"]) + seconds)


def main(words: list[str]) -> int:
    """Check a folder; print counts and every run below its bound."""
    data = Path(words[0])
    counts: Counter[str] = Counter()
    nearest: dict[str, Checked] = {}
    with open(data / "served.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for found in checked(row, data):
                if isinstance(found, str):
                    counts[found] += 1
                    continue
                over = f", needs {found.workers} workers at least" if found.workers > 1 else ""
                counts[f"{found.what}: held against its bound{over}"] += 1
                kind = f"{found.what} {row['model_path']} {row['system']} {row['precision']}"
                if kind not in nearest or found.lower / found.measured > nearest[kind].lower / nearest[kind].measured:
                    nearest[kind] = found
                if found.measured < found.lower:
                    said = "below its bound, and the answer says why" if found.excused else "BELOW ITS BOUND"
                    counts[f"{found.what}: {said}"] += 1
                    sys.stdout.write(f"{found}\n")
    for kind, found in sorted(nearest.items()):
        share = found.lower / found.measured
        sys.stdout.write(f"{share:6.1%} of {found.measured * 1e3:8.2f} ms  {kind}  {found.name}\n")
    for said, count in sorted(counts.items()):
        sys.stdout.write(f"{count:6} {said}\n")
    return int(any("BELOW" in said for said in counts))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
