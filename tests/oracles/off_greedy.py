"""Off-Greedy (ICDE 2015, section V): keys by decreasing frequency, each to the least loaded worker.

Keys beyond the `hot_keys` heaviest are one item per bucket. A plan is ``(hot, owner)``.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.oracles.hashing import mix, spread
from tests.oracles.wrap_around import Plan, hashing


def plan(
    counts: Mapping[int, int],
    previous: Plan | None,
    *,
    n_workers: int,
    hot_keys: int | None = None,
    seed: int = 0,
) -> Plan:
    plain = hashing(n_workers)
    if sum(counts.values()) == 0:
        return previous or plain
    ranked = sorted(counts, key=lambda key: (-counts[key], key))
    n_hot = hot_keys or max(2 * n_workers, 64)
    tail = [0] * len(plain[1])
    for key in ranked[n_hot:]:
        tail[spread(mix(key, seed), len(tail))] += counts[key]

    # (weight, hot keys first, number): by decreasing weight, ties as documented.
    items = [(-counts[key], 0, key) for key in ranked[:n_hot] if counts[key]]
    items += [(-weight, 1, bucket) for bucket, weight in enumerate(tail) if weight]
    hot: dict[int, dict[int, float]] = {}
    owner = list(plain[1])
    load = [0] * n_workers
    for minus, is_bucket, number in sorted(items):
        worker = load.index(min(load))
        load[worker] -= minus
        if is_bucket:
            owner[number] = worker
        else:
            hot[number] = {worker: 1.0}
    return dict(sorted(hot.items())), owner
