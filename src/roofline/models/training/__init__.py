"""Training: the floor of a step over all chips, what it holds in memory, what would move it."""

from roofline.models.training.step import train

__all__ = ["train"]
