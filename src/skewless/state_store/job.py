"""One batch of a stateful stream: decide the routing, let the workers step, commit.

Nothing here knows Spark: the caller says how the workers' steps are run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skewless.errors import DataError
from skewless.histogram import Histogram
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.state_store.fragments import read_file
from skewless.state_store.manifest import Fragment, Manifest
from skewless.state_store.migration import plan_workers
from skewless.state_store.repartitioning import Decision, Past, Repartitioning, decide
from skewless.state_store.step import Receipt, Task, Timing
from skewless.state_store.store import StateStore
from skewless.state_store.update import Update

__all__ = ["Job", "StateBatch", "batches", "run_batch"]

#: Batch records that a manifest carries.
_RECORDS = 256


class StateBatch(NamedTuple):
    """What one batch of a stateful stream did."""

    batch: int
    """Batch id."""
    version: int
    """Version of the state that it committed."""
    rows: int
    """Rows that were in time."""
    late_rows: int
    """Rows at the watermark or before it, which were dropped."""
    timeouts: int
    """Keys that were called without rows."""
    output_rows: int
    loads: tuple[int, ...]
    """Rows of each worker."""
    keys: int
    """Keys that have a state after the batch."""
    state_bytes: int
    """Length of all state files after the batch."""
    changed: bool
    """Whether the batch ran under another routing than the one before."""
    reason: str
    """Why, or why not."""
    gain_rows: float
    """Rows a batch that the plan takes off the fullest worker, estimated before it was taken or not."""
    estimated_moved_keys: float
    """Keys with a state that the plan would move, estimated likewise."""
    moved_keys: int
    """Keys with a state that changed owner."""
    moved_bytes: int
    """Bytes of their states in memory."""
    relative_migration: float
    """`moved_keys` over all keys that had a state, in [0, 1]."""
    migration_ms: float
    """Longest time that a worker read, picked and wrote states because owners changed, ms."""
    step_ms: float
    """Longest time of a worker for its part of the batch, ms."""
    watermark_us: int | None
    """Watermark of the next batch, event time in microseconds."""
    plan_ms: float = 0.0
    """Time on the driver to decide and plan, ms."""
    total_ms: float = 0.0
    """Time of the whole batch up to the commit, ms."""
    notes: dict[str, Any] | None = None
    """What the caller noted of the batch, JSON values."""

    @property
    def max_over_mean(self) -> float:
        """Rows of the fullest worker over the mean."""
        return max(self.loads) * len(self.loads) / self.rows if self.rows else 1.0


class Job(NamedTuple):
    """A stateful query: everything that does not change from batch to batch."""

    store: StateStore
    keys: pa.Schema
    """Key columns."""
    rows: pa.Schema
    """Input columns, keys among them."""
    update: Update
    policy: Policy | Routing
    timing: Timing = Timing()
    rule: Repartitioning = Repartitioning()
    buckets: int | None = None
    """State buckets of a new folder."""
    keep: int = 10
    """Versions that stay readable."""
    compact_after: int = 8
    """Files of a fragment above which its base is written anew."""
    adopt: bool = False
    """Whether the state of another query may be taken over."""
    counted: str | None = None
    """Input column that says how many rows a row stands for in the counts; ``None`` if for itself."""


def run_batch(
    job: Job,
    query: str,
    batch: int,
    execute: Callable[[Task], Iterable[Receipt]],
    notes: dict[str, Any] | None = None,
) -> Manifest:
    """Run a batch and commit it; if it was committed before, return what it committed.

    Parameters
    ----------
    job
        The query.
    query
        Its identity, the same over restarts.
    batch
        Batch id.
    execute
        Runs `run_step` for each worker and returns all receipts.
    notes
        Goes into the batch's record, as it is once `execute` has returned.

    Raises
    ------
    DataError
        The folder is foreign, of another query, behind the query's checkpoint, or has another writer.
    """
    started = time.perf_counter()
    job.store.refuse_foreign()
    on_disk = job.store.versions()  # before anything is read: a commit from now on is another's
    head = _head(job, query, batch)
    if isinstance(head, _Done):
        return head.manifest
    past = Past.load(head.past) if head else Past()
    fragments = head.fragments if head else ()
    seed = head.seed if head else job.policy.seed
    n_buckets = head.n_buckets if head else job.buckets or max(32, 4 * job.policy.n_workers)
    current = head.routing if head else None
    decision = decide(job.policy, job.rule, past, current, fragments, n_buckets)
    routing = decision.routing
    plans = plan_workers(fragments, current, routing, n_buckets, seed)
    task = Task(
        job.store.folder,
        max([0, *on_disk]) + 1,
        job.keys,
        job.rows,
        job.update,
        job.timing,
        head.watermark_us if head else None,
        routing,
        plans,
        n_buckets,
        seed,
        4 * max(2 * routing.n_workers, 64),
        job.compact_after,
        head.records[-2]["watermark_us"] if head and len(head.records) > 1 else None,
        job.counted,
    )
    plan_ms = (time.perf_counter() - started) * 1e3
    receipts = sorted(execute(task), key=lambda receipt: receipt.worker)
    _all_there(receipts, routing.n_workers, batch)
    manifest = _manifest(job, query, batch, task, head, decision, receipts)
    record = _record(manifest, head, decision, receipts)
    record = record._replace(plan_ms=plan_ms, total_ms=(time.perf_counter() - started) * 1e3)
    record = record._replace(notes=notes)
    records = (*(head.records if head else ()), record._asdict())[-_RECORDS:]
    manifest = manifest._replace(records=records)
    job.store.commit(manifest)
    job.store.collect(job.keep)
    return manifest


def batches(store: StateStore) -> list[StateBatch]:
    """Return what the last batches did, oldest first; none if there is no state yet."""
    newest = store.newest()
    found = newest.records if newest else ()
    return [StateBatch(**{**record, "loads": tuple(record["loads"])}) for record in found]


class _Done(NamedTuple):
    manifest: Manifest


def _head(job: Job, query: str, batch: int) -> Manifest | _Done | None:
    """Return the version to start from; or that of the batch itself, if it is done and sound."""
    head = job.store.newest()
    if head is None:
        if batch > 0:
            raise DataError(
                f"stateful: the checkpoint is at batch {batch}, but folder {job.store.folder!r} holds "
                "no state; give the folder that the query had as state=, or start anew with a new "
                "checkpoint."
            )
        return None
    _refuse_other_schema(job, head)
    if head.query != query:
        if not job.adopt:
            raise DataError(
                f"stateful: folder {job.store.folder!r} holds the state of another query "
                f"({head.query}, up to batch {head.batch}); start with that query's checkpoint, name "
                "a folder of its own, or take the state over with adopt=True."
            )
        return head
    if head.batch >= batch:
        done = job.store.committed(query, batch)
        if done is not None and _is_sound(job, done):
            return _Done(done)
        if head.batch > batch or done is None:
            raise DataError(
                f"stateful: the checkpoint asks for batch {batch}, but folder {job.store.folder!r} is "
                f"at batch {head.batch} and keeps no sound record of {batch}; restore the checkpoint "
                "that belongs to the state, or raise keep=."
            )
        return _before(job, done)
    if head.batch < batch - 1:
        raise DataError(
            f"stateful: the checkpoint is at batch {batch}, but folder {job.store.folder!r} is only "
            f"at batch {head.batch}; restore the newer manifests, or the checkpoint of that time."
        )
    return head


def _before(job: Job, damaged: Manifest) -> Manifest | None:
    """Return the version before a batch whose own version is damaged: the batch runs once more."""
    if damaged.parent == 0:
        return None
    try:
        return job.store.read(damaged.parent)
    except DataError as error:
        raise DataError(
            f"stateful: batch {damaged.batch} in folder {job.store.folder!r} is damaged and the state "
            f"before it is no longer kept ({error}); restore the folder, or raise keep=."
        ) from error


def _is_sound(job: Job, done: Manifest) -> bool:
    """Say whether all files that a batch added are whole."""
    added = [file for fragment in done.fragments for file in fragment.files]
    try:
        for file in (*(f for f in added if f.version == done.version), *done.output):
            read_file(job.store.storage, file)
    except DataError:
        return False
    return True


def _refuse_other_schema(job: Job, head: Manifest) -> None:
    pairs = (
        ("key", job.keys, head.keys),
        ("state", job.update.states, head.states),
    )
    for what, now, then in pairs:
        if [(f.name, f.type) for f in now] != [(f.name, f.type) for f in then]:
            raise DataError(
                f"stateful: folder {job.store.folder!r} holds states with the {what} columns "
                f"{_columns(then)}, but the query has {_columns(now)}; keep the schema, or start "
                "anew in a new folder."
            )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _all_there(receipts: list[Receipt], n_workers: int, batch: int) -> None:
    if [receipt.worker for receipt in receipts] != list(range(n_workers)):
        raise DataError(
            f"stateful: batch {batch} has {len(receipts)} answers from {n_workers} workers; each must "
            "answer once. Nothing was committed."
        )


def _manifest(
    job: Job,
    query: str,
    batch: int,
    task: Task,
    head: Manifest | None,
    decision: Decision,
    receipts: list[Receipt],
) -> Manifest:
    held: dict[tuple[int, int], Fragment] = {}
    for worker, plan in enumerate(task.plans):
        held.update({(worker, bucket): fragment for bucket, fragment in plan.own.items()})
    for receipt in receipts:
        held.update({(f.worker, f.bucket): f for f in receipt.fragments})
    routing = decision.routing
    past = Past.load(head.past) if head else Past()
    past = past.add(_histogram(routing, receipts), job.rule, task.n_hot)
    return Manifest(
        task.version,
        head.version if head else 0,
        query,
        batch,
        task.n_buckets,
        task.seed,
        job.keys,
        job.update.states,
        job.update.outputs,
        routing,
        tuple(held[at] for at in sorted(held) if held[at].files),
        tuple(receipt.output for receipt in receipts if receipt.output is not None),
        _watermark(job, head, receipts),
        past.dump(),
        (),
    )


def _watermark(job: Job, head: Manifest | None, receipts: list[Receipt]) -> int | None:
    """Return the watermark of the next batch: the latest event time so far, less the delay."""
    before = head.watermark_us if head else None
    if job.timing.delay_us is None:
        return before
    latest = [receipt.latest_us for receipt in receipts if receipt.latest_us is not None]
    now = [before] if before is not None else []
    return max([*now, *(stamp - job.timing.delay_us for stamp in latest)], default=None)


def _histogram(routing: Routing, receipts: list[Receipt]) -> Histogram:
    heavy = {key: count for receipt in receipts for key, count in receipt.heavy.items()}
    tail = np.zeros(len(routing.buckets), np.int64)
    for receipt in receipts:
        if receipt.tail:
            tail[np.array(list(receipt.tail), np.int64)] += list(receipt.tail.values())
    keys = np.array(list(heavy), np.uint64)
    return Histogram(keys, np.array(list(heavy.values()), np.int64), tail, seed=routing.seed)


def _record(
    manifest: Manifest, head: Manifest | None, decision: Decision, receipts: list[Receipt]
) -> StateBatch:
    loads = tuple(receipt.rows for receipt in receipts)
    moved = sum(receipt.moved_keys for receipt in receipts)
    held = head.n_keys if head else 0
    return StateBatch(
        batch=manifest.batch,
        version=manifest.version,
        rows=sum(loads),
        late_rows=sum(receipt.late_rows for receipt in receipts),
        timeouts=sum(receipt.timeouts for receipt in receipts),
        output_rows=sum(file.rows for file in manifest.output),
        loads=loads,
        keys=manifest.n_keys,
        state_bytes=manifest.size_bytes,
        changed=decision.changed,
        reason=decision.reason,
        gain_rows=decision.gain_rows,
        estimated_moved_keys=decision.moved_keys,
        moved_keys=moved,
        moved_bytes=sum(receipt.moved_bytes for receipt in receipts),
        relative_migration=moved / held if held else 0.0,
        migration_ms=max(receipt.migration_ms for receipt in receipts),
        step_ms=max(receipt.step_ms for receipt in receipts),
        watermark_us=manifest.watermark_us,
    )
