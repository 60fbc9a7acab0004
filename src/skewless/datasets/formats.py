"""Loaders for text formats of the papers' real data: taxi trips, cluster events, graphs, page counts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from skewless.datasets.lines import LineFormat, delimited, load_lines

__all__ = [
    "DEBS_2015",
    "GOOGLE_TASK_EVENTS",
    "SNAP_EDGES",
    "WIKIPEDIA_PAGE_COUNTS",
    "load_debs_2015",
    "load_google_task_events",
    "load_snap_edges",
    "load_wikipedia_page_counts",
]

_TEXT, _TIME, _REAL = pa.string(), pa.timestamp("s"), pa.float64()

_DEBS = {
    "medallion": _TEXT,
    "hack_license": _TEXT,
    "pickup_datetime": _TIME,
    "dropoff_datetime": _TIME,
    "trip_time_in_secs": pa.int32(),
    "trip_distance": _REAL,
    "pickup_longitude": _REAL,
    "pickup_latitude": _REAL,
    "dropoff_longitude": _REAL,
    "dropoff_latitude": _REAL,
    "payment_type": _TEXT,
    "fare_amount": _REAL,
    "surcharge": _REAL,
    "mta_tax": _REAL,
    "tip_amount": _REAL,
    "tolls_amount": _REAL,
    "total_amount": _REAL,
}
_TASK_EVENTS = {
    "time_us": pa.int64(),
    "missing_info": pa.int8(),
    "job_id": pa.int64(),
    "task_index": pa.int32(),
    "machine_id": pa.int64(),
    "event_type": pa.int8(),
    "user": _TEXT,
    "scheduling_class": pa.int8(),
    "priority": pa.int8(),
    "cpu_request": _REAL,
    "memory_request": _REAL,
    "disk_space_request": _REAL,
    "different_machines_restriction": pa.int8(),
}
_PAGE_COUNTS = {"project": _TEXT, "title": _TEXT, "count": pa.int64(), "bytes": pa.int64()}
_EDGES = {"source": pa.int64(), "destination": pa.int64()}


def _snap_parsed(lines: list[bytes]) -> pa.Table:
    split = [line.split() for line in lines]
    for fields in split:
        if len(fields) < 2:
            raise ValueError(f"Expected 2 node numbers, got {len(fields)} fields")
    return _edges([b"\t".join(fields[:2]) for fields in split])


_edges = delimited(_EDGES, "\t")


#: Formats for `skewless.datasets.lines.LineFile`.
DEBS_2015 = LineFormat("load_debs_2015", delimited(_DEBS, ","))
GOOGLE_TASK_EVENTS = LineFormat("load_google_task_events", delimited(_TASK_EVENTS, ","))
SNAP_EDGES = LineFormat("load_snap_edges", _snap_parsed, comments=(b"#", b"%"))
WIKIPEDIA_PAGE_COUNTS = LineFormat("load_wikipedia_page_counts", delimited(_PAGE_COUNTS, " "))


def load_debs_2015(
    path: str | Path, *, limit: int | None = None, bad_lines: str = "skip"
) -> pa.Table:
    r"""Return the taxi trips of the DEBS 2015 Grand Challenge: 17 fields, no header line, in New York.

    Parameters
    ----------
    path
        CSV, perhaps gzip or zip.
    limit : int of at least 1
        Records to read at most; all if left out.
    bad_lines
        ``"skip"`` or ``"error"``, as in `skewless.datasets.lines.LineFile`.

    Returns
    -------
    pyarrow.Table
        The fields under the names of the challenge; times without zone, in seconds. Rows are in the
        order of drop-off, as in the file. A position of 0, 0 means that there is none.

    Raises
    ------
    DataError, ParameterError
        As in `skewless.datasets.lines.LineFile`.

    References
    ----------
    Z. Jerzak, H. Ziekow, The DEBS 2015 Grand Challenge, DEBS 2015, section 2,
    doi:10.1145/2675743.2772598.

    Examples
    --------
    >>> import tempfile
    >>> file = tempfile.NamedTemporaryFile()
    >>> trip = b"A,B,2013-01-01 00:00:00,2013-01-01 00:02:00,120,0.4,-73,40,-73,40,CSH,3,1,0,0,0,4"
    >>> _ = file.write(trip + b"\n"), file.flush()
    >>> load_debs_2015(file.name).select(["medallion", "trip_time_in_secs", "total_amount"]).to_pylist()
    [{'medallion': 'A', 'trip_time_in_secs': 120, 'total_amount': 4.0}]
    >>> file.close()
    """
    return load_lines(path, DEBS_2015, limit=limit, bad_lines=bad_lines)


def load_google_task_events(
    path: str | Path, *, limit: int | None = None, bad_lines: str = "skip"
) -> pa.Table:
    r"""Return task events of Google's cluster trace of 2011: 13 fields, no header line.

    Parameters
    ----------
    path
        One part of the table ``task_events``, CSV, as a rule gzip.
    limit : int of at least 1
        Records to read at most; all if left out.
    bad_lines
        ``"skip"`` or ``"error"``, as in `skewless.datasets.lines.LineFile`.

    Returns
    -------
    pyarrow.Table
        The fields under the names of the trace, the time as ``time_us`` in microseconds: 0 is before
        the trace, 2**63 - 1 after it. Missing fields are null.

    Raises
    ------
    DataError, ParameterError
        As in `skewless.datasets.lines.LineFile`.

    References
    ----------
    C. Reiss, J. Wilkes, J. Hellerstein, Google cluster-usage traces: format + schema, 2011 (revised
    2014), table "task events".

    Examples
    --------
    >>> import tempfile
    >>> file = tempfile.NamedTemporaryFile()
    >>> _ = file.write(b"600,,3418309,0,4155527081,1,me,3,9,0.125,0.07,0.0004,0\n"), file.flush()
    >>> load_google_task_events(file.name).select(["time_us", "missing_info", "user"]).to_pylist()
    [{'time_us': 600, 'missing_info': None, 'user': 'me'}]
    >>> file.close()
    """
    return load_lines(path, GOOGLE_TASK_EVENTS, limit=limit, bad_lines=bad_lines)


def load_snap_edges(
    path: str | Path, *, limit: int | None = None, bad_lines: str = "skip"
) -> pa.Table:
    r"""Return the edges of a graph in the format of the Stanford Network Analysis Project.

    Parameters
    ----------
    path
        Two node numbers a line, separated by blanks or tabulators; perhaps gzip. Lines that begin with
        ``#`` or ``%`` are comments.
    limit : int of at least 1
        Records to read at most; all if left out.
    bad_lines
        ``"skip"`` or ``"error"``, as in `skewless.datasets.lines.LineFile`.

    Returns
    -------
    pyarrow.Table
        ``source`` and ``destination``, int64. Further fields of a line, such as weights and times, are
        not read.

    Raises
    ------
    DataError, ParameterError
        As in `skewless.datasets.lines.LineFile`.

    Examples
    --------
    >>> import tempfile
    >>> file = tempfile.NamedTemporaryFile()
    >>> _ = file.write(b"# FromNodeId\tToNodeId\n0\t4\n"), file.flush()
    >>> load_snap_edges(file.name).to_pylist()
    [{'source': 0, 'destination': 4}]
    >>> file.close()
    """
    return load_lines(path, SNAP_EDGES, limit=limit, bad_lines=bad_lines)


def load_wikipedia_page_counts(
    path: str | Path, *, limit: int | None = None, bad_lines: str = "skip"
) -> pa.Table:
    r"""Return an hour of Wikipedia's page counts: ``project title count bytes`` a line.

    Parameters
    ----------
    path
        A file of ``pagecounts`` or of its successor ``pageviews``, whose last field is 0; perhaps
        gzip.
    limit : int of at least 1
        Records to read at most; all if left out.
    bad_lines
        ``"skip"`` or ``"error"``, as in `skewless.datasets.lines.LineFile`.

    Returns
    -------
    pyarrow.Table
        ``project`` and ``title`` as they are in the file (titles mostly in percent-encoding), ``count``
        and ``bytes`` as int64. A row is a page, not a visit: give ``count`` as the weight.

    Raises
    ------
    DataError, ParameterError
        As in `skewless.datasets.lines.LineFile`.

    Notes
    -----
    Old files hold lines whose title has a blank in it or is missing. They are bad lines here: it cannot
    be told which field is which.

    Examples
    --------
    >>> import tempfile
    >>> file = tempfile.NamedTemporaryFile()
    >>> _ = file.write(b"en Main_Page 242332 4737756101\n"), file.flush()
    >>> load_wikipedia_page_counts(file.name)["title"].to_pylist()
    ['Main_Page']
    >>> file.close()
    """
    return load_lines(path, WIKIPEDIA_PAGE_COUNTS, limit=limit, bad_lines=bad_lines)
