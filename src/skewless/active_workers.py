"""How many of a query's workers are active: Prompt's auto-scaling, applied to a routing.

A. S. Abdelhamid, A. R. Mahmood, A. Daghistani, W. G. Aref: Prompt: Dynamic Data-Partitioning for
Distributed Micro-batch Stream Processing Systems, SIGMOD 2020, section 6 and Algorithm 4.
"""

from __future__ import annotations

import numpy as np

from skewless.elasticity import Batch, Elasticity, Load, Step
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram, bucket_count, rebucketed
from skewless.parameters import Count, Positive, check
from skewless.partitioners import Shuffle, TimeBased
from skewless.policy import Policy
from skewless.routing import EVERY_WORKER, Routing

__all__ = ["ActiveWorkers", "Elastic", "used_workers"]


class ActiveWorkers:
    """Activate a worker when batches take nearly their interval, retire one when one fewer would do.

    Use it for a stream whose rate changes through the day, with a trigger of a fixed interval. Not for
    a query without such a trigger: each of its batches begins when the one before ends, and its load
    says nothing; nor for one that reads what there is and stops.

    Parameters
    ----------
    low, high : int of at least 1
        Fewest and most active workers; `high` are active at the start.
    interval_s : float above 0 or None
        Batch interval, seconds. Left out, it is the time from the begin of one batch to the begin of
        the next, which for ``trigger(processingTime=)`` is the trigger's interval, or the time that
        the batch before took if that was longer.
    threshold : float above 0
        Load (processing time over interval) that calls for a worker more.
    step : float of at least 0
        Width of the zone below it where nothing changes.
    patience : int of at least 1
        Batches in a row that it takes.

    Notes
    -----
    Decides by `Elasticity`, Algorithm 4, with one kind of task: a worker takes rows in as a mapper does
    and combines keys as a reducer does, so it becomes more if either kind should.

    Deviation from the paper. Batches of low load only count towards retiring a worker if they would
    have stayed at the threshold with one worker fewer, had its work been shared out over the others. In
    the paper a steady load may go back and forth for ever: 0.96 on four workers, 0.77 on five.

    Cost: O(1) a batch.

    Examples
    --------
    >>> scaling = ActiveWorkers(2, 8, interval_s=10, patience=2)
    >>> [scaling.decide(Batch(4.0, 10.0, 1_000, 50)) for _ in range(9)]
    [8, 7, 7, 6, 6, 5, 5, 4, 4]
    >>> [scaling.decide(Batch(8.5, 10.0, 1_000, 50)) for _ in range(9)]
    [4, 4, 4, 4, 4, 4, 4, 4, 4]
    >>> [scaling.decide(Batch(9.5, 10.0, 2_000, 50)) for _ in range(4)]
    [4, 5, 5, 6]

    References
    ----------
    SIGMOD 2020, section 6, doi:10.1145/3318464.3389713.
    """

    def __init__(
        self,
        low: Count,
        high: Count,
        *,
        interval_s: Positive | None = None,
        threshold: Load = 0.9,
        step: Step = 0.1,
        patience: Count = 3,
    ) -> None:
        check("ActiveWorkers", type(self).__init__, low=low, high=high, interval_s=interval_s)
        if low > high:
            raise ParameterError(
                f"ActiveWorkers: low must be at most high, got {low} and {high}; give the fewer "
                "workers first."
            )
        check(
            "ActiveWorkers",
            type(self).__init__,
            threshold=threshold,
            step=step,
            patience=patience,
        )
        if step >= threshold:
            raise ParameterError(
                f"ActiveWorkers: step must be below the threshold of {threshold:g}, got {step:g}; no "
                "load is low enough to retire a worker."
            )
        self.low, self.high, self.interval_s = low, high, interval_s
        self.threshold, self.step, self.patience = threshold, step, patience
        self.reason = "the start"
        self._rule = self._from(high)

    def __repr__(self) -> str:
        plain = {"interval_s": None, "threshold": 0.9, "step": 0.1, "patience": 3}
        rest = [f", {k}={getattr(self, k)!r}" for k, v in plain.items() if getattr(self, k) != v]
        return f"ActiveWorkers({self.low}, {self.high}{''.join(rest)})"

    @property
    def active(self) -> int:
        """Workers that are active now."""
        return self._rule.n_mappers

    def start_with(self, active: int) -> None:
        """Begin anew with so many workers, or the nearest number within the limits."""
        self._rule = self._from(min(max(active, self.low), self.high))
        self.reason = "the start"

    def decide(self, batch: Batch) -> int:
        """Return the number of active workers after one more batch.

        Raises
        ------
        DataError
            A time or a count is negative or no number, or the interval is zero.
        """
        before = self.active
        plan = self._rule.decide(self._told(batch))
        # One kind of task: what was decided for either is done to both.
        active = max(plan[:2]) if max(plan[:2]) > before else min(plan[:2])
        self._rule.n_mappers = self._rule.n_reducers = active
        self.reason = plan.reason
        return active

    def _told(self, batch: Batch) -> Batch:
        """Return the batch; where one worker fewer would not do, with a load that is left alone."""
        if not (batch.interval_s > 0 and batch.processing_s >= 0):
            return batch  # the rule says what is wrong with it
        load = batch.processing_s / batch.interval_s
        if load > self.threshold - self.step:
            return batch
        fewer = self.active - 1
        if fewer >= self.low and load * self.active <= self.threshold * fewer:
            return batch
        return batch._replace(processing_s=(self.threshold - self.step / 2) * batch.interval_s)

    def _from(self, active: int) -> Elasticity:
        return Elasticity(
            active,
            active,
            threshold=self.threshold,
            step=self.step,
            patience=self.patience,
            max_tasks=self.high,
        )


