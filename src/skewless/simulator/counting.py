"""What the combiners hold: tuples, fragments and keys of each pane, and of the window that it ends.

A key has one entry in a table: the last pane that it came in, its first worker there, and how many
workers it has there. Only a key on more workers than one needs an entry for each pair of key and
worker as well, and every pair does if windows have several panes. Nothing is cleared when a pane ends:
an entry of an earlier pane counts as absent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import inline_kernel, kernel, lean_kernel, mix, spread
from skewless.windows.table import EMPTY, Table, capacity_for, empty_table, find, most_entries

__all__ = ["PaneCounts", "PaneTotals"]

_PANE, _FIRST, _WORKERS = 1, 2, 3
_SEED = np.uint64(0)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_U29 = np.uint64(29)


class PaneTotals(NamedTuple):
    """Counts of the pane that runs, and of the window that ends with it."""

    loads: NDArray[np.int64]
    """int64, (n,): tuples of each combiner."""
    entries: NDArray[np.int64]
    """int64, (n,): fragments of each combiner, which are the states that it holds."""
    merged: NDArray[np.int64]
    """int64, (m,): fragments that go to each reducer."""
    routed: NDArray[np.int64]
    """int64, (P,): tuples of each partitioner."""
    keys: NDArray[np.int64]
    """int64, (2,): different keys of the pane, and those of them on more than one combiner."""
    live_keys: NDArray[np.int64]
    """int64, (W,): keys by the last pane that they came in, modulo the panes of a window."""
    live_pairs: NDArray[np.int64]
    """int64, (W,): fragments likewise."""


class PaneCounts:
    """Count one pane after the other.

    Parameters
    ----------
    n_combiners, n_reducers, n_partitioners
        How many there are of each.
    panes
        Panes in a window, W.
    forwarding
        Whether the fragment of a key that is whole in its pane passes the reducers by.
    seed
        Seed of the hash that gives a key its reducer.

    Notes
    -----
    Exact. Cost: a look-up a tuple, and a second one for tuples of split keys. State: 32 bytes for each
    key of a window, and for each fragment of a split key (W = 1) or each fragment (W > 1), in tables
    that are at most 5/8 full.
    """

    def __init__(
        self,
        n_combiners: int,
        n_reducers: int,
        n_partitioners: int,
        panes: int,
        *,
        forwarding: bool,
        seed: int,
    ) -> None:
        self.panes, self.forwarding, self.seed = panes, forwarding, np.uint64(seed)
        self.pane = -1
        self.key_table, self.pair_table = empty_table(), empty_table()
        self.totals = PaneTotals(
            np.zeros(n_combiners, np.int64),
            np.zeros(n_combiners, np.int64),
            np.zeros(n_reducers, np.int64),
            np.zeros(n_partitioners, np.int64),
            np.zeros(2, np.int64),
            np.zeros(panes, np.int64),
            np.zeros(panes, np.int64),
        )

    def begin(self) -> None:
        """Begin the next pane; what is a window back expires."""
        self.pane += 1
        for part in self.totals[:5]:
            part.fill(0)
        self.totals.live_keys[self.pane % self.panes] = 0
        self.totals.live_pairs[self.pane % self.panes] = 0

    def update(
        self, keys: NDArray[np.uint64], workers: NDArray[np.int32], owners: NDArray[np.int32]
    ) -> None:
        """Count tuples of the pane that runs."""
        done = 0
        while True:
            done = _count(
                self.totals,
                self.key_table,
                self.pair_table,
                self.pane,
                self.panes,
                self.forwarding,
                self.seed,
                keys,
                workers,
                owners,
                done,
            )
            if done == len(keys):
                return
            self.key_table = self._with_room(self.key_table, pairs=False)
            self.pair_table = self._with_room(self.pair_table, pairs=True)

    @property
    def window_keys(self) -> int:
        """Different keys of the window that ends with this pane."""
        return int(self.totals.live_keys.sum())

    @property
    def window_fragments(self) -> int:
        """Different pairs of key and combiner in the window that ends with this pane."""
        return int(self.totals.live_pairs.sum())

    @property
    def state_bytes(self) -> int:
        """Bytes that the tables hold."""
        return self.key_table.entry.nbytes + self.pair_table.entry.nbytes

    def _with_room(self, table: Table, *, pairs: bool) -> Table:
        capacity = len(table.entry)
        if table.used[0] < most_entries(capacity):
            return table
        entry = table.entry
        kept = entry[(entry[:, _PANE] != EMPTY) & (entry[:, _PANE] > self.pane - self.panes)]
        fresh = empty_table(capacity_for(len(kept), capacity))
        _refill(fresh, kept, pairs)
        return fresh


@kernel
def _refill(table: Table, kept: NDArray[np.int64], pairs: bool) -> None:
    for i in range(len(kept)):
        key = np.uint64(kept[i, 0])
        mixed = mix(key, _SEED)
        if pairs:
            place = _find_pair(table.entry, mixed, key, kept[i, _FIRST])
        else:
            place = find(table.entry, mixed, key)
        for word in range(4):
            table.entry[place, word] = kept[i, word]
    table.used[0] = len(kept)


@inline_kernel
def _find_pair(entry: NDArray[np.int64], mixed: np.uint64, key: np.uint64, worker: int) -> int:
    """Return the place of a pair, or the empty place where it belongs."""
    mask = np.uint64(len(entry) - 1)
    hashed = (mixed ^ np.uint64(worker + 1)) * _ODD
    place = (hashed ^ (hashed >> _U29)) & mask
    wanted = np.int64(key)
    while entry[place, _PANE] != EMPTY and (
        entry[place, 0] != wanted or entry[place, _FIRST] != worker
    ):
        place = (place + np.uint64(1)) & mask
    return int(np.int64(place))


@inline_kernel
def _is_new_pair(
    totals: PaneTotals,
    table: Table,
    mixed: np.uint64,
    key: np.uint64,
    worker: int,
    pane: int,
    panes: int,
) -> bool:
    """Enter a pair; say whether it is new in the pane."""
    entry, live = table.entry, totals.live_pairs
    place = _find_pair(entry, mixed, key, worker)
    before = entry[place, _PANE]
    if before == pane:
        return False
    if before == EMPTY:
        table.used[0] += 1
        entry[place, 0] = np.int64(key)
        entry[place, _FIRST] = worker
    elif before > pane - panes:
        live[before % panes] -= 1
    entry[place, _PANE] = pane
    live[pane % panes] += 1
    return True


@lean_kernel
def _count(
    totals: PaneTotals,
    key_table: Table,
    pair_table: Table,
    pane: int,
    panes: int,
    forwarding: bool,
    seed: np.uint64,
    keys: NDArray[np.uint64],
    workers: NDArray[np.int32],
    owners: NDArray[np.int32],
    done: int,
) -> int:
    """Count from tuple `done` on; return the first tuple that a table has no room for."""
    entry = key_table.entry
    room = most_entries(len(entry))
    pair_room = most_entries(len(pair_table.entry))
    loads, held, live = totals.loads, totals.entries, totals.live_keys
    n_reducers = np.uint64(len(totals.merged))
    for i in range(done, len(keys)):
        if key_table.used[0] >= room or pair_table.used[0] >= pair_room:
            return i
        key, worker = keys[i], np.int64(workers[i])
        loads[worker] += 1
        totals.routed[owners[i]] += 1
        mixed = mix(key, _SEED)
        place = find(entry, mixed, key)
        before = entry[place, _PANE]
        sent = 0
        if before != pane:
            if before == EMPTY:
                key_table.used[0] += 1
                entry[place, 0] = np.int64(key)
            elif before > pane - panes:
                live[before % panes] -= 1
            live[pane % panes] += 1
            entry[place, _PANE] = pane
            entry[place, _FIRST] = worker
            entry[place, _WORKERS] = 1
            totals.keys[0] += 1
            held[worker] += 1
            if panes > 1:
                _is_new_pair(totals, pair_table, mixed, key, worker, pane, panes)
            else:
                totals.live_pairs[0] += 1
            if not forwarding:
                sent = 1
        elif worker != entry[place, _FIRST] and _is_new_pair(
            totals, pair_table, mixed, key, worker, pane, panes
        ):
            held[worker] += 1
            entry[place, _WORKERS] += 1
            sent = 1
            if entry[place, _WORKERS] == 2:
                totals.keys[1] += 1
                if forwarding:
                    sent = 2
        if sent > 0:
            totals.merged[spread(mix(key, seed), n_reducers)] += sent
    return len(keys)
