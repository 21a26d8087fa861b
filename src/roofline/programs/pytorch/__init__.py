"""PyTorch programs: every operation that runs, forward and backward, on shapes alone."""