class Elastic(Policy):
    """A policy that is made anew for fewer or more workers as `ActiveWorkers` says.

    The routing always speaks of ``workers.high`` workers, of which the first so many get rows.

    Parameters
    ----------
    policy
        The policy for ``workers.high`` workers. What it remembers is lost when the number changes;
        the routing in force is handed on, so that what need not move stays.
    workers
        Says how many are active.

    Raises
    ------
    ParameterError
        The policy is for another number of workers, cannot be made for ``workers.low``, or deals rows
        to all workers whatever their key.

    Examples
    --------
    >>> from skewless.planners import WrapAround
    >>> policy = Elastic(WrapAround(4), ActiveWorkers(2, 4, interval_s=1, patience=1))
    >>> used_workers(policy.learn(Histogram.of([1, 1, 2, 3, 4, 5])))
    4
    >>> policy.scale(0.1, None, 6, 5)
    >>> used_workers(policy.learn(Histogram.of([1, 1, 2, 3, 4, 5])))
    3
    """

    splits_keys = True
    moves_keys = True

    def __init__(self, policy: Policy, workers: ActiveWorkers) -> None:
        if policy.n_workers != workers.high:
            raise ParameterError(
                f"Elastic: the policy has {policy.n_workers} workers, but {workers!r} activates up to "
                f"{workers.high}; give both the same number."
            )
        if isinstance(policy, (Shuffle, TimeBased)):
            raise ParameterError(
                f"Elastic: {policy!r} deals rows to all workers in turn, so none can be retired; take a "
                "policy that looks at keys."
            )
        self.n_workers, self.seed = policy.n_workers, policy.seed
        self.base, self.workers = policy, workers
        _made(policy, workers.low)
        self._current = (
            policy if workers.active == policy.n_workers else _made(policy, workers.active)
        )

    def __repr__(self) -> str:
        return f"Elastic({self.base!r}, {self.workers!r})"

    @property
    def current(self) -> Policy:
        """The policy for the workers that are active now."""
        return self._current

    def resume(self, active: int) -> None:
        """Go on with so many active workers, or the nearest number within the limits."""
        self.workers.start_with(active)
        self._remake()

    def scale(
        self,
        processing_s: float | None,
        interval_s: float | None,
        n_tuples: int,
        n_keys: int | None,
    ) -> None:
        """Let a batch decide how many workers are active from now on.

        Parameters
        ----------
        processing_s
            What the batch took, seconds.
        interval_s
            From the begin of the batch before to its begin, seconds; used if `workers` has no
            interval of its own.
        n_tuples, n_keys
            Tuples and different keys in the batch.
        """
        interval = self.workers.interval_s or interval_s
        if processing_s is None or interval is None or interval <= 0:
            return
        self.workers.decide(Batch(processing_s, interval, n_tuples, n_keys or 0))
        self._remake()

    def _remake(self) -> None:
        active = self.workers.active
        if active != self._current.n_workers:
            whole = active == self.n_workers
            self._current = self.base if whole else _made(self.base, active)

    def learn(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
        """Return the routing of the active workers, as one of all workers."""
        active = self._current.n_workers
        told = rebucketed(histogram, bucket_count(active), self.seed)
        routing = self._current.learn(told, _fitted(previous, active, self.seed))
        if EVERY_WORKER in routing.buckets:
            raise DataError(
                f"Elastic: {self.base!r} deals a bucket to all workers in turn, so none can be retired; "
                "take another policy."
            )
        return _resized(routing, self.n_workers)


def used_workers(routing: Routing) -> int:
    """Return how many workers a routing gives anything to.

    Examples
    --------
    >>> used_workers(Routing(8, {7: {5: 1.0}}, [0, 1, 1]))
    3
    """
    if EVERY_WORKER in routing.buckets:
        return routing.n_workers
    return len(np.union1d(routing.buckets, routing.workers))


def _made(policy: Policy, n_workers: int) -> Policy:
    """Return a policy with the same parameters for another number of workers."""
    more = {name: value for name, value in policy.parameters().items() if name != "n_workers"}
    return type(policy)(n_workers, **more)  # type: ignore[call-arg]


def _resized(routing: Routing, n_workers: int) -> Routing:
    """Return the same routing as one of more workers."""
    keys = np.repeat(routing.keys, np.diff(routing.offsets))
    return Routing.from_arrays(
        n_workers, keys, routing.workers, routing.shares, routing.buckets, seed=routing.seed
    )


def _fitted(previous: Routing | None, n_workers: int, seed: int) -> Routing | None:
    """Return a routing over other workers as one that a policy of `n_workers` can go on from."""
    if previous is None or previous.seed != seed or EVERY_WORKER in previous.buckets:
        return None
    n_buckets, n_before = bucket_count(n_workers), len(previous.buckets)
    middle = (2 * np.arange(n_buckets) + 1) * n_before // (2 * n_buckets)
    owners = previous.buckets[middle]
    gone = owners >= n_workers
    # What a retired worker had is dealt to all that stay.
    owners = np.where(gone, np.cumsum(gone) % n_workers, owners)
    stays = previous.workers < n_workers
    keys = np.repeat(previous.keys, np.diff(previous.offsets))[stays]
    return Routing.from_arrays(
        n_workers, keys, previous.workers[stays], previous.shares[stays], owners, seed=seed
    )
