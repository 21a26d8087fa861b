"""Serving: the floor of a prefill or decode step, over the stages of a pipeline too, and what would move it."""

from roofline.models.serving.bound import serve_bound, step_bound

__all__ = ["serve_bound", "step_bound"]
