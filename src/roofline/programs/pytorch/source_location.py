"""Source location of an operation: module path and source line of the user, from the Python frames."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any

import torch

from roofline.frozen import NamedTuple


class SourceLocation(NamedTuple):
    """Module path, source line (``model.py:12``), and phase: forward, backward or optimizer."""

    where: str = ""
    source: str = ""
    phase: str = "forward"


_TORCH = os.path.dirname(torch.__file__) + os.sep
_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_OPTIM = os.path.join(_TORCH, "optim") + os.sep
_CALLS = {torch.nn.Module._call_impl.__code__, torch.nn.Module._wrapped_call_impl.__code__}


class LocationFinder:
    """Finds the place of what is running now; remembers it by autograd node, for the backward pass."""

    def __init__(self, paths: Mapping[int, str]) -> None:
        self._paths = paths
        self._order = {path: number for number, path in enumerate(paths.values())}
        self._kinds: dict[CodeType, str] = {}
        self._by_node: dict[int, SourceLocation] = {}

    def now(self) -> SourceLocation:
        """The place of the running operation."""
        found = self._from_frames()
        node = torch._C._current_autograd_node()
        if node is None:
            backward = torch._C._current_graph_task_id() != -1
            if not backward:
                self._by_node.setdefault(torch._C._autograd._get_sequence_nr() - 1, found)
                return found
            return found._replace(phase="backward")
        made = self._by_node.get(node._sequence_nr(), SourceLocation())
        return SourceLocation(found.where or made.where, made.source or found.source, "backward")

    def share_done(self, place: SourceLocation, backward: bool) -> tuple[float, float]:
        """How far a run is that passes modules in the order of their definition, and of how many steps.

        The backward pass goes through them in reverse.
        """
        every = max(len(self._order), 1)
        here = self._order.get(place.where, 0)
        passed = {"forward": here, "backward": 2 * every - here}.get(place.phase, 2 * every)
        return passed, (1 + backward) * every

    def remember(self) -> None:
        """Note the place for the backward pass; nothing is written down for what runs now."""
        if torch.is_grad_enabled():
            self.now()

    def line(self) -> str:
        """File and line of the user's code that runs now, the file's name in full."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            kind = self._kind(frame.f_code)
            if kind == "stop":
                break
            if kind == "user":
                return f"{frame.f_code.co_filename}:{frame.f_lineno}"
            frame = frame.f_back
        return ""

    def is_user(self, code: CodeType) -> bool:
        """Whether code is the user's: neither torch's nor ours."""
        return self._kind(code) == "user"

    def _from_frames(self) -> SourceLocation:
        frame: FrameType | None = sys._getframe(2)
        where: str | None = None
        source, phase = "", "forward"
        while frame is not None:
            kind = self._kind(frame.f_code)
            if kind == "stop" or (source and where is not None):
                break
            if kind == "user":
                source = source or f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
            elif kind == "optimizer":
                phase = "optimizer"
            elif kind == "module" and where is None:
                where = self._paths.get(id(frame.f_locals.get("self")))
            frame = frame.f_back
        return SourceLocation(where or "", source, phase)

    def _kind(self, code: CodeType) -> str:
        found = self._kinds.get(code)
        if found is None:
            found = self._kinds[code] = _kind(code)
        return found


def _kind(code: CodeType) -> str:
    if code in _CALLS:
        return "module"
    name = code.co_filename
    if name.startswith(_OPTIM):
        return "optimizer"
    if name.startswith(_HERE):
        return "stop" if code.co_name == _ENTRY else "ours"
    if name.startswith((_TORCH, "<frozen")):
        return "torch"
    return "user"


#: The function under which a program runs: frames below it belong to the caller of ``trace``.
_ENTRY = "run_program"


def module_paths(roots: Mapping[str, Any]) -> tuple[dict[int, str], dict[str, str]]:
    """Paths by module and classes by path; a single root module has the empty path."""
    paths: dict[int, str] = {}
    classes: dict[str, str] = {}
    for name, root in roots.items():
        for path, module in root.named_modules():
            full = ".".join(part for part in (name, path) if part)
            paths.setdefault(id(module), full)
            classes[full] = type(module).__name__
    return paths, classes
