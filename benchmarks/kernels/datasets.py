"""CPU time of drawing streams and of counting the keys of files, ns a tuple, medians of the repetitions.

Files are written to a temporary folder first, so that reading them is mostly decoding: nothing is said
about disks. All times are of the process, threads of Arrow included.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from skewless import datasets
from skewless.commands.counting import KeyCounter
from skewless.datasets.files import TupleFile
from skewless.keys import hash64

__all__ = ["run"]

N_KEYS = 100_000


def _drawing(n: int) -> dict[str, Callable[[], Any]]:
    return {
        "uniform": lambda: datasets.uniform(n, N_KEYS),
        "zipf 1.0": lambda: datasets.zipf(n, N_KEYS, 1.0),
        "log_normal (LN1)": lambda: datasets.log_normal(n, 1.789, 2.366),
        "drifting": lambda: datasets.drifting(n, N_KEYS, 1.0, period=N_KEYS),
        "renamed": lambda: datasets.renamed(n, N_KEYS, 1.0, period=N_KEYS),
        "redrawn": lambda: datasets.redrawn(n, N_KEYS, period=N_KEYS),
        "alternating": lambda: datasets.alternating(n, N_KEYS, 1.0, period=N_KEYS),
        "power_law_edges": lambda: datasets.power_law_edges(n, N_KEYS),
        "stepped": lambda: datasets.stepped(n, [1_000.0, 5_000.0], 10.0),
        "sinusoidal": lambda: datasets.sinusoidal(n, 1_000.0, 10.0),
    }


def _counted(path: Path) -> None:
    counter = KeyCounter(2048)
    for batch in TupleFile(path, ["k"]):
        counter.add(hash64(batch.column("k")))
    counter.histogram()


def _counting(n: int, folder: Path) -> dict[str, Callable[[], Any]]:
    keys = datasets.zipf(n, N_KEYS, 1.0).view(np.int64)
    text = pa.array(keys % N_KEYS).cast(pa.string())
    tables = {"long": pa.table({"k": keys}), "string": pa.table({"k": text})}
    jobs: dict[str, Callable[[], Any]] = {}
    for kind, table in tables.items():
        parquet, plain = folder / f"{kind}.parquet", folder / f"{kind}.csv"
        pq.write_table(table, parquet)
        csv.write_csv(table, plain)
        jobs[f"counting Parquet, {kind} keys"] = lambda path=parquet: _counted(path)
        jobs[f"counting CSV, {kind} keys"] = lambda path=plain: _counted(path)
    return jobs


def run(n: int = 2_000_000, repetitions: int = 5) -> dict[str, float]:
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, job in {**_drawing(n), **_counting(n, Path(folder))}.items():
            job()
            spent = []
            for _ in range(repetitions):
                begun = time.process_time()
                job()
                spent.append((time.process_time() - begun) / n * 1e9)
            found[name] = round(statistics.median(spent), 1)
            print(f"{name:32} {found[name]:8.0f} ns a tuple")
    return found
