"""What the rows of Dalton share: the job's costs, who takes part, and the rate that is sustained.

E. Zapridou, I. Mytilinis, A. Ailamaki: Dalton: Learned Partitioning for Distributed Data Streams,
PVLDB 16(3), 2022, sections 2 and 5.

The paper names no costs. These follow from its jobs, and are the same in all rows. A record that goes
to another task takes 1 us there, reading the text of a word count 9 us, changing a state 1 us. With
windows of 60,000 tuples that move by 1,000, Flink keeps 60 windows: a tuple changes 60 states, and a
fragment (a key of a combiner in a window) is handed over and merged 60 times before it leaves. So a
tuple costs its combiner 70 us and a fragment its reducer 120 us. In micro-batches a combiner reduces
the batch alone (11 us a tuple), and the reducer holds the 60 windows (61 us a fragment).

A partitioner takes 0.5 us for a tuple, as two of them are never the bottleneck in the paper, and 0.05
us for each worker that its algorithm looks at: all of them twice a tuple for CM, all of them for a hot
tuple of DAGreedy, which the paper counts against it; our own versions are faster. The paper's sorting
of a batch for Prompt is not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.costs import Costs
from skewless.partitioners import CAM, CM, PKG, DAGreedy, Dalton, Hash, Shuffle
from skewless.planners import Prompt, Replanned, WrapAround
from skewless.policy import Policy
from skewless.simulator import Simulation, simulate

__all__ = [
    "COSTS_IN_WORDS",
    "NAMES",
    "SIZE",
    "SLIDE",
    "Job",
    "Measured",
    "k_per_s",
    "measure",
    "policy_of",
    "route_us",
    "word_count",
    "workers_of",
]

#: "60 s" and "1 s": event time is the number of the tuple.
SIZE, SLIDE = 60_000, 1_000
SHIP_US, READ_US, STATE_US, ROUTE_US, LOOK_US = 1.0, 9.0, 1.0, 0.5, 0.05
COSTS_IN_WORDS = (
    "70 us a tuple at its combiner, 120 us a fragment at its reducer, both for the 60 windows that it "
    "is in; 0.5 us a tuple at the partitioner and 0.05 us for each worker that it looks at"
)
#: As the paper lists them, and ours last.
NAMES = ("hash", "cam", "shuffle", "pkg", "cm", "da_greedy", "dalton", "wrap_around")
#: These give a key one worker, need no reducers, and have their places for combiners too.
ONE_CHOICE = ("hash", "cam")
#: These know which keys they do not split; all others hand everything to the reducers.
FORWARDING = (*ONE_CHOICE, "da_greedy", "dalton", "wrap_around")


class Job(NamedTuple):
    """A windowed aggregation on n tasks."""

    parallelism: int = 64
    """Combiners and reducers together; one reducer in eight tasks."""
    size: int = SIZE
    slide: int = SLIDE
    batch: int | None = None
    """Tuples in a micro-batch; else tuples go one at a time."""

    @property
    def reducers(self) -> int:
        """Reducers: 1, 2, 4 and 8 for 8, 16, 32 and 64 tasks."""
        return max(1, self.parallelism // 8)


def word_count(job: Job) -> Costs:
    """Return what a word count's combiners and reducers take; the partitioner's is `route_us`."""
    windows = job.size / job.slide
    if job.batch is not None:
        return Costs(ROUTE_US, SHIP_US, READ_US + STATE_US, SHIP_US + windows * STATE_US)
    return Costs(ROUTE_US, SHIP_US, READ_US + windows * STATE_US, windows * (SHIP_US + STATE_US))


def workers_of(name: str, job: Job) -> int:
    """Return the number of combiners: what the reducers leave, if there have to be any."""
    alone = name in ONE_CHOICE and job.batch is None
    return job.parallelism if alone else job.parallelism - job.reducers


def policy_of(name: str, job: Job, seed: int = 0) -> Policy:
    """Return a contestant, its windows those of the job, its statistics window a slide."""
    n = workers_of(name, job)
    size = job.size if job.batch is None else job.batch
    slide = min(job.slide, size)
    made: dict[str, Callable[[], Policy]] = {
        "hash": lambda: Hash(n, seed=seed),
        "cam": lambda: CAM(n, window=size, seed=seed),
        "shuffle": lambda: Shuffle(n),
        "pkg": lambda: PKG(n, seed=seed),
        "cm": lambda: CM(n, window=size, seed=seed),
        "da_greedy": lambda: DAGreedy(n, window=size, slide=slide, stats_window=slide, seed=seed),
        "dalton": lambda: Dalton(n, window=size, slide=slide, stats_window=slide, seed=seed),
        "prompt": lambda: Prompt(n, hot_keys=size, seed=seed),
        "wrap_around": lambda: (
            Replanned(WrapAround(n, seed=seed), every=job.size // 5)
            if job.batch is None
            else WrapAround(n, seed=seed)
        ),
    }
    return made[name]()


def route_us(name: str, n_workers: int, keys: NDArray[np.uint64]) -> float:
    """Return what the partitioner takes for a tuple, in the mean over a pane."""
    looked_at = 0.0
    if name in ("pkg", "cam"):
        looked_at = 2.0
    elif name == "cm":
        looked_at = 2.0 * n_workers
    elif name in ("da_greedy", "dalton", "cooperative_dalton"):
        counts = np.unique(keys, return_counts=True)[1]
        hot = float(counts[counts * n_workers >= len(keys)].sum()) / len(keys)
        looked_at = hot * (n_workers if name == "da_greedy" else 1 + np.log2(n_workers))
    return ROUTE_US + LOOK_US * looked_at


class Measured(NamedTuple):
    """What a run took, window by window (or batch by batch)."""

    tuples: NDArray[np.int64]
    route_s: NDArray[np.float64]
    """Work of the busiest partitioner."""
    combine_s: NDArray[np.float64]
    """Work of the busiest combiner."""
    merge_s: NDArray[np.float64]
    """Work of the busiest reducer."""
    found: Simulation

    def sustained(self, after: int = 0, upto: int | None = None) -> float:
        """Return the tuples per second that the slowest stage sustains from one pane to another."""
        which = slice(after, upto)
        route, combine, merge = (
            float(part[which].sum()) for part in (self.route_s, self.combine_s, self.merge_s)
        )
        batches = self.found.summary().model == "batches"
        slowest = max(route, combine + merge) if batches else max(route, combine, merge)
        return float(self.tuples[which].sum()) / slowest

    def figures(self, after: int) -> dict[str, float]:
        """Return the rate, the balance and the merged fragments from a window on, for a row."""
        windows = self.found.windows
        return {
            "throughput": self.sustained(after),
            "max_over_mean": float(windows.max_over_mean[after:].mean()),
            "merged": float(windows.merged[after:].mean()),
        }


def measure(
    name: str,
    keys: NDArray[np.uint64],
    job: Job,
    *,
    seed: int = 0,
    policy: Policy | None = None,
    forwarding: bool | None = None,
    **more: Any,
) -> Measured:
    """Run a contestant on a stream; each pane of the simulation is a window, or a micro-batch.

    A tuple's 60 windows are in its costs, so that the windows of the simulation tumble. With several
    sources, `keys` are all tuples in the order in which they arrive.
    """
    held = policy_of(name, job, seed) if policy is None else policy
    pane = job.size if job.batch is None else job.batch
    knows = name in FORWARDING and job.batch is None
    found = simulate(
        more.pop("sources", keys),
        held,
        window=pane,
        batch=job.batch,
        reducers=job.reducers,
        forwarding=knows if forwarding is None else forwarding,
        costs=word_count(job),
        seed=seed,
        **more,
    )
    panes = found.panes
    each = [
        route_us(name, held.n_workers, keys[at : at + pane]) for at in range(0, len(keys), pane)
    ]
    busiest = panes.routed.max(axis=1)
    return Measured(
        panes.tuples, busiest * np.array(each) / 1e6, panes.combine_s, panes.merge_s, found
    )


def k_per_s(rate: float) -> str:
    """Write a rate in thousands of tuples per second.

    Examples
    --------
    >>> k_per_s(71_234.0)
    '71.2'
    """
    return f"{rate / 1e3:.1f}"
