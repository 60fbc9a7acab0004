"""Stateful streams: one owner per key, a state that moves with the key, exactly once by batch id.

Every micro-batch runs in ``foreachBatch``: its rows are placed by the routing, each worker's task reads
the states of its keys from the state folder, calls the update and writes what changed; the driver then
commits the batch by one manifest and hands the recorded output to the sink.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skewless.active_workers import Elastic
from skewless.errors import DataError, ParameterError
from skewless.parameters import Count, check
from skewless.planners import KIP
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.spark.batch import place
from skewless.spark.elastic import StatefulScaling
from skewless.spark.expressions import needs_salt, routing_column
from skewless.spark.keys import KeyColumns, quoted, resolve_column
from skewless.spark.panes import duration_us
from skewless.spark.policies import AUTO
from skewless.spark.python_workers import map_batches
from skewless.spark.stateful_writer import StatefulWriter
from skewless.spark.stored_rows import batch_output, read_state
from skewless.spark.versions import arrow_schema
from skewless.spark.whole import schema_of
from skewless.state_store.job import Job, StateBatch, batches, run_batch
from skewless.state_store.manifest import Manifest
from skewless.state_store.repartitioning import Repartitioning
from skewless.state_store.step import Receipt, Task, Timing, run_step
from skewless.state_store.storage import Storage
from skewless.state_store.store import StateStore
from skewless.state_store.update import read_update

__all__ = ["Stateful", "run_workers", "stateful"]

_HASH, _PLACE, _WORKER = "__skewless_hash", "__skewless_place", "__skewless_worker"


def stateful(
    df: DataFrame,
    keys: KeyColumns,
    policy: Policy | Routing | str,
    n_workers: int,
    folder: str | None,
    update: Callable[..., Any],
    state_schema: StructType | str,
    output_schema: StructType | str,
    *,
    form: str = "per_key",
    order_by: str | Column | Sequence[str | Column] | None = None,
    time: str | None = None,
    watermark: str | None = None,
    timeout: str | None = None,
    timer: str | None = None,
    repartition: Repartitioning | None = None,
    buckets: Count | None = None,
    keep: Count = 10,
    compact_after: Count = 8,
    adopt: bool = False,
) -> Stateful:
    """Return a stream with a state per key that moves with the key; `StreamGroups.stateful` calls it.

    Use it for functions that see all rows of a key in order and keep something: sessions, duplicates,
    models. Not for what Spark's own aggregates do: those are combined before they move.

    Parameters
    ----------
    df, keys, policy, n_workers, folder
        What `group_by` was given.
    update
        ``update(key, rows, state)`` returns the key's new state (a dict, ``None`` to forget it) and its
        output rows (a pandas frame, an Arrow table, a list of dicts, or ``None``). `rows` is a pandas
        frame, or an Arrow table if its type hint says so. With ``form="vectorised"``,
        ``update(rows, slots, states)`` over all keys of a worker at once, Arrow in and out.
    state_schema, output_schema
        Columns of the state and of the output, as text or `StructType`.
    form
        ``"per_key"`` or ``"vectorised"``.
    order_by
        Order in which a key sees its rows; ties, and all rows if it is left out, in source order.
    time, watermark
        Event-time column, and how late a row may be (a duration); later rows are dropped and counted.
    timeout
        Duration after a key's latest row when it is called once without rows.
    timer
        Timestamp column of the state that says when, instead.
    repartition
        When a policy's new routing is worth its migration.
    buckets : int of at least 1 or None
        Hash ranges of a new state folder; 4 for each worker, at least 32, if left out.
    keep : int of at least 1
        Batches whose state stays readable; never fewer than 2.
    compact_after : int of at least 1
        Files of a fragment after which its base is written anew.
    adopt
        Take over the state of another query.

    Returns
    -------
    Stateful
        Its `writeStream` starts the query; `batches` says what each batch did.

    Raises
    ------
    ParameterError
        The policy splits keys, there is no folder, or an option is out of range.
    DataError
        A column is missing, a schema cannot be used, the folder holds other files, or `update` takes
        other arguments.

    Notes
    -----
    Guarantee: states and outputs are those of one process that takes the batches in order, whatever
    the policy, the workers and the restarts; the effects of a batch are all there or none of them.

    References
    ----------
    Z. Zvara, P. G. N. Szabo, B. B. Lorant, A. A. Benczur, System-aware dynamic partitioning for
    batch and streaming workloads, 2021, section 3, doi:10.48550/arXiv.2105.15023.

    Examples
    --------
    >>> def count(key, rows, state):
    ...     n = (state["n"] if state else 0) + len(rows)
    ...     return {"n": n}, None
    >>> users = skewless.group_by(stream, "user", state="/shared/users")  # doctest: +SKIP
    >>> users.stateful(count, "n long", "user string").writeStream  # doctest: +SKIP
    """
    verb = "stateful"
    if folder is None:
        raise ParameterError(
            f"{verb}: give group_by(..., state=...): the folder that keeps the state, which the driver "
            "and all executors can reach."
        )
    check(verb, stateful, buckets=buckets, keep=keep, compact_after=compact_after, adopt=adopt)
    if repartition is not None and not isinstance(repartition, Repartitioning):
        raise ParameterError(
            f"{verb}: repartition must be a Repartitioning(...) or None, got {repartition!r}."
        )
    twice = sorted({name for name in df.columns if df.columns.count(name) > 1})
    if twice:
        raise DataError(f"{verb}: the stream has column {twice[0]!r} twice; rename one.")
    states, outputs = (
        _arrow(verb, name, schema_of(schema))
        for name, schema in (("state_schema", state_schema), ("output_schema", output_schema))
    )
    rows = _arrow(verb, "the stream", df.schema)
    taken = [name for name in states.names if name in keys.names or name.startswith("__skewless")]
    if taken or not states.names:
        raise DataError(
            f"{verb}: state_schema must have at least one column, and none named like a key; got "
            f"{states.names} beside the keys {list(keys.names)}."
        )
    scaling = None
    if isinstance(policy, Elastic):
        scaling, policy = StatefulScaling(policy), policy.base
    timing = _timing(verb, df, states, time, watermark, timeout, timer)
    wanted = [order_by] if isinstance(order_by, (str, Column)) else list(order_by or [])
    order = [
        F.col(quoted(resolve_column(verb, df, one))) if isinstance(one, str) else one
        for one in wanted
    ]
    job = Job(
        StateStore(folder),
        pa.schema([rows.field(name) for name in keys.names]),
        rows,
        read_update(update, form, states, outputs),
        _single_owner(verb, policy, n_workers),
        timing,
        repartition or Repartitioning(),
        buckets,
        max(keep, 2),
        compact_after,
        adopt,
    )
    job.store.refuse_foreign()
    return Stateful(df, keys, order, job, schema_of(output_schema), scaling)


def _single_owner(verb: str, policy: Policy | Routing | str, n_workers: int) -> Policy | Routing:
    if policy == AUTO:
        return KIP(n_workers)
    if isinstance(policy, str):
        raise ParameterError(
            f"{verb}: policy {policy!r} gives keys no owner, and the state of a key has one; use KIP, "
            "another policy that keeps keys whole, or 'auto'."
        )
    splits = needs_salt(policy) if isinstance(policy, Routing) else policy.splits_keys
    if splits:
        raise ParameterError(
            f"{verb}: {policy!r} splits keys, and the state of a key has one owner; use KIP or another "
            "policy that keeps keys whole."
        )
    return policy


def _arrow(verb: str, what: str, schema: StructType) -> pa.Schema:
    try:
        return arrow_schema(schema)
    except Exception as error:
        raise DataError(f"{verb}: {what} has a type that Arrow has not: {error}") from error


def _timing(
    verb: str,
    df: DataFrame,
    states: pa.Schema,
    time: str | None,
    watermark: str | None,
    timeout: str | None,
    timer: str | None,
) -> Timing:
    if timeout is not None and timer is not None:
        raise ParameterError(f"{verb}: give timeout= or timer=, not both.")
    if (watermark is None) != (time is None) or (watermark is None and (timeout or timer)):
        raise ParameterError(
            f"{verb}: time= names the event-time column and watermark= how late a row may be; give both "
            "or none, and both for timeout= or timer=."
        )
    if time is None or watermark is None:
        return Timing()
    name = resolve_column(verb, df, time)
    kind = _arrow(verb, "the stream", df.schema).field(name).type
    if not pa.types.is_timestamp(kind):
        raise DataError(f"{verb}: column {name!r} must be a timestamp, got {kind}.")
    if timer is not None and (
        timer not in states.names or not pa.types.is_timestamp(states.field(timer).type)
    ):
        raise DataError(
            f"{verb}: timer={timer!r} must name a timestamp column of state_schema, which has "
            f"{states.names}."
        )
    delay = duration_us(verb, "watermark", watermark)
    return Timing(
        name, delay, None if timeout is None else duration_us(verb, "timeout", timeout), timer
    )


class Stateful:
    """A stateful stream; `writeStream` runs it."""

    verb = "stateful"
    """Opens an error's sentence."""

    def __init__(
        self,
        df: DataFrame,
        keys: KeyColumns,
        order: list[Column],
        job: Job,
        schema: StructType,
        scaling: StatefulScaling | None = None,
    ) -> None:
        self._df, self._keys, self._order, self._job = df, keys, order, job
        self._scaling = scaling
        self.schema = schema
        """Schema of the output rows."""

    @property
    def writeStream(self) -> StatefulWriter:  # noqa: N802 - as Spark calls it
        """A writer with the methods of Spark's ``DataStreamWriter``."""
        return StatefulWriter(self)

    @property
    def batches(self) -> list[StateBatch]:
        """What the last batches did, over restarts; read from the state folder."""
        return batches(self._job.store)

    def state(self, batch: int | None = None) -> DataFrame:
        """Return the state as a batch frame, after the newest batch or an earlier one that is kept."""
        return read_state(self._df.sparkSession, self._job.store.folder, batch=batch)

    def explain(self) -> str:
        """Return the policy, the rule of its changes, and the folder, as text."""
        job = self._job
        policy = job.policy if self._scaling is None else self._scaling.policy
        return "\n".join(
            (
                f"policy: {policy!r}",
                f"changes: {job.rule!r}",
                f"state: {job.store.folder}",
                f"update: {job.update.name}, {job.update.form}, {job.update.library}",
            )
        )

    def _run(
        self,
        batch_df: DataFrame,
        batch: int,
        checkpoint: str,
        sink: Callable[[DataFrame, int], Any] | None,
    ) -> None:
        """Run one micro-batch: what ``foreachBatch`` calls."""
        session = batch_df.sparkSession
        manifest = self._commit(batch_df, _query_id(session, checkpoint), batch)
        if sink is not None:
            sink(batch_output(session, self._job.store.storage, manifest, self.schema), batch)
        if self._scaling is not None:
            self._scaling.finish(manifest)

    def _commit(self, batch_df: DataFrame, query: str, batch: int) -> Manifest:
        """Run the batch up to its commit."""
        job = self._job if self._scaling is None else self._scaling.begin(self._job)
        return run_batch(job, query, batch, self._execute(batch_df))

    def _execute(self, batch_df: DataFrame) -> Callable[[Task], Iterable[Receipt]]:
        def execute(task: Task) -> Iterable[Receipt]:
            return run_workers(batch_df.select(*names), self._keys, task, self._order)

        names = [F.col(quoted(name)) for name in self._df.columns]
        return execute


