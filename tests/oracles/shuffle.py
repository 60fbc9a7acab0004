"""Shuffling (PKG paper, section II): tuple i goes to worker i mod n."""

from __future__ import annotations


def route(keys: list[int], times: list[int], *, n_workers: int) -> list[int]:
    return [i % n_workers for i in range(len(keys))]
