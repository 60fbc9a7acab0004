"""Time-based partitioning (Prompt, section 2.2.1): block b of a batch is its b-th period of time."""

from __future__ import annotations

from fractions import Fraction


def route(keys: list[int], times: list[int], *, n_workers: int, batch: int = 1_000) -> list[int]:
    block_interval = Fraction(batch, n_workers)
    return [int((time % batch) / block_interval) for time in times]
