"""Run one streaming query of the demo, with a live progress line, and measure it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from skewless.demo.words import SCHEMA, WordStream
from skewless.spark.learning import BatchRecord
from skewless.spark.streaming import WindowedGroups

__all__ = ["BALANCED", "HEADINGS", "TASK_HEADINGS", "Run", "read_stream", "run", "session"]

#: Columns of the demo's tables: of both acts, and of the second one only.
HEADINGS = (
    "policy",
    "wall s",
    "k rows/s",
    "load max/mean",
    "worst batch",
    "policy versions",
    "balanced after",
)
TASK_HEADINGS = ("slowest task/mean", "waited s", "states shipped")
#: Load over mean from which a batch counts as balanced.
BALANCED = 1.25


@dataclass
class Run:
    """One query, measured."""

    policy: str
    seconds: float
    rows: int
    output: Path
    batches: list[BatchRecord] = field(default_factory=list)
    tasks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rows_per_s(self) -> float:
        """Rows per second of wall time, start-up of the query included."""
        return self.rows / self.seconds

    @property
    def balance(self) -> list[float]:
        """Max/mean load of every batch: rows per worker, or per combine task where nothing is routed."""
        if self.batches:
            return [record.max_over_mean for record in self.batches]
        return [float(x.max() / x.mean()) for x in self._per_task("rows")]

    @property
    def slowest_task(self) -> float | None:
        """Seconds of the slowest combine task over the mean one, averaged over the batches."""
        ratios = [float(x.max() / x.mean()) for x in self._per_task("seconds")]
        return float(np.mean(ratios)) if ratios else None

    @property
    def waited_for(self) -> float | None:
        """Seconds of the slowest combine task, summed over the batches: what the stream waits for."""
        slowest = [float(x.max()) for x in self._per_task("seconds")]
        return sum(slowest) if slowest else None

    @property
    def fragments(self) -> int | None:
        """States that the combine stage shipped, summed over the batches."""
        return sum(task["states"] for task in self.tasks) if self.tasks else None

    @property
    def versions(self) -> int:
        """Policy versions that routed at least one batch."""
        return len({record.version for record in self.batches})

    @property
    def balanced_after(self) -> int | None:
        """Batches until the load stays balanced; ``None`` if it never does."""
        uneven = [i for i, ratio in enumerate(self.balance) if ratio > BALANCED]
        first = uneven[-1] + 1 if uneven else 0
        return first if first < len(self.balance) else None

    def loads(self) -> NDArray[np.float64] | None:
        """Return load over mean per batch and worker; ``None`` where nothing was routed."""
        if self.batches:
            return np.array([record.loads / record.loads.mean() for record in self.batches])
        rows = self._per_task("rows")
        return np.array([line / line.mean() for line in rows]) if rows else None

    def cells(self) -> list[str]:
        """Return the run as the cells of a table row, in the order of `HEADINGS`."""
        balance = self.balance
        after = self.balanced_after
        return [
            self.policy,
            _number(self.seconds, ".1f"),
            _number(self.rows_per_s / 1000, ",.0f"),
            _number(sum(balance) / len(balance) if balance else None, ".2f"),
            _number(max(balance, default=None), ".2f"),
            str(self.versions) if self.batches else "-",
            "-" if not balance else "never" if after is None else f"{after} batches",
        ]

    def task_cells(self) -> list[str]:
        """Return what the combine tasks took, in the order of `TASK_HEADINGS`."""
        return [
            _number(self.slowest_task, ".2f"),
            _number(self.waited_for, ".1f"),
            _number(self.fragments, ",d"),
        ]

    def _per_task(self, what: str) -> list[NDArray[np.float64]]:
        """Return, per batch that holds words, the value of every task; idle tasks count as zero."""
        if not self.tasks:
            return []
        n_tasks = 1 + max(task["task"] for task in self.tasks)
        numbers = sorted({task["batch"] for task in self.tasks})
        table = np.zeros((len(numbers), n_tasks))
        for task in self.tasks:
            table[numbers.index(task["batch"]), task["task"]] += task[what]
        return [line for line in table if np.count_nonzero(line) > 1]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def session(slots: int) -> SparkSession:
    """Return a local Spark session with so many task slots, quiet, on the loopback address."""
    import os
    import sys

    from skewless.spark.java import java_home

    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    found = (
        SparkSession.builder.master(f"local[{slots}]")
        .appName("skewless demo")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", "200")
        .getOrCreate()
    )
    found.sparkContext.setLogLevel("ERROR")
    return found


def read_stream(spark: SparkSession, words: WordStream) -> DataFrame:
    """Return the file stream, `files_per_batch` files in every micro-batch."""
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", words.files_per_batch)
    return source.parquet(str(words.folder))


def run(
    policy: str,
    frame: DataFrame,
    groups: WindowedGroups | None,
    words: WordStream,
    folder: Path,
    tell: Callable[[int, str], None],
    notes: Path | None = None,
) -> Run:
    """Run a query over all files and return what it took.

    Parameters
    ----------
    policy
        Name for tables.
    frame
        The streaming frame.
    groups
        What it was made from; ``None`` for plain Spark.
    words
        The stream.
    folder
        Where output and checkpoint go.
    tell
        Called now and then with batches done and a few words.
    notes
        Where the aggregator notes its tasks.
    """
    output, checkpoint = folder / f"out-{policy}", folder / f"checkpoint-{policy}"
    started = time.perf_counter()
    query = (
        frame.writeStream.outputMode("append")
        .format("parquet")
        .option("path", str(output))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        while not query.awaitTermination(1):
            done = min(_batches_done(checkpoint), words.n_batches)
            elapsed = time.perf_counter() - started
            tell(done, _words(done * words.n_rows / words.n_batches / elapsed, groups))
    finally:
        query.stop()
    seconds = time.perf_counter() - started
    batches = [] if groups is None else _all_batches(groups, words)
    tasks = []
    if notes is not None:
        tasks = [json.loads(path.read_text()) for path in sorted(notes.glob("*.json"))]
    tell(words.n_batches, "done")
    return Run(policy, seconds, words.n_rows, output, batches, tasks)


def _batches_done(checkpoint: Path) -> int:
    """Count the batches by their commits: a query's progress costs Spark half a second to tell."""
    return len([path for path in checkpoint.glob("commits/*") if path.name.isdigit()])


def _words(rows_per_s: float, groups: WindowedGroups | None) -> str:
    rate = f"{rows_per_s / 1000:,.0f} k rows/s"
    if groups is None or not groups.batches:
        return rate
    last = groups.batches[-1]
    return f"{rate}, policy v{last.version}, max/mean {last.max_over_mean:.2f}"


def _all_batches(groups: WindowedGroups, words: WordStream) -> list[BatchRecord]:
    """Return the batches that hold words; the listener may be a moment behind the query."""
    deadline = time.monotonic() + 20
    while groups.routes and len(groups.batches) < words.n_batches and time.monotonic() < deadline:
        time.sleep(0.1)
    return groups.batches[: words.n_batches]
