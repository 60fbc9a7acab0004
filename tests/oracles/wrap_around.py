"""The wrap-around rule (McNaughton 1959) over hot keys and buckets, in plain Python.

A plan is ``(hot, owner)``: ``{key: {worker: share}}`` and the worker of each bucket.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.oracles.hashing import mix, spread

Plan = tuple[dict[int, dict[int, float]], list[int]]

PRIOR = 1 / 16
SLACK = 1e-6


def hashing(n_workers: int) -> Plan:
    n_buckets = n_workers * max(16, -(-2048 // n_workers))
    return {}, [bucket * n_workers // n_buckets for bucket in range(n_buckets)]


def plan(
    counts: Mapping[int, int],
    previous: Plan | None,
    *,
    n_workers: int,
    hot_keys: int | None = None,
    seed: int = 0,
) -> Plan:
    plain = hashing(n_workers)[1]
    old_hot, old_owner = previous or ({}, plain)
    if sum(counts.values()) == 0:
        return old_hot, old_owner

    at = {key: spread(mix(key, seed), len(plain)) for key in counts}  # the bucket of each key

    # The histogram's hot keys, heaviest first, and its tail by bucket with the prior load.
    ranked = sorted(counts, key=lambda key: (-counts[key], key))
    n_hot = hot_keys or max(2 * n_workers, 64)
    hot, cold = [key for key in ranked[:n_hot] if counts[key] > 0], ranked[n_hot:]
    tail_total = sum(counts[key] for key in cold)
    tail = [0.0] * len(plain)
    for key in cold:
        tail[at[key]] += counts[key]
    tail = [weight + PRIOR * tail_total / len(plain) for weight in tail]
    fair = (sum(counts.values()) + PRIOR * tail_total) / n_workers

    # Step 1: buckets.
    owner, load = _lay_buckets(tail, list(old_owner), fair, n_workers)
    if previous is not None and owner == old_owner and set(old_hot) <= set(hot):
        total = list(load)
        for key in hot:
            for worker, share in (old_hot.get(key) or {owner[at[key]]: 1.0}).items():
                total[worker] += share * counts[key]
        limit = [max(fair, tail_load) + SLACK * n_workers * fair for tail_load in load]
        if all(t <= most for t, most in zip(total, limit, strict=True)):
            return previous

    def holders(key: int) -> list[int]:
        if previous is None:
            return []
        shares = old_hot.get(key) or {old_owner[at[key]]: 1.0}
        return sorted(shares, key=lambda worker: (-shares[worker], worker))

    # Step 2: what was whole stays whole where it is, if it fits.
    placed: dict[int, dict[int, float]] = {}
    room = fair + fair * SLACK
    for key in hot:
        held = holders(key)
        if len(held) == 1 and load[held[0]] <= room - counts[key]:
            placed[key] = {held[0]: float(counts[key])}
            load[held[0]] += counts[key]

    # Step 3: all others, whole or cut.
    for key in hot:
        if key not in placed:
            home = plain[at[key]]
            placed[key] = _place(float(counts[key]), holders(key), home, load, fair)
    return {key: _shares(amounts) for key, amounts in placed.items()}, owner


def _place(
    rest: float, holders: list[int], home: int, load: list[float], fair: float
) -> dict[int, float]:
    """Whole where it fits, else cut; returns the amount of each worker."""
    amounts: dict[int, float] = {}
    crumb = fair * SLACK
    workers = range(len(load))
    while rest > 0:
        fits = [w for w in workers if load[w] <= fair + crumb - rest]
        if fits:
            wanted = [w for w in [*holders, home] if w in fits]
            worker, part = (wanted or [max(fits, key=lambda w: (load[w], -w))])[0], rest
        else:
            not_full = [w for w in holders if load[w] < fair - crumb]
            worker = (not_full or [min(workers, key=lambda w: (load[w], w))])[0]
            part = fair - load[worker]
            if part <= crumb and amounts:  # all are full: the rest is rounding
                worker, part = list(amounts)[-1], rest
            elif not crumb < part < rest - crumb:
                part = rest
        amounts[worker] = amounts.get(worker, 0.0) + part
        load[worker] += part
        rest -= part
    return amounts


def _lay_buckets(
    tail: list[float], owner: list[int], fair: float, n_workers: int
) -> tuple[list[int], list[float]]:
    heaviest_first = sorted(range(len(tail)), key=lambda bucket: (-tail[bucket], bucket))
    load = [0.0] * n_workers
    room = fair * (1 + SLACK)
    for bucket, worker in enumerate(owner):
        load[worker] += tail[bucket]
    while _excess(load, fair) > 0:
        new, new_load, left = list(owner), list(load), set()
        for worker in range(n_workers):
            mine = [bucket for bucket in heaviest_first if owner[bucket] == worker]
            if load[worker] > room and tail[mine[0]] > room:
                mine = mine[1:]
            while mine and new_load[worker] > room:
                enough = [b for b in mine if tail[b] >= new_load[worker] - fair]
                out = enough[-1] if enough else mine[0]
                mine.remove(out)
                left.add(out)
                new_load[worker] -= tail[out]
        for bucket in heaviest_first:
            if bucket in left:
                worker = new_load.index(min(new_load))
                new[bucket] = worker
                new_load[worker] += tail[bucket]
        if _excess(new_load, fair) >= _excess(load, fair) * (1 - SLACK):
            break
        owner, load = new, new_load
    return owner, load


def _excess(load: list[float], fair: float) -> float:
    total = 0.0
    for x in load:
        if x > fair * (1 + SLACK):
            total += (x - fair) ** 2
    return total


def _shares(amounts: dict[int, float]) -> dict[int, float]:
    total = 0.0
    for worker in sorted(amounts):
        total += amounts[worker]
    return {worker: amounts[worker] / total for worker in sorted(amounts)}
