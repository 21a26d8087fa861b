"""A folder of a grid: a manifest with a hash of the question, a part for each block that is done, and the result.

::

    grid/manifest.json                  the question, its hash, rows and blocks
    grid/parts/block-000012.npz         what is kept of block 12
    grid/rows/part-000012.parquet       its rows, where they are asked for
    grid/front-lower-memory.parquet     the result

Names follow from the number of a block, and a file gets its name once it is whole, so that a block is done or not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from hashlib import sha256
from typing import Any

from roofline.errors import InputError
from roofline.files import read_json, replaced, write_text
from roofline.grids.block_worker import Reduced, row_parts
from roofline.grids.blocks import RowBlock

SCHEMA = "roofline/grid-manifest/1"

MANIFEST = "manifest.json"


def question_hash(value: Any) -> str:
    """A hash of everything an answer depends on: values within values, arrays by their numbers.

    >>> question_hash({"batch": [1, 2]}) == question_hash({"batch": [1, 2]}) != question_hash({"batch": [1, 3]})
    True
    """
    return sha256(json.dumps(_plain(value), sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """A value as JSON."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, Mapping):
        return [[_plain(key), _plain(each)] for key, each in value.items()]
    if is_dataclass(value) and not isinstance(value, type):
        shown = {each.name: _plain(getattr(value, each.name)) for each in fields(value) if each.compare}
        return [type(value).__name__, shown]
    if isinstance(value, list | tuple | range):
        return [_plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if hasattr(value, "tobytes"):
        return [str(value.dtype), list(value.shape), sha256(value.tobytes()).hexdigest()]
    return f"{type(value).__name__} {value}"


@dataclass(frozen=True, slots=True)
class GridFolder:
    """The folder of one question. Another question's, and one that holds other things, are refused."""

    path: str
    hash: str
    rows_too: bool

    @classmethod
    def of(cls, path: str, question: Mapping[str, Any], hashed: str, rows_too: bool) -> GridFolder:
        """Make the folder, or take up the one that is there."""
        name = os.path.expanduser(path)
        manifest = os.path.join(name, MANIFEST)
        if os.path.exists(manifest):
            found = read_json(manifest, "configuration")
            if not isinstance(found, dict) or found.get("hash") != hashed:
                asked = found.get("question") if isinstance(found, dict) else None
                said = f": {asked.get('of', 'unknown')!s:.80}" if isinstance(asked, dict) else ""
                raise InputError(f"{path!r} holds a grid of another question{said}", hint="name another folder")
        elif os.path.isdir(name) and os.listdir(name):
            raise InputError(f"{path!r} is not empty and holds no grid", hint="name a new or an empty folder")
        elif os.path.exists(name) and not os.path.isdir(name):
            raise InputError(f"{path!r} is a file", hint="a grid in blocks is written to a folder")
        else:
            text = json.dumps({"schema": SCHEMA, "hash": hashed, "question": question}, indent=1)
            write_text(manifest, text, folder=True)
        return cls(name, hashed, rows_too)

    def _part(self, block: RowBlock) -> str:
        return os.path.join(self.path, "parts", f"block-{block.number:06}.npz")

    def write(self, block: RowBlock, found: Reduced) -> None:
        """Write what is kept of a block."""
        import numpy as np

        arrays = {f"{name}|{key}": values for name, state in found.states.items() for key, values in state.items()}
        about = {"hash": self.hash, "rows": found.rows, "left_out": dict(found.left_out), "said": dict(found.said)}
        with replaced(self._part(block), folder=True) as part:
            np.savez(part, **{"about": np.asarray(json.dumps(about)), **arrays})

    def read(self, block: RowBlock) -> Reduced | None:
        """What is kept of a block; None where it is not done, or what is there does not read."""
        import zipfile

        import numpy as np

        if self.rows_too and not os.path.exists(row_parts(self.path, [block])[0]):
            return None
        try:
            with open(self._part(block), "rb") as opened, np.load(opened, allow_pickle=False) as file:
                about = json.loads(str(file["about"]))
                states: dict[str, dict[str, Any]] = {}
                for key in file.files:
                    name, bar, column = key.partition("|")
                    if bar:
                        states.setdefault(name, {})[column] = file[key]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None
        if about.get("hash") != self.hash or about.get("rows") != block.stop - block.start:
            return None
        said = {name: tuple(lines) for name, lines in about["said"].items()}
        return Reduced(states, about["rows"], about["left_out"], said)

    def finish(self, tables: Mapping[str, Any], blocks: Sequence[RowBlock]) -> None:
        """Write the result, and clear away what a worker that was killed left unfinished."""
        import shutil

        for name, table in tables.items():
            table.save(os.path.join(self.path, f"{name}.parquet"))
        shutil.rmtree(os.path.join(self.path, "unfinished"), ignore_errors=True)
        for path in row_parts(self.path, blocks) if self.rows_too else ():
            if not os.path.exists(path):
                raise InputError(f"{path} is missing", hint="the same command makes it again")
