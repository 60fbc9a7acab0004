"""How the rows of a stream are routed: by a policy that every micro-batch reads anew.

The policy is a scalar subquery, and its learning loop hangs on the metrics that the routed frame
observes; a fixed routing needs neither.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.errors import DataError
from skewless.histogram import bucket_count
from skewless.policy import Policy
from skewless.routing import Routing, Tables
from skewless.spark import expressions, learning, policy_reader
from skewless.spark.batch import place, worker_of
from skewless.spark.keys import KeyColumns
from skewless.spark.policy_log import PolicyLog
from skewless.spark.salt import salt_column

__all__ = ["StreamRouting"]

_POLICY, _HASH, _WORKER, _VERSION, _BUCKET = (
    "__skewless_policy",
    "__skewless_hash",
    "__skewless_worker",
    "__skewless_version",
    "__skewless_bucket",
)


class StreamRouting:
    """The routing of one stream, and the loop that learns from its batches.

    Parameters
    ----------
    df, keys, policy, state
        What `group_by` was given.
    """

    def __init__(
        self,
        df: DataFrame,
        keys: KeyColumns,
        policy: Policy | Routing | str,
        state: str | None,
    ) -> None:
        self.df, self.keys, self.policy, self._state = df, keys, policy, state
        self.loop: learning.Loop | None = None

    @property
    def seed(self) -> int:
        """Seed of the policy."""
        return self.policy.seed if isinstance(self.policy, (Policy, Routing)) else 0

    def explain(self) -> list[str]:
        """Say where the policy is kept and how rows are dealt."""
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
        learning.follow(session, name, self.loop)
        current = _newest_policy(session, str(log.folder), n, seed, n_buckets)
        tables = expressions.struct_tables(F.col(_POLICY))
        routed = (
            df.withColumn(_POLICY, current)
            .withColumn(_HASH, self.keys.hash)
            .withColumn(_BUCKET, expressions.bucket_column(F.col(_HASH), n_buckets, seed))
            .withColumn(_WORKER, expressions.worker_column(tables, F.col(_HASH), salt, n, seed))
            .withColumn(_VERSION, F.col(_POLICY).getField("version"))
            .drop(_POLICY)
        )
        watched = routed.observe(
            name,
            *learning.observed(
                F.col(_VERSION),
                F.col(_WORKER),
                F.col(_HASH),
                F.col(_BUCKET),
                n,
                max(2 * n, 64),
                n_buckets,
            ),
        )
        routed = watched.drop(_HASH, _BUCKET, _VERSION)
        return place(routed, n, F.col(_WORKER)).drop(_WORKER)


def _initial(policy: Policy) -> Routing:
    """Return the routing before anything was seen: what the policy makes of nothing."""
    from skewless.partitioners import Shuffle

    if isinstance(policy, Shuffle):
        return Routing.shuffling(policy.n_workers)
    return Routing.hashing(policy.n_workers, seed=policy.seed)


def _newest_policy(
    session: SparkSession, folder: str, n_workers: int, seed: int, n_buckets: int
) -> Column:
    """Return a scalar subquery for the newest policy, which every micro-batch evaluates anew."""
    schema = f"version int, {expressions.TABLE_SCHEMA}"
    one = session.range(1, numPartitions=1).mapInArrow(
        policy_reader.reader(folder, n_workers, seed, n_buckets), schema
    )
    return one.select(F.struct("version", *Tables._fields)).scalar()


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
