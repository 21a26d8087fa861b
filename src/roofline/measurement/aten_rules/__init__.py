"""Rules for operations of PyTorch's dispatcher, one family a file."""
