"""Route the rows of a frame: histogram, plan, worker column, exchange."""

from __future__ import annotations

import copy
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram, bucket_count
from skewless.partitioners import Hash, Shuffle
from skewless.planners import WrapAround
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.spark.expressions import needs_salt, routing_column, sql_array
from skewless.spark.keys import KeyColumns, resolve_keys
from skewless.spark.policies import AUTO, LOCAL, SPARK, PolicyLike, resolve_policy
from skewless.spark.salt import salt_column
from skewless.spark.sampling import estimated_histogram, sample, sampled
from skewless.spark.statistics import Counted, gather
from skewless.spark.versions import version_of

__all__ = [
    "Plan",
    "as_placed",
    "check_frame",
    "count",
    "default_workers",
    "estimate",
    "fixed_routing",
    "is_balanced",
    "learned",
    "place",
    "place_by",
    "places_by_id",
    "plan",
    "plan_auto",
    "repartition",
    "worker_of",
    "worker_slots",
]

#: Max/mean load up to which ``"auto"`` leaves every key where hashing puts it.
_BALANCED = 1.1
#: Spark's seed of the Murmur3 hash that places rows on partitions.
_MURMUR_SEED = 42


class Plan(NamedTuple):
    """A routing, and what it took to find it."""

    routing: Routing
    """Where every key goes."""
    histogram: Histogram | None
    """What the policy learned from; ``None`` if it needs no counts."""
    gather_s: float
    """Seconds that the counting query took."""
    learn_s: float
    """Seconds that the policy took on the driver."""
    sampled: int = 0
    """Rows of the sample that the histogram was estimated from; 0 if all rows were counted."""


def repartition(
    df: DataFrame, *keys: str, policy: PolicyLike = AUTO, workers: int | None = None
) -> DataFrame:
    """Return the same rows, spread over the policy's workers: partition i holds worker i's rows.

    Use it before work that takes each partition as a whole (``mapInArrow``, a writer) and would
    wait for the partition of a hot key. Not before Spark's own ``groupBy`` or ``join`` on the same
    keys: they shuffle once more by their own hash.

    Parameters
    ----------
    df
        The frame. A streaming one takes only policies that learn nothing (``Hash``, ``Shuffle``, a
        `Routing`).
    *keys
        Names of the key columns.
    policy
        A policy object, a saved `Routing`, or a name. ``"auto"`` hashes if that keeps every worker
        within a tenth of its fair share, and else is ``"wrap_around"``: the heaviest keys are cut
        where they exceed a fair share, with at most ``workers - 1`` cuts. ``"spark"`` is
        ``df.repartition(workers, *keys)``.
    workers
        Number of partitions for a policy given by name; left out, it is
        ``spark.sql.shuffle.partitions``.

    Returns
    -------
    DataFrame
        The columns, types and nullability of `df`.

    Raises
    ------
    ParameterError
        The policy or the number of workers cannot be used.
    DataError
        A key column is missing or cannot be grouped by.

    Notes
    -----
    A policy that learns counts the keys first, in one query that runs when this is called (``"auto"``
    only samples them); all else is lazy. The policy object itself is not changed. Routing is native:
    no row passes Python. A key that is split lies in several partitions; with ``"hash"`` every key lies
    in one.

    Examples
    --------
    >>> even = skewless.repartition(df, "user", policy="wrap_around", workers=64)  # doctest: +SKIP
    """
    check_frame("repartition", df)
    columns = resolve_keys("repartition", df, keys)
    chosen = resolve_policy("repartition", policy, workers, default_workers(df, workers))
    n_workers = workers or default_workers(df, workers)
    if chosen == LOCAL:
        raise ParameterError(
            "repartition: policy 'local' leaves every row where it is, so there is nothing to "
            "repartition; use the frame itself, or another policy."
        )
    if chosen == SPARK:
        return df.repartition(n_workers, *columns.columns)
    rule = WrapAround(n_workers) if isinstance(chosen, str) else chosen
    if df.isStreaming and fixed_routing(rule) is None:
        raise ParameterError(
            f"repartition: policy {rule!r} learns from counts, which a streaming frame has only "
            "batch by batch; use Hash, Shuffle or a saved Routing here, or "
            "group_by(...).window(...), which learns while the query runs."
        )
    if isinstance(chosen, str):
        found = plan_auto(df, columns, WrapAround(n_workers))
    else:
        found = plan(df, columns, chosen)
    routing = found.routing
    return place(df, routing.n_workers, worker_of(df, columns, routing)[0])


