"""The reduce bucket allocator of Prompt (SIGMOD 2020, Algorithm 3), line by line."""

from __future__ import annotations

from fractions import Fraction

from tests.oracles.hashing import mix, spread


def reduce_buckets(
    clusters: dict[int, int], split: set[int], n_buckets: int, seed: int = 0
) -> dict[int, int]:
    size = Fraction(sum(clusters.values()), n_buckets)  # 1
    room = [size] * n_buckets
    bucket: dict[int, int] = {}
    for key, cluster in clusters.items():  # 2
        if key in split:
            bucket[key] = spread(mix(key, seed), n_buckets)
            room[bucket[key]] -= cluster
    whole = [key for key in clusters if key not in split]  # 3
    whole.sort(key=lambda key: (-clusters[key], key))  # 4
    candidates = list(range(n_buckets))
    for key in whole:  # 5
        r = max(candidates, key=lambda r: (room[r], -r))  # 6
        bucket[key] = r
        room[r] -= clusters[key]
        candidates.remove(r)  # 7
        if not candidates:  # 8, as the text has it
            candidates = list(range(n_buckets))  # 9
    return bucket
