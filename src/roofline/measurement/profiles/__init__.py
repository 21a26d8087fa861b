"""Profiles of other tools: traces of torch.profiler, reports of Nsight Compute, plain tables of runs."""
