"""On-Greedy (ICDE 2015, section V): the least loaded worker handles a new key; the lowest of several."""

from __future__ import annotations


def route(keys: list[int], times: list[int], *, n_workers: int) -> list[int]:
    load = [0] * n_workers
    worker_of: dict[int, int] = {}
    for key in keys:
        if key not in worker_of:
            worker_of[key] = load.index(min(load))
        load[worker_of[key]] += 1
    return [worker_of[key] for key in keys]
