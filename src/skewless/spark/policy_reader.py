"""The executors' side of the policy log: read the newest sound version, in every micro-batch.

Runs in a Python worker as part of the query's plan, so it imports little and raises nothing: a file
that is lost, damaged or foreign is passed over with a warning, and plain hashing is the last resort.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from skewless.document import ROUTING, parse
from skewless.errors import DataError

__all__ = ["newest", "path", "reader", "versions"]

_NAME = re.compile(r"^policy-(\d{9,})\.json$")
_LONGS = ("displacement", "key")
_INTS = ("base", "count", "slot", "bucket")


def versions(folder: str) -> list[int]:
    """Return the version numbers in a folder, ascending, damaged ones included."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - pathlib would make an object of each name
    except OSError:
        return []
    return sorted(int(m.group(1)) for m in map(_NAME.match, names) if m)


def path(folder: str, version: int) -> str:
    """Return the file of a version."""
    return f"{folder}/policy-{version:09d}.json"


def newest(folder: str, n_workers: int, seed: int) -> tuple[int, dict[str, Any]] | None:
    """Return the newest sound version for so many workers, and its body; ``None`` if there is none."""
    others: list[int] = []
    found: tuple[int, dict[str, Any]] | None = None
    for version in reversed(versions(folder)):
        name = path(folder, version)
        try:
            body = parse(Path(name).read_bytes(), *ROUTING, name)
            has = body["routing"]["n_workers"], body["routing"]["seed"]
            if has != (n_workers, seed):
                others.append(version)
                which = f"{has[0]} workers and seed {has[1]}"
                continue
            if set(body["tables"]) == {*_LONGS, *_INTS}:
                found = version, body
                break
            reason = "it lacks a table, or has one too many"
        except (DataError, OSError, KeyError, TypeError) as error:
            reason = str(error)
        warnings.warn(f"skewless: policy version {version} passed over: {reason}", stacklevel=2)
    if others:  # one word for all of them: as a rule the query was started anew with other workers
        span = (
            f"version {others[0]}" if len(others) == 1 else f"versions {others[-1]} to {others[0]}"
        )
        warnings.warn(
            f"skewless: policy {span} passed over: it is for {which}, and the query has {n_workers} "
            f"workers and seed {seed}",
            stacklevel=2,
        )
    return found


def reader(
    folder: str, n_workers: int, seed: int, n_buckets: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow`` that yields one row: the version and its tables."""
    types = {**dict.fromkeys(_LONGS, pa.int64()), **dict.fromkeys(_INTS, pa.int32())}

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        found = newest(folder, n_workers, seed)
        version, tables = (found[0], found[1]["tables"]) if found else (0, _hashing())
        row = {"version": pa.array([version], pa.int32())}
        for name in ("displacement", "key", "base", "count", "slot", "bucket"):
            values = [_signed(v) for v in tables[name]] if name == "key" else tables[name]
            row[name] = pa.array([values], pa.list_(types[name]))
        yield pa.RecordBatch.from_pydict(row)

    def _hashing() -> dict[str, list[int]]:
        buckets = [b * n_workers // n_buckets for b in range(n_buckets)]
        return {
            "displacement": [0],
            "key": [0],
            "base": [-1],
            "count": [1],
            "slot": [0],
            "bucket": buckets,
        }

    return read


def _signed(key: int) -> int:
    return key - (1 << 64) if key >> 63 else key
