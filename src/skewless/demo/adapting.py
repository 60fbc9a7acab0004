"""The demo's third and fourth act: what the learning loop does while a stream changes, batch by batch.

The loop is the one that steers a streaming query. It is fed here, in this process, with what Spark would
observe of made-up batches, because forty batches of a real query take minutes and show the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.active_workers import ActiveWorkers, Elastic
from skewless.histogram import bucket_count, bucket_of
from skewless.operations.batch_metrics import Timing
from skewless.planners import WrapAround
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.spark.learning import Loop
from skewless.spark.policy_log import PolicyLog

__all__ = ["HOT_BATCHES", "Step", "drift", "elasticity", "reaction"]

#: Keys of the made-up streams; one of them turns hot.
_N_KEYS, _HOT_KEY = 5_000, 7
_ROWS = 20_000
#: Batches of the third act, those in which the key is hot, and its share in them.
_DRIFT_BATCHES, HOT_BATCHES, _SHARE = 20, range(5, 11), 0.6
#: Batches of the fourth act, its trigger, and the rows that one worker takes in that time.
_DAY_BATCHES, _INTERVAL_S, _PER_WORKER = 60, 10.0, 5_000


class Step(NamedTuple):
    """One batch: what it was, and the routing that it met."""

    rows: int
    workers_of_hot: int
    """Workers that share the key."""
    max_over_mean: float
    """Rows of the fullest worker over the mean of the active ones."""
    hashed: float
    """The same, had all keys been hashed to all workers."""
    active: int
    """Workers that got rows."""
    load: float
    """What the batch took over the trigger's interval, in the fourth act; else 0."""


def drift(folder: Path, workers: int, seed: int = 0) -> list[Step]:
    """Follow a stream in which a key takes 60 % of the rows for six batches of twenty.

    Parameters
    ----------
    folder
        Where the policy log goes.
    workers
        Number of workers.
    """
    rng = np.random.default_rng(seed)
    batches = []
    for number in range(_DRIFT_BATCHES):
        keys = _keys(rng, _ROWS)
        if number in HOT_BATCHES:
            keys[rng.random(_ROWS) < _SHARE] = _HOT_KEY
        batches.append(keys)
    return _followed(folder, WrapAround(workers), batches)


def elasticity(folder: Path, workers: int, seed: int = 0) -> list[Step]:
    """Follow a stream whose rate goes from a third of the workers' to nearly all of it, and back.

    A batch takes as long as its fullest worker; Algorithm 4 says how many workers the next one gets.
    """
    rng = np.random.default_rng(seed)
    day = 0.6 - 0.3 * np.cos(np.arange(_DAY_BATCHES) / _DAY_BATCHES * 2 * np.pi)
    sizes = (day * workers * _PER_WORKER).astype(int)
    batches = []
    for size in sizes.tolist():
        keys = _keys(rng, size)
        keys[rng.random(size) < 0.2] = _HOT_KEY
        batches.append(keys)
    rule = ActiveWorkers(max(1, workers // 4), workers, interval_s=_INTERVAL_S)
    return _followed(folder, Elastic(WrapAround(workers), rule), batches)


def reaction(steps: Sequence[Step]) -> tuple[int | None, int | None]:
    """Return in how many batches the key was cut after it turned hot, and whole after it cooled.

    ``None`` if it never was.
    """
    fans = [step.workers_of_hot for step in steps]
    first, last = HOT_BATCHES.start, HOT_BATCHES.stop
    up = next((i - first for i in range(first, last) if fans[i] > 1), None)
    down = next((i - last for i in range(last, len(fans)) if fans[i] == 1), None)
    return up, down


def _keys(rng: np.random.Generator, n: int) -> NDArray[np.uint64]:
    return rng.integers(1_000, 1_000 + _N_KEYS, n).astype(np.uint64)


def _followed(folder: Path, policy: Policy, batches: Sequence[NDArray[np.uint64]]) -> list[Step]:
    n, elastic = policy.n_workers, isinstance(policy, Elastic)
    log = PolicyLog(folder)
    log.prepare()
    hashing = Routing.hashing(n)
    log.write(hashing)
    loop = Loop(log, policy, n, 0, bucket_count(n))
    steps = []
    for number, keys in enumerate(batches):
        loads = np.bincount(loop.routing.route(keys), minlength=n)
        took = float(loads.max()) / _PER_WORKER * _INTERVAL_S if elastic else None
        fan = len(loop.routing.hot.get(_HOT_KEY, {0: 1.0}))
        loop.learn(number, _observed(loop, keys, loads), Timing(seconds=took))
        record = loop.records[-1]
        hashed = np.bincount(hashing.route(keys), minlength=n)
        steps.append(
            Step(
                len(keys),
                fan,
                record.max_over_mean,
                float(hashed.max() / hashed.mean()),
                record.active or n,
                (took or 0.0) / _INTERVAL_S,
            )
        )
    return steps


def _observed(loop: Loop, keys: NDArray[np.uint64], loads: NDArray[np.int64]) -> dict[str, Any]:
    """Return what Spark reports of a batch, as `skewless.spark.learning.observed` asks for it."""
    found, counts = np.unique(keys, return_counts=True)
    heavy = np.argsort(-counts, kind="stable")[: max(2 * loop.n_workers, 64)]
    buckets = np.bincount(bucket_of(keys, loop.n_buckets), minlength=loop.n_buckets)
    return {
        "rows": len(keys),
        "version": loop.version,
        "loads": _listed(np.arange(len(loads)), loads),
        "buckets": _listed(np.arange(len(buckets)), buckets),
        "keys": _listed(found.view(np.int64)[heavy], counts[heavy]),
        "n_keys": len(found),
    }


def _listed(items: NDArray[np.int64], counts: NDArray[np.int64]) -> list[dict[str, int]]:
    pairs = zip(items.tolist(), counts.tolist(), strict=True)
    return [{"item": item, "count": count} for item, count in pairs if count]
