"""One worker's part of a batch: read its states, call the update, write what changed.

Runs inside a task. Nothing that it writes is read by anybody before the batch is committed, so it
may run twice, or die half way.
"""

from __future__ import annotations

import json
import time
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.histogram import bucket_of
from skewless.routing import Routing
from skewless.state_store.fragments import (
    GONE,
    entry_schema,
    hashes_of,
    load_fragment,
    owned_by,
    remember,
    summary,
    timers_of,
    write_file,
)
from skewless.state_store.identity import key_numbers
from skewless.state_store.manifest import NO_TIMER, DataFile, Fragment
from skewless.state_store.migration import WorkerPlan
from skewless.state_store.store import StateStore
from skewless.state_store.update import Update

__all__ = ["Receipt", "Task", "Timing", "run_step"]


class Timing(NamedTuple):
    """Event time: when rows are late and when keys time out."""

    column: str | None = None
    """Input column with the event time; ``None`` if the query knows no time."""
    delay_us: int | None = None
    """How late a row may be, microseconds; ``None`` means that no watermark moves."""
    timeout_us: int | None = None
    """How long after its last row a key times out, microseconds."""
    timer: str | None = None
    """State column that holds the key's timer."""
    drops: bool = True
    """Whether late rows are dropped; if not, the caller did so by a rule of its own."""


class Task(NamedTuple):
    """What every worker of a batch is told."""

    folder: str
    version: int
    """Version that the batch will commit."""
    keys: pa.Schema
    rows: pa.Schema
    """Input columns, keys among them."""
    update: Update
    timing: Timing
    watermark_us: int | None
    """Rows up to this event time are late, timers up to it are due."""
    routing: Routing
    plans: list[WorkerPlan]
    n_buckets: int
    seed: int
    n_hot: int
    """Keys that a worker reports one by one; all others by bucket of the routing."""
    compact_after: int
    """Files of a fragment above which its base is written anew."""
    late_us: int | None = None
    """Watermark of the batch before: what was due by then, was called."""
    counted: str | None = None
    """Input column that says how many rows a row stands for in the counts; ``None`` if for itself."""


class Receipt(NamedTuple):
    """What a worker did, for the manifest."""

    worker: int
    fragments: list[Fragment]
    """Fragments that changed; one without files has no key left."""
    output: DataFile | None
    rows: int
    late_rows: int
    timeouts: int
    latest_us: int | None
    """Latest event time of the rows, microseconds."""
    heavy: dict[int, int]
    """Rows of the heaviest keys, by hash."""
    tail: dict[int, int]
    """Rows of all other keys, by bucket of the routing."""
    moved_keys: int
    moved_bytes: int
    """Bytes of the states that came from other workers, in memory."""
    migration_ms: float
    """Time that reading and writing for the migration took."""
    step_ms: float

    def to_json(self) -> str:
        """Return it as one line of text."""
        return json.dumps(self._asdict())

    @classmethod
    def parse(cls, text: str) -> Receipt:
        """Return what `to_json` wrote."""
        found = json.loads(text)
        found["fragments"] = [Fragment.of(parts) for parts in found["fragments"]]
        found["output"] = None if found["output"] is None else DataFile(*found["output"])
        for name in ("heavy", "tail"):
            found[name] = {int(key): count for key, count in found[name].items()}
        return cls(**found)


class _Known(NamedTuple):
    """States that a step has read."""

    entries: pa.Table
    bucket: NDArray[np.int64]
    """int64, one per entry: its bucket."""
    rebuilt: set[int]
    moved_keys: int
    moved_bytes: int


class _Active(NamedTuple):
    """The keys of a batch: those that have rows, and those that time out."""

    which: NDArray[np.int64]
    """int64: number of each key; those below the number of known entries are known, and come first."""
    n_known: int
    """How many of them have a state."""
    keys: pa.Table
    hashes: NDArray[np.uint64]
    counts: NDArray[np.int64]
    """int64: rows of each; 0 if it times out."""
    timers: NDArray[np.int64]
    """int64: the timer that each had, unless it goes off."""
    slots: NDArray[np.int64]
    """int64, one per row: place of its key in the arrays above."""


