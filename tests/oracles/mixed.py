"""Mixed (Fang et al. 2016): a bounded table of exceptions to the hash, in plain Python."""

from __future__ import annotations

from collections.abc import Mapping

from tests.oracles.hashing import mix, spread
from tests.oracles.wrap_around import Plan, hashing


def plan(
    counts: Mapping[int, int],
    previous: Plan | None,
    *,
    n_workers: int,
    table_keys: int | None = None,
    theta: float = 0.1,
    seed: int = 0,
) -> Plan:
    plain = hashing(n_workers)
    old_hot, old_owner = previous or plain
    total = sum(counts.values())
    if total == 0:
        return old_hot, old_owner
    ranked = sorted((k for k in counts if counts[k]), key=lambda key: (-counts[key], key))
    bucket = {key: spread(mix(key, seed), len(plain[1])) for key in ranked}
    home = {key: plain[1][bucket[key]] for key in ranked}
    start = dict(home)
    for key in ranked:
        if key in old_hot:
            start[key] = min(old_hot[key], key=lambda w: (-old_hot[key][w], w))
    a_max = table_keys or 2 * n_workers + 1
    while True:
        placed = _search(
            ranked, counts, home, start, (1 + theta) * total / n_workers, a_max, n_workers
        )
        if placed is not None:
            hot = {key: {placed[key]: 1.0} for key in sorted(placed) if placed[key] != home[key]}
            return hot, plain[1]
        theta *= 1.25


def _search(
    ranked: list[int],
    counts: Mapping[int, int],
    home: Mapping[int, int],
    start: Mapping[int, int],
    l_max: float,
    a_max: int,
    n_workers: int,
) -> dict[int, int] | None:
    table = [key for key in ranked if start[key] != home[key]]
    n = 0
    while True:
        cleaned = table[max(len(table) - n, 0) :]  # (I) the n lightest entries
        placed = {key: home[key] if key in cleaned else start[key] for key in ranked}
        if not _balance(ranked, counts, placed, l_max, n_workers):
            return None
        excess = sum(placed[key] != home[key] for key in ranked) - a_max
        if excess <= 0:
            return placed
        if n >= len(table):
            return None
        n += excess


def _balance(
    ranked: list[int],
    counts: Mapping[int, int],
    placed: dict[int, int],
    l_max: float,
    n_workers: int,
) -> bool:
    def load(worker: int) -> int:
        return sum(counts[key] for key, at in placed.items() if at == worker)

    def keys(worker: int) -> list[int]:
        return [key for key in ranked if placed.get(key) == worker]

    queue: list[int] = []
    for worker in range(n_workers):  # (II)
        for key in keys(worker):
            if load(worker) > l_max:
                del placed[key]
                queue.append(key)
    steps = 0
    while queue:  # (III)
        steps += 1
        if steps > 1_000 + 16 * n_workers:
            return False
        queue.sort(key=ranked.index)
        key = queue.pop(0)
        for worker in sorted(range(n_workers), key=load):
            excess = load(worker) + counts[key] - l_max
            lighter = [k for k in keys(worker) if counts[k] < counts[key]]
            if excess > sum(counts[k] for k in lighter) and excess > 0:
                continue
            while excess > 0 and lighter:
                out = lighter.pop(0)
                excess -= counts[out]
                del placed[out]
                queue.append(out)
            placed[key] = worker
            break
        else:
            return False
    return True
