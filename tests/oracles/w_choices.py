"""W-Choices (ICDE 2016): SpaceSaving since the start; head to the least loaded, tail to one of two."""

from __future__ import annotations

from tests.oracles.pkg import candidates
from tests.oracles.space_saving import SpaceSaving


def is_head(summary: SpaceSaving, key: int, total: int, theta: float) -> bool:
    _, count, error = next(slot for slot in summary.slots if slot[0] == key)
    return count - error >= theta * total


def route(
    keys: list[int],
    times: list[int],
    *,
    n_workers: int,
    theta: float | None = None,
    capacity: int | None = None,
    seed: int = 0,
) -> list[int]:
    summary = SpaceSaving(capacity or 10 * n_workers)
    load = [0] * n_workers
    out = []
    for total, key in enumerate(keys, start=1):
        summary.update(key)
        if is_head(summary, key, total, theta or 1 / (5 * n_workers)):
            choices = list(range(n_workers))
        else:
            choices = candidates(key, n_workers, 2, seed)
        chosen = min(choices, key=load.__getitem__)
        load[chosen] += 1
        out.append(chosen)
    return out
