"""Prompt (SIGMOD 2020, Algorithm 2), line by line. A plan is ``(hot, owner)``, owner by bucket.

The list holds the hot keys, and one entry for all other keys of a bucket, which is never cut.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

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
    items = [(counts[key], False, key) for key in ranked[:n_hot] if counts[key]]
    items += [(weight, True, bucket) for bucket, weight in enumerate(tail) if weight]
    items.sort(key=lambda item: (-item[0], item[1], item[2]))

    total = sum(weight for weight, _, _ in items)
    p_size = Fraction(total, n_workers)  # 1
    p_cardinality = max(Fraction(len(items), n_workers), Fraction(1))  # 2
    s_cut = p_size / p_cardinality  # 3
    # Whole tuples: the first blocks hold one more than p_size rounded down, so that all fit.
    room = [total // n_workers + (b < total % n_workers) for b in range(n_workers)]
    fragments: dict[int, dict[int, int]] = {}
    owner = list(plain[1])
    large: list[tuple[int, int]] = []  # RList, with the rest of each key
    position: dict[int, int] = {}
    b = 0  # 4
    for weight, is_bucket, key in items:  # 5
        if weight > s_cut and not is_bucket:
            fragment = max(math.floor(s_cut), 1)  # 6
            fragments[key] = {b: fragment}
            room[b] -= fragment
            large.append((key, weight - fragment))
            position[key] = b  # 7
            b = (b + 1) % n_workers  # 8

    forth_and_back = [*range(n_workers), *reversed(range(n_workers))]
    left = [item for item in items if item[1] or item[2] not in position]
    for number, (weight, is_bucket, key) in enumerate(left):  # 10 to 16
        b = forth_and_back[number % len(forth_and_back)]
        room[b] -= weight
        if is_bucket:
            owner[key] = b
        else:
            fragments[key] = {b: weight}

    for key, residual in large:  # 17
        b, rest = position[key], residual  # 18
        part = rest if rest <= room[b] else max(room[b], 0)  # 19 to 22
        fragments[key][b] += part
        room[b] -= part
        rest -= part
        while rest:  # 23
            holds_all = [b for b in range(n_workers) if room[b] >= rest]
            if holds_all:
                b, part = min(holds_all, key=lambda b: (room[b], b)), rest
            else:
                b = room.index(max(room))
                part = room[b]
            fragments[key][b] = part
            room[b] -= part
            rest -= part
    return {key: _shares(fragments[key]) for key in sorted(fragments)}, owner


def _shares(amounts: dict[int, int]) -> dict[int, float]:
    total = sum(amounts.values())
    return {worker: amounts[worker] / total for worker in sorted(amounts)}
