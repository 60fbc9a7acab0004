"""The numbers of one micro-batch: what it routed, how evenly, by which policy, how long it took."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from skewless.errors import DataError

__all__ = ["BatchMetrics", "HotKey", "Timing"]


class HotKey(NamedTuple):
    """A heavy key of a batch."""

    key: int
    """Spark's ``xxhash64`` of the key columns, a signed 64-bit integer."""
    rows: int
    """Rows of the key in the batch; a sketch's count, exact for heavy keys."""
    workers: int
    """Workers that the policy shared the key out to: its fan-out."""


class Timing(NamedTuple):
    """What Spark's progress says about a batch beyond its rows; ``None`` is not known."""

    query: str | None = None
    """Id of the query, the same after a restart from its checkpoint."""
    run: str | None = None
    """Id of this run of the query."""
    name: str | None = None
    """The query's name, if it has one."""
    started_s: float | None = None
    """When the batch began, seconds since 1970."""
    seconds: float | None = None
    """What the batch took, seconds."""
    behind: int | None = None
    """Offsets that the source has and the batch did not take (rows, for Kafka)."""
    event_lag_s: float | None = None
    """From the latest event time in the batch to its begin, seconds; negative if events are ahead."""

    @classmethod
    def of(cls, progress: str | Mapping[str, Any]) -> Timing:
        """Read a ``StreamingQueryProgress``, as JSON text or parsed; what cannot be read is ``None``.

        Examples
        --------
        >>> timing = Timing.of(
        ...     {
        ...         "id": "q",
        ...         "timestamp": "2026-01-01T00:00:10.000Z",
        ...         "batchDuration": 1500,
        ...         "eventTime": {"max": "2026-01-01T00:00:07.500Z"},
        ...         "sources": [{"endOffset": {"t": {"0": 90}}, "latestOffset": {"t": {"0": 120}}}],
        ...     }
        ... )
        >>> timing.seconds, timing.behind, timing.event_lag_s
        (1.5, 30, 2.5)
        """
        try:
            found = json.loads(progress) if isinstance(progress, str) else progress
        except ValueError:
            return cls()
        if not isinstance(found, Mapping):
            return cls()
        started = _instant(found.get("timestamp"))
        latest = _instant(_mapping(found.get("eventTime")).get("max"))
        took = found.get("batchDuration")
        if took is None:  # an older Spark
            took = _mapping(found.get("durationMs")).get("triggerExecution")
        sources = found.get("sources")
        return cls(
            _text(found.get("id")),
            _text(found.get("runId")),
            _text(found.get("name")),
            started,
            took / 1000 if isinstance(took, (int, float)) else None,
            _behind(sources if isinstance(sources, list) else []),
            None if started is None or latest is None else round(started - latest, 3),
        )


