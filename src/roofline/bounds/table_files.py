"""Write a table of answers to a file, in the format its name ends in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError, MissingExtraError, suggest

if TYPE_CHECKING:
    from roofline.bounds.columns import Columns


def write_table(table: Columns, path: str) -> None:
    """Write ``table`` as CSV, JSON, npz or parquet; another suffix, or a file that cannot be written, is an error."""
    suffix = Path(path).suffix.lower()
    if suffix not in _WRITERS:
        raise InputError(f"cannot write a table to {path!r}", hint=suggest(suffix, _WRITERS, what="table formats"))
    if not Path(path).resolve().parent.is_dir():
        raise InputError(f"cannot write {path!r}", hint=f"the folder {Path(path).parent} does not exist")
    try:
        _WRITERS[suffix](table, path)
    except OSError as error:
        raise InputError(f"cannot write {path!r}: {error.strerror}", hint="save the table somewhere else") from None


def _csv(table: Columns, path: str) -> None:
    names = list(table.columns)
    columns = [table.plain(name) for name in names]
    with open(path, "w", encoding="utf-8", newline="") as file:
        import csv

        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(zip(*columns, strict=True))


def _json(table: Columns, path: str) -> None:
    Path(path).write_text(json.dumps(table.to_dict()), encoding="utf-8")


def _npz(table: Columns, path: str) -> None:
    import numpy as np

    np.savez_compressed(path, **{name: _storable(table[name]) for name in table.columns})


def _parquet(table: Columns, path: str) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet") from None
    pyarrow.parquet.write_table(pyarrow.table({name: table[name] for name in table.columns}), path)


def _storable(column: Any) -> Any:
    return column.astype(str) if column.dtype == object else column


_WRITERS = {".csv": _csv, ".json": _json, ".npz": _npz, ".parquet": _parquet}
