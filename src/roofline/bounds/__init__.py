"""Operations × Machine → Bound: evaluation, sweeps, where it flips, what would move it, and how that is shown."""
