"""Hashing (PKG paper, section II): the worker is a hash of the key."""

from __future__ import annotations

from tests.oracles.hashing import mix, spread


def route(keys: list[int], times: list[int], *, n_workers: int, seed: int = 0) -> list[int]:
    return [spread(mix(key, seed), n_workers) for key in keys]
