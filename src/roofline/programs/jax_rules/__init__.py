"""Rules for JAX primitives, one family a file; every file here is loaded."""
