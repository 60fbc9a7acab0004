"""How the rows of a stream are routed: by a policy that every micro-batch reads anew.

The policy is a scalar subquery, and its learning loop hangs on the metrics that the routed frame
observes; a fixed routing needs neither.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.active_workers import Elastic
from skewless.errors import DataError
from skewless.histogram import bucket_count
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.routing_tables import Tables
from skewless.spark import expressions, learning, listening, policy_reader
from skewless.spark.batch import place, worker_of
from skewless.spark.keys import KeyColumns
from skewless.spark.policy_log import PolicyLog
from skewless.spark.python_workers import map_batches
from skewless.spark.salt import salt_column

if TYPE_CHECKING:
    from skewless.spark import exact

__all__ = ["StreamRouting"]

_POLICY, _HASH, _WORKER, _VERSION, _BUCKET, _ROUTED, _SYNC = (
    "__skewless_policy",
    "__skewless_hash",
    "__skewless_worker",
    "__skewless_version",
    "__skewless_bucket",
    "__skewless_routed",
    "__skewless_sync",
)


class StreamRouting:
    """The routing of one stream, and the loop that learns from its batches.

    Parameters
    ----------
    df, keys, policy, state
        What `group_by` was given.
    estimates
        In exact mode, where a task's loads come from (`skewless.spark.exact`); else ``None``.
    """

    def __init__(
        self,
        df: DataFrame,
        keys: KeyColumns,
        policy: Policy | Routing | str,
        state: str | None,
        estimates: str | None = None,
    ) -> None:
        self.df, self.keys, self.policy, self._state = df, keys, policy, state
        self._estimates = estimates
        self.loop: learning.Loop | None = None
        self.syncs: exact.Syncs | None = None

    @property
    def seed(self) -> int:
        """Seed of the policy."""
        return self.policy.seed if isinstance(self.policy, (Policy, Routing)) else 0

    def explain(self) -> list[str]:
        """Say where the policy is kept and how rows are dealt."""
        if self._estimates is not None:
            return [
                f"policy log: {self._state}",
                f"mode: exact, every task routes row by row, with {self._estimates} loads",
            ]
        return [f"policy log: {self._state}", f"salt: {salt_column(self.df, self.seed)[1]}"]

    def routed(self) -> DataFrame:
        """Return the rows, each in the partition of its worker."""
        policy, df = self.policy, self.df
        if isinstance(policy, str):
            return df
        if isinstance(policy, Routing) and self._state is None:
            return place(df, policy.n_workers, worker_of(df, self.keys, policy)[0])
        return self._learned(policy, salt_column(df, policy.seed)[0])

    def _learned(self, policy: Policy | Routing, salt: Column) -> DataFrame:
        df, session = self.df, self.df.sparkSession
        n, seed = policy.n_workers, policy.seed
        log = PolicyLog(str(self._state))
        log.prepare()
        _require_shared(session, log)
        start = policy if isinstance(policy, Routing) else _initial(policy)
        if log.newest(n, seed) is None or isinstance(policy, Routing):
            log.write(start, policy=repr(policy))
        n_buckets = len(start.buckets) if len(start.buckets) > 1 else bucket_count(n)
        learner = policy if isinstance(policy, Policy) else None
        self.loop = learning.Loop(log, learner, n, seed, n_buckets)
        name = f"skewless-{uuid.uuid4()}"
        listening.follow(session, name, self.loop)
        # In exact mode rows wait for Python's answer with all of their columns: no tables then.
        tables = Tables._fields if self._estimates is None else ()
        current = _newest_policy(session, str(log.folder), n, seed, n_buckets, tables)
        source = df.coalesce(1) if self._estimates == "global" else df
        routed = (
            _with_policy(source, current)
            .withColumn(_HASH, self.keys.hash)
            .withColumn(_BUCKET, expressions.bucket_column(F.col(_HASH), n_buckets, seed))
            .withColumn(_VERSION, F.col(_POLICY).getField("version"))
        )
        sync = None
        if self._estimates is None:
            columns = expressions.struct_tables(F.col(_POLICY))
            worker = expressions.worker_column(columns, F.col(_HASH), salt, n, seed)
            routed = routed.withColumn(_WORKER, worker)
        else:
            routed = self._exactly(routed.drop(_POLICY), self.loop, str(log.folder))
            sync = F.col(_SYNC)
        watched = routed.drop(_POLICY).observe(
            name,
            *learning.observed(
                F.col(_VERSION),
                F.col(_WORKER),
                F.col(_HASH),
                F.col(_BUCKET),
                n,
                max(2 * n, 64),
                n_buckets,
                sync,
                count_keys=isinstance(policy, Elastic),
            ),
        )
        routed = watched.drop(_HASH, _BUCKET, _VERSION, _SYNC)
        return place(routed, n, F.col(_WORKER)).drop(_WORKER)

    def _exactly(self, rows: DataFrame, loop: learning.Loop, folder: str) -> DataFrame:
        """Return the rows with their worker, as the policy itself decides it in each task."""
        from skewless.partitioners.base import Partitioner
        from skewless.spark import exact

        assert isinstance(self.policy, Partitioner)  # noqa: S101 - checked when the mode was named
        assert isinstance(loop.policy, Partitioner)  # noqa: S101
        self.syncs = loop.syncs = exact.Syncs(loop.policy, str(self._estimates))
        exact.Task.warm_up(self.policy)
        reads = None if self._estimates == "local" else folder
        route = exact.router(self.policy, reads)
        return (
            rows.withColumn(_ROUTED, route(F.col(_HASH), F.col(_VERSION)))
            .withColumn(_WORKER, F.col(_ROUTED).getField("worker"))
            .withColumn(_SYNC, F.col(_ROUTED).getField("sync"))
            .drop(_ROUTED)
        )


def _initial(policy: Policy) -> Routing:
    """Return the routing before anything was seen: what the policy makes of nothing."""
    from skewless.partitioners import Shuffle

    if isinstance(policy, Shuffle):
        return Routing.shuffling(policy.n_workers)
    return Routing.hashing(policy.n_workers, seed=policy.seed)


def _newest_policy(
    session: SparkSession,
    folder: str,
    n_workers: int,
    seed: int,
    n_buckets: int,
    tables: tuple[str, ...],
) -> DataFrame:
    """Return one row with the newest policy, its version and tables; every micro-batch reads it anew."""
    schema = f"version int, {expressions.TABLE_SCHEMA}"
    read = policy_reader.reader(folder, n_workers, seed, n_buckets)
    one = map_batches(session.range(1, numPartitions=1), read, schema)
    return one.select(F.struct("version", *tables).alias(_POLICY))


def _with_policy(df: DataFrame, policy: DataFrame) -> DataFrame:
    """Return the rows with the policy, as a scalar subquery; Spark before 4.0 joins it to them."""
    if hasattr(policy, "scalar"):
        return df.withColumn(_POLICY, policy.scalar())
    return df.crossJoin(F.broadcast(policy))


def _require_shared(session: SparkSession, log: PolicyLog) -> None:
    """Raise `DataError` if an executor cannot see the state folder (one small job; none if local)."""
    try:
        master = str(session.conf.get("spark.master", "local"))
    except Exception:  # noqa: BLE001 - a server may hide it; the probe below decides then
        master = "unknown"
    if master.startswith("local[") or master == "local":
        return
    token = log.folder / f".shared-{uuid.uuid4()}"
    token.touch()

    def seen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"seen": [token.exists()]})

    try:
        rows = session.range(8, numPartitions=8).mapInArrow(seen, "seen boolean").collect()
    finally:
        token.unlink(missing_ok=True)
    if not all(row["seen"] for row in rows):
        raise DataError(
            f"group_by: state={str(log.folder)!r} is not shared: an executor does not see what the "
            "driver wrote there; give a folder on storage that all of them mount."
        )
