"""Run inputs by seed through the whole command: ``python -m tests.fuzz --seeds 0:10000 [--jobs 2] [--only graph]``.

An input must end with code 0 or 2 within ten seconds of CPU and 2 GB. Code 2 has one message and no output; code 0 as
JSON has finite numbers, no negative times, no -0 and bounds in order; no text has nan or a name of Python's own kinds. Anything else is a defect: it is kept with its seed in
``out/fuzz/defects.jsonl``. Finished ranges are kept in ``out/fuzz/done.json``, so that the same command goes on where
it was stopped; ``--again`` starts over. ``--show SEED`` prints one input and what it does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.fuzz.inputs import KINDS, make, written
from tests.fuzz.running import CHUNK, Defect, prepare, run_chunk, run_input

OUT = Path("out/fuzz")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:10000")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--show", type=int)
    asked = parser.parse_args()
    if asked.show is not None:
        return show(asked.show)
    first, last = map(int, asked.seeds.split(":"))
    OUT.mkdir(parents=True, exist_ok=True)
    kept = OUT / f"done{'-' + asked.only if asked.only else ''}.json"
    done = set() if asked.again or not kept.exists() else set(json.loads(kept.read_text()))
    chunks = [start for start in range(first - first % CHUNK, last, CHUNK) if start not in done]
    prepare()
    found: Counter[str] = Counter()
    began, ran = time.monotonic(), 0
    with (OUT / "defects.jsonl").open("a", encoding="utf-8") as file:
        for start, count, defects in run_all(chunks, asked.jobs, asked.only):
            ran += count
            done.add(start)
            for defect in defects:
                if not found[defect.signature]:
                    print(f"{defect.seed} {defect.kind}: {defect.signature}", flush=True)
                found[defect.signature] += 1
                file.write(json.dumps(defect._asdict()) + "\n")
            file.flush()
            part = kept.with_suffix(".part")
            part.write_text(json.dumps(sorted(done)))
            part.replace(kept)
    seconds = time.monotonic() - began
    print(
        f"{ran:,} inputs in {seconds:,.0f} s ({ran / max(seconds, 1e-9):,.0f} a second): {sum(found.values()):,} defects"
    )
    for signature, count in found.most_common():
        print(f"  {count:>6} {signature}")
    return 1 if found else 0


def run_all(chunks: list[int], jobs: int, only: str | None) -> Any:
    """Run chunks of seeds in processes of their own, a few at a time."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda start: run_chunk(start, only), chunks)


def show(seed: int) -> int:
    """Print an input, run it and print the defect."""
    import tempfile

    prepare()
    made = make(seed)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.symlink(Path(__file__).parents[2] / "docs", "docs")
        for path in written(made, folder):
            content = Path(path).read_bytes()
            print(f"{os.path.basename(path)}: {len(content):,} bytes: {content[:3000]!r}")
        print("roofline", *map(repr, made.words))
        defect: Defect | None = run_input(seed, made, folder)
    print(defect.signature + "\n" + defect.detail if defect else "no defect")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
