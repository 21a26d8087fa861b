"""Parallelism: how chips share a model (layout), what each runs (splitting), pipeline stages, stacked answers."""
