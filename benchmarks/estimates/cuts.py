"""Coverage and errors over other random cuts of the same rows: ``python -m benchmarks.estimates.cuts DATA``.

A few hundred rows spread the coverage of an exact interval by some percent, and a median error by some tenths. Whether
a group lies far from 80%, or above a goal, because of its rule or because of the cut, other cuts say: of each one half
fits the constants of the group's own anew, with the shared ones as they are shipped, and makes the interval. The other
half says what it covers, and the median error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.estimates.fits import SEED, parted, quantiles, residuals
from benchmarks.estimates.rows import Group, Lint, read
from roofline.estimates.constants import KERNELS, KernelConstants, shipped
from roofline.estimates.fitting import Errors, Rows, fit

#: Where coverages and median errors stand, by the name of a group.
FILE = Path(__file__).with_name("cuts.json")
#: Other cuts, and fewest rows that a group's coverage is told of.
CUTS, LEAST_TESTED = 8, 200


def other_cuts(records: Iterable[KernelConstants], data: Mapping[Group, Rows]) -> dict[str, dict[str, list[float]]]:
    """What an interval covers and the median error in each of the other cuts, of every group with enough rows."""
    known = {record.key: record for record in records}
    found = {}
    for group, rows in data.items():
        record = known.get((group.chip, group.kernel, group.dtype, group.library, group.path, group.version))
        if record is not None and record.error["n_test"] >= LEAST_TESTED:
            each = zip(*(_held(record, group, rows, SEED + cut) for cut in range(1, CUTS + 1)), strict=True)
            found[record.name] = dict(zip(("coverage", "mdape"), map(list, each), strict=True))
    return found


def _held(record: KernelConstants, group: Group, rows: Rows, seed: int) -> tuple[float, float]:
    """The share that the interval of a cut covers of its other half, and the median error there."""
    model = KERNELS[record.kernel]
    train, spare, test = parted(group, rows, seed)
    fitted = fit(model, train, record.values, model.own(record.policy), record.policy)
    edges, interval = quantiles(*residuals(record.kernel, train, spare, fitted))
    expected = model.times(test.shapes, test.chip, fitted.values, fitted.policy)
    ends = np.array(interval)[np.searchsorted(edges, expected)]
    ratio = test.seconds / expected
    covered = float(np.mean((ratio >= ends[:, 0]) & (ratio <= ends[:, 1])))
    return round(covered, 4), round(Errors.of(expected, test.seconds).mdape, 4)


def write(records: Iterable[KernelConstants], data: Mapping[Group, Rows]) -> None:
    """Write what other cuts give to its file."""
    lines = [f" {json.dumps(name)}: {json.dumps(each)}" for name, each in other_cuts(records, data).items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Cut again with the shipped constants."""
    (data,) = sys.argv[1:] if arguments is None else arguments
    write(shipped(), read(Path(data), Lint()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
