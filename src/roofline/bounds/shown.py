"""What an answer has in common with every other: it shows itself in a terminal, and the same in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Shown(ABC):
    """An answer with a terminal form, ``__rich__``; a notebook shows it as it stands there."""

    __slots__ = ()

    @abstractmethod
    def __rich__(self) -> Any:
        """What a terminal shows."""

    def _repr_html_(self) -> str:
        from io import StringIO

        from rich.console import Console

        console = Console(record=True, file=StringIO(), width=110, highlight=False, markup=False)
        console.print(self)
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")
