"""The two acts of the demo."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import skewless
from skewless.demo.follow import FollowedBy
from skewless.demo.runs import Run, read_stream, run
from skewless.demo.words import WordStream
from skewless.policy import Policy
from skewless.spark.streaming import StreamGroups, WindowedGroups

__all__ = ["Exact", "exact", "same_counts", "worth_it"]

Tell = Callable[[str, int, str], None]

#: Windows of twenty years that slide by one; a day of event time stands for a year.
_SIZE, _SLIDE = "20 days", "1 day"


class Exact(NamedTuple):
    """Act one: the runs, and for each whether its rows are plain Spark's."""

    runs: list[Run]
    identical: dict[str, bool]
    n_rows_out: int


def exact(
    spark: SparkSession,
    words: WordStream,
    policies: Iterable[str],
    workers: int,
    folder: Path,
    tell: Tell,
) -> Exact:
    """Count words in sliding windows with plain Spark and with every policy; compare the rows."""
    window = F.window("spoken", _SIZE, _SLIDE)
    plain = (
        read_stream(spark, words)
        .withWatermark("spoken", "0 seconds")
        .groupBy(window, "word")
        .agg(F.count(F.lit(1)).alias("n"))
    )
    runs = [run("plain Spark", plain, None, words, folder, partial(tell, "plain Spark"))]
    reference = _sorted_counts(runs[0].output, words)
    identical: dict[str, bool] = {}
    for policy in policies:
        groups = _windowed(spark, words, policy, workers, folder, _SLIDE)
        frame = groups.agg(F.count(F.lit(1)).alias("n"))
        done = run(policy, frame, groups, words, folder, partial(tell, policy))
        runs.append(done)
        identical[policy] = frame.schema == plain.schema and same_counts(
            reference, _sorted_counts(done.output, words)
        )
    return Exact(runs, identical, len(reference[0]))


def worth_it(
    spark: SparkSession,
    words: WordStream,
    policies: Iterable[str],
    workers: int,
    cost_us: float,
    folder: Path,
    tell: Tell,
) -> list[Run]:
    """Run the Python aggregator under every policy, with an emulated cost per row."""
    _start_python(spark, workers)
    runs = []
    for policy in policies:
        notes = folder / f"notes-{policy}"
        notes.mkdir(parents=True)
        groups = _windowed(spark, words, policy, workers, folder, None)
        frame = groups.aggregate(FollowedBy(cost_us, 3, str(notes)))
        done = run(policy, frame, groups, words, folder, partial(tell, policy), notes)
        runs.append(done)
    return runs


def _start_python(spark: SparkSession, workers: int) -> None:
    """Start Spark's Python workers, so that the first policy is not charged for it."""

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    spark.range(workers, numPartitions=workers).mapInArrow(same, "id bigint").count()


def _windowed(
    spark: SparkSession,
    words: WordStream,
    policy: str,
    workers: int,
    folder: Path,
    slide: str | None,
) -> WindowedGroups:
    stream = read_stream(spark, words)
    state = str(folder / f"policy-{policy}")
    rule: Policy | str = policy
    if policy == "dalton":
        # One word in twelve is the same: near the threshold of 1/16, and so hot in one window of
        # 1,000 words and not in the next. Longer windows make up their mind.
        rule = skewless.Dalton(workers, stats_window=10_000)
    groups = skewless.group_by(stream, "word", policy=rule, workers=workers, state=state)
    return cast("StreamGroups", groups).window("spoken", _SIZE, slide, watermark="0 seconds")


def same_counts(left: tuple[NDArray[np.int64], ...], right: tuple[NDArray[np.int64], ...]) -> bool:
    """Say whether two results hold the same rows, each as often."""
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def _sorted_counts(output: Path, words: WordStream) -> tuple[NDArray[np.int64], ...]:
    """Return (window start, window end, word, count) of a result, sorted; words as numbers."""
    table = pq.read_table(output)
    start = pc.struct_field(table["window"], "start").cast(pa.timestamp("us", "UTC"))
    end = pc.struct_field(table["window"], "end").cast(pa.timestamp("us", "UTC"))
    word = pc.fill_null(pc.index_in(table["word"], words.vocabulary), -1)
    columns = [
        np.asarray(c.combine_chunks().cast(pa.int64())) for c in (start, end, word, table["n"])
    ]
    order = np.lexsort(columns[::-1])
    return tuple(column[order] for column in columns)
