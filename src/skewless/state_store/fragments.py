"""States as Arrow tables and Parquet files: written, checked, read, merged, recovered."""

from __future__ import annotations

import hashlib
import io
import logging
import uuid
from collections import OrderedDict
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from skewless.errors import DataError
from skewless.routing import Routing
from skewless.state_store.faults import reached
from skewless.state_store.identity import key_numbers
from skewless.state_store.manifest import NO_TIMER, DataFile, Fragment
from skewless.state_store.storage import Storage
from skewless.state_store.store import StateStore

__all__ = [
    "GONE",
    "HASH",
    "TIMER",
    "entry_schema",
    "hashes_of",
    "load_fragment",
    "merge",
    "owned_by",
    "read_file",
    "remember",
    "timers_of",
    "write_file",
]

#: Columns of a state file beside the keys and the states.
HASH, TIMER, GONE = "__skewless_hash", "__skewless_timer", "__skewless_gone"
#: Bytes of merged fragments that a process keeps, because files never change.
_CACHE_BYTES = 64 * 2**20

_log = logging.getLogger("skewless")


class _Cache:
    """The fragments that this process used last, by the checksums of their files."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._tables: OrderedDict[tuple[str, ...], pa.Table] = OrderedDict()

    def get(self, key: tuple[str, ...]) -> pa.Table | None:
        table = self._tables.get(key)
        if table is not None:
            self._tables.move_to_end(key)
        return table

    def put(self, key: tuple[str, ...], table: pa.Table) -> None:
        if key in self._tables or table.nbytes > self._limit:
            return
        self._tables[key] = table
        self._size += table.nbytes
        while self._size > self._limit:
            self._size -= self._tables.popitem(last=False)[1].nbytes


_cache = _Cache(_CACHE_BYTES)


def entry_schema(keys: pa.Schema, states: pa.Schema) -> pa.Schema:
    """Return the columns of a state file: keys, states, hash, timer, and whether the key is gone."""
    extra = [(HASH, pa.int64()), (TIMER, pa.int64()), (GONE, pa.bool_())]
    return pa.schema([*keys, *states, *(pa.field(*pair) for pair in extra)])


def hashes_of(entries: pa.Table) -> NDArray[np.uint64]:
    """Return the key hashes of a table of entries, uint64."""
    signed: NDArray[np.int64] = entries.column(HASH).to_numpy()
    return signed.view(np.uint64)


def timers_of(entries: pa.Table) -> NDArray[np.int64]:
    """Return the timers, int64 microseconds, `NO_TIMER` where there is none."""
    timers: NDArray[np.int64] = entries.column(TIMER).to_numpy()
    return timers


# -- files -------------------------------------------------------------------------------------------


def write_file(
    storage: Storage, table: pa.Table, kind: str, version: int, worker: int, bucket: int | None
) -> DataFile:
    """Write a table as one Parquet file under a name of its own."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    content = sink.getvalue()
    part = "" if bucket is None else f"-b{bucket:05d}"
    name = f"data/{version:012d}/w{worker:05d}{part}-{kind}-{uuid.uuid4().hex}.parquet"
    reached("before write")
    storage.write(name, content)
    reached("after write")
    digest = hashlib.sha256(content).hexdigest()
    return DataFile(name, kind, table.num_rows, len(content), digest, version)


def read_file(storage: Storage, file: DataFile) -> pa.Table:
    """Read a file and prove its checksum.

    Raises
    ------
    DataError
        It is lost or damaged; the sentence names it.
    """
    path = storage.path(file.name)
    try:
        content = storage.read(file.name)
    except OSError as error:
        raise DataError(
            f"state: file {path} of version {file.version} is lost ({error})."
        ) from error
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise DataError(
            f"state: file {path} of version {file.version} is damaged: its checksum is not the one "
            f"in the manifest ({len(content)} bytes, expected {file.size_bytes})."
        )
    return pq.read_table(pa.BufferReader(content), use_threads=False, partitioning=None)


# -- fragments ---------------------------------------------------------------------------------------


def load_fragment(
    store: StateStore, fragment: Fragment, keys: pa.Schema, states: pa.Schema
) -> pa.Table:
    """Return the entries of a fragment, one per key that has a state.

    A damaged base is put together again from the version before it, with a warning.

    Raises
    ------
    DataError
        A file is lost or damaged and nothing else holds what it held.
    """
    digest = _digest(fragment.files)
    known = next((n for n in range(len(digest), 0, -1) if _cache.get(digest[:n]) is not None), 0)
    start = _cache.get(digest[:known])
    tables = [] if start is None else [start]
    rest = fragment.files[known:]
    tables += [_read_or_recover(store, fragment, file, keys, states) for file in rest]
    found = merge(tables, keys, states) if rest or start is None else start
    _cache.put(digest, found)
    return found


def remember(files: tuple[DataFile, ...], entries: pa.Table) -> None:
    """Keep what a fragment of these files holds: the next batch may run in this process too."""
    _cache.put(_digest(files), entries.combine_chunks())


def _digest(files: tuple[DataFile, ...]) -> tuple[str, ...]:
    return tuple(file.sha256 for file in files)


def merge(tables: Iterable[pa.Table], keys: pa.Schema, states: pa.Schema) -> pa.Table:
    """Return the last entry of each key over tables from old to new, without the keys that are gone."""
    schema = entry_schema(keys, states)
    parts = [table.cast(schema) for table in tables]
    entries = pa.concat_tables(parts) if parts else schema.empty_table()
    if len(parts) > 1:
        number = key_numbers(entries.select(keys.names), hashes_of(entries))
        last = np.zeros(number.max() + 1 if len(number) else 0, np.int64)
        last[number] = np.arange(len(number))  # the last one written stays
        entries = entries.take(pa.array(last))
    return entries.filter(pc.invert(entries.column(GONE))).combine_chunks()


def owned_by(entries: pa.Table, worker: int, route: Routing) -> pa.Table:
    """Return the entries whose key a routing gives to `worker`."""
    mine = route.route(hashes_of(entries)) == worker
    return entries if mine.all() else entries.filter(pa.array(mine))


def _read_or_recover(
    store: StateStore, fragment: Fragment, file: DataFile, keys: pa.Schema, states: pa.Schema
) -> pa.Table:
    try:
        return read_file(store.storage, file)
    except DataError as damage:
        if file.kind != "base":
            raise DataError(
                f"{damage} It alone holds what that version changed. Restore the file, or go back to "
                "the state before it: remove the manifests from that version on and restore the "
                "checkpoint of that time."
            ) from damage
        try:
            then = store.read(file.version)
            before = store.read(then.parent)
            sources = [f for f in before.fragments if f.bucket == fragment.bucket]
            parts = [load_fragment(store, source, keys, states) for source in sources]
        except DataError as error:
            raise DataError(
                f"{damage} It cannot be put together from the version before: {error}"
            ) from error
        _log.warning("skewless: %s It was recovered from version %d.", damage, then.parent)
        schema = entry_schema(keys, states)
        entries = pa.concat_tables([schema.empty_table(), *parts])
        return owned_by(entries, fragment.worker, then.routing)


def summary(worker: int, bucket: int, entries: pa.Table, files: tuple[DataFile, ...]) -> Fragment:
    """Return the fragment of these entries and files."""
    timers = timers_of(entries)
    first = int(timers.min()) if len(timers) else NO_TIMER
    return Fragment(worker, bucket, entries.num_rows, first, files)
