"""Batch replay: whether a plan made from the first tasks of a job is worth routing their rows again.

Z. Zvara, P. G. N. Szabo, B. B. Lorant, A. A. Benczur: System-aware dynamic partitioning for batch and
streaming workloads, 2021, section 3.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.costs import Costs, predicted_s
from skewless.errors import ParameterError
from skewless.histogram import Histogram
from skewless.parameters import Range, check
from skewless.routing import Routing

__all__ = ["FirstTasks", "Gain", "Replay", "gain_of"]


class Replay:
    """Count the keys of the first tasks only, and take a policy's plan if its gain pays for that.

    Use it on a large batch that is read in many tasks and lies in no order of its keys: counting a
    tenth costs a tenth. Not where the input is sorted or clustered by the key, or by what goes with it:
    the first tasks then say nothing about the others, and the plan may be no better than hashing.

    Parameters
    ----------
    fraction : float in (0, 1]
        Part of the input tasks to count, rounded up to whole tasks.
    costs : Costs or None
        What a row costs in the work that follows, for the gain test. Left out, an aggregator is timed
        on some rows, and a function over groups counts as the costs that are in force
        (`skewless.calibration.known_costs`), a microsecond or so a row: give the cost of a slow one.

    Notes
    -----
    The test is that of `gain_of`. Guarantee: none about the rows that were not counted; the result of
    the job is the same in any case.

    Deviations from the paper: there the output that the first map tasks have written is partitioned
    again. Spark does not hand that out, so the first tasks are read twice, once to count and once in
    the job, whichever way the test goes.

    Examples
    --------
    >>> Replay(0.1).tasks(20), Replay(0.1).tasks(4), Replay(0.1).tasks(0)
    (2, 1, 0)
    >>> Replay(0.0)
    Traceback (most recent call last):
        ...
    skewless.errors.ParameterError: Replay: fraction must be a float in (0, 1], got 0.0.

    References
    ----------
    Z. Zvara, P. G. N. Szabo, B. B. Lorant, A. A. Benczur, System-aware dynamic partitioning for
    batch and streaming workloads, 2021, section 3, doi:10.48550/arXiv.2105.15023.
    """

    def __init__(
        self, fraction: Annotated[float, Range(0, 1, low_open=True)], costs: Costs | None = None
    ) -> None:
        check("Replay", type(self).__init__, fraction=fraction)
        if costs is not None and not isinstance(costs, Costs):
            raise ParameterError(
                f"Replay: costs must be skewless.costs.Costs, got {costs!r}; take "
                "skewless.calibration.known_costs(update_us=...)."
            )
        self.fraction, self.costs = float(fraction), costs

    def __repr__(self) -> str:
        rest = "" if self.costs is None else f", costs={self.costs!r}"
        return f"Replay({self.fraction:g}{rest})"

    def tasks(self, of_tasks: int) -> int:
        """Return how many of a number of tasks are counted."""
        return min(of_tasks, max(1, math.ceil(self.fraction * of_tasks - 1e-9)))


class FirstTasks(NamedTuple):
    """What the first tasks of a job hold."""

    histogram: Histogram
    """Rows by key, or weights."""
    rows: int
    """Their rows, whatever they weigh."""
    tasks: int
    """How many tasks were counted."""
    of_tasks: int
    """How many there are."""
    seconds: float
    """What it took to count them."""
    shuffled: bool
    """Whether they lie behind a shuffle, which has to run again for the job."""


class Gain(NamedTuple):
    """What a plan gains over hashing, predicted from the first tasks."""

    hash_s: float
    """Seconds of the stage if every key is hashed."""
    plan_s: float
    """Seconds of the stage under the plan."""
    replay_s: float
    """Seconds that routing the counted rows again takes."""
    hash_balance: float
    """Load of the fullest worker over the mean, hashed."""
    plan_balance: float
    """The same under the plan."""

    @property
    def pays(self) -> bool:
        """Whether what the plan saves is more than what the replay takes."""
        return self.hash_s - self.plan_s > self.replay_s


def gain_of(first: FirstTasks, routing: Routing, costs: Costs, *, slots: int | None = None) -> Gain:
    """Return what a plan gains over hashing if all tasks hold keys as the first ones do.

    Parameters
    ----------
    first
        What was counted. Its tail must be readable by the routing: of the same seed, and of its
        buckets or a multiple.
    routing
        The plan.
    costs
        What a row and a fragment cost.
    slots
        Tasks that run side by side; all, if left out.

    Notes
    -----
    The loads of the first tasks are scaled to all tasks; `skewless.costs.predicted_s` tells what the
    slowest worker then takes, hashed and under the plan. A fragment that a plan makes beyond one a key
    costs a merge; groups as such cost the same either way and are left out. Against the difference
    stands the replay: routing and shipping the counted rows over the slots, and, where they lie behind
    a shuffle, all the seconds that counting took, since the job computes the same once more.

    Examples
    --------
    >>> first = FirstTasks(Histogram([1, 2, 3, 4], [40, 30, 20, 10]), 100, 1, 10, 0.5, False)
    >>> costs = Costs(route_us=0.0, ship_us=0.0, update_us=1_000.0)
    >>> plan = Routing(2, {1: {0: 1.0}, 2: {1: 1.0}, 3: {1: 1.0}, 4: {0: 1.0}}, [0, 1])
    >>> found = gain_of(first, plan, costs)
    >>> found.plan_s, found.plan_balance, found.pays == (found.hash_s > 0.5)
    (0.5, 1.0, True)
    """
    n = routing.n_workers
    total = first.histogram.total
    if first.rows == 0 or total == 0:
        return Gain(0.0, 0.0, 0.0, 1.0, 1.0)
    # Loads are in units of weight and cover the first tasks; the costs are per row of all tasks.
    scale = first.rows / total * first.of_tasks / first.tasks
    hashed = Routing.hashing(n, seed=routing.seed).loads(first.histogram) * scale
    planned = routing.loads(first.histogram) * scale
    hash_s = predicted_s(hashed, np.zeros(n), costs, slots=slots)
    split = len(routing.split_keys) > 0
    plan_s = predicted_s(planned, _extra_fragments(routing), costs, split=split, slots=slots)
    side_by_side = first.tasks if slots is None else min(slots, first.tasks)
    replay_s = first.rows * (costs.route_us + costs.ship_us) / 1e6 / side_by_side
    if first.shuffled:
        replay_s += first.seconds
    return Gain(hash_s, plan_s, replay_s, _over_mean(hashed), _over_mean(planned))


def _extra_fragments(routing: Routing) -> NDArray[np.float64]:
    """Return per worker the parts of split keys that it has beside the one each key has anyway."""
    held = np.zeros(routing.n_workers)
    for shares in routing.hot.values():
        for worker in list(shares)[1:]:
            held[worker] += 1
    return held


def _over_mean(loads: NDArray[np.float64]) -> float:
    return float(loads.max() / loads.mean())
