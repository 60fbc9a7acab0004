"""PKG and Greedy-d (ICDE 2015, section III): the less loaded of a key's d candidates.

The load is what all sources have sent (G), what the tuple's own source has sent (L, section III-B), or
the latter, set to the source's share of the actual load at the first tuple of every period (LP,
section V). Candidate j is a hash into the workers that the candidates before it left, so candidates
are distinct; ties go to the first.
"""

from __future__ import annotations

from fractions import Fraction

from tests.oracles.hashing import mix, spread


def candidates(key: int, n_workers: int, d: int, seed: int) -> list[int]:
    left = list(range(n_workers))
    return [left.pop(spread(mix(key, seed + j), len(left))) for j in range(min(d, n_workers))]


def route(
    keys: list[int],
    times: list[int],
    *,
    n_workers: int,
    d: int = 2,
    estimates: str = "local",
    sources: int = 1,
    period: int | None = None,
    seed: int = 0,
) -> list[int]:
    actual = [0] * n_workers
    local = [[Fraction(0)] * n_workers for _ in range(sources)]
    probed_in = None
    out = []
    for i, (key, time) in enumerate(zip(keys, times, strict=True)):
        if period is not None and time // period != probed_in:
            probed_in = time // period
            local = [[Fraction(load, sources) for load in actual] for _ in range(sources)]
        estimate = actual if estimates == "global" else local[i % sources]
        chosen = min(candidates(key, n_workers, d, seed), key=estimate.__getitem__)
        actual[chosen] += 1
        local[i % sources][chosen] += 1
        out.append(chosen)
    return out
