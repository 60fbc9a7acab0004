"""KIPUPDATE (Dynamic Repartitioning 2021, Algorithm 1), line by line. A plan is ``(hot, owner)``.

Hosts are runs of buckets, at most as many as there are buckets; the worker of a host is that of its
first bucket in the routing in force.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tests.oracles.hashing import mix, spread
from tests.oracles.wrap_around import Plan, hashing


def plan(
    counts: Mapping[int, int],
    previous: Plan | None,
    *,
    n_workers: int,
    scale: float = 2.0,
    slack: float = 0.001,
    hosts: int = 100,
    seed: int = 0,
) -> Plan:
    old_hot, old_owner = previous or hashing(n_workers)
    total = sum(counts.values())
    if total == 0:
        return old_hot, old_owner
    n_buckets = len(old_owner)
    n_hosts = min(hosts * n_workers, n_buckets)
    host_of = [bucket * n_hosts // n_buckets for bucket in range(n_buckets)]
    hash_worker = [old_owner[host_of.index(host)] for host in range(n_hosts)]

    ranked = sorted(counts, key=lambda key: (-counts[key], key))
    hist = ranked[: max(1, math.floor(min(scale * n_workers, len(counts)) + 0.5))]
    hist = [key for key in hist if counts[key]]
    freq = {key: counts[key] / total for key in hist}

    def ki(key: int) -> int:
        shares = old_hot.get(key)
        if shares:
            return min(shares, key=lambda worker: (-shares[worker], worker))
        return old_owner[bucket_of(key)]

    def bucket_of(key: int) -> int:
        return spread(mix(key, seed), n_buckets)

    maxload = max(1 / n_workers, freq[hist[0]] if hist else 0.0) + slack  # 1
    hostload = (total - sum(counts[key] for key in hist)) / total / n_hosts  # 2
    load = [0.0] * n_workers
    placed: dict[int, int] = {}
    for k in hist:  # 3
        f = freq[k]
        p = ki(k)  # 4
        if not load[p] < maxload - f:  # 5, 6
            p = hash_worker[host_of[bucket_of(k)]]  # 7
            if not load[p] < maxload - f:  # 8, 9
                p = load.index(min(load))  # 10
        placed[k] = p
        load[p] += f

    def full_load(p: int) -> float:  # 11 to 13
        return sum(freq[k] for k in hist if placed[k] == p) + hostload * hash_worker.count(p)

    for p in range(n_workers):  # 14
        for host in [host for host in range(n_hosts) if hash_worker[host] == p]:
            if not full_load(p) > maxload:
                break
            room = [q for q in range(n_workers) if full_load(q) < maxload - hostload]
            if not room:
                break
            hash_worker[host] = room[0]  # 15
    hot = {key: {placed[key]: 1.0} for key in sorted(placed)}
    return hot, [hash_worker[host] for host in host_of]  # 16
