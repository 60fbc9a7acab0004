"""PKG and Greedy-d (ICDE 2015, section III): the less loaded of a key's d candidates.

The load is what this source has sent (section III-B). Candidate j is a hash into the workers that
the candidates before it left, so candidates are distinct; ties go to the first.
"""

from __future__ import annotations

from tests.oracles.hashing import mix, spread


def candidates(key: int, n_workers: int, d: int, seed: int) -> list[int]:
    left = list(range(n_workers))
    return [left.pop(spread(mix(key, seed + j), len(left))) for j in range(min(d, n_workers))]


def route(
    keys: list[int], times: list[int], *, n_workers: int, d: int = 2, seed: int = 0
) -> list[int]:
    load = [0] * n_workers
    out = []
    for key in keys:
        chosen = min(candidates(key, n_workers, d, seed), key=load.__getitem__)
        load[chosen] += 1
        out.append(chosen)
    return out