def run_workers(
    rows: DataFrame, keys: KeyColumns, task: Task, order: Sequence[Column]
) -> list[Receipt]:
    """Run the part of each worker of a batch; return what they did.

    Parameters
    ----------
    rows
        Input rows; each goes to the owner of its key.
    keys, task
        Key columns, and what the workers are told.
    order
        The order in which a worker sees its rows; ties in the order of `rows`.
    """
    n = task.routing.n_workers
    hashed = rows.select(
        *[F.col(quoted(name)) for name in rows.columns],
        keys.hash.alias(_HASH),
        F.monotonically_increasing_id().alias(_PLACE),
        routing_column(task.routing, keys.hash_sql, None).alias(_WORKER),
    )
    # One row for each worker, so that each has a task, with rows or without.
    seats = rows.sparkSession.range(0, n, 1, 1).select(
        *(F.lit(None).cast(f.dataType).alias(f.name) for f in rows.schema),
        F.lit(None).cast("bigint").alias(_HASH),
        F.lit(-1).cast("bigint").alias(_PLACE),
        F.col("id").cast("int").alias(_WORKER),
    )
    placed = place(hashed.union(seats), n, F.col(_WORKER))
    ordered = placed.sortWithinPartitions(*order, _PLACE)
    found = map_batches(ordered, _stepper(task), "receipt string").collect()
    return [Receipt.parse(row["receipt"]) for row in found]