def check_frame(verb: str, df: Any) -> None:
    """Raise unless `df` is a Spark frame, classic or Connect."""
    if not type(df).__module__.startswith("pyspark.sql") or not hasattr(df, "isStreaming"):
        raise DataError(
            f"{verb}: takes a Spark DataFrame, got {type(df).__module__}.{type(df).__name__}; make "
            "one with spark.createDataFrame."
        )


def default_workers(df: DataFrame, workers: int | None = None) -> int:
    """Return `workers`, or the number of partitions that Spark shuffles into.

    Raises
    ------
    ParameterError
        Spark's setting is not a number.
    """
    if workers is not None:
        return workers
    setting = df.sparkSession.conf.get("spark.sql.shuffle.partitions")
    try:
        return int(str(setting))
    except ValueError as error:
        raise ParameterError(
            f"workers: spark.sql.shuffle.partitions is {setting!r}, not a number; give workers=."
        ) from error


def fixed_routing(policy: Policy | Routing) -> Routing | None:
    """Return the routing of a policy that learns nothing; ``None`` for one that needs counts.

    Examples
    --------
    >>> fixed_routing(Hash(4)) == Routing.hashing(4), fixed_routing(WrapAround(4))
    (True, None)
    """
    if isinstance(policy, Routing):
        return policy
    if isinstance(policy, Hash):
        return Routing.hashing(policy.n_workers, seed=policy.seed)
    if isinstance(policy, Shuffle):
        return Routing.shuffling(policy.n_workers)
    return None


def plan(
    df: DataFrame,
    keys: KeyColumns,
    policy: Policy | Routing,
    *,
    weight: Column | None = None,
) -> Plan:
    """Return the routing of a policy for the rows of a batch frame, counting keys if it must.

    The policy object stays as it was: a copy of it learns. Rows weigh 1, or `weight`.
    """
    if isinstance(policy, Routing):
        return Plan(policy, None, 0.0, 0.0)
    fixed = fixed_routing(policy)
    if fixed is not None:
        return Plan(fixed, None, 0.0, 0.0)
    started = time.perf_counter()
    histogram = count(
        df, keys, policy.n_workers, weight=weight, seed=policy.seed, listed=_listed(policy)
    ).histogram
    gathered = time.perf_counter()
    routing = learned(policy, histogram)
    return Plan(routing, histogram, gathered - started, time.perf_counter() - gathered)


def count(
    df: DataFrame,
    keys: KeyColumns,
    n_workers: int,
    *,
    weight: Column | None = None,
    seed: int = 0,
    listed: int = 0,
) -> Counted:
    """Return the counts that a policy of `n_workers` learns from, at least `listed` keys one by one."""
    n_hot = max(2 * n_workers, 64, listed)
    return gather(df, keys, n_hot, bucket_count(n_workers), seed, weight=weight)


def estimate(
    df: DataFrame,
    keys: KeyColumns,
    n_workers: int,
    *,
    weight: Column | None = None,
    by_spark: bool = False,
) -> Counted:
    """Return about the counts of `count`, from a sample, exact where a task has few rows.

    Weighted rows are all counted: a sample may miss the one row that weighs the most. Of others
    `by_spark` also asks where Spark's own hash would place them.
    """
    if weight is not None:
        return count(df, keys, n_workers, weight=weight)
    more = []
    if by_spark:
        more = [F.pmod(F.hash(*keys.columns), F.lit(n_workers)).alias("partition")]

    def hashes_of(n_sure: int) -> DataFrame:
        some, at = sampled(df, n_sure)
        return some.select(keys.hash.alias("key"), at.alias("at"), *more)

    found = sample(hashes_of, n_workers, df)
    hashes = found.rows.column("key").to_numpy().view(np.uint64)
    n_hot, n_buckets = max(2 * n_workers, 64), bucket_count(n_workers)
    histogram, distinct = estimated_histogram(hashes, found.weights, n_hot, n_buckets)
    n_sampled = 0 if found.complete else found.rows.num_rows
    placed = None
    if by_spark:
        partitions = found.rows.column("partition").to_numpy()
        placed = np.bincount(partitions, found.weights, n_workers).astype(np.float64)
    return Counted(histogram, histogram.total, distinct, found.tasks, n_sampled, placed)


def _listed(policy: Policy) -> int:
    return getattr(policy, "hot_keys", None) or 0


def learned(policy: Policy, histogram: Histogram) -> Routing:
    """Return what a copy of the policy learns; the policy itself stays as it was."""
    return fixed_routing(policy) or copy.deepcopy(policy).learn(histogram)


