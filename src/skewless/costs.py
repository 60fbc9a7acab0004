"""The cost model: what a row and a fragment cost, and how long the slowest worker then takes.

Time of a job on n workers = the slowest worker's rows times (ship + update) plus its fragments times
merge (less what a key's first fragment is spared), plus the routing of all rows spread evenly over the
workers; with fewer slots than workers, at least the whole work over the slots; plus what its stages take
to start. The two-sided view, load and aggregation, is that of N. Katsipoulakis, A. Labrinidis,
P. Chrysanthis, A Holistic View of Stream Partitioning Costs, PVLDB 10(11), 2017, section 2.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from skewless.errors import ParameterError
from skewless.routing import Routing

__all__ = ["Costs", "calibrate", "makespan", "predicted_s", "stages_of"]


class Costs(NamedTuple):
    """Microseconds of one worker, and what a stage takes to start."""

    route_us: float = 0.05
    """Finding the worker of a row."""
    ship_us: float = 0.3
    """Sending a row through the exchange, and reading it."""
    update_us: float = 1.0
    """Updating the state of a row's key."""
    merge_us: float = 5.0
    """Making, shipping and merging one fragment's state."""
    stage_s: float = 0.0
    """Seconds, not microseconds: starting a stage of tasks, whatever it does. A simulated stream has its
    tasks up, and pays none."""
    joined_us: float = 0.0
    """Part of `merge_us`: putting a state together with another of its key. A key that is whole is spared
    it, and so is the first fragment of any other."""


def predicted_s(
    rows: ArrayLike,
    fragments: ArrayLike,
    costs: Costs,
    *,
    routed: bool = True,
    split: bool = False,
    slots: int | None = None,
    keys: float = 0.0,
) -> float:
    """Return the seconds that a job takes: those of its slowest worker, or more if slots are few.

    Parameters
    ----------
    rows, fragments
        Rows and key fragments of each worker.
    costs
        What each costs.
    routed
        Whether rows are routed and shipped, or combined where they are.
    split
        Whether parts of a key lie on several workers, so that one more stage merges them.
    slots
        Workers that run side by side; all, if left out. No job is done before its whole work has
        passed through the slots.
    keys
        Distinct keys: so many of the fragments are spared ``costs.joined_us``, on every worker alike.

    Examples
    --------
    >>> costs = Costs(0.0, 0.5, 1.5, 0.0)
    >>> predicted_s([1e6, 3e6], [10, 10], costs), predicted_s([1e6, 3e6], [10, 10], costs, slots=1)
    (6.0, 8.0)
    >>> dear = Costs(0.0, 0.0, 0.0, 2e6, joined_us=1e6)
    >>> predicted_s([0, 0], [8, 8], dear), predicted_s([0, 0], [8, 8], dear, keys=16)
    (16.0, 8.0)
    """
    load, held = np.asarray(rows, np.float64), np.asarray(fragments, np.float64)
    if load.shape != held.shape or load.ndim != 1 or len(load) == 0:
        raise ParameterError(
            f"predicted_s: rows and fragments must have one entry per worker, got shapes {load.shape} "
            f"and {held.shape}."
        )
    per_row = costs.update_us + (costs.ship_us if routed else 0.0)
    routing = costs.route_us * float(load.sum()) / _side_by_side(load, slots) if routed else 0.0
    whole = float(held.sum())
    per_fragment = costs.merge_us - (costs.joined_us * min(keys / whole, 1.0) if whole else 0.0)
    work_us = makespan(load * per_row + held * per_fragment, slots) + routing
    return work_us / 1e6 + stages_of(split=split) * costs.stage_s


def stages_of(*, split: bool) -> int:
    """Return the stages of a grouped job.

    Rows are combined where they lie, then merged; or they are sent to the workers of whole keys, and
    combined and finished there. Sent to the workers of split keys they are merged in a third stage.

    Examples
    --------
    >>> stages_of(split=False), stages_of(split=True)
    (2, 3)
    """
    return 3 if split else 2


def makespan(tasks: NDArray[np.float64], slots: int | None = None) -> float:
    """Return the least time of a stage: its longest task, or all tasks over the slots.

    Examples
    --------
    >>> makespan(np.array([6.0, 2.0])), makespan(np.array([6.0, 2.0]), slots=1)
    (6.0, 8.0)
    """
    return max(float(tasks.max()), float(tasks.sum()) / _side_by_side(tasks, slots))


def _side_by_side(tasks: NDArray[np.float64], slots: int | None) -> int:
    return len(tasks) if slots is None else min(slots, len(tasks))


def calibrate(update_us: float | None = None) -> Costs:
    """Measure the costs on this machine with small jobs in this process; about a second.

    Parameters
    ----------
    update_us
        Cost of your own function per row; left out, that of adding a number to a state in Python.

    Notes
    -----
    Route is the compiled routing, ship is writing and reading Arrow batches, merge is making two
    Python states and putting them together through Arrow. Medians of five runs. What an exchange does
    besides, such as sorting, compressing and writing rows, no job in this process does: ship is the
    default of `Costs` at least. A cluster ships over a network and costs more.
    """
    costs = _measured()
    return costs if update_us is None else costs._replace(update_us=float(update_us))


@functools.cache
def _measured() -> Costs:
    keys = np.arange(100_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    routing = Routing.hashing(64)
    table = pa.table({"key": keys, "value": np.arange(100_000), "text": ["abcdefgh"] * 100_000})

    def route() -> None:
        routing.route(keys)

    def ship() -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.take(np.random.default_rng(0).permutation(100_000)))
        pa.ipc.open_stream(sink.getvalue()).read_all()

    def update() -> None:
        states: dict[int, int] = {}
        for value in range(100_000):
            states[value & 1023] = states.get(value & 1023, 0) + value

    def merge() -> None:
        states = pa.Table.from_pylist([{"n": i, "total": float(i)} for i in range(20_000)])
        halves = states.slice(0, 10_000).to_pylist(), states.slice(10_000).to_pylist()
        for left, right in zip(*halves, strict=True):
            left["n"] += right["n"]
            left["total"] += right["total"]

    return Costs(
        route_us=_median_us(route, 100_000),
        ship_us=max(_median_us(ship, 100_000), Costs().ship_us),
        update_us=_median_us(update, 100_000),
        merge_us=_median_us(merge, 20_000),
    )


def _median_us(job: Callable[[], None], n: int) -> float:
    job()
    spent = []
    for _ in range(5):
        begun = time.thread_time_ns()
        job()
        spent.append((time.thread_time_ns() - begun) / n / 1e3)
    return statistics.median(spent)
