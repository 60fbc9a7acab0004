"""The stream that plans every micro-batch from its own counts, and what it tells of each.

A batch is kept, counted and cut into blocks by the policy's plan; what its stages put together enters
the window state, which is committed by batch id. Before the commit nothing of a batch is seen.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram, bucket_count
from skewless.routing import Routing
from skewless.spark.batch import Plan, learned, plan
from skewless.spark.blocks import END
from skewless.spark.pane_windows import Clock
from skewless.spark.planned_stages import WEIGHT, Work, counted, run_stages, selected
from skewless.spark.stateful import Stateful
from skewless.spark.stateful_writer import StatefulWriter
from skewless.state_store.job import Job, StateBatch, batches, run_batch
from skewless.state_store.manifest import Manifest
from skewless.state_store.repartitioning import Past
from skewless.state_store.step import Receipt, Task

__all__ = ["PlannedBatch", "PlannedStream", "PlannedWriter"]


class PlannedBatch(NamedTuple):
    """What one planned batch did."""

    batch: int
    """Batch id."""
    rows: int
    """Rows that are in some window which was still open."""
    late_rows: int
    """Rows whose windows were all emitted before; dropped."""
    planned_from: str
    """``"batch"``: the counts of the batch; ``"previous"``: those of the one before; ``"nothing"``:
    the policy needs no counts, or the batch has no rows."""
    planned_loads: tuple[float, ...]
    """Rows (or weight) of each block as the plan has it, for the counts that it was made from."""
    block_loads: tuple[int, ...]
    """Rows of each block."""
    bucket_loads: tuple[int, ...]
    """Rows behind the partial results of each reduce bucket."""
    split_keys: int
    """Keys that the plan cut."""
    output_rows: int
    """Windows that came out."""
    keys: int
    """Keys that have a state after the batch."""
    state_bytes: int
    """Length of all state files after the batch."""
    watermark_us: int | None
    """Watermark of the next batch, event time in microseconds."""
    read_ms: float
    """Time to read the batch and keep it."""
    count_ms: float
    """Time to count its keys."""
    plan_ms: float
    """Time of the policy on the driver."""
    run_ms: float
    """Time of the map, reduce and state stages."""
    total_ms: float
    """Time of the whole batch up to the commit."""

    @property
    def max_over_mean(self) -> float:
        """Rows of the fullest block over the mean."""
        return max(self.block_loads) * len(self.block_loads) / self.rows if self.rows else 1.0

    @property
    def planning_share(self) -> float:
        """Part of the batch's time that counting and planning took, in [0, 1]."""
        return (self.count_ms + self.plan_ms) / self.total_ms if self.total_ms else 0.0


