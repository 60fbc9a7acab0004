"""How many mappers and reducers the next micro-batch gets: Prompt's latency-aware auto-scaling.

A. S. Abdelhamid, A. R. Mahmood, A. Daghistani, W. G. Aref: Prompt: Dynamic Data-Partitioning for
Distributed Micro-batch Stream Processing Systems, SIGMOD 2020, section 6 and Algorithm 4.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from skewless.errors import DataError, ParameterError
from skewless.parameters import Count, Range, check

__all__ = ["Batch", "Elasticity", "Scale"]

Load = Annotated[float, Range(0, low_open=True)]
Step = Annotated[float, Range(0)]


class Batch(NamedTuple):
    """What one micro-batch took and held."""

    processing_s: float
    """Processing time, seconds."""
    interval_s: float
    """Batch interval, seconds."""
    n_tuples: int
    """Tuples in the batch: the data rate."""
    n_keys: int
    """Different keys in the batch: the data distribution."""


class Scale(NamedTuple):
    """The execution plan for the next micro-batch."""

    n_mappers: int
    """Map tasks."""
    n_reducers: int
    """Reduce tasks."""
    reason: str
    """Why, in a few words."""


class Elasticity:
    """Add tasks when batches take nearly their interval, and take them away when they do not.

    After `patience` batches in a row with a load (processing time over interval) above `threshold`,
    mappers grow by one if the tuples became more, reducers if the keys did. After as many with a load
    of at most ``threshold - step``, mappers shrink if the tuples became fewer, reducers if the keys
    did. More and fewer are against the first batch of the run. The object decides and does nothing.

    Parameters
    ----------
    n_mappers, n_reducers : int of at least 1
        Tasks at the start.
    threshold : float above 0
        Load that calls for more tasks; 0.9 in the paper.
    step : float of at least 0
        Width of the zone below it where nothing changes; 0.1 in the paper.
    patience : int of at least 1
        Batches in a row, d, that it takes; and batches after a change in which the opposite change is
        not made.
    max_tasks : int of at least 1
        Most mappers, and most reducers.

    Notes
    -----
    Cost: O(1) a batch; the state is a few numbers.

    Deviations from the paper. The printed nesting of Algorithm 4 counts the batches that do not exceed
    the threshold; the text of section 6, which this follows, counts those that do. Scaling in is in the
    text only. If the load is too high and neither tuples nor keys became more, the batch itself has
    become dearer: then both are added, where the paper would do nothing for ever; and both are taken
    away if it is low with neither fewer. "Increased" is not defined: here it is against the first batch
    of the run, or the last one before it if there is one.

    Examples
    --------
    >>> scaling = Elasticity(4, 2, patience=2)
    >>> scaling.decide(Batch(0.8, 1.0, 1_000, 50))[:2]
    (4, 2)
    >>> for n_tuples in 1_500, 2_000:
    ...     plan = scaling.decide(Batch(0.95, 1.0, n_tuples, 50))
    >>> plan.n_mappers, plan.n_reducers, plan.reason
    (5, 2, 'load above 0.9 in 2 batches, more tuples')

    References
    ----------
    SIGMOD 2020, section 6, doi:10.1145/3318464.3389713.
    """

    def __init__(
        self,
        n_mappers: Count,
        n_reducers: Count,
        *,
        threshold: Load = 0.9,
        step: Step = 0.1,
        patience: Count = 3,
        max_tasks: Count = 1024,
    ) -> None:
        check(
            "Elasticity",
            type(self).__init__,
            n_mappers=n_mappers,
            n_reducers=n_reducers,
            threshold=threshold,
            step=step,
            patience=patience,
            max_tasks=max_tasks,
        )
        if step >= threshold:
            raise ParameterError(
                f"Elasticity: step must be below the threshold of {threshold:g}, got {step:g}; no load "
                "is low enough to take tasks away."
            )
        if max(n_mappers, n_reducers) > max_tasks:
            raise ParameterError(
                f"Elasticity: max_tasks must be at least the {max(n_mappers, n_reducers)} tasks of the "
                f"start, got {max_tasks}."
            )
        self.n_mappers, self.n_reducers = n_mappers, n_reducers
        self.threshold, self.step, self.patience = threshold, step, patience
        self.max_tasks = max_tasks
        self._direction = 0
        self._run = 0
        self._grace = 0
        self._changed = 0
        self._last: Batch | None = None
        self._before: Batch | None = None

    def decide(self, batch: Batch) -> Scale:
        """Return the plan after one more batch.

        Raises
        ------
        DataError
            A time or a count is negative or no number, or the interval is zero.
        """
        _check(batch)
        load = batch.processing_s / batch.interval_s
        direction = 1 if load > self.threshold else -1 if load <= self.threshold - self.step else 0
        if direction != self._direction:
            # The batch before a run is what its batches are compared with.
            self._direction, self._run, self._before = direction, 0, self._last or batch
        self._last = batch
        self._run += 1
        self._grace = max(0, self._grace - 1)
        if direction == 0 or self._run < self.patience:
            return self._plan(
                "load in the zone that is left alone" if direction == 0 else "waiting"
            )
        if self._grace > 0 and direction == -self._changed:
            return self._plan("grace period after the opposite change")
        return self._change(direction, batch)

    def _change(self, direction: int, batch: Batch) -> Scale:
        before = self._before or batch
        tuples = direction * (batch.n_tuples - before.n_tuples) > 0
        keys = direction * (batch.n_keys - before.n_keys) > 0
        dearer = not (tuples or keys)
        mappers = self._within(self.n_mappers + direction * (tuples or dearer))
        reducers = self._within(self.n_reducers + direction * (keys or dearer))
        changed = (mappers, reducers) != (self.n_mappers, self.n_reducers)
        self.n_mappers, self.n_reducers = mappers, reducers
        self._run, self._before = 0, batch
        side = (
            f"above {self.threshold:g}"
            if direction > 0
            else f"at most {self.threshold - self.step:g}"
        )
        words = f"load {side} in {self.patience} batches"
        if not changed:
            return self._plan(f"{words}, but the limit of tasks is reached")
        self._changed, self._grace = direction, self.patience + 1
        more = "more" if direction > 0 else "fewer"
        what = [name for name, is_so in (("tuples", tuples), ("keys", keys)) if is_so]
        said = f"{more} {' and '.join(what)}" if what else "with the same tuples and keys"
        return self._plan(f"{words}, {said}")

    def _within(self, n_tasks: int) -> int:
        return min(max(n_tasks, 1), self.max_tasks)

    def _plan(self, reason: str) -> Scale:
        return Scale(self.n_mappers, self.n_reducers, reason)


def _check(batch: Batch) -> None:
    for name, value in zip(Batch._fields, batch, strict=True):
        least = "above 0" if name == "interval_s" else "of at least 0"
        if not (math.isfinite(value) and (value > 0 or (value == 0 and name != "interval_s"))):
            raise DataError(f"Elasticity: {name} must be a number {least}, got {value}.")
