"""What is told of a running query, as cells and sentences: the same on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from skewless.operations import BatchMetrics, Tail

__all__ = ["BATCH_HEADINGS", "HOT_HEADINGS", "batch_cells", "hot_cells", "lead", "title"]

BATCH_HEADINGS = (
    "batch",
    "began (UTC)",
    "rows",
    "seconds",
    "interval",
    "behind",
    "event lag",
    "max/mean",
    "workers",
    "hot",
    "split",
    "version",
)
HOT_HEADINGS = ("xxhash64 of the key", "rows", "share", "workers")


def title(tail: Tail) -> str:
    """Return what to call what is watched."""
    name = tail.batches[-1].title if tail.batches else ""
    return f"skewless: {_printable(name or str(tail.file.folder))}"


def lead(tail: Tail, now_s: float) -> str:
    """Return a sentence: who balances, how many batches, and whether it still runs.

    Parameters
    ----------
    tail
        What was read.
    now_s
        The time now, seconds since 1970.
    """
    if not tail.batches:
        words = f"No batch with rows is noted in {tail.file.folder} yet."
    else:
        last = tail.batches[-1]
        words = f"{last.policy or 'A policy'}, batch {last.batch}; "
        if tail.ended is not None:
            error = tail.ended.error
            words += "the query has ended."
            if error and error.strip():
                words += f" It failed: {error.strip().splitlines()[0][:300]}"
        elif last.timing.started_s is None:
            words += "no end is noted."
        else:
            age = max(0.0, now_s - last.timing.started_s)
            words += f"it began {age:,.0f} s ago, and no end is noted."
    if tail.damaged:
        words += f" {tail.damaged} lines of the file are damaged."
    return _printable(words)


def batch_cells(one: BatchMetrics) -> list[str]:
    """Return a batch as cells under `BATCH_HEADINGS`."""
    timing = one.timing
    active = "" if one.active in (None, one.workers) else f"{one.active} of "
    return [
        str(one.batch),
        _moment(timing.started_s),
        f"{one.rows:,}",
        _number(timing.seconds, ".2f"),
        _number(one.interval_s, ".2f"),
        _number(timing.behind, ","),
        _number(timing.event_lag_s, ",.1f"),
        f"{one.max_over_mean:.2f}",
        f"{active}{one.workers}",
        _number(one.hot_keys, ","),
        _number(one.split_keys, ","),
        str(one.version),
    ]


def hot_cells(one: BatchMetrics) -> Sequence[list[str]]:
    """Return the heaviest keys of a batch as rows of cells under `HOT_HEADINGS`."""
    return [
        [str(key.key), f"{key.rows:,}", f"{key.rows / max(one.rows, 1):.1%}", str(key.workers)]
        for key in one.hot
    ]


def _printable(text: str) -> str:
    """Return text that cannot steer a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _moment(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%H:%M:%S")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