class BatchMetrics(NamedTuple):
    """One row of a query's metrics; ``None`` is not known."""

    batch: int
    """Batch id of the query."""
    version: int
    """Policy version that routed the batch; 0 is plain hashing."""
    rows: int
    """Rows routed."""
    loads: tuple[int, ...]
    """Rows of each worker."""
    policy: str | None = None
    """The policy that learns, or ``fixed routing``."""
    active: int | None = None
    """Workers that the routing gives anything to."""
    n_keys: int | None = None
    """Different keys in the batch, an estimate; only counted for an elastic query."""
    hot: tuple[HotKey, ...] = ()
    """The heaviest keys, heaviest first; ten at the most."""
    hot_keys: int | None = None
    """Keys that have workers of their own."""
    split_keys: int | None = None
    """Those of them with more than one worker."""
    extra_fragments: int | None = None
    """Fragments beyond one for each hot key."""
    interval_s: float | None = None
    """From the begin of the batch before to the begin of this one, seconds."""
    rows_total: int | None = None
    """Rows routed since the query began to run, this batch included."""
    batches_total: int | None = None
    """Batches with rows since then, this one included."""
    timing: Timing = Timing()
    """What Spark's progress added."""

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.loads)

    @property
    def max_over_mean(self) -> float:
        """Rows of the fullest worker over the mean of the active ones; 1 if there are none."""
        active = self.active or self.workers
        return max(self.loads) * active / self.rows if self.rows else 1.0

    @property
    def title(self) -> str:
        """What to call the query: its name, else its id, else nothing."""
        return self.timing.name or self.timing.query or ""

    def as_row(self) -> dict[str, Any]:
        """Return the metrics as one flat mapping of JSON values."""
        started = self.timing.started_s
        row: dict[str, Any] = {
            "batch": self.batch,
            "version": self.version,
            "rows": self.rows,
            "max_over_mean": round(self.max_over_mean, 4),
            "loads": list(self.loads),
            "workers": self.workers,
        }
        row |= {name: getattr(self, name) for name in _PLAIN}
        row["hot"] = [key._asdict() for key in self.hot]
        row |= self.timing._asdict()
        row["started"] = None if started is None else _iso(started)
        return row

    def to_line(self) -> str:
        """Return the metrics as one line of JSON, without the line's end."""
        return json.dumps(self.as_row(), separators=(",", ":"), allow_nan=False)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> BatchMetrics:
        """Read what `as_row` made; an older row lacks fields, which are ``None`` then.

        Raises
        ------
        DataError
            It is no such row.
        """
        try:
            loads = tuple(_count(load) for load in row["loads"])
            hot = tuple(
                HotKey(_integer(key["key"]), _count(key["rows"]), _count(key["workers"]))
                for key in row.get("hot", ())
            )
            known: dict[str, Any] = {name: row.get(name) for name in _PLAIN}
            timing = Timing(**{name: row.get(name) for name in Timing._fields})
            whole = _count(row["batch"]), _count(row["version"]), _count(row["rows"])
            found = cls(*whole, loads, **known, hot=hot, timing=timing)
            _check(found)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"metrics: no row of batch metrics ({error!r}).") from error
        return found


#: Fields that are one number or one word, and may be missing.
_PLAIN = (
    "policy",
    "active",
    "n_keys",
    "hot_keys",
    "split_keys",
    "extra_fragments",
    "interval_s",
    "rows_total",
    "batches_total",
)
_WORDS = ("policy", "query", "run", "name")


def _check(found: BatchMetrics) -> None:
    if not found.loads or sum(found.loads) > found.rows:
        raise ValueError("loads do not fit rows")
    if found.active is not None and not 1 <= found.active <= found.workers:
        raise ValueError("active is out of range")
    values = {name: getattr(found, name) for name in _PLAIN} | found.timing._asdict()
    for name, value in values.items():
        if value is None:
            continue
        fits = isinstance(value, str) if name in _WORDS else _is_number(value)
        if not fits:
            raise ValueError(f"{name} is {value!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no integer")
    return value


def _count(value: Any) -> int:
    if _integer(value) < 0:
        raise ValueError(f"{value} is negative")
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _instant(text: Any) -> float | None:
    """Return the seconds since 1970 of Spark's time stamps."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def _iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _behind(sources: list[Any]) -> int | None:
    """Return the offsets not taken yet, over the sources that name offsets as Kafka does."""
    known = [n for source in sources if (n := _behind_one(_mapping(source))) is not None]
    return sum(known) if known else None


def _behind_one(source: Mapping[str, Any]) -> int | None:
    latest, end = (_offsets(source.get(name)) for name in ("latestOffset", "endOffset"))
    if latest is None or end is None:
        return None
    return sum(max(0, offset - end.get(at, 0)) for at, offset in latest.items())


def _offsets(value: Any) -> dict[tuple[str, str], int] | None:
    """Read ``{topic: {partition: offset}}``; anything else counts in a unit of its own."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, Mapping) or not value:
        return None
    found: dict[tuple[str, str], int] = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, Mapping):
            return None
        for partition, offset in partitions.items():
            if isinstance(offset, bool) or not isinstance(offset, int):
                return None
            found[topic, partition] = offset
    return found
