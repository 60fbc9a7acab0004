"""What each policy would make of a histogram, and which one to take: the ground of ``inspect``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless import partitioners, planners
from skewless.costs import Costs, predicted_s
from skewless.histogram import Histogram
from skewless.parameters import Count, Range, check
from skewless.policy import Policy, policy_name
from skewless.routing import Routing

__all__ = [
    "ADVISED",
    "Advice",
    "Outcome",
    "Survey",
    "advise",
    "fitted_exponent",
    "holistic_rule",
    "outcomes",
]

#: Policies that are looked at if none is named: one of each kind.
ADVISED = ("hash", "shuffle", "pkg", "d_choices", "dalton", "off_greedy", "kip", "wrap_around")

#: A simpler policy is taken if it is predicted to be within this of the fastest.
_AS_GOOD = 1.03
#: From the simplest to the one that needs most.
_SIMPLEST = ("spark", "hash", "local")


class Survey(NamedTuple):
    """What was counted in the key columns of a frame or a file."""

    columns: tuple[str, ...]
    workers: int
    histogram: Histogram
    """Heaviest keys and totals by bucket, of the sample if one was taken."""
    values: dict[int, tuple[Any, ...]]
    """Key hash -> values of the key columns, of the heaviest keys."""
    rows: int
    """Rows that were counted."""
    distinct: int
    """Distinct keys among them."""
    null_rows: int
    """Rows with a null in some key column."""
    sample: float | None
    """Part of the rows that were counted; ``None`` if all."""
    weighted: bool
    """Whether the histogram adds up weights instead of rows."""


class Outcome(NamedTuple):
    """What a policy would do with the keys."""

    policy: str
    """Name; ``"local"`` combines where the rows are."""
    max_over_mean: float
    """Rows of the fullest worker over the mean."""
    extra_fragments: float
    """(key, worker) pairs above one a key, expected."""
    split_keys: int
    """Keys on more than one worker; -1 where every key may be."""
    predicted_s: float
    """Seconds of the slowest worker under the cost model."""


class Advice(NamedTuple):
    """One policy, and why."""

    policy: str
    reason: str


def outcomes(
    histogram: Histogram,
    n_workers: Count,
    costs: Costs,
    *,
    distinct: int | None = None,
    policies: Sequence[str] = ADVISED,
    slots: int | None = None,
    tasks: int | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Outcome]:
    """Return what each policy would do with the keys of a histogram, ``"local"`` first.

    Parameters
    ----------
    histogram
        Counts; its tail must have the buckets of ``bucket_count(n_workers)``, or be complete.
    n_workers : int of at least 1
        Number of workers.
    costs
        The cost model.
    distinct
        Distinct keys, those of the tail included; left out, the listed ones.
    policies
        Names of partitioners and planners.
    slots
        Workers that run side by side; all, if left out.
    tasks
        Tasks that the rows lie in, which is where ``"local"`` combines them; `n_workers` if left out.
    progress
        Called with the name of each policy before it is tried.

    Examples
    --------
    >>> counts = Histogram([1, 2, 3, 4], [700, 100, 100, 100])
    >>> for one in outcomes(counts, 2, Costs(), policies=["wrap_around"]):
    ...     print(one.policy, one.max_over_mean)
    local 1.0
    wrap_around 1.0
    """
    check("outcomes", outcomes, n_workers=n_workers)
    n_keys = max(len(histogram), distinct or 0)
    found = [_local(histogram, tasks or n_workers, costs, n_keys, slots)]
    for name, policy in _named(policies, n_workers):
        progress(name)
        found.append(_outcome(name, policy, histogram, costs, n_keys, slots))
    return found


def _named(names: Sequence[str], n_workers: int) -> Iterator[tuple[str, Policy]]:
    classes = {policy_name(cls): cls for cls in (*partitioners.ALL, *planners.ALL)}
    for name in names:
        yield name, classes[name](n_workers)  # type: ignore[call-arg] # each takes it first


def _outcome(
    name: str,
    policy: Policy,
    histogram: Histogram,
    costs: Costs,
    n_keys: int,
    slots: int | None,
) -> Outcome:
    if name == "shuffle":
        routing = Routing.shuffling(policy.n_workers)
    elif name == "hash":
        routing = Routing.hashing(policy.n_workers)
    else:
        routing = policy.learn(histogram)
    loads = routing.loads(histogram)
    held = _fragments(routing, histogram, n_keys)
    n_split = -1 if name == "shuffle" else len(routing.split_keys)
    return Outcome(
        name,
        _max_over_mean(loads),
        max(0.0, float(held.sum()) - n_keys),
        n_split,
        predicted_s(loads, held, costs, split=n_split != 0, slots=slots, keys=n_keys),
    )


def _local(
    histogram: Histogram, n_tasks: int, costs: Costs, n_keys: int, slots: int | None
) -> Outcome:
    rows = np.full(n_tasks, histogram.total / n_tasks)
    held = np.full(n_tasks, _spread_fragments(histogram, n_tasks, n_keys) / n_tasks)
    extra = max(0.0, float(held.sum()) - n_keys)
    seconds = predicted_s(rows, held, costs, routed=False, slots=slots, keys=n_keys)
    return Outcome("local", 1.0, extra, -1, seconds)


def _max_over_mean(loads: NDArray[np.float64]) -> float:
    mean = float(loads.mean())
    return float(loads.max()) / mean if mean > 0 else 1.0


def _fragments(routing: Routing, histogram: Histogram, n_keys: int) -> NDArray[np.float64]:
    """Return the expected fragments per worker; keys of the tail are spread as their rows are."""
    n = routing.n_workers
    if (routing.buckets < 0).all() and not len(routing.keys):
        return np.full(n, _spread_fragments(histogram, n, n_keys) / n)
    held = np.zeros(n)
    hot = routing.hot
    listed = set(histogram.keys.tolist())
    for key, shares in hot.items():
        for worker in shares:
            held[worker] += key in listed
    rest = max(0, n_keys - len(listed & set(hot)))
    owners = routing.buckets[routing.buckets >= 0]
    per_bucket = rest / len(routing.buckets)
    return held + np.bincount(owners, minlength=n) * per_bucket


def _spread_fragments(histogram: Histogram, n_workers: int, n_keys: int) -> float:
    """Return the expected fragments when every row goes to any of the workers."""
    counts = histogram.counts.astype(np.float64)
    tail = 0.0 if histogram.tail is None else float(histogram.tail.sum())
    rest = n_keys - len(counts)
    listed = float((n_workers * -np.expm1(counts * _log_miss(n_workers))).sum())
    if rest <= 0:
        return listed
    return listed + rest * n_workers * -math.expm1(tail / rest * _log_miss(n_workers))


def _log_miss(n_workers: int) -> float:
    """Return the log of the chance that a row misses a worker; one worker is never missed."""
    return math.log1p(-1.0 / n_workers) if n_workers > 1 else -math.inf


def advise(found: Sequence[Outcome], heaviest_share: float, n_workers: int) -> Advice:
    """Return the policy to take for work that Spark cannot combine on the map side, and why.

    The fastest under the cost model wins, and a simpler one if it is as fast within 3 %.

    Examples
    --------
    >>> even = [Outcome("local", 1.0, 900.0, -1, 2.0), Outcome("hash", 1.02, 0.0, 0, 1.0)]
    >>> advise(even, 0.001, 8).policy
    'hash'
    """
    best = min(found, key=lambda one: one.predicted_s)
    limit = best.predicted_s * _AS_GOOD
    simple = [one for name in _SIMPLEST for one in found if one.policy == name]
    chosen = next((one for one in simple if one.predicted_s <= limit), best)
    hashed = next((one for one in found if one.policy == "hash"), None)
    fair = heaviest_share * n_workers
    if chosen.policy == "hash":
        reason = (
            f"the fullest of {n_workers} workers gets {chosen.max_over_mean:.2f} times the mean under "
            "plain hashing, so splitting or moving keys would cost more than it gains"
        )
    else:
        heavy = (
            f"the heaviest key alone is {fair:.1f} fair shares, so a key must be split"
            if fair > 1
            else "keys fall unevenly on the workers"
        )
        against = (
            ""
            if hashed is None or chosen.predicted_s <= 0
            else f", {hashed.predicted_s / chosen.predicted_s:.1f} times as fast as hashing is predicted"
        )
        cost = (
            "at the price of a state of nearly every key on every worker"
            if chosen.split_keys < 0
            else f"with {chosen.extra_fragments:.0f} extra fragments"
        )
        reason = f"{heavy}; max/mean {chosen.max_over_mean:.2f} {cost}{against}"
    return Advice(chosen.policy, reason)


def holistic_rule(
    n_groups: Count,
    window_tuples: Annotated[float, Range(0, low_open=True)],
    n_workers: Count,
    *,
    constant: bool = True,
    much_less: Annotated[float, Range(0, 1, low_open=True)] = 0.1,
) -> Advice:
    """Return the partitioner that the selection rule of the holistic paper takes, and why.

    Use it as a second opinion beside `advise`: it asks for two numbers only and knows three
    partitioners, none of which looks at single heavy keys.

    Parameters
    ----------
    n_groups : int of at least 1
        Groups, that is distinct keys, of the stateful operation.
    window_tuples : float above 0
        Tuples in a window, the mean; for a batch, all.
    n_workers : int of at least 1
        Number of workers.
    constant : bool
        Whether the number of groups is expected to stay as it is while the stream goes on.
    much_less : float in (0, 1]
        Groups count as far fewer than a worker's tuples up to this part of them.

    Returns
    -------
    Advice
        ``"shuffle"``, or ``"cam"``: the rule leaves open whether it is AM or cAM.

    Notes
    -----
    Shuffle, if the groups are constant in number and significantly fewer than the tuples that a worker
    gets in a window; AM or cAM otherwise. What "significantly" means is not said: a tenth is ours. It
    decides the paper's own cases as they were measured: TPC-H Query 1 (4 groups, millions of tuples)
    goes to shuffle; the cluster's Query 1 (4 groups, windows of 42 tuples) and TPC-H Query 3 (110,000
    groups, growing with the data) go to AM or cAM.

    References
    ----------
    N. Katsipoulakis, A. Labrinidis, P. Chrysanthis, A Holistic View of Stream Partitioning Costs, PVLDB
    10(11), 2017, doi:10.14778/3137628.3137639, section 7.

    Examples
    --------
    >>> holistic_rule(4, 59_000_000, 32).policy
    'shuffle'
    >>> holistic_rule(4, 42, 8).policy
    'cam'
    """
    check(
        "holistic_rule",
        holistic_rule,
        n_groups=n_groups,
        window_tuples=window_tuples,
        n_workers=n_workers,
        constant=constant,
        much_less=much_less,
    )
    share = window_tuples / n_workers
    versus = f"{n_groups:,} groups against {share:,.0f} tuples of a worker in a window"
    if constant and n_groups <= much_less * share:
        return Advice(
            "shuffle",
            f"{versus}: few and constant, so a state of each group on every worker is cheap to merge",
        )
    why = (
        "too many for a state of each on every worker"
        if n_groups > much_less * share
        else "few, but their number grows"
    )
    return Advice(
        "cam", f"{versus}: {why}, so each group stays on one worker, chosen among two (AM or cAM)"
    )


def fitted_exponent(counts: NDArray[np.int64], total: int) -> float | None:
    """Return the Zipf exponent of the heaviest keys, or ``None`` where they tell nothing.

    Least squares of log count on log rank over the ranks with at least 10 tuples and at most the 100
    first, weighted by 1/rank so that each octave of ranks weighs the same.

    Examples
    --------
    >>> ranks = np.arange(1, 101)
    >>> round(fitted_exponent(np.round(1e6 / ranks**1.5).astype(int), 2_600_000), 2)
    1.5
    """
    used = np.sort(counts[counts >= 10])[::-1][:100].astype(np.float64)
    if len(used) < 5 or total <= 0:
        return None
    x = np.log(np.arange(1, len(used) + 1))
    weights = 1.0 / np.arange(1, len(used) + 1)
    slope = float(np.polyfit(x, np.log(used), 1, w=np.sqrt(weights))[0])
    return max(0.0, -slope)
