"""What a batch reads from a log of several partitions, and how its tasks share that.

For a source that one can tell what to read, such as a Python data source over a message log: `admit` says
how many rows a batch takes from each partition, `split_ranges` cuts them into ranges of nearly equal
length, one for each task. A cut in proportion to the partitions' sizes gives one large partition all the
tasks and the many small ones a task each on top of that, and a rate limit that comes out as 0 has been
read as "no limit"; neither happens here.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from itertools import pairwise
from numbers import Integral
from typing import Annotated, NamedTuple, TypeVar

from skewless.errors import DataError
from skewless.parameters import Count, Range, check

__all__ = ["OffsetRange", "admit", "split_ranges"]

P = TypeVar("P", bound=Hashable)


class OffsetRange(NamedTuple):
    """Offsets of one partition that one task reads."""

    partition: Hashable
    start: int
    """First offset."""
    end: int
    """Offset after the last."""


def split_ranges(pending: Mapping[P, tuple[int, int]], tasks: Count) -> list[OffsetRange]:
    """Cut the pending offsets into ranges of one partition each, the longest as short as can be.

    Parameters
    ----------
    pending
        First offset and offset after the last of each partition; equal if there is nothing to read.
    tasks
        Ranges wanted, at least 1. There are more only if more partitions have something to read.

    Returns
    -------
    list of OffsetRange
        Every pending offset once, no range empty, in the order of `pending`.

    Raises
    ------
    ParameterError
        `tasks` is out of range.
    DataError
        A partition ends before it starts, or an offset is no int of at least 0.

    Notes
    -----
    A range of at most m offsets needs ceil(size / m) tasks of each partition; the smallest m for which
    that is at most `tasks` in all is found by bisection, O(P log(largest size)) for P partitions.

    Examples
    --------
    >>> ranges = split_ranges({"big": (0, 1_000_000)} | {n: (0, 10) for n in range(99)}, 200)
    >>> len(ranges), sum(r.partition == "big" for r in ranges)
    (200, 101)
    >>> split_ranges({"a": (5, 12), "b": (3, 3)}, 2)
    [OffsetRange(partition='a', start=5, end=8), OffsetRange(partition='a', start=8, end=12)]
    """
    check("split_ranges", split_ranges, tasks=tasks)
    sizes = {}
    for partition, (start, end) in pending.items():
        _check_offset("split_ranges", partition, start)
        _check_offset("split_ranges", partition, end)
        if end < start:
            raise DataError(
                f"split_ranges: partition {partition!r} ends at {end}, before it starts at {start}; "
                "were its oldest rows deleted? Start at the oldest that is left."
            )
        if end > start:
            sizes[partition] = end - start
    most = _longest(list(sizes.values()), tasks)
    found = []
    for partition, size in sizes.items():
        first, parts = pending[partition][0], -(-size // most)
        edges = [first + size * i // parts for i in range(parts + 1)]
        found += [OffsetRange(partition, a, b) for a, b in pairwise(edges)]
    return found


def _longest(sizes: list[int], tasks: int) -> int:
    """Return the smallest length for which as many ranges as there are tasks do."""
    low, high = 1, max(sizes, default=1)
    while low < high:
        middle = (low + high) // 2
        if sum(-(-size // middle) for size in sizes) <= tasks:
            high = middle
        else:
            low = middle + 1
    return high


def admit(lags: Mapping[P, int], budget: Annotated[int, Range(0)]) -> dict[P, int]:
    """Share a batch's budget of rows among partitions by how far each lags behind.

    Parameters
    ----------
    lags
        Rows of each partition that wait, at least 0.
    budget
        Rows that the batch may read, at least 0; 0 reads nothing.

    Returns
    -------
    dict
        Rows to read of each partition, never above its lag; together the budget, or all that waits if
        that is less. Fractions go to the partitions that are left with the largest one.

    Raises
    ------
    ParameterError
        `budget` is negative or no int.
    DataError
        A lag is negative or no int.

    Examples
    --------
    >>> admit({"a": 100, "b": 100, "c": 1000}, 600)
    {'a': 50, 'b': 50, 'c': 500}
    >>> admit({"a": 100, "b": 1000}, 0)
    {'a': 0, 'b': 0}
    """
    check("admit", admit, budget=budget)
    for partition, lag in lags.items():
        _check_offset("admit", partition, lag)
    total = sum(lags.values())
    if budget >= total:
        return dict(lags)
    shares = {partition: divmod(budget * lag, total) for partition, lag in lags.items()}
    found = {partition: whole for partition, (whole, _) in shares.items()}
    by_fraction = sorted(shares, key=lambda partition: -shares[partition][1])
    for partition in by_fraction[: budget - sum(found.values())]:
        found[partition] += 1
    return found


def _check_offset(verb: str, partition: Hashable, value: object) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 0:
        raise DataError(
            f"{verb}: partition {partition!r} needs whole numbers of at least 0, got {value!r}."
        )
