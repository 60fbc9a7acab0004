"""Seeded frames whose keys, orders and values have what windows stumble over: ties, nulls, NaN."""

from __future__ import annotations

import datetime as dt
import decimal
import random

from pyspark.sql import DataFrame, SparkSession

_SCHEMA = (
    "k string, j int, o double, t timestamp, v bigint, i int, x double, d decimal(12, 3), s string, "
    "id int"
)
_START = dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.timezone.utc)


def skewed_frame(
    spark: SparkSession, seed: int, rows: int = 400, *, shuffled: bool = False
) -> DataFrame:
    """Two key columns, two order columns with many ties, values of several types, a unique id."""
    draw = random.Random(seed)  # noqa: S311 - seeded on purpose
    hot = draw.choice(["hot", None, "é", ""])
    share = draw.choice([0.0, 0.5, 0.9, 1.0])
    doubles = [None, float("nan"), float("-inf"), float("inf"), -0.0, 0.0, 1.5, -2.5, 3.0, 1e300]

    def row(number: int) -> tuple[object, ...]:
        key = hot if draw.random() < share else draw.choice([None, "a", "b", "c", f"c{number}"])
        when = dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.timezone.utc) + dt.timedelta(
            minutes=draw.randrange(200)
        )
        return (
            key,
            draw.choice([None, 1]) if key == hot else draw.choice([None, 1, 2]),
            draw.choice(doubles),
            None if draw.random() < 0.1 else when,
            None if draw.random() < 0.2 else draw.randrange(-(10**6), 10**6),
            None if draw.random() < 0.2 else draw.randrange(-100, 100),
            None if draw.random() < 0.2 else draw.uniform(-5, 5),
            None if draw.random() < 0.2 else decimal.Decimal(draw.randrange(-(10**6), 10**6)) / 8,
            draw.choice([None, "", "x", "yy", "é"]),
            number,
        )

    frame = spark.createDataFrame([row(number) for number in range(rows)], _SCHEMA)
    return frame.repartition(3, "id") if shuffled else frame.coalesce(3)
