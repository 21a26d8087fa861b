"""Functions as a user calls them, taken before PyTorch takes them apart, and what gives shapes PyTorch cannot say."""
