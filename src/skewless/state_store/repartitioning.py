"""When a stateful stream changes its routing: past histograms, and gain against migration.

Z. Zvara, P. G. N. Szabo, B. B. Lorant, A. A. Benczur: System-aware dynamic partitioning for batch and
streaming workloads, 2021, section 3 (the repartitioning master keeps a record of past histograms, and
the gain of a new partitioner must exceed what the migration of state costs).
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.errors import DataError
from skewless.histogram import Histogram, bucket_count, rebucketed
from skewless.parameters import Count, Range, check
from skewless.policy import Policy
from skewless.routing import EVERY_WORKER, Routing
from skewless.state_store.manifest import Fragment
from skewless.state_store.migration import state_keys_moved

__all__ = ["Decision", "Past", "Repartitioning", "decide", "refuse_splits"]

Cost = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1, high_open=True)]


class Repartitioning:
    """When to take a policy's new routing.

    Parameters
    ----------
    memory : float in [0, 1)
        Weight of the past: what was counted k batches ago counts ``memory ** k`` times.
    last : int of at least 1 or None
        Remember the last so many batches instead, all of the same weight.
    min_gain : float in [0, 1)
        Part by which the heaviest worker's load must fall, at least.
    horizon : int of at least 1
        Batches for which a new routing is expected to hold.
    migration_cost : float of at least 0
        What it costs to move the state of one key, in rows processed.

    Notes
    -----
    With loads estimated from the remembered counts, in rows a batch, a routing R' replaces R if

    ``max L(R) - max L(R') > min_gain * max L(R)`` and
    ``horizon * (max L(R) - max L(R')) > migration_cost * moved``,

    where ``moved`` is the number of keys with a state that change owner, estimated from the number of
    keys in each state bucket. The left side is the time that the slowest task saves while the new
    routing holds, the right side what moving costs, both in rows. The paper asks for this comparison
    without giving a formula; this is ours. A first routing, or one for another number of workers, is
    taken as it is.

    Examples
    --------
    >>> Repartitioning(memory=0.8, horizon=20)
    Repartitioning(memory=0.8, horizon=20)

    References
    ----------
    Z. Zvara, P. G. N. Szabo, B. B. Lorant, A. A. Benczur, System-aware dynamic partitioning for
    batch and streaming workloads, 2021, section 3, doi:10.48550/arXiv.2105.15023.
    """

    def __init__(
        self,
        *,
        memory: Share = 0.5,
        last: Count | None = None,
        min_gain: Share = 0.05,
        horizon: Count = 10,
        migration_cost: Cost = 1.0,
    ) -> None:
        given = {
            "memory": memory,
            "last": last,
            "min_gain": min_gain,
            "horizon": horizon,
            "migration_cost": migration_cost,
        }
        check("Repartitioning", type(self).__init__, **given)
        self.memory, self.last = memory, last
        self.min_gain, self.horizon, self.migration_cost = min_gain, horizon, migration_cost

    @classmethod
    def always(cls) -> Repartitioning:
        """Take every new routing, whatever it moves, as the paper's experiments do."""
        rule = cls(memory=0.0, min_gain=0.0, migration_cost=0.0)
        rule.min_gain = -np.inf
        return rule

    def __repr__(self) -> str:
        plain = {
            "memory": 0.5,
            "last": None,
            "min_gain": 0.05,
            "horizon": 10,
            "migration_cost": 1.0,
        }
        rest = [f"{k}={getattr(self, k)!r}" for k, v in plain.items() if getattr(self, k) != v]
        return f"Repartitioning({', '.join(rest)})"


class Past:
    """What is remembered of the histograms of past batches; plain numbers, so that it can be saved."""

    def __init__(self, counts: list[dict[str, Any]] | None = None, weight: float = 0.0) -> None:
        self.counts: list[dict[str, Any]] = counts or []
        self.weight = weight
        """Batches that the counts stand for."""

    def add(self, fresh: Histogram, rule: Repartitioning, n_hot: int) -> Past:
        """Return what is remembered once a batch more was counted."""
        if fresh.total == 0:
            return self
        fresh = _bounded(fresh, n_hot)
        if rule.last is not None:
            counts = [*self.counts, _dump(fresh)][-rule.last :]
            return Past(counts, float(len(counts)))
        known = self.total(fresh)
        if known is None or rule.memory == 0:
            return Past([_dump(fresh)], 1.0)
        both = _bounded(fresh.plus(known, rule.memory), n_hot)
        return Past([_dump(both)], 1.0 + rule.memory * self.weight)

    def total(self, like: Histogram | None = None) -> Histogram | None:
        """Return all that is remembered as one histogram, ``None`` if that is nothing."""
        total: Histogram | None = None
        for counts in self.counts:
            one = _load(counts)
            if like is not None and like.tail is not None:
                one = rebucketed(one, len(like.tail), like.seed)
            elif total is not None and total.tail is not None:
                one = rebucketed(one, len(total.tail), total.seed)
            total = one if total is None else total.plus(one)
        return total

    def dump(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"counts": self.counts, "weight": self.weight}

    @classmethod
    def load(cls, saved: dict[str, Any]) -> Past:
        """Return what `dump` gave."""
        return cls(list(saved.get("counts", [])), float(saved.get("weight", 0.0)))


def _bounded(histogram: Histogram, n_hot: int) -> Histogram:
    if histogram.tail is None:
        return histogram
    return histogram.top(n_hot, len(histogram.tail))


def _dump(histogram: Histogram) -> dict[str, Any]:
    tail = np.zeros(0, np.int64) if histogram.tail is None else histogram.tail
    used = np.flatnonzero(tail)
    return {
        "keys": histogram.keys.tolist(),
        "counts": histogram.counts.tolist(),
        "buckets": used.tolist(),
        "tail": tail[used].tolist(),
        "n_buckets": len(tail),
        "seed": histogram.seed,
    }


def _load(saved: dict[str, Any]) -> Histogram:
    tail = np.zeros(saved["n_buckets"], np.int64)
    tail[np.array(saved["buckets"], np.int64)] = saved["tail"]
    keys = np.array(saved["keys"], np.uint64)
    return Histogram(keys, np.array(saved["counts"], np.int64), tail, seed=saved["seed"])


class Decision(NamedTuple):
    """The routing of the next batch, and why."""

    routing: Routing
    changed: bool
    gain_rows: float
    """Rows a batch by which the heaviest worker's load falls under the new plan."""
    moved_keys: float
    """Keys with a state that the new plan moves, estimated."""
    reason: str


def decide(
    policy: Policy | Routing,
    rule: Repartitioning,
    past: Past,
    current: Routing | None,
    fragments: tuple[Fragment, ...],
    n_state_buckets: int,
) -> Decision:
    """Return the routing of the next batch.

    Parameters
    ----------
    policy
        What plans; it may keep a memory of its own. Or a routing, which is taken as it is.
    rule
        When a plan is worth its migration.
    past
        What was counted so far.
    current
        The routing of the last batch, ``None`` before the first.
    fragments, n_state_buckets
        The states there are.
    """
    n, seed = policy.n_workers, policy.seed
    known = past.total(Histogram([], [], np.zeros(bucket_count(n), np.int64), seed=seed))
    if isinstance(policy, Routing):
        plan = policy
    elif known is None:
        plan = Routing.hashing(n, seed=seed)
    else:
        plan = policy.learn(known, current)
    refuse_splits(plan, policy)
    if current is None:
        return Decision(plan, True, 0.0, 0.0, "first batch")
    if plan == current:
        return Decision(current, False, 0.0, 0.0, "nothing better is known")
    moved = state_keys_moved(fragments, current, plan, n_state_buckets)
    if isinstance(policy, Routing) or current.n_workers != n or current.seed != seed:
        why = (
            f"{current.n_workers} workers became {n}"
            if current.n_workers != n
            else "another policy"
        )
        return Decision(plan, True, 0.0, moved, why)
    assert known is not None  # noqa: S101 - without counts the plan is the hashing of the start
    scale = 1.0 / max(past.weight, 1.0)
    now, then = _peak(current, known) * scale, _peak(plan, known) * scale
    gain = now - then
    figures = f"saves {gain:.0f} of {now:.0f} rows a batch and moves about {moved:.0f} keys"
    if gain <= rule.min_gain * now:
        return Decision(current, False, gain, moved, f"kept: {figures}, below min_gain")
    if rule.horizon * gain <= rule.migration_cost * moved and rule.migration_cost > 0:
        return Decision(current, False, gain, moved, f"kept: {figures}, which costs more")
    return Decision(plan, True, gain, moved, f"changed: {figures}")


def _peak(routing: Routing, histogram: Histogram) -> float:
    tail = histogram if len(routing.buckets) == _n_tail(histogram) else None
    if tail is None:
        tail = rebucketed(histogram, len(routing.buckets), routing.seed)
    loads: NDArray[np.float64] = routing.loads(tail)
    return float(loads.max())


def _n_tail(histogram: Histogram) -> int:
    return 0 if histogram.tail is None else len(histogram.tail)


def refuse_splits(routing: Routing, policy: Policy | Routing) -> None:
    """Raise `DataError` if a routing gives some key several workers: a state has one owner."""
    if len(routing.split_keys) or bool((routing.buckets == EVERY_WORKER).any()):
        raise DataError(
            f"stateful: the routing of {policy!r} splits keys ({len(routing.split_keys)} listed "
            "ones), but the state of a key has one owner; use KIP or another policy that keeps keys "
            "whole."
        )