class PlannedStream(Stateful):
    """A windowed stream that plans every micro-batch; `writeStream` runs it."""

    verb = "aggregate"

    def __init__(self, work: Work, job: Job, schema: StructType) -> None:
        super().__init__(work.df, work.keys, [], job, schema)
        self._work = work
        self._updates = False

    @property
    def writeStream(self) -> PlannedWriter:  # noqa: N802 - as Spark calls it
        """A writer with the methods of Spark's ``DataStreamWriter``."""
        return PlannedWriter(self)

    @property
    def planned(self) -> list[PlannedBatch]:
        """What the last batches did, over restarts; read from the state folder."""
        return [_planned(each) for each in batches(self._job.store)]

    def explain(self) -> str:
        """Return the policy, the stages and the folder, as text."""
        work = self._work
        n = work.policy.n_workers
        when = "the batch before" if work.early else "the batch itself, whole"
        how = (
            "a total per key: panes are added once and subtracted once"
            if work.step.states.invertible
            else "merged from their panes, since not every state column has an inverse"
        )
        return "\n".join(
            (
                f"policy: {work.policy!r}, planned from the counts of {when}",
                f"blocks: {n}, combined per key and pane",
                f"reduce buckets: {work.reducers}, dealt by each block (split keys by hash)",
                f"windows: {how}",
                f"state: {self._job.store.folder}",
            )
        )

    def in_mode(self, updates: bool) -> PlannedStream:
        """Return the same stream with windows that come out as they change, or once complete."""
        other = copy.copy(self)
        other._updates = updates
        return other

    def _commit(self, batch_df: DataFrame, query: str, batch: int) -> Manifest:
        spans = self._work.step.spans
        notes: dict[str, Any] = {"size": spans.size, "slide": spans.slide}
        self._refuse_other_windows(notes)
        return run_batch(self._job, query, batch, self._planned(batch_df, notes), notes)

    def _refuse_other_windows(self, notes: dict[str, Any]) -> None:
        head = self._job.store.newest()
        if head is None or not head.records:
            return
        before = head.records[-1].get("notes")
        if before and any(before[name] != value for name, value in notes.items()):
            raise DataError(
                f"aggregate: folder {self._job.store.folder!r} holds the panes of windows of "
                f"{before['size']} us by {before['slide']} us, but the query has {notes['size']} us by "
                f"{notes['slide']} us; keep the windows, or start anew in a new folder."
            )

    def _planned(
        self, batch_df: DataFrame, notes: dict[str, Any]
    ) -> Callable[[Task], Iterable[Receipt]]:
        work = self._work

        def execute(task: Task) -> Iterable[Receipt]:
            clock = Clock(max(task.late_us or 0, 0), max(task.watermark_us or 0, 0))
            started = time.perf_counter()
            kept = selected(work, batch_df).persist()
            try:
                in_time = F.col(END) > work.step.spans.needed_after(clock.late)
                n_rows, n_timed = counted(kept, in_time)
                read = time.perf_counter()
                rows = kept.where(in_time)
                found, source = self._block_plan(rows, n_rows)
                planned = time.perf_counter()
                answer = run_stages(work, rows, found.routing, task, clock, self._updates)
            finally:
                kept.unpersist()
            receipts, blocks, buckets = answer
            expected = None if found.histogram is None else found.routing.loads(found.histogram)
            notes.update(
                rows=n_rows,
                late_rows=n_timed - n_rows,
                planned_from=source,
                planned_loads=[] if expected is None else expected.tolist(),
                block_loads=blocks,
                bucket_loads=buckets,
                split_keys=len(found.routing.split_keys),
                read_ms=(read - started) * 1e3,
                count_ms=found.gather_s * 1e3,
                plan_ms=found.learn_s * 1e3,
                run_ms=(time.perf_counter() - planned) * 1e3,
            )
            return receipts

        return execute

    def _block_plan(self, rows: DataFrame, n_rows: int) -> tuple[Plan, str]:
        """Return the plan of a batch, and what it was made from."""
        work, policy = self._work, self._work.policy
        if isinstance(policy, Routing):
            return Plan(policy, None, 0.0, 0.0), "nothing"
        if n_rows == 0:
            hashing = Routing.hashing(policy.n_workers, seed=policy.seed)
            return Plan(hashing, None, 0.0, 0.0), "nothing"
        if work.early:
            known = self._known()
            if known is not None:
                started = time.perf_counter()
                routing = learned(policy, known)
                return Plan(routing, known, 0.0, time.perf_counter() - started), "previous"
        weight = None if work.weight is None else F.col(WEIGHT)
        found = plan(rows, work.keys, policy, weight=weight)
        return found, "nothing" if found.histogram is None else "batch"

    def _known(self) -> Histogram | None:
        """Return the counts of the last batch that had rows, as its reducers reported them."""
        head = self._job.store.newest()
        if head is None:
            return None
        policy = self._work.policy
        n_buckets = bucket_count(policy.n_workers)
        like = Histogram([], [], np.zeros(n_buckets, np.int64), seed=policy.seed)
        return Past.load(head.past).total(like)


class PlannedWriter(StatefulWriter):
    """How a planned stream is written: the methods of Spark's ``DataStreamWriter`` that apply."""

    _stream: PlannedStream

    def outputMode(self, mode: str) -> PlannedWriter:  # noqa: N802 - as Spark calls it
        """Choose ``"append"`` (windows once they are complete) or ``"update"`` (when they change).

        Raises
        ------
        ParameterError
            Another mode.
        """
        if mode not in ("append", "update"):
            raise ParameterError(
                f"outputMode: must be 'append' or 'update', got {mode!r}; a state of all windows that "
                "ever were, which 'complete' would need, is not kept."
            )
        self._stream = self._stream.in_mode(mode == "update")
        return self


def _planned(record: StateBatch) -> PlannedBatch:
    notes = record.notes or {}
    told = {name: notes[name] for name in PlannedBatch._fields if name in notes}
    for name in ("planned_loads", "block_loads", "bucket_loads"):
        told[name] = tuple(told[name])
    same = ("batch", "output_rows", "keys", "state_bytes", "watermark_us", "total_ms")
    return PlannedBatch(**{name: getattr(record, name) for name in same}, **told)
