"""Values as TOML text: what the standard library reads but does not write.

>>> texts_toml(["a", 'say "b"']), threads_text(2)
('["a", "say \\\\"b\\\\""]', '2 threads')
"""

from __future__ import annotations

from collections.abc import Sequence

from roofline.measurement.result import Ceiling
from roofline.measurement.samples import Summary


def ceiling_toml(ceiling: Ceiling, date: str) -> str:
    """Write a ceiling as a figure with its kernel, threads and spread."""
    return figure_toml(
        ceiling.value, f"{ceiling.kernel}, {threads_text(ceiling.threads)}", date, spread(ceiling.summary)
    )


def figure_toml(value: float, source: str, date: str, note: str = "") -> str:
    """Write a measured figure as a table of TOML."""
    said = f", note = {text_toml(note)}" if note else ""
    return (
        f'{{ value = {value:.5g}, source = {text_toml(source)}, basis = "measured", date = {text_toml(date)}{said} }}'
    )


def spread(summary: Summary) -> str:
    """Say the quartiles, on how many windows they rest, and how fast the cores went."""
    meanwhile = f", at {summary.clock / 1e9:.2f} GHz" if summary.clock else ""
    windows = f"{summary.samples} windows, {summary.clean:.0%} clean"
    return f"quartiles {summary.low:.4g} to {summary.high:.4g} of {windows}{meanwhile}"


def numbers_toml(summary: Summary) -> str:
    """Write what a summary found as a list: value, quartiles, samples, share of clean windows."""
    return f"[{summary.value:.6g}, {summary.low:.6g}, {summary.high:.6g}, {summary.samples}, {summary.clean:.4f}]"


def threads_text(count: int) -> str:
    """Say a number of threads."""
    return f"{count} thread{'s' * (count > 1)}"


def texts_toml(items: Sequence[str]) -> str:
    """Write a list of strings."""
    return f"[{', '.join(map(text_toml, items))}]"


def text_toml(value: str) -> str:
    """Write a basic string of TOML: its escapes are those of JSON."""
    import json

    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
