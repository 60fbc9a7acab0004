"""Trip records of New York's Taxi and Limousine Commission, whose columns changed over the years."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc

from skewless.datasets.files import TupleFile
from skewless.errors import DataError, did_you_mean
from skewless.parameters import Range, check

__all__ = ["load_tlc"]

#: Column -> the names that it had (in small letters), its type, and whether it may be missing.
_COLUMNS = {
    "pickup": (
        ("tpep_pickup_datetime", "lpep_pickup_datetime", "pickup_datetime", "trip_pickup_datetime"),
        pa.timestamp("us"),
        False,
    ),
    "dropoff": (
        (
            "tpep_dropoff_datetime",
            "lpep_dropoff_datetime",
            "dropoff_datetime",
            "trip_dropoff_datetime",
        ),
        pa.timestamp("us"),
        False,
    ),
    "PULocationID": (("pulocationid",), pa.int32(), False),
    "DOLocationID": (("dolocationid",), pa.int32(), False),
    "trip_distance": (("trip_distance", "trip_miles"), pa.float64(), True),
    "total_amount": (("total_amount",), pa.float64(), True),
}


def load_tlc(path: str | Path, *, limit: Annotated[int, Range(1)] | None = None) -> pa.Table:
    """Return taxi trips under the same columns, whatever the file's kind and year.

    Parameters
    ----------
    path
        A Parquet file of the TLC: yellow, green, for-hire or high-volume for-hire, or a folder of them.
    limit : int of at least 1
        Trips to read at most; all if left out.

    Returns
    -------
    pyarrow.Table
        ``pickup``, ``dropoff`` (timestamps without zone, us), ``PULocationID``, ``DOLocationID``
        (int32), ``trip_distance`` (miles) and ``total_amount`` (dollars), the last two null where the
        kind has none. Rows are in the order of the file. The metadata of the schema hold the number of
        trips that were left out under ``skewless.bad_rows``.

    Raises
    ------
    ParameterError
        `limit` is out of range.
    DataError
        The file cannot be read, a column is missing (files from before July 2016 have positions instead
        of zones), or holds values of another type; nothing is left.

    Notes
    -----
    Trips without a time or a zone (many of the for-hire files) are left out, counted, and told by a
    warning. Times outside the file's month, which exist in most files, stay.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow.parquet as pq
    >>> file = tempfile.NamedTemporaryFile()
    >>> day = pa.array([0], pa.timestamp("us"))
    >>> columns = {"lpep_pickup_datetime": day, "lpep_dropoff_datetime": day}
    >>> pq.write_table(pa.table({**columns, "PULocationID": [7], "DOLocationID": [8.0]}), file.name)
    >>> load_tlc(file.name).column("DOLocationID").to_pylist()
    [8]
    >>> file.close()
    """
    check("load_tlc", load_tlc, limit=limit)
    source = TupleFile(path, where="load_tlc", format="parquet")
    parts: list[pa.Table] = []
    rows = bad = 0
    for batch in source:
        table = _as_ours(batch, source.path.name)
        whole = pc.and_(pc.is_valid(table["pickup"]), pc.is_valid(table["dropoff"]))
        for zone in ("PULocationID", "DOLocationID"):
            whole = pc.and_(whole, pc.is_valid(table[zone]))
        kept = table.filter(whole)
        bad += table.num_rows - kept.num_rows
        rows += kept.num_rows
        parts.append(kept)
        if limit is not None and rows >= limit:
            break
    if not rows:
        raise DataError(
            f"load_tlc: {source.path.name!r} holds no trip with times and zones ({bad} without); check "
            "that it is the right file."
        )
    if bad:
        warnings.warn(
            f"load_tlc: {bad} trips of {source.path.name!r} have no time or no zone and were left out.",
            stacklevel=2,
        )
    told = {"skewless.bad_rows": str(bad)}
    return pa.concat_tables(parts)[:limit].replace_schema_metadata(told)


def _as_ours(batch: pa.RecordBatch, file: str) -> pa.Table:
    held = {name.lower(): name for name in batch.schema.names}
    columns = {}
    for ours, (names, kind, optional) in _COLUMNS.items():
        theirs = next((held[name] for name in names if name in held), None)
        if theirs is None:
            if not optional:
                near = did_you_mean(names[0], batch.schema.names)
                raise DataError(
                    f"load_tlc: {file!r} has no column {' or '.join(names)}{near}; give trip records "
                    "with taxi zones."
                )
            columns[ours] = pa.nulls(batch.num_rows, kind)
            continue
        try:
            columns[ours] = batch.column(theirs).cast(kind, safe=kind != pa.timestamp("us"))
        except pa.ArrowException as error:
            raise DataError(
                f"load_tlc: column {theirs!r} of {file!r} is {batch.column(theirs).type} and cannot be "
                f"read as {kind} ({error}); check that it is the right file."
            ) from error
    return pa.table(columns)
