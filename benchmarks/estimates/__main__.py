"""Fit the constants of estimates and say how accurate they are: ``python -m benchmarks.estimates DATA``.

DATA is a folder with ``kernels.csv.gz``, ``kernels_more.csv.gz`` and ``served.csv``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from benchmarks.estimates import cuts
from benchmarks.estimates.borrowed import with_lenders
from benchmarks.estimates.eager import fitted_eager
from benchmarks.estimates.fits import Outcome, kept_family
from benchmarks.estimates.page import SUMMARY
from benchmarks.estimates.rows import Lint, groups_by_family, read, versions
from benchmarks.estimates.served import (
    STEPS,
    fitted_steps,
    other_formats,
    other_models,
    outside_batches,
    read_runs,
    summary,
    transferred,
)
from benchmarks.estimates.training import fitted_training
from benchmarks.estimates.transfers import another_generation, another_kind, outside_sizes, within_a_generation
from roofline.estimates.constants import KernelConstants, four_digits, read_constants, shipped, write_constants
from roofline.estimates.transfer import FILE, Transfer, transfers
from roofline.files import toml_value, write_text


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, write constants with their errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("data", type=Path)
    said = "a kernel to fit; all by default; quantised products beside those that they may borrow from"
    parser.add_argument("--only", action="append", default=[], help=said)
    parser.add_argument("--library", action="append", default=[], help="a library to fit; the others' constants stay")
    parser.add_argument("--catalog", type=Path, required=True, help="folder to write constants to")
    options = parser.parse_args(arguments)
    lint = Lint()
    families: dict[str, list[list[Outcome]]] = defaultdict(list)
    apart, measured = versions(options.data), read(options.data, lint)
    for key, groups in groups_by_family(measured):
        others = options.library and not {group.library for group in groups} & set(options.library)
        if others or (options.only and key[0] not in options.only):
            continue
        start = time.perf_counter()
        found = kept_family(key[0], groups, apart)
        families[key[0]].append(found)
        middle = defaultdict(list)
        for one in found:
            middle[one.group.chip].append(one.constants.error["mdape"])
        shown = ", ".join(f"{chip} {100 * float(np.median(each)):.1f}" for chip, each in middle.items())
        print(f"{' '.join(key)}: {shown}  ({time.perf_counter() - start:.0f} s)", file=sys.stderr, flush=True)
    left: list[Outcome] = []
    for kernel, mine in sorted(families.items()):  # a product before the same with its quantiser
        alone = [one for one in left if f"quantised_{one.group.kernel}" == kernel]
        left += with_lenders(mine, measured, alone)
    # residuals of chips that were left out are those of all libraries together
    moved = [] if options.library else [*another_generation(left), *outside_sizes(left), *another_kind(left, measured)]
    if not options.only or "contraction" in options.only:
        moved += within_a_generation(options.data)
    done = [one.constants for one in left]
    if not options.only or "eager_kernel" in options.only:
        done += fitted_eager(options.data)
    if not options.only or "training_step" in options.only:
        done.append(fitted_training())
    write(done, options.catalog, lint, options.library)
    write_transfers(moved)
    if not options.only and not options.library:
        cuts.write(done, measured)
    if not options.only or "served_step" in options.only:
        shipped.cache_clear()  # steps are those of the kernels that were fitted just now
        transfers.cache_clear()
        runs = read_runs(options.data, lint)
        write(fitted_steps(runs), options.catalog, lint, options.library)
        write_transfers([*transferred(runs), *other_models(runs), *other_formats(runs), *outside_batches(runs)])
        held = {name: asdict(errors) for name, errors in summary(runs).items()}
        SUMMARY.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
    return 0


def write(done: Sequence[KernelConstants], folder: Path, lint: Lint, libraries: Sequence[str] = ()) -> None:
    """Write a file of constants a kernel; its head says what was left out. Of other libraries what was there stays."""
    folder.mkdir(parents=True, exist_ok=True)
    for kernel in dict.fromkeys(one.kernel for one in done):
        path = folder / f"{kernel.replace('_', '-')}.toml"
        mine = {one.key: one for one in done if one.kernel == kernel}
        known = read_constants(path) if libraries and path.exists() else ()
        kept = [mine.pop(one.key, one) for one in known]
        said = lint.said("served" if kernel in STEPS else kernel)
        heading = "\n".join(["Made by python -m benchmarks.estimates; see docs/accuracy.md.", *said])
        write_constants([*kept, *mine.values()], path, heading)


def write_transfers(found: Sequence[Transfer]) -> None:
    """Write residuals to the file of the package; those of other kinds that it holds stay."""
    new = {(one.kernel, one.to): one for one in found}
    kept = [new.pop((one.kernel, one.to), one) for one in transfers()]
    lines = ["# Made by python -m benchmarks.estimates; see docs/accuracy.md."]
    for one in (*kept, *new.values()):
        errors = {name: four_digits(value) for name, value in one.error.items()}
        held = {
            "kernel": one.kernel,
            "to": one.to,
            "interval": [four_digits(end) for end in one.interval],
            "error": errors,
            "source": one.source,
            **({"own": {name: list(map(four_digits, ends)) for name, ends in one.own.items()}} if one.own else {}),
        }
        lines += ["", "[[transfer]]", *(f"{name} = {toml_value(value)}" for name, value in held.items())]
    write_text(FILE, "\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