def _stepper(task: Task) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what each task runs over the rows of its partition."""

    def step(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(parts)
        if not held:
            return
        table = pa.Table.from_batches(held)
        workers = table.column(_WORKER).to_numpy()
        seat = table.column(_HASH).is_null().to_numpy()
        for worker in np.unique(workers).tolist():
            mine = table.filter(pa.array((workers == worker) & ~seat))
            hashes = mine.column(_HASH).to_numpy().view(np.uint64)
            receipt = run_step(task, worker, mine, hashes)
            yield pa.RecordBatch.from_pydict({"receipt": [receipt.to_json()]})

    return step


def _query_id(session: SparkSession, checkpoint: str) -> str:
    """Return the id that a query keeps over restarts: Spark writes it into the checkpoint."""
    try:
        content = Storage(checkpoint.replace("file:///", "/").removeprefix("file:")).read(
            "metadata"
        )
        return str(json.loads(content)["id"])
    except (DataError, OSError, ValueError, KeyError) as error:
        try:
            found = session.sparkContext.getLocalProperty("sql.streaming.queryId")
        except Exception:  # noqa: BLE001 - Spark Connect has no context
            found = None
        if not found:
            raise DataError(
                f"stateful: the query's id cannot be read from checkpoint {checkpoint!r} ({error}); "
                "use a checkpoint on a filesystem that pyarrow reaches."
            ) from error
        return str(found)