def run_step(task: Task, worker: int, rows: pa.Table, hashes: NDArray[np.uint64]) -> Receipt:
    """Run one worker's part of a batch.

    Parameters
    ----------
    task
        What all workers are told.
    worker
        Which of them this is.
    rows
        Its input rows, in the order in which a key shall see its own.
    hashes
        uint64, one per row: hash of the key.
    """
    started = time.perf_counter()
    store = StateStore(task.folder)
    rows = rows.select(task.rows.names).cast(task.rows)
    n_given = rows.num_rows
    rows, hashes, times = _drop_late(task, rows, hashes)
    buckets = bucket_of(hashes, task.n_buckets, task.seed).astype(np.int64)
    known = _load(store, task, worker, buckets)
    migration_ms = 0.0
    bases: dict[int, tuple[DataFile, ...]] = {}
    if known.rebuilt:
        bases = _write_bases(store, task, worker, known, known.rebuilt)
        migration_ms = (time.perf_counter() - started) * 1e3

    active = _active(task, known, rows, hashes)
    changed, output = _changes(task, known, active, rows, times)
    fragments = _write_changes(store, task, worker, known, active, changed, bases)
    out = None
    if output.num_rows:
        out = write_file(store.storage, output, "output", task.version, worker, None)
    store.storage.settle()
    weights = active.counts
    if task.counted is not None:
        stands_for = rows.column(task.counted).to_numpy()
        weights = np.bincount(active.slots, stands_for, len(active.counts)).astype(np.int64)
    heavy, tail = _counts(task, active.hashes, weights)
    return Receipt(
        worker,
        fragments,
        out,
        rows.num_rows,
        n_given - rows.num_rows,
        int((active.counts == 0).sum()),
        int(times.max()) if len(times) and times.max() > -NO_TIMER else None,
        heavy,
        tail,
        known.moved_keys,
        known.moved_bytes,
        migration_ms,
        (time.perf_counter() - started) * 1e3,
    )


def _active(task: Task, known: _Known, rows: pa.Table, hashes: NDArray[np.uint64]) -> _Active:
    """Find the keys that have rows or a timer that is due."""
    n_known = known.entries.num_rows
    names = task.keys.names
    # Those that are known first, then new ones in the order in which they came.
    keys = pa.concat_tables([known.entries.select(names), rows.select(names)]).combine_chunks()
    hashes = np.concatenate((hashes_of(known.entries), hashes))
    number = key_numbers(keys, hashes)
    _, first = np.unique(number, return_index=True)
    counts = np.bincount(number[n_known:], minlength=len(first))
    timers = np.full(len(first), NO_TIMER)
    timers[:n_known] = timers_of(known.entries)
    due = np.zeros(len(first), np.bool_)
    if task.watermark_us is not None:
        due = (counts == 0) & (timers <= task.watermark_us)
    which = np.flatnonzero((counts > 0) | due)
    place = np.zeros(len(first), np.int64)
    place[which] = np.arange(len(which))
    return _Active(
        which,
        int((which < n_known).sum()),
        keys.take(pa.array(first[which])),
        hashes[first[which]],
        counts[which],
        np.where(counts > 0, timers, NO_TIMER)[which],
        place[number[n_known:]],
    )


def _changes(
    task: Task, known: _Known, active: _Active, rows: pa.Table, times: NDArray[np.int64]
) -> tuple[pa.Table, pa.Table]:
    """Call the update; return the entries of the keys that it changed, and its output rows."""
    update, n = task.update, len(active.which)
    schema = entry_schema(task.keys, update.states)
    if n == 0:
        return schema.empty_table(), update.outputs.empty_table()
    old = known.entries.select(update.states.names).take(pa.array(active.which[: active.n_known]))
    blank = [pa.nulls(n - active.n_known, field.type) for field in update.states]
    new = pa.Table.from_arrays(blank, schema=update.states)
    states = pa.concat_tables([old, new]).combine_chunks()
    answer = update.run(rows, active.slots, active.keys, states, active.n_known)
    gone = ~answer.kept
    timers = _timers(task, answer.states, active.slots, times, active.timers)
    columns = [
        *active.keys.columns,
        *answer.states.columns,
        pa.array(active.hashes.view(np.int64)),
        pa.array(np.where(gone, NO_TIMER, timers)),
        pa.array(gone),
    ]
    # A key that came and went within the batch leaves no trace.
    told = np.flatnonzero(answer.kept | (np.arange(n) < active.n_known))
    entries = pa.Table.from_arrays(columns, schema=schema).take(pa.array(told))
    return entries, answer.output


def _drop_late(
    task: Task, rows: pa.Table, hashes: NDArray[np.uint64]
) -> tuple[pa.Table, NDArray[np.uint64], NDArray[np.int64]]:
    """Return the rows that are in time, their hashes, and their event times (-NO_TIMER if null)."""
    if task.timing.column is None:
        return rows, hashes, np.empty(0, np.int64)
    column = rows.column(task.timing.column)
    times = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    stamps: NDArray[np.int64] = times.fill_null(-NO_TIMER).to_numpy()
    if task.watermark_us is None or not task.timing.drops:
        return rows, hashes, stamps
    fresh = (stamps > task.watermark_us) | (stamps == -NO_TIMER)
    if fresh.all():
        return rows, hashes, stamps
    return rows.filter(pa.array(fresh)), hashes[fresh], stamps[fresh]


