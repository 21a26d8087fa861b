"""Code people already have → operations: PyTorch modules and functions, JAX functions, ONNX files.

One front end a family of files (``torch_*``, ``jax_*``, ``onnx_*``); each gives a
:class:`~roofline.programs.traced.Traced`, which is all that the rest of the package sees.
"""

from __future__ import annotations

from roofline.programs.api import trace
from roofline.programs.traced import Traced, UncountedOperation

__all__ = ["Traced", "UncountedOperation", "trace"]
