"""D-Choices (ICDE 2016): as W-Choices, but a head key has d candidates.

d is the least for which every prefix h of the head satisfies

    sum_{i<=h} p_i + (b_h/n)^d sum_{h<i<=|H|} p_i + (b_h/n)^2 sum_{i>|H|} p_i  <=  b_h (1/n + epsilon)

with b_h = n - n ((n-1)/n)^(h d). It is solved when 64 tuples have come, when their number has
doubled, and at the latest after each statistics window.
"""

from __future__ import annotations

import math

from tests.oracles.pkg import candidates as two_candidates
from tests.oracles.space_saving import SpaceSaving
from tests.oracles.w_choices import is_head


def solve(p: list[float], n: int, epsilon: float) -> int:
    """Return d for the descending shares `p` of the head."""
    if not p:
        return 2

    def holds(h: int, d: int) -> bool:
        b = n - n * ((n - 1) / n) ** (h * d)
        head, tail = sum(p), 1 - sum(p)
        left = sum(p[:h]) + (b / n) ** d * (head - sum(p[:h])) + (b / n) ** 2 * tail
        return left <= b * (1 / n + epsilon)

    d = max(2, math.ceil(p[0] * n))
    while d < n and not all(holds(h, d) for h in range(1, len(p) + 1)):
        d += 1
    return min(d, n)


def candidates(key: int, n: int, d: int, seed: int) -> list[int]:
    """The first two as PKG; the others at the same distance, shifted when the round closes."""
    first, second = two_candidates(key, n, 2, seed)
    step = (second - first) % n
    period = n // math.gcd(step, n)
    return [(first + j * step + j // period) % n for j in range(d)]


def route(
    keys: list[int],
    times: list[int],
    *,
    n_workers: int,
    epsilon: float = 1e-4,
    theta: float | None = None,
    capacity: int | None = None,
    stats_window: int | None = None,
    seed: int = 0,
) -> list[int]:
    if n_workers == 1:
        return [0] * len(keys)
    theta = theta or 1 / (5 * n_workers)
    window = stats_window or max(10_000, 8 * n_workers)
    summary, load, d, due = (
        SpaceSaving(capacity or 10 * n_workers),
        [0] * n_workers,
        2,
        min(64, window),
    )
    out = []
    for total, key in enumerate(keys, start=1):
        summary.update(key)
        if not is_head(summary, key, total, theta):
            choices = candidates(key, n_workers, 2, seed)
        elif d >= n_workers:
            choices = list(range(n_workers))
        else:
            choices = candidates(key, n_workers, d, seed)
        chosen = min(choices, key=load.__getitem__)
        load[chosen] += 1
        out.append(chosen)
        if total == due:
            lower = [count - error for _, count, error in summary.slots]
            p = [count / total for count in lower if count >= theta * total]
            d = solve(sorted(p, reverse=True), n_workers, epsilon)
            due += min(total, window)
    return out
