"""Static PoTC (ICDE 2015, sections III-A and V): two choices for a key's first tuple, then no more.

Candidate j is a hash into the workers that the candidates before it left, so candidates are distinct;
ties go to the first.
"""

from __future__ import annotations

from tests.oracles.pkg import candidates


def route(
    keys: list[int], times: list[int], *, n_workers: int, d: int = 2, seed: int = 0
) -> list[int]:
    load = [0] * n_workers
    worker_of: dict[int, int] = {}
    for key in keys:
        if key not in worker_of:
            choices = candidates(key, n_workers, d, seed)
            worker_of[key] = min(choices, key=load.__getitem__)
        load[worker_of[key]] += 1
    return [worker_of[key] for key in keys]
