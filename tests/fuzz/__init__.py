"""Hostile input by seed: ``make fuzz SEEDS=0:100000`` or ``python -m tests.fuzz``."""
