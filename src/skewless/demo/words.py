"""The demo's stream: files of words in speaking order, a folder that a file-stream source replays."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from skewless.datasets import state_of_the_union

__all__ = ["SCHEMA", "WordStream", "write_stream"]

#: Spark schema of the files.
SCHEMA = "spoken timestamp, word string, next_word string"

_DAY_US = 86_400_000_000


class WordStream(NamedTuple):
    """A folder of files, and what is in it."""

    folder: Path
    n_batches: int
    """Micro-batches that hold words; one more, with a single late row, closes the last windows."""
    files_per_batch: int
    n_rows: int
    vocabulary: pa.Array
    """Distinct words."""


def write_stream(
    folder: Path,
    *,
    since: int = 1790,
    until: int = 2021,
    n_batches: int = 20,
    files_per_batch: int = 1,
) -> WordStream:
    """Write the words spoken from one year to another as files in speaking order.

    One day of event time stands for one year, because Spark's windows are fixed spans and years are
    not. ``next_word`` is the word that follows in the same address, null at its end.
    """
    words = state_of_the_union()
    years = words["year"]
    chosen = pc.and_(pc.greater_equal(years, since), pc.less_equal(years, until))
    words = words.filter(chosen).combine_chunks()
    text = words["word"].combine_chunks().cast(pa.string())
    address = words["address"].to_numpy()
    ends = np.append(address[1:] != address[:-1], True)
    after = pa.chunked_array([text.slice(1), pa.nulls(1, pa.string())]).combine_chunks()
    table = pa.table(
        {
            "spoken": _days(words["year"].to_numpy()),
            "word": text,
            "next_word": pc.if_else(pa.array(ends), pa.scalar(None, pa.string()), after),
        }
    )
    folder.mkdir(parents=True)
    edges = np.linspace(0, table.num_rows, n_batches * files_per_batch + 1).astype(int)
    for i, (start, stop) in enumerate(pairwise(edges.tolist())):
        _write(folder, i, table.slice(start, stop - start))
    last = int(words["year"].to_numpy().max())
    late = {"spoken": _days(np.array([last + 50])), "word": [None], "next_word": [None]}
    _write(folder, len(edges) - 1, pa.table(late, schema=table.schema))
    return WordStream(folder, n_batches, files_per_batch, table.num_rows, text.unique())


def _days(years: NDArray[np.int16]) -> pa.Array:
    return pa.array(years.astype(np.int64) * _DAY_US, pa.timestamp("us", tz="UTC"))


def _write(folder: Path, number: int, table: pa.Table) -> None:
    path = folder / f"{number:05d}.parquet"
    pq.write_table(table, path)
    # The source takes files in the order of their modification times.
    os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
