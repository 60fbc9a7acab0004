"""Our sketches beside those of Apache DataSketches: time per update, error and size on the same stream.

Both summarise the same keys in the same run, one thread, CPU time; the figure is the median over the
repetitions. DataSketches is called as its Python package offers it, one key a call: its time is that
of the call more than that of its C++ code, and it is what a Python program pays. The error is the
largest over the 1,000 heaviest keys, in parts of the stream; for distinct keys it is relative.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import datasketches
import numpy as np
from numpy.typing import NDArray

from skewless.datasets.generators import zipf
from skewless.sketches import CountMin, HyperLogLog, LossyCounting, SpaceSaving

__all__ = ["PAIRS", "Fed", "run"]

N_KEYS = 100_000
EXPONENTS = {"uniform": 0.0, "zipf 1.0": 1.0, "zipf 1.5": 1.5}


class Fed(NamedTuple):
    """A sketch that has seen a stream."""

    estimate: Callable[[NDArray[np.uint64]], NDArray[np.float64]]
    """Estimates of the counts of keys; of the distinct keys, whatever it is given."""
    bound: float
    """Stated error, in tuples; relative and one standard error for distinct keys."""
    size: int
    """Bytes in memory, or of the serialised form if the package does not tell them."""


def _space_saving(keys: NDArray[np.uint64]) -> Fed:
    sketch = SpaceSaving(768)
    sketch.update(keys)
    return Fed(lambda k: sketch.estimate(k).astype(float), len(keys) / 768, sketch.state_bytes)


def _lossy_counting(keys: NDArray[np.uint64]) -> Fed:
    sketch = LossyCounting(1 / 768)
    sketch.update(keys)
    return Fed(lambda k: sketch.estimate(k).astype(float), len(keys) / 768, sketch.state_bytes)


def _frequent_items(keys: NDArray[np.uint64]) -> Fed:
    sketch = datasketches.frequent_items_sketch(10)  # at most 0.75 * 2**10 = 768 counters
    for key in keys.tolist():
        sketch.update(key)
    return Fed(
        lambda k: np.array([sketch.get_estimate(key) for key in k.tolist()], float),
        sketch.epsilon * len(keys),
        sketch.get_serialized_size_bytes(datasketches.PyLongsSerDe()),
    )


def _count_min(keys: NDArray[np.uint64]) -> Fed:
    sketch = CountMin(2048, depth=4)
    sketch.update(keys)
    return Fed(lambda k: sketch.estimate(k).astype(float), sketch.error_bound, sketch.state_bytes)


def _their_count_min(keys: NDArray[np.uint64]) -> Fed:
    sketch = datasketches.count_min_sketch(4, 2048)
    for key in keys.tolist():
        sketch.update(key)
    return Fed(
        lambda k: np.array([sketch.get_estimate(key) for key in k.tolist()], float),
        sketch.get_relative_error() * len(keys),
        sketch.get_serialized_size_bytes(),
    )


def _hyper_log_log(keys: NDArray[np.uint64]) -> Fed:
    sketch = HyperLogLog(precision=12)
    sketch.update(keys)
    return Fed(lambda _: np.array([sketch.estimate()]), sketch.standard_error, sketch.state_bytes)


def _their_hll(keys: NDArray[np.uint64]) -> Fed:
    sketch = datasketches.hll_sketch(12, datasketches.HLL_8)
    for key in keys.tolist():
        sketch.update(key)
    return Fed(
        lambda _: np.array([sketch.get_estimate()]),
        datasketches.hll_sketch.get_rel_err(False, sketch.lg_config_k < 4, 12, 1),
        len(sketch.serialize_compact()),
    )


#: What is compared: our sketches, theirs, and what they answer.
PAIRS: dict[str, dict[str, Callable[[NDArray[np.uint64]], Fed]]] = {
    "frequencies, 768 counters": {
        "SpaceSaving": _space_saving,
        "LossyCounting": _lossy_counting,
        "datasketches.frequent_items_sketch": _frequent_items,
    },
    "frequencies, 4 x 2048 cells": {
        "CountMin": _count_min,
        "datasketches.count_min_sketch": _their_count_min,
    },
    "distinct keys, 4096 registers": {
        "HyperLogLog": _hyper_log_log,
        "datasketches.hll_sketch": _their_hll,
    },
}


def run(n_tuples: int = 1_000_000, repetitions: int = 5) -> dict[str, Any]:
    """Measure every sketch and stream; print a table."""
    found: list[dict[str, Any]] = []
    for stream, exponent in EXPONENTS.items():
        keys = zipf(n_tuples, N_KEYS, exponent, seed=1) >> np.uint64(1)  # theirs take signed longs
        distinct, counts = np.unique(keys, return_counts=True)
        heaviest = np.argsort(-counts, kind="stable")[:1000]
        for question, sketches in PAIRS.items():
            for name, feed in sketches.items():
                spent, fed = _timed(feed, keys, repetitions)
                if question.startswith("distinct"):
                    error = abs(float(fed.estimate(distinct)[0]) / len(distinct) - 1)
                    bound = fed.bound
                else:
                    wrong = np.abs(fed.estimate(distinct[heaviest]) - counts[heaviest])
                    error, bound = float(wrong.max()) / n_tuples, fed.bound / n_tuples
                row = {
                    "stream": stream,
                    "question": question,
                    "sketch": name,
                    "ns_per_update": spent / n_tuples,
                    "error": error,
                    "bound": bound,
                    "bytes": fed.size,
                }
                found.append(row)
                print(
                    f"{stream:9} {question:30} {name:36} {row['ns_per_update']:7.1f} ns  "
                    f"error {error:.5f} (bound {bound:.5f})  {fed.size:>8,} bytes",
                    flush=True,
                )
    return {"benchmark": "kernels/sketches", "tuples": n_tuples, "keys": N_KEYS, "rows": found}


def _timed(
    feed: Callable[[NDArray[np.uint64]], Fed], keys: NDArray[np.uint64], repetitions: int
) -> tuple[float, Fed]:
    fed = feed(keys)
    spent = []
    for _ in range(repetitions):
        begun = time.thread_time_ns()
        feed(keys)
        spent.append(time.thread_time_ns() - begun)
    return statistics.median(spent), fed


if __name__ == "__main__":
    run()
