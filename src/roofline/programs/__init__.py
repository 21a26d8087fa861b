"""Code people already have → operations: PyTorch modules and functions, JAX functions, ONNX files.

One front end a folder (``pytorch``, ``jax``, ``onnx``); each gives a
:class:`~roofline.programs.traced.Traced`, which is all that the rest of the package sees.
"""

from __future__ import annotations

from roofline.programs.api import trace
from roofline.programs.traced import Traced, UncountedOperation

__all__ = ["Traced", "UncountedOperation", "trace"]
