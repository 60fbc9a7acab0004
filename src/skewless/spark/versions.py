"""What not every Spark has or tells: done with what it has, or refused in words."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skewless.errors import DataError

__all__ = [
    "arrow_schema",
    "first_rows",
    "require_form",
    "session_zone",
    "slots_of",
    "to_arrow",
    "version_of",
]


def version_of(session: SparkSession) -> tuple[int, int]:
    """Return major and minor version of the Spark that runs the queries."""
    major, minor = str(session.version).split(".")[:2]
    return int(major), int(minor)


def require_form(session: SparkSession, verb: str, form: str) -> None:
    """Raise unless the Spark can hand groups to a function in this form.

    Raises
    ------
    DataError
        It is older: forms of Arrow need Spark 4.0, those of batches need 4.1.
    """
    least = (4, 1) if form.endswith("_batches") else (4, 0) if form == "arrow" else (0, 0)
    if version_of(session) < least:
        raise DataError(
            f"{verb}: form={form!r} needs Spark {least[0]}.{least[1]} or newer, and this one is "
            f"{session.version}; use form='pandas'."
        )


def arrow_schema(schema: StructType, zone: str = "UTC") -> pa.Schema:
    """Return a schema as Spark hands it to Python; before Spark 4.2 the time zone is always UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" not in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema)
    return to_arrow_schema(schema, timezone=zone)


def session_zone(session: SparkSession) -> str:
    """Return the time zone of a session."""
    return str(session.conf.get("spark.sql.session.timeZone"))


def to_arrow(df: DataFrame) -> pa.Table:
    """Return the rows as an Arrow table on the driver; Spark before 4.0 has no public way to."""
    if hasattr(df, "toArrow"):
        return df.toArrow()
    older: Any = df
    batches = older._collect_as_arrow()
    if not batches:
        return arrow_schema(df.schema).empty_table()
    return pa.Table.from_batches(batches)


def first_rows(df: DataFrame, n_rows: int) -> pa.Table:
    """Return some rows as an Arrow table, read in as few tasks as hold so many.

    ``limit(n).toArrow()`` would run all tasks of the frame and shuffle what they find.
    """
    if not hasattr(df, "_jdf"):
        return to_arrow(df.limit(n_rows))
    session: Any = df.sparkSession
    taken = df._jdf.limit(n_rows).collectAsList()  # stays in the JVM, so no type is lost
    local = session._jsparkSession.createDataFrame(taken, df._jdf.schema())
    return to_arrow(DataFrame(local.coalesce(1), session))


def slots_of(session: SparkSession) -> int | None:
    """Return the number of tasks that run side by side; ``None`` on Connect, which does not say."""
    context = getattr(session, "_sc", None)
    return None if context is None else int(context.defaultParallelism)
