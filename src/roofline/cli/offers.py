"""What completion offers behind an option or as a word of a command.

>>> [item.value for item in offered("policy", "f")], [item.value for item in offered("chip", "h100,mi35")]
(['fused'], ['h100,mi350x', 'h100,mi355x'])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from click.shell_completion import CompletionItem


def offered(kind: str, incomplete: str) -> list[CompletionItem]:
    """Values of a kind that begin like an incomplete word; behind a comma those of the next one.

    ``kind`` is a key of ``VALUES``, ``file``, or the values themselves with blanks between them.
    """
    if kind == "file":
        return [CompletionItem(incomplete, type="file")]
    before, comma, begun = incomplete.rpartition(",")
    values = VALUES[kind]() if kind in VALUES else kind.split()
    found = [CompletionItem(before + comma + value) for value in values if value.lower().startswith(begun.lower())]
    return found or [CompletionItem(incomplete, type="file")] if kind in ("chip", "model") else found


def _chips() -> Iterable[str]:
    from roofline.hardware.catalog import system_names
    from roofline.hardware.targets import names

    return [*sorted(names()), *system_names(), "this"]


def _models() -> Iterable[str]:
    from roofline.models.config import names

    return names()


def _dtypes() -> Iterable[str]:
    from roofline.dtypes import names

    return names()


def _policies() -> Iterable[str]:
    from roofline.bounds.traffic import BYTE_POLICIES

    return BYTE_POLICIES


def _algorithms() -> Iterable[str]:
    from roofline.ops.collectives.cost import algorithm_names

    return ("auto", *algorithm_names())


def _conventions() -> Iterable[str]:
    from roofline.ops.counting import CONVENTIONS

    return CONVENTIONS


def _conditions() -> Iterable[str]:
    from roofline.bounds.scaling_conditions import CONDITIONS

    return CONDITIONS


#: What there is of each kind.
VALUES: dict[str, Callable[[], Iterable[str]]] = {
    "chip": _chips,
    "model": _models,
    "dtype": _dtypes,
    "policy": _policies,
    "algorithm": _algorithms,
    "convention": _conventions,
    "condition": _conditions,
    "unit": lambda: ("matrix", "vector"),
    "level": lambda: ("main", "hbm", "dram", "gddr", "l2", "l3", "vmem", "smem", "pcie", "warm"),
    "library": lambda: ("vllm", "trtllm", "sglang"),
    "kernel": lambda: ("gemm", "attention", "moe", "collective"),
}
