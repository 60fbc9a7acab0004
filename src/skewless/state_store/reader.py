"""Reading a state from outside of its query: as a table, and as a description."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

from skewless.errors import DataError
from skewless.state_store.fragments import TIMER, load_fragment, read_file
from skewless.state_store.manifest import NO_TIMER, Manifest
from skewless.state_store.store import StateStore

__all__ = ["TIMER_NAME", "WORKER_NAME", "describe", "fragment_rows", "read_state", "verify"]

#: Columns that `read_state` adds.
WORKER_NAME, TIMER_NAME = "_worker", "_timer"


def read_state(folder: str | os.PathLike[str], *, batch: int | None = None) -> pa.Table:
    """Return the state of a stateful query, one row per key.

    Parameters
    ----------
    folder
        What the query names as ``state=``.
    batch
        The state after this batch, one of the last few that are kept; the newest if left out. The
        query may be running.

    Returns
    -------
    pyarrow.Table
        Key columns, state columns, ``_worker`` (int32, the owner) and ``_timer`` (timestamp, null
        where there is none).

    Raises
    ------
    DataError
        The folder holds no such state, or a file of it is damaged beyond recovery.

    Examples
    --------
    >>> read_state("/nowhere")
    Traceback (most recent call last):
        ...
    skewless.errors.DataError: state: folder '/nowhere' holds no state; give the folder ...
    """
    store = StateStore(folder)
    manifest = store.of_batch(batch)
    parts = [fragment_rows(store, manifest, i) for i in range(len(manifest.fragments))]
    return pa.concat_tables([row_schema(manifest).empty_table(), *parts])


def row_schema(manifest: Manifest) -> pa.Schema:
    """Return the columns of `read_state`."""
    extra = [
        pa.field(WORKER_NAME, pa.int32()),
        pa.field(TIMER_NAME, pa.timestamp("us", "UTC")),
    ]
    return pa.schema([*manifest.keys, *manifest.states, *extra])


def fragment_rows(store: StateStore, manifest: Manifest, index: int) -> pa.Table:
    """Return the rows of one fragment as `read_state` gives them."""
    fragment = manifest.fragments[index]
    entries = load_fragment(store, fragment, manifest.keys, manifest.states)
    names = [*manifest.keys.names, *manifest.states.names]
    timers = [None if timer == NO_TIMER else timer for timer in entries.column(TIMER).to_pylist()]
    workers = pa.array([fragment.worker] * entries.num_rows, pa.int32())
    columns = [*entries.select(names).columns, workers, pa.array(timers, pa.timestamp("us", "UTC"))]
    return pa.Table.from_arrays(columns, schema=row_schema(manifest))


def describe(folder: str | os.PathLike[str], *, batch: int | None = None) -> dict[str, Any]:
    """Return what there is in a state folder: versions, sizes, owners, the last batches.

    Raises
    ------
    DataError
        The folder holds no such state.
    """
    store = StateStore(folder)
    manifest = store.of_batch(batch)
    workers: dict[int, dict[str, int]] = {
        worker: {"keys": 0, "bytes": 0, "files": 0} for worker in range(manifest.routing.n_workers)
    }
    for fragment in manifest.fragments:
        entry = workers[fragment.worker]
        entry["keys"] += fragment.keys
        entry["bytes"] += fragment.size_bytes
        entry["files"] += len(fragment.files)
    return {
        "folder": store.folder,
        "query": manifest.query,
        "batch": manifest.batch,
        "version": manifest.version,
        "versions": store.versions(),
        "keys": manifest.n_keys,
        "bytes": manifest.size_bytes,
        "key_columns": {field.name: str(field.type) for field in manifest.keys},
        "state_columns": {field.name: str(field.type) for field in manifest.states},
        "n_buckets": manifest.n_buckets,
        "routing": repr(manifest.routing),
        "watermark_us": manifest.watermark_us,
        "workers": workers,
        "records": list(manifest.records),
    }


def verify(folder: str | os.PathLike[str], *, batch: int | None = None) -> list[str]:
    """Return one sentence for each file of a state that is lost or damaged; none if all are whole."""
    store = StateStore(folder)
    manifest = store.of_batch(batch)
    states = [file for fragment in manifest.fragments for file in fragment.files]
    found = []
    for file in (*states, *manifest.output):
        try:
            read_file(store.storage, file)
        except DataError as error:  # noqa: PERF203 - every file is looked at
            found.append(str(error))
    return found
