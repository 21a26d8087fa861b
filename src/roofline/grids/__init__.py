"""Grids in blocks: rows worked out where they are reduced, here or by the workers of a Dask cluster."""