def _load(store: StateStore, task: Task, worker: int, buckets: NDArray[np.int64]) -> _Known:
    """Read the fragments that the batch needs: touched, due, or with keys that change owner."""
    plan = task.plans[worker]
    touched = set(np.unique(buckets).tolist())
    schemas = task.keys, task.update.states
    parts: list[tuple[int, pa.Table]] = []
    for bucket, fragment in plan.own.items():
        due = task.watermark_us is not None and fragment.timer_us <= task.watermark_us
        if bucket in touched or due:
            parts.append((bucket, load_fragment(store, fragment, *schemas)))
    moved_keys = moved_bytes = 0
    for bucket, sources in plan.rebuilt.items():
        for source in sources:
            mine = owned_by(load_fragment(store, source, *schemas), worker, task.routing)
            parts.append((bucket, mine))
            if source.worker != worker:
                moved_keys += mine.num_rows
                moved_bytes += mine.nbytes if mine.num_rows else 0
    empty = entry_schema(*schemas).empty_table()
    entries = pa.concat_tables([empty, *(table for _, table in parts)]).combine_chunks()
    sizes = [table.num_rows for _, table in parts]
    bucket_of_entry = np.repeat(np.array([b for b, _ in parts], np.int64), sizes)
    return _Known(entries, bucket_of_entry, set(plan.rebuilt), moved_keys, moved_bytes)


def _write_bases(
    store: StateStore, task: Task, worker: int, known: _Known, buckets: set[int]
) -> dict[int, tuple[DataFile, ...]]:
    """Write all states of some buckets, as they were before the batch."""
    bases: dict[int, tuple[DataFile, ...]] = {}
    for bucket in sorted(buckets):
        entries = known.entries.filter(pa.array(known.bucket == bucket))
        bases[bucket] = ()
        if entries.num_rows:
            file = write_file(store.storage, entries, "base", task.version, worker, bucket)
            bases[bucket] = (file,)
    return bases


def _write_changes(
    store: StateStore,
    task: Task,
    worker: int,
    known: _Known,
    active: _Active,
    changed: pa.Table,
    bases: dict[int, tuple[DataFile, ...]],
) -> list[Fragment]:
    """Write a delta for each bucket with changes; return the fragments as they are now."""
    bucket = bucket_of(hashes_of(changed), task.n_buckets, task.seed).astype(np.int64)
    own = task.plans[worker].own
    dirty = np.unique(bucket).tolist()
    long = {b for b in dirty if b in own and len(own[b].files) >= task.compact_after}
    bases = {**bases, **_write_bases(store, task, worker, known, long)}
    idle = np.ones(known.entries.num_rows, np.bool_)
    idle[active.which[: active.n_known]] = False
    fragments = []
    for b in sorted({*bases, *dirty}):
        old = known.entries.filter(pa.array((known.bucket == b) & idle))
        delta = changed.filter(pa.array(bucket == b))
        files = bases[b] if b in bases else own[b].files if b in own else ()
        live = delta.filter(pc.invert(delta.column(GONE)))
        left = pa.concat_tables([live, old])
        if left.num_rows == 0:
            files = ()
        elif delta.num_rows:
            file = write_file(store.storage, delta, "delta", task.version, worker, b)
            files = (*files, file)
            remember(files, left)
        fragments.append(summary(worker, b, left, files))
    return fragments


def _timers(
    task: Task,
    states: pa.Table,
    slots: NDArray[np.int64],
    times: NDArray[np.int64],
    held: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the timer of each key from now on; `held` is the one it had, unless that went off."""
    timing = task.timing
    timers = held
    if timing.timer is not None:
        column = states.column(timing.timer)
        whole = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        timers = whole.fill_null(NO_TIMER).to_numpy().copy()
    elif timing.timeout_us is not None:
        latest = np.full(len(held), -NO_TIMER)
        np.maximum.at(latest, slots, times)
        fresh = np.where(latest > -NO_TIMER, latest + timing.timeout_us, -NO_TIMER)
        timers = np.maximum(fresh, np.where(held == NO_TIMER, -NO_TIMER, held))
        timers[timers == -NO_TIMER] = NO_TIMER
    return timers


def _counts(
    task: Task, hashes: NDArray[np.uint64], counts: NDArray[np.int64]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the rows of the heaviest keys, and of the others by bucket of the routing."""
    seen = counts > 0
    hashes, counts = hashes[seen], counts[seen]
    unique, place = np.unique(hashes, return_inverse=True)  # two keys may share a hash
    rows = np.bincount(place, counts, len(unique)).astype(np.int64)
    order = np.lexsort((unique, -rows))
    top, rest = order[: task.n_hot], order[task.n_hot :]
    heavy = dict(zip(unique[top].tolist(), rows[top].tolist(), strict=True))
    routing = task.routing
    bucket = bucket_of(unique[rest], len(routing.buckets), routing.seed)
    tail = np.bincount(bucket, rows[rest], len(routing.buckets)).astype(np.int64)
    used = np.flatnonzero(tail)
    return heavy, dict(zip(used.tolist(), tail[used].tolist(), strict=True))
