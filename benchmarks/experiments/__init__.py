"""Experiments on the simulator, each with a name that stays: ``python -m benchmarks ours.limit``."""
