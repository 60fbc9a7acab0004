"""The record of a run: one row a pane while it runs, panes and windows as arrays at its end."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.costs import Costs
from skewless.simulator.counting import PaneCounts
from skewless.simulator.queues import PaneTimes
from skewless.simulator.result import Panes, Windows
from skewless.simulator.stragglers import Straggler

__all__ = ["Ledger"]


class Row(NamedTuple):
    """A pane as it was counted."""

    number: int
    loads: NDArray[np.int64]
    routed: NDArray[np.int64]
    merged: NDArray[np.int64]
    keys: int
    split_keys: int
    fragments: int
    most_states: int
    window_keys: int
    window_fragments: int


class Ledger:
    """Keep what was counted of each pane, and put it together with what the queues say of time."""

    def __init__(self, panes_per_window: int, panes_per_slide: int) -> None:
        self.panes_per_window, self.panes_per_slide = panes_per_window, panes_per_slide
        self.rows: list[Row] = []
        self.moved: dict[int, tuple[float, float]] = {}

    def note(self, number: int, counts: PaneCounts) -> Row:
        """Keep the pane that has been counted."""
        totals = counts.totals
        row = Row(
            number,
            totals.loads.copy(),
            totals.routed.copy(),
            totals.merged.copy(),
            int(totals.keys[0]),
            int(totals.keys[1]),
            int(totals.entries.sum()),
            int(totals.entries.max()),
            counts.window_keys,
            counts.window_fragments,
        )
        self.rows.append(row)
        return row

    def note_move(self, pane: int, moved: float, total: float) -> None:
        """Keep what a change of plan moved."""
        before = self.moved.get(pane, (0.0, 0.0))
        self.moved[pane] = (before[0] + moved, before[1] + total)

    def panes(self, times: PaneTimes, costs: Costs, stragglers: Sequence[Straggler]) -> Panes:
        """Return all panes."""
        count = len(self.rows)
        column = self._column
        loads, routed, merged = column("loads"), column("routed"), column("merged")
        end_us = times.end_us[:count]
        work = loads * (costs.ship_us + costs.update_us)
        for one in stragglers:
            slow = (end_us >= one.start_s * 1e6) & (end_us < one.stop_s * 1e6)
            work[slow, one.worker] *= one.factor
        migration = np.full(count, np.nan)
        for pane, (moved, total) in self.moved.items():
            migration[pane] = moved / total if total > 0 else 0.0
        return Panes(
            column("number"),
            loads,
            routed,
            merged,
            column("keys"),
            column("split_keys"),
            column("fragments"),
            column("most_states"),
            end_us / 1e6,
            times.out_us[:count] / 1e6,
            times.lag_us[:count] / 1e6,
            routed.max(axis=1, initial=0) * costs.route_us / 1e6,
            work.max(axis=1, initial=0.0) / 1e6,
            merged.max(axis=1, initial=0) * costs.merge_us / 1e6,
            migration,
        )

    def windows(self, panes: Panes, *, batches: bool, size: int | None) -> Windows:
        """Return the windows that end with a pane, each of `panes_per_window` panes.

        `size` is how many tuples a full window has, if windows are by count.
        """
        length, count = self.panes_per_window, len(panes.number)
        loads = np.zeros(panes.loads.shape[1], np.int64)
        merges = np.zeros(panes.merged.shape[1], np.int64)
        fullest, total = np.zeros(count, np.int64), np.zeros(count, np.int64)
        merged, busiest = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for pane in range(count):
            loads += panes.loads[pane]
            merges += panes.merged[pane]
            if pane >= length:
                loads -= panes.loads[pane - length]
                merges -= panes.merged[pane - length]
            fullest[pane], total[pane] = loads.max(), loads.sum()
            merged[pane], busiest[pane] = merges.sum(), merges.max()
        mean = total / panes.loads.shape[1]
        combine, merge, route = (
            _rolling(part, length) for part in (panes.combine_s, panes.merge_s, panes.route_s)
        )
        slowest = np.maximum(route, combine + merge if batches else np.maximum(combine, merge))
        tuples = panes.tuples
        shown = (panes.number + 1) % self.panes_per_slide == 0
        late = np.where(tuples > 0, panes.out_s - panes.end_s, np.nan)
        full = (np.arange(count) >= length - 1) & (tuples > 0)
        if size is not None:
            full &= total == size
        with np.errstate(divide="ignore", invalid="ignore"):
            balance = np.where(total > 0, fullest / mean, 1.0)
            throughput = np.where(total > 0, total / slowest, 0.0)
        return Windows(
            *(
                part[shown]
                for part in (
                    panes.number,
                    full,
                    total,
                    balance,
                    fullest - mean,
                    self._column("window_keys"),
                    self._column("window_fragments"),
                    merged,
                    busiest,
                    late,
                    throughput,
                )
            )
        )

    @functools.cache  # noqa: B019 # a ledger lives as long as its run
    def _column(self, name: str) -> NDArray[np.int64]:
        return np.array([getattr(row, name) for row in self.rows], np.int64)


def _rolling(values: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Return the sum of each value and the `length` - 1 before it."""
    upto = np.concatenate((np.zeros(1), np.cumsum(values)))
    last = np.arange(1, len(values) + 1)
    sums: NDArray[np.float64] = upto[last] - upto[np.maximum(last - length, 0)]
    return sums
