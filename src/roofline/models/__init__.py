"""Language models: a published ``config.json`` → parameters, operations, memory, and the floor of serving it.

>>> from roofline.models import load
>>> load("llama-2-7b").parameters
6738415616
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofline.models.config import load, names
    from roofline.models.description import Model
    from roofline.models.operations import decode, prefill
    from roofline.models.report import serve
    from roofline.models.serving import serve_bound
    from roofline.models.table import serve_table
    from roofline.models.training import train

_WHERE = {
    "Model": "description",
    "decode": "operations",
    "load": "config",
    "names": "config",
    "prefill": "operations",
    "serve": "report",
    "serve_bound": "serving",
    "serve_table": "table",
    "train": "training",
}

__all__ = ["Model", "decode", "load", "names", "prefill", "serve", "serve_bound", "serve_table", "train"]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
