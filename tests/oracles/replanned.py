"""WrapAround driven as a partitioner: a new plan from the counts of each window that has ended."""

from __future__ import annotations

from collections import Counter

from tests.oracles import wrap_around
from tests.oracles.routing import Router


def route(
    keys: list[int],
    times: list[int],
    *,
    n_workers: int,
    every: int,
    hot_keys: int | None = None,
    seed: int = 0,
) -> list[int]:
    plan = wrap_around.hashing(n_workers)
    router = Router(n_workers, *plan, seed=seed)
    counts: Counter[int] = Counter()
    out = []
    running = None
    for key, time in zip(keys, times, strict=True):
        if running is not None and time // every != running:
            plan = wrap_around.plan(counts, plan, n_workers=n_workers, hot_keys=hot_keys, seed=seed)
            router = Router(n_workers, *plan, seed=seed)
            counts.clear()
        running = time // every
        counts[key] += 1
        out.append(router.route(key))
    return out
