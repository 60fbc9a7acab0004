"""Loader for logs of web servers in the Common Log Format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skewless.datasets.lines import LineFormat, load_lines

__all__ = ["COMMON_LOG", "load_common_log"]

_CLF = (
    r"^(?P<host>\S+) (?P<ident>\S+) (?P<user>.+?) \[(?P<day>[^\]\s]+) (?P<sign>[+-])(?P<hours>\d\d)"
    r'(?P<minutes>\d\d)\] "(?P<request>.*?)" (?P<status>\d{3}) (?P<bytes>\d+|-)(?: .*)?$'
)
_REQUEST = r"^(?P<method>[A-Za-z]+) +(?P<path>\S.*?)(?: +(?P<protocol>HTTP/[0-9.]+))? *$"


def _log_parsed(lines: list[bytes]) -> pa.Table:
    try:
        found = pc.extract_regex(pa.array([line.decode() for line in lines]), _CLF)
    except UnicodeDecodeError as error:
        raise ValueError("it is no UTF-8") from error
    if found.null_count:
        raise ValueError('it is no line of host ident user [time] "request" status bytes')
    part: dict[str, Any] = dict(zip([f.name for f in found.type], found.flatten(), strict=True))
    day = pc.strptime(part["day"], "%d/%b/%Y:%H:%M:%S", "s", error_is_null=True)
    if day.null_count:
        raise ValueError(f"its time {part['day'].filter(day.is_null())[0]} is none")
    ahead = pc.add(
        pc.multiply(part["hours"].cast(pa.int64()), 3600),
        pc.multiply(part["minutes"].cast(pa.int64()), 60),
    )
    offset = pc.if_else(pc.equal(part["sign"], "-"), pc.negate(ahead), ahead)
    seconds = pc.subtract(day.cast(pa.int64()), offset)
    request = pc.extract_regex(part["request"], _REQUEST)
    return pa.table(
        {
            "host": part["host"],
            "user": _or_null(part["user"], "-"),
            "time": seconds.cast(pa.timestamp("s", "UTC")),
            "request": part["request"],
            "method": pc.struct_field(request, "method"),
            "path": pc.struct_field(request, "path"),
            "protocol": _or_null(pc.struct_field(request, "protocol"), ""),
            "status": part["status"].cast(pa.int16()),
            "bytes": _or_null(part["bytes"], "-").cast(pa.int64()),
        }
    )


def _or_null(column: Any, none: str) -> Any:
    return pc.if_else(pc.equal(column, none), None, column)


#: The format for `skewless.datasets.lines.LineFile`.
COMMON_LOG = LineFormat("load_common_log", _log_parsed)


def load_common_log(
    path: str | Path, *, limit: int | None = None, bad_lines: str = "skip"
) -> pa.Table:
    r"""Return the requests of a web server's log, in the Common Log Format or the combined one.

    Parameters
    ----------
    path
        ``host ident user [day/month/year:time zone] "request" status bytes`` a line, perhaps gzip.
        What follows, such as referrer and agent, is not read.
    limit : int of at least 1
        Records to read at most; all if left out.
    bad_lines
        ``"skip"`` or ``"error"``, as in `skewless.datasets.lines.LineFile`.

    Returns
    -------
    pyarrow.Table
        ``host``, ``user``, ``time`` (UTC, seconds), ``request`` as it is; ``method``, ``path`` and
        ``protocol`` of it, null if it is none; ``status`` (int16) and ``bytes`` (int64, null for
        ``-``).

    Raises
    ------
    DataError, ParameterError
        As in `skewless.datasets.lines.LineFile`.

    Notes
    -----
    Months are in English. A host is a person's address in many logs: use it as a key, keep it no longer
    than needed.

    Examples
    --------
    >>> import tempfile
    >>> file = tempfile.NamedTemporaryFile()
    >>> _ = file.write(b'h - - [01/Jul/1995:00:00:01 -0400] "GET /x HTTP/1.0" 200 6245\n'), file.flush()
    >>> load_common_log(file.name).select(["host", "path", "bytes"]).to_pylist()
    [{'host': 'h', 'path': '/x', 'bytes': 6245}]
    >>> file.close()
    """
    return load_lines(path, COMMON_LOG, limit=limit, bad_lines=bad_lines)
