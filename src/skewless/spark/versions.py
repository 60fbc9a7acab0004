"""What older Sparks lack, done with what they have, or refused in words."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from skewless.errors import DataError

__all__ = ["require_form", "to_arrow", "version_of"]


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


def to_arrow(df: DataFrame) -> pa.Table:
    """Return the rows as an Arrow table on the driver; Spark before 4.0 has no public way to."""
    if hasattr(df, "toArrow"):
        return df.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema

    older: Any = df
    batches = older._collect_as_arrow()
    if not batches:
        return to_arrow_schema(df.schema).empty_table()
    return pa.Table.from_batches(batches)
