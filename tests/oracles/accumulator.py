"""Prompt (SIGMOD 2020), Algorithm 1, line by line; a sorted list stands for the balanced tree."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Entry:
    current: int
    updated: int
    last_update: int
    budget: int
    f_step: float
    t_step: float
    chain: list[int]


def accumulate(
    tuples: list[tuple[int, int]], *, end: int, n_est: int, k_avg: int, budget: int
) -> list[tuple[int, int, list[int]]]:
    """Return (key, count, numbers of its tuples), by falling count as the tree knows it."""
    table: dict[int, Entry] = {}
    for number, (now, k) in enumerate(tuples):
        n_c = number + 1
        if k in table:
            e = table[k]
            e.chain.append(number)
            e.current += 1
            if e.budget > 0:
                if e.current - e.updated >= e.f_step:
                    e.updated, e.last_update, e.budget = e.current, now, e.budget - 1
                    e.f_step = (n_est / budget) * e.current / n_c
                elif now - e.last_update >= e.t_step:
                    e.updated, e.last_update, e.budget = e.current, now, e.budget - 1
                    if e.budget > 0:
                        e.t_step = (end - now) / e.budget
        else:
            f = n_est / (k_avg * budget)
            table[k] = Entry(1, 1, now, budget, f, (end - now) / budget, [number])
    order = sorted(table, key=lambda k: (-table[k].updated, k))
    return [(k, table[k].current, table[k].chain) for k in order]
