"""The Q-table reducer of cooperative Dalton: one table out of those of several partitioners.

E. Zapridou, I. Mytilinis, A. Ailamaki: Dalton: Learned Partitioning for Distributed Data Streams,
PVLDB 16(3), 2022, section 4.1.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.errors import DataError, ParameterError
from skewless.parameters import Count, Range, check
from skewless.windows.rows import UNSEEN

__all__ = ["LONGEST", "QTableReducer", "Reply", "Sync", "message_bytes"]

#: The interval never grows beyond this many times the first one.
LONGEST = 64


class Sync(NamedTuple):
    """What a partitioner reports: its SYNC message."""

    source: int
    """Number of the partitioner, from 0."""
    time: int
    """When it was sent, in the unit of ``Chunk.time``."""
    total: int
    """Tuples since the partitioner's last SYNC."""
    keys: NDArray[np.uint64]
    """uint64, (K,): the keys of its Q-table, then the n most frequent of its others."""
    counts: NDArray[np.int64]
    """int64, (K,): tuples of each key since the last SYNC."""
    values: NDArray[np.float64]
    """float64, (rows, n_workers): Q of the first keys; -2 where a worker was never tried."""
    late: bool = False
    """Whether the last reply took longer than an interval: the request to double it."""


class Reply(NamedTuple):
    """What the reducer broadcasts."""

    time: int
    """When the partitioners get it."""
    total: int
    """Tuples at all partitioners since their SYNC before: the aggregate load GL."""
    interval: int
    """Time from a SYNC to the next, from now on: DSYNC."""
    keys: NDArray[np.uint64]
    """uint64, (G,), ascending: the keys that have at least ``total / n_workers`` tuples."""
    values: NDArray[np.float64]
    """float64, (G, n_workers): their Q."""
    expiry: NDArray[np.int64]
    """int64, (G,): when each key stops to be hot, unless a reply comes before."""


