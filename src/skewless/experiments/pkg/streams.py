"""The streams that PKG's experiments share: look-alikes, log-normal keys, words and cashtags."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from skewless.datasets import load_real, look_alike, state_of_the_union
from skewless.keys import hash64

__all__ = ["cashtag_minutes", "cashtags", "drawn", "words"]


@functools.lru_cache(maxsize=1)
def drawn(name: str, n: int, scale: float, seed: int) -> NDArray[np.uint64]:
    """Return a look-alike; the latest one is kept, as several cells read it in turn."""
    return look_alike(name, n, scale=scale, seed=seed)


@functools.lru_cache(maxsize=1)
def words() -> NDArray[np.uint64]:
    """Return the words of the State of the Union addresses in speaking order."""
    return hash64(state_of_the_union()["word"])


@functools.lru_cache(maxsize=1)
def cashtags() -> NDArray[np.uint64]:
    """Return cashtags of tweets in the order of time."""
    return hash64(load_real("stock_tweets_cashtags")["cashtag"])


def cashtag_minutes() -> NDArray[np.int64]:
    """Return the minute of each cashtag, from 0."""
    seconds = load_real("stock_tweets_cashtags")["ts_minute"].to_numpy().astype(np.int64)
    return np.maximum.accumulate(seconds - seconds[0]) // 60
