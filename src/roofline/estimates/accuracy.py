"""How accurate estimates are: the errors of the shipped constants on rows that were not fitted, as an answer.

>>> found = accuracy("h100", kernel="contraction")
>>> [row.library for row in found.records if row.dtype == "bf16"]
['sglang', 'trtllm', 'vllm']
>>> all(0.03 < row.error["mdape"] < 0.08 for row in found.records if row.dtype == "bf16")
True
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.answers import Answer
from roofline.errors import InputError, suggest
from roofline.estimates.constants import KernelConstants, overlaid, read_constants, shipped
from roofline.quantity import format_percent
from roofline.sections import BLANK, Column, Headline, Listing, Row, Section, Table

#: Words that users have for kernels.
MEANT = {
    "gemm": "contraction",
    "matmul": "contraction",
    "attention": "attention",
    "moe": "experts",
    "norm": "norm",
    "prefill": "prefill_attention",
    "decode": "decode_attention",
    "allreduce": "collective",
    "softmax": "norm",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Accuracy(Answer):
    """Records of constants with their errors; ``subject`` says what was asked."""

    records: tuple[KernelConstants, ...]
    subject: str

    def sections(self) -> Iterable[Section]:
        """A table, a row a record, and how the errors were taken."""
        yield Headline(self.subject)
        yield BLANK
        columns = [Column(name) for name in ("chip", "library")]
        columns += [Column("kernel", wrap="words"), Column("format")]
        columns += [Column(name, align="right") for name in ("rows", "median", "mean", "p90", "bias")]
        yield Table(columns, [_row(one) for one in self.records], name="accuracy")
        yield BLANK
        yield Listing(
            "errors", ["of estimates against measurements: median, mean and 90th percentile of their size; bias"]
        )
        yield Listing("measured", _sources(self.records), "quiet")

    def one_line(self) -> str:
        """How many records, and the range of their median errors."""
        errors = sorted(one.error.get("mdape", 0.0) for one in self.records)
        ends = dict.fromkeys(format_percent(error) for error in (errors[0], errors[-1]))
        return f"Accuracy: {len(self.records)} kinds of kernel, median error {' to '.join(ends)}"

    def to_dict(self) -> dict[str, Any]:
        """The records under stable keys (schema ``roofline/accuracy/1``)."""
        return {"schema": "roofline/accuracy/1", "records": [one.to_dict() for one in self.records]}


def _row(one: KernelConstants) -> Row:
    error = one.error
    figures = [format_percent(abs(error[name])) if name in error else "" for name in ("mdape", "mape", "p90")]
    bias = f"{100 * error['bias']:+.1f}%" if "bias" in error else ""
    kind = f"{one.kernel.replace('_', ' ')}{', ' if one.path else ''}{one.path}"
    return Row((one.chip, one.library, kind, one.dtype, f"{error.get('n_test', 0):g}", *figures, bias))


def _sources(records: Sequence[KernelConstants]) -> list[str]:
    said = ["constants from one random half of the measured kernels, errors from the other half"]
    said += dict.fromkeys(f"{one.source}: {one.state}" for one in records if one.source)
    return said


def accuracy(
    on: str | None = None, *, kernel: str | None = None, library: str | None = None, files: Sequence[str] = ()
) -> Accuracy:
    """How far estimates are from measurements, by chip, library, kind of kernel and format.

    ``on`` names a chip, ``kernel`` a kind (``contraction``, ``attention``, ``experts`` …), ``library`` a library;
    ``files`` hold constants of one's own, as ``calibrate`` writes them.
    """
    records = overlaid(shipped(), [record for path in files for record in read_constants(path)])
    asked = []
    if on is not None:
        asked.append(on)
        records = _only(records, "chip", on)
    if library is not None:
        asked.append(library)
        records = _only(records, "library", library)
    if kernel is not None:
        wanted = MEANT.get(kernel.lower(), kernel)
        asked.append(wanted.replace("_", " "))
        records = _only(records, "kernel", wanted)
    ordered = sorted(records, key=lambda one: (one.chip, one.kernel, one.dtype, one.library, one.path))
    return Accuracy(tuple(ordered), " · ".join(["accuracy of estimates", *asked]))


def _only(records: Sequence[KernelConstants], name: str, wanted: str) -> tuple[KernelConstants, ...]:
    """Records of one chip, library or kernel; a word that none has is an error that lists those there are."""
    found = tuple(one for one in records if getattr(one, name) == wanted or (name == "kernel" and wanted in one.kernel))
    if not found:
        known = dict.fromkeys(getattr(one, name) for one in records)
        raise InputError(f"no constants of {wanted!r}", hint=suggest(wanted, known, what=f"{name}s"))
    return found