def plan_auto(
    df: DataFrame, keys: KeyColumns, rule: Policy, *, weight: Column | None = None
) -> Plan:
    """Return plain hashing if it is balanced for these rows, else what the rule learns from a sample.

    Balanced means that no worker gets more than a tenth above its fair share: to cut keys for less
    than that would cost more than it gains.
    """
    started = time.perf_counter()
    found = estimate(df, keys, rule.n_workers, weight=weight)
    gathered = time.perf_counter()
    routing = Routing.hashing(rule.n_workers)
    if not is_balanced(routing, found.histogram):
        routing = learned(rule, found.histogram)
    learn_s = time.perf_counter() - gathered
    return Plan(routing, found.histogram, gathered - started, learn_s, found.sampled)


def is_balanced(routing: Routing, histogram: Histogram) -> bool:
    """Say whether no worker gets more than a tenth above its fair share.

    Examples
    --------
    >>> is_balanced(Routing.hashing(2), Histogram([1, 2], [5, 500]))
    False
    """
    loads = routing.loads(histogram)
    return float(loads.max()) <= _BALANCED * float(loads.mean())


def worker_of(df: DataFrame, keys: KeyColumns, routing: Routing) -> tuple[Column, str]:
    """Return the worker of each row, int, and a sentence on how split keys are dealt."""
    salt, sentence = None, "no key is split"
    if needs_salt(routing):
        salt, sentence = salt_column(df, routing.seed)
    return routing_column(routing, keys.hash_sql, salt), sentence


def place(df: DataFrame, n_workers: int, worker: Column) -> DataFrame:
    """Put each row in the partition that the int column `worker` names.

    The worker is an expression of the exchange, not a column of the frame: no row carries it. Spark
    4.1 and newer take it directly; older versions place rows by a Murmur3 hash, which gets an integer
    that it sends to the wanted partition.
    """
    if places_by_id(df):
        return df.repartitionById(n_workers, worker)
    return df.repartition(n_workers, _slot_column(worker, n_workers))


def place_by(df: DataFrame, n_workers: int, name: str) -> DataFrame:
    """Put each row in the partition that its int column `name` names, so that Spark knows of it.

    Grouping by that column and others then takes no further exchange.
    """
    if places_by_id(df):
        return df.repartitionById(n_workers, F.col(name))
    slots = df.withColumn(name, _slot_column(F.col(name), n_workers))
    return slots.repartition(n_workers, F.col(name))


def as_placed(df: DataFrame, worker: Column, n_workers: int) -> Column:
    """Return what `place_by` leaves in the column of a worker."""
    return worker if places_by_id(df) else _slot_column(worker, n_workers)


def places_by_id(df: DataFrame) -> bool:
    """Say whether Spark takes the partition of a row directly, and then joins rows where they are.

    Before 4.1 it shuffles both sides of a join once more, by the hash of all that is compared.
    """
    return hasattr(df, "repartitionById") and version_of(df.sparkSession) >= (4, 1)


def _slot_column(worker: Column, n_workers: int) -> Column:
    return F.get(F.expr(sql_array(worker_slots(n_workers), "int")), worker)


def worker_slots(n_workers: int) -> NDArray[np.int32]:
    """Return, per worker, the smallest non-negative integer that Spark's hash sends to it.

    Spark places an int ``x`` at ``pmod(murmur3(x, 42), n)``; this inverts that for every partition.

    Examples
    --------
    >>> worker_slots(8).tolist()
    [12, 6, 5, 1, 25, 15, 2, 0]
    """
    found = np.full(n_workers, -1, np.int32)
    start, step = 0, max(256, 16 * n_workers)
    while (found < 0).any():
        numbers = np.arange(start, start + step, dtype=np.uint32)
        partitions, first = np.unique(_murmur3(numbers) % n_workers, return_index=True)
        fresh = found[partitions] < 0
        found[partitions[fresh]] = numbers[first[fresh]]
        start += step
    return found


def _murmur3(numbers: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return Spark's 32-bit Murmur3 of ints, signed; unsigned arithmetic wraps by design."""
    k = numbers * np.uint32(0xCC9E2D51)
    k = (k << np.uint32(15)) | (k >> np.uint32(17))
    h = np.uint32(_MURMUR_SEED) ^ (k * np.uint32(0x1B873593))
    h = (h << np.uint32(13)) | (h >> np.uint32(19))
    h = h * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= np.uint32(4)  # the length of an int in bytes
    h ^= h >> np.uint32(16)
    h = h * np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h = h * np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    signed: NDArray[np.int64] = h.view(np.int32).astype(np.int64)
    return signed
