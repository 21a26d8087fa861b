"""Benchmarks, and the fits of estimates."""
