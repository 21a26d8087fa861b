"""A grid in blocks as an answer: what was kept of it, as tables, and how many rows and blocks there are.

It may have a folder: a manifest with a hash of the question, a part for each block that is done, and the result.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from hashlib import sha256
from typing import Any

from roofline.answers import Answer, attributes
from roofline.errors import InputError, SizeError, load_extra
from roofline.files import is_left_over, read_json, replaced, write_text
from roofline.formulas.tables import ANSWERS, REMARKS, UNITS, YES_NO, Columns, choices_not_ranked
from roofline.frozen import dataclass
from roofline.grids.blocks import BLOCK_ROWS, BlockTable, Reduced, Reducing, RowBlock, kept_as, row_parts, untimed_of
from roofline.grids.reductions import ForEach, Histogram, KeepRequest, State, bin_edges
from roofline.grids.runs import Cluster, done_blocks
from roofline.lazy import np
from roofline.progress import stopped
from roofline.quantity import format_amount, in_a_row
from roofline.sections import BLANK, Headline, Section, Sentences
from roofline.signatures import either, optional, spelled
from roofline.sizes import Codes

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
        elif os.path.isdir(name) and not all(map(is_left_over, os.listdir(name))):
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
        arrays = {f"{name}|{key}": values for name, state in found.states.items() for key, values in state.items()}
        about = {"hash": self.hash, "rows": found.rows, "left_out": dict(found.left_out), "said": dict(found.said)}
        about["digest"] = question_hash([json.dumps(about), arrays])
        with replaced(self._part(block), folder=True) as part:
            np.savez(part, **{"about": np.asarray(json.dumps(about)), **arrays})

    def read(self, block: RowBlock) -> Reduced | None:
        """What is kept of a block; None where it is not done, or what is there does not read or was changed."""
        import zipfile

        if self.rows_too and not os.path.exists(row_parts(self.path, [block])[0]):
            return None
        try:
            with open(self._part(block), "rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
            about = dict(json.loads(str(arrays.pop("about"))))
            if about.pop("digest", None) != question_hash([json.dumps(about), arrays]):
                return None
        except (OSError, ValueError, TypeError, KeyError, EOFError, RecursionError, MemoryError, zipfile.BadZipFile):
            return None
        if about["hash"] != self.hash or about["rows"] != block.stop - block.start:
            return None
        states: dict[str, dict[str, Any]] = {}
        for key, values in arrays.items():
            name, _, column = key.partition("|")
            states.setdefault(name, {})[column] = values
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


#: The words of a run in blocks, as keyword arguments of functions that make a table.
RUN_WORDS = optional(
    keep="str", out="str", block_rows="int", workers="int", scheduler="str", scheduler_file="str", client="Any"
)

#: What is told of rows and blocks: done, of how many.
BlockProgress = Callable[[int, int, int, int], None]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KeptTable(Columns):
    """One table that was kept of a grid: the rows of a front or the best rows, or the bins of a histogram."""

    title: str
    columns: Mapping[str, Any]
    whole: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return self.plain_columns()

    def one_line(self) -> str:
        return f"{self.title}: {len(self)} rows: {', '.join(self.columns)}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReducedGrid(Answer):
    """What was kept of a grid of ``rows``: ``tables`` by name, ``folder`` where they were written.

    ``done`` of all ``blocks`` were reduced: fewer where it was stopped. ``left_out`` counts rows by why they are in no
    reduction.
    """

    of: str
    rows: int
    blocks: int
    done: int
    tables: Mapping[str, KeptTable]
    left_out: Mapping[str, int]
    said: Mapping[str, tuple[str, ...]]
    folder: str | None = None
    rows_kept: bool = False

    @property
    def incomplete(self) -> tuple[str, ...]:
        """What is not in it, and what is not timed."""
        return tuple(text for name, text in self.remarks() if name == "incomplete")

    def remarks(self) -> list[tuple[str, str]]:
        """What was not ranked, assumed, left out and not timed."""
        found = [(name, line) for name in ("not ranked", "assumes", "incomplete") for line in self.said.get(name, ())]
        where = "left out" if not self.rows_kept else "in no reduction" if self.tables else ""
        for why, rows in sorted(self.left_out.items()):
            are = f"{'row is' if rows == 1 else 'rows are'} {where}" if where else "of the rows that are kept"
            found.append(("incomplete", f"{rows:,} {are}: {why}"))
        if self.done < self.blocks:
            again = "; the same command goes on" if self.folder else ""
            found.append(("incomplete", f"stopped after {self.done:,} of {self.blocks:,} blocks{again}"))
        return found

    def sections(self) -> Iterator[Section]:
        yield Headline(self.of, f"{self.rows:,} rows in {self.blocks:,} block{'s' * (self.blocks != 1)}")
        said = [(name, Sentences([f"{name}  {line}"], REMARKS[name], indent=0)) for name, line in self.remarks()]
        if said[:1] and said[0][0] in ANSWERS:
            yield BLANK
            yield from (each for name, each in said if name in ANSWERS)
        for table in self.tables.values():
            yield from (BLANK, Sentences([table.title], "strong", indent=0), *table.sections())
        if self.folder:
            held = [f"rows in {self.folder}/rows", *(f"{self.folder}/{name}.parquet" for name in self.tables)]
            yield from (BLANK, Sentences([f"wrote {', '.join(held[not self.rows_kept :])}"], indent=0))
        yield from (each for name, each in said if name not in ANSWERS)

    def to_dict(self) -> dict[str, Any]:
        """The answer under stable keys (schema ``roofline/grid/1``)."""
        return {
            "schema": "roofline/grid/1",
            **attributes(self, "of", "rows", "blocks", "done", "folder"),
            "tables": {name: table.to_dict() for name, table in self.tables.items()},
            "left_out": dict(self.left_out),
            "not_ranked": list(self.said.get("not ranked", ())),
            "assumptions": list(self.said.get("assumes", ())),
            "incomplete": list(self.incomplete),
        }

    def one_line(self) -> str:
        kept = [*self.tables, *(["rows"] if self.rows_kept else [])]
        return f"Grid of {self.rows:,} rows, {self.of}: {', '.join(kept)}"

    def __getitem__(self, name: str) -> KeptTable:
        """A table by its name, or by what it begins with: ``front``, ``top``, ``histogram``."""
        found = [key for key in self.tables if key == name] or [key for key in self.tables if key.startswith(name)]
        if not found:
            raise InputError(f"no table {name!r} was kept", hint=f"one of {', '.join(self.tables)}")
        return self.tables[found[0]]


@dataclass(frozen=True, slots=True)
class GridRun:
    """How a grid is run: what is kept, where it is written, where it is worked out, and who is told.

    ``keep`` as in ``front,top=100,histogram=lower``; ``rows`` are kept where nothing is said. ``out`` is a folder.
    """

    keep: str | None = None
    out: str | None = None
    cluster: Cluster = field(default_factory=Cluster)
    block_rows: int = BLOCK_ROWS
    progress: BlockProgress | None = None

    @classmethod
    def taken_from(
        cls, arguments: dict[str, Any], progress: Callable[[int, int], None] | None = None
    ) -> GridRun | None:  # fmt: skip
        """Take the words of a run out of keyword arguments; None where there are none: a table in memory.

        ``progress`` is told of rows, ``block_progress`` among the arguments of rows and blocks.
        """
        told = {name: arguments.pop(name, None) for name in ("announce", "block_progress")}
        names = [word.name for word in RUN_WORDS]
        given = {name: value for name in names if (value := arguments.pop(name, None)) is not None}
        if not given:
            return None
        clusters = {name: given.pop(name) for name in names[3:] if name in given}
        cluster = Cluster(**clusters, announce=told["announce"])
        tell: BlockProgress | None = told["block_progress"]
        if tell is None and progress is not None:
            tell = lambda rows, every, done, blocks: progress(rows, every)  # noqa: E731
        return cls(**given, cluster=cluster, progress=tell)


def reduce_grid(
    table: BlockTable, of: str, question: Any, run: GridRun, usual: tuple[str, ...] = ("lower",)
) -> ReducedGrid:
    """Work out a grid in blocks and keep what was asked for; with a folder, blocks that are done there are skipped.

    ``question`` is everything the answer depends on; ``usual`` are the columns of a front where none are named.
    """
    if run.block_rows < 1:
        raise SizeError(f"{run.block_rows} rows a block", hint="a million or more keeps a scheduler idle")
    keep = KeepRequest.read(run.keep or "rows", table.names, usual)
    if keep.rows and run.out is None:
        kept = spelled("keep", "front,top=100")
        hint = f"{either('-o grid/', 'a folder as out=')}, or {kept} for what fits here"
        raise InputError("rows in blocks need a folder", hint=hint)
    if run.out is not None:
        load_extra("pyarrow.parquet", "parquet")
    blocks = list(table.blocks(run.block_rows))
    folder = None
    if run.out is not None:
        from roofline import __version__

        said = {"of": of, "rows": table.rows, "blocks": len(blocks), "columns": list(table.names)}
        asked = {"question": question, "keep": keep, "block_rows": run.block_rows, "version": __version__}
        axes = {name: [values[0].item(), values[-1].item(), len(values)] for name, values in table.axes.items()}
        said |= {"axes": axes, "version": __version__}
        folder = GridFolder.of(run.out, said, question_hash({**asked, "axes": dict(table.axes)}), keep.rows)
    found, done = _reduced(table, keep, blocks, folder, run)
    if done == len(blocks) and sum(found.left_out.values()) == table.rows:
        each = [f"{count:,} row{'s' * (count > 1)}: {why}" for why, count in found.left_out.items()]
        raise InputError(f"no row is left to keep: {'; '.join(each if len(each) > 1 else found.left_out)}")
    states, remarks = _ranked(table, keep, found)
    tables = {each.name: _table(table, each, states[each.name]) for each in keep.reductions if states}
    if folder is not None:
        folder.finish(tables, blocks if done == len(blocks) else [])
    path = None if folder is None else folder.path.rstrip("/")
    return ReducedGrid(of, table.rows, len(blocks), done, tables, found.left_out, remarks, path, keep.rows)


def _reduced(
    table: BlockTable, keep: KeepRequest, blocks: list[RowBlock], folder: GridFolder | None, run: GridRun
) -> tuple[Reduced, int]:
    """All blocks reduced to one, those that are done in the folder first; how many there are when it is stopped."""
    from roofline import __version__

    found, rows, done = Reduced(), 0, 0
    left = []

    def take(block: RowBlock, each: Reduced) -> None:
        nonlocal found, rows, done
        found, rows, done = found.merged(each, keep), rows + block.stop - block.start, done + 1
        if run.progress is not None:
            run.progress(rows, table.rows, done, len(blocks))

    for block in blocks:
        known = None if folder is None else folder.read(block)
        if known is None:
            left.append(block)
        else:
            take(block, known)
    work = Reducing(table, keep, "" if folder is None else os.path.abspath(folder.path), __version__)
    if not left:
        return found, done
    try:
        with run.cluster.opened() as client:
            for block, each in done_blocks(work, left, client):
                if folder is not None:
                    folder.write(block, each)
                take(block, each)
    except KeyboardInterrupt:
        if not done:
            raise
        stopped(done, done + len(left), "blocks")
    return found, done


def _ranked(
    table: BlockTable, keep: KeepRequest, found: Reduced
) -> tuple[Mapping[str, State], Mapping[str, tuple[str, ...]]]:
    """What is kept of rows that are ranked, those timed whole unless there are none; what is said of all."""
    said = dict(found.said)
    gaps = {n: said.pop(untimed_of(n)) for n in range(table.choices) if untimed_of(n) in said}
    states, apart = dict[str, State](), len(set(gaps.values())) > 1
    if apart:
        labels = table.labels(np.array(list(gaps)))
        choices = {name: v.decode() if isinstance(v, Codes) else v.tolist() for name, v in labels.items()}
        said["not ranked"] = tuple(choices_not_ranked(choices, list(gaps.values())))
    for each in keep.reductions if found.states else ():
        part, whole = found.states.get(kept_as(each, True), {}), found.states.get(each.name, {})
        is_empty = not any(len(values) for values in whole.values())
        states[each.name] = part if part and is_empty else whole
    return states, said


def _table(table: BlockTable, reduction: Any, state: State) -> KeptTable:
    """A reduction as a table: its rows with choices, sizes and columns, or its bins."""
    if isinstance(reduction, Histogram):
        return _histogram(reduction, state)
    labels = table.labels_at(state["row"])
    columns: dict[str, Any] = {"row": state["row"]}
    for name in table.names:
        values = labels[name] if name in labels else state[name]
        if not isinstance(values, Codes) and values.dtype.kind == "U":
            names, codes = np.unique(values, return_inverse=True)
            values = Codes(codes.astype(np.int32), tuple(names.tolist()))
        columns[name] = values
    for name in YES_NO:
        if name in columns and not np.isnan(columns[name].astype(float)).any():
            columns[name] = columns[name] == 1
    whole = ("row", *(name for name in table.axes if table.axes[name].dtype.kind in "iu"))
    titles = {"top": "best by", "front": "front of"}
    by, of = ([reduction.by], reduction.of) if isinstance(reduction, ForEach) else ([], reduction)
    title = f"{titles[of.word]} {', '.join(of.columns)}"
    title += f" for each {by[0]}" if by else ""
    mixed = [name for name in table.questions if name not in by]
    if mixed and of.word == "front":
        title += f"; rows of every {in_a_row(mixed)} compete" + ("" if by else f", which front/{mixed[0]} keeps apart")
    return KeptTable(title, columns, whole)


def _histogram(reduction: Histogram, state: State) -> KeptTable:
    bins, title = state["bin"], f"rows by {reduction.column}"
    if bins.dtype.kind == "U":
        columns: dict[str, Any] = {reduction.column: Codes(np.arange(len(bins)), tuple(bins.tolist()))}
    else:
        unit = UNITS.get(reduction.column, "")
        edges = np.stack([bin_edges(bins), bin_edges(bins + 1)]) if len(bins) else np.zeros((2, 0))
        columns = {f"{reduction.column}.from": edges[0], f"{reduction.column}.below": edges[1]}
        if len(bins):
            ends = (format_amount(float(edge), unit) for edge in (edges[0][0], edges[1][-1]))
            title += f", {' to '.join(ends)}"
    return KeptTable(title, {**columns, "rows": state["rows"]}, ("rows",))