class QTableReducer:
    """Wait for the SYNC of every partitioner, and answer with one Q-table and the next interval.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers that the keys are split over.
    sources : int of at least 1
        Number of partitioners.
    interval : int of at least 1
        First interval between two SYNC messages of a partitioner, in the unit of ``Chunk.time``.
    shortest : int of at least 1
        The interval does not shrink below this, nor below `interval` if that is less.
    adaptive : bool
        Whether the interval changes at all.

    Notes
    -----
    A round ends with the last partitioner's SYNC. The interval doubles, up to 64 times the first one,
    if a partitioner asked for it; else it halves if the reducer had nothing to do for longer than it
    needs for a round. Decides only: whoever drives it says how long a round takes and delivers.

    Examples
    --------
    >>> reducer = QTableReducer(2, 2, interval=10)
    >>> hot = np.array([7], np.uint64), np.array([6])
    >>> reducer.receive(Sync(0, 10, 10, *hot, np.array([[-0.5, -2.0]])))
    >>> reply = reducer.receive(Sync(1, 10, 10, *hot, np.array([[-0.1, -2.0]])))
    >>> reply.total, reply.keys.tolist(), reply.values.round(2).tolist()
    (20, [7], [[-0.3, -2.0]])

    References
    ----------
    PVLDB 16(3), section 4.1, doi:10.14778/3570690.3570699.
    """

    def __init__(
        self,
        n_workers: Count,
        sources: Count,
        *,
        interval: Count,
        shortest: Count = 1,
        adaptive: bool = True,
    ) -> None:
        check(
            "QTableReducer",
            QTableReducer.__init__,
            n_workers=n_workers,
            sources=sources,
            interval=interval,
            shortest=shortest,
            adaptive=adaptive,
        )
        self.n_workers, self.sources, self.adaptive = n_workers, sources, adaptive
        self.interval, self.longest = interval, LONGEST * interval
        self.shortest = min(shortest, interval)
        self.waiting: dict[int, Sync] = {}
        self.idle_since: int | None = None

    def receive(self, sync: Sync, takes: Annotated[int, Range(0)] = 0) -> Reply | None:
        """Take a SYNC; return the reply if it is the last of its round.

        Parameters
        ----------
        sync
            The message.
        takes : int of at least 0
            Time that the reducer needs for a round, in the unit of ``Chunk.time``.

        Raises
        ------
        ParameterError
            `takes` is negative.
        DataError
            The message is of a source that is not there or has already sent one in this round.
        """
        if takes < 0:
            raise ParameterError(f"QTableReducer: takes must be an int of at least 0, got {takes}.")
        if not 0 <= sync.source < self.sources or sync.source in self.waiting:
            raise DataError(
                f"QTableReducer: sync must come once a round from each of the sources 0 to "
                f"{self.sources - 1}, got one more of {sync.source}; send the next one after the reply."
            )
        self.waiting[sync.source] = sync
        if len(self.waiting) < self.sources:
            return None
        round_ = [self.waiting[source] for source in range(self.sources)]
        self.waiting = {}
        total = sum(each.total for each in round_)
        keys, values = _global_table(round_, total, self.n_workers)
        now = max(each.time for each in round_)
        if self.adaptive:
            self._adapt(any(each.late for each in round_), now, takes)
        self.idle_since = now + takes
        expiry = np.full(len(keys), self.idle_since + 2 * self.interval, np.int64)
        return Reply(self.idle_since, total, self.interval, keys, values, expiry)

    def _adapt(self, late: bool, now: int, takes: int) -> None:
        if late:
            self.interval = min(2 * self.interval, self.longest)
        elif self.idle_since is not None and now - self.idle_since > takes:
            self.interval = max(self.interval // 2, self.shortest)

    @property
    def state_bytes(self) -> int:
        """Bytes of the messages of a round that has begun."""
        return sum(message_bytes(sync) for sync in self.waiting.values())


def message_bytes(message: Sync | Reply) -> int:
    """Return the bytes of a message's columns.

    Examples
    --------
    >>> message_bytes(Reply(0, 5, 5, *(np.empty(0, kind) for kind in "Qdl")))
    0
    """
    return sum(part.nbytes for part in message if isinstance(part, np.ndarray))


def _global_table(
    round_: list[Sync], total: int, n_workers: int
) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """Return the heavy hitters of all partitioners, and the mean of their rows weighted by counts."""
    names, which = np.unique(np.concatenate([each.keys for each in round_]), return_inverse=True)
    counts = np.zeros(len(names), np.int64)
    np.add.at(counts, which, np.concatenate([each.counts for each in round_]))
    keys = names[counts * n_workers >= total]  # f(k) >= GL / n
    # Section 4.1: Q(k, c) = sum of f_j(k) Q_j(k, c), over the sum of the f_j(k) of those with a row.
    values, weight = np.full((len(keys), n_workers), UNSEEN), np.zeros(len(keys))
    if len(keys) == 0:
        return keys, values
    rows = [_rows_of(each, keys) for each in round_]
    for place, theirs, counts in rows:
        before = weight[place]
        weight[place] += counts
        # Step by step, so that rows that agree stay as they are.
        step = (counts / np.maximum(weight[place], 1))[:, None]
        mean = values[place] + step * (theirs - values[place])
        values[place] = np.where(before[:, None] == 0, theirs, mean)
    return keys, values


def _rows_of(
    sync: Sync, keys: NDArray[np.uint64]
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.int64]]:
    """Return where the rows of a SYNC belong among `keys`, the rows and their counts."""
    mine = sync.keys[: len(sync.values)]
    place = np.minimum(np.searchsorted(keys, mine), max(len(keys) - 1, 0))
    among = keys[place] == mine if len(keys) else np.zeros(len(mine), np.bool_)
    return place[among], sync.values[among], sync.counts[: len(mine)][among]
