"""FrequentRoutes, ProfitableAreas: the two queries of the DEBS 2015 Grand Challenge, over taxi trips.

Z. Jerzak, H. Ziekow: The DEBS 2015 Grand Challenge, DEBS 2015; N. R. Katsipoulakis, A. Labrinidis,
P. K. Chrysanthis: A Holistic View of Stream Partitioning Costs, PVLDB 10(11), 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from skewless.chunk import Chunk
from skewless.parameters import Count, Range, check
from skewless.spark.aggregators.counting import whole_numbers
from skewless.spark.aggregators.segments import Starts, as_lists, group_of, kept, lists_of
from skewless.workloads.base import Workload
from skewless.workloads.top_k import TopK

__all__ = ["FrequentRoutes", "ProfitableAreas", "cells"]

#: Centre of cell 1.1 and the degrees of 500 metres, as the challenge gives them.
_NORTH, _WEST, _SOUTHWARD, _EASTWARD = 41.474937, -74.913585, 0.004491556, 0.005986
#: A cell is ``east * _WIDTH + south``, both from 1; a route is ``start * _ROUTE + end``.
_WIDTH, _ROUTE = 1_000, 1_000_000


def cells(
    longitude: ArrayLike, latitude: ArrayLike, per_500_m: Annotated[int, Range(1, 2)] = 1
) -> NDArray[np.int64]:
    """Return the cell of each place, ``1000 * east + south``; 0 outside the grid.

    Parameters
    ----------
    longitude, latitude
        Degrees.
    per_500_m : int in [1, 2]
        Cells in 500 metres: 1 for routes (300 x 300 cells), 2 for areas (600 x 600).

    Examples
    --------
    >>> cells([-74.913585, -74.901613, 0.0], [41.474937, 41.447988, 0.0]).tolist()
    [1001, 3007, 0]
    """
    check("cells", cells, per_500_m=per_500_m)
    # The grid's corner is half a large cell off the centre of cell 1.1.
    with np.errstate(invalid="ignore"):
        east = (np.asarray(longitude, np.float64) - _WEST) / _EASTWARD + 0.5
        south = (_NORTH - np.asarray(latitude, np.float64)) / _SOUTHWARD + 0.5
        inside = (east >= 0) & (east < 300) & (south >= 0) & (south < 300)
        x, y = (np.where(inside, np.floor(v * per_500_m), 0.0) for v in (east, south))
    found: NDArray[np.int64] = ((x.astype(np.int64) + 1) * _WIDTH + y.astype(np.int64) + 1) * inside
    return found


def _named(cell: int) -> str:
    """Return a cell's name in the challenge: ``east.south``."""
    return f"{cell // _WIDTH}.{cell % _WIDTH}"


class FrequentRoutes(TopK):
    """List the ten routes with the most trips of the last 30 minutes.

    Use it for a sliding window over millions of keys, most of them rare. Not for a job without windows.

    Parameters
    ----------
    k : int of at least 1
        How many routes to list.
    column : str
        A column of the trips, mostly the key's own; it is not looked at.

    Notes
    -----
    The key is the route, as `routes` numbers it; the time is the drop-off's. Result: ``n``, its trips.
    Answer: ``start_cell``, ``end_cell``, ``n``; most trips first, of equal ones the lower start, then the
    lower end, by number.

    Guarantee: exact, however rows are split.

    Cost: as `TopK`. State: 8 bytes.

    Deviations from the paper: the challenge asks for the list anew with every trip; here it is given at
    the end of every slide. It leaves ties open.

    Examples
    --------
    >>> at, to = [[-74.91, -74.0, 0.0], [41.47, 40.7, 0.0]], [[-74.0] * 3, [40.7] * 3]
    >>> part = FrequentRoutes().start(window=1800, slide=60)
    >>> part.update(FrequentRoutes.routes([0, 60, 120], *at, *to))
    >>> part.answer(1800).to_pylist()[0]
    {'start_cell': '2.2', 'end_cell': '154.174', 'n': 1}

    References
    ----------
    DEBS 2015, query 1, doi:10.1145/2675743.2772598. PVLDB 10(11), section 6.1.3,
    doi:10.14778/3137628.3137639.
    """

    def __init__(self, k: Count = 10, column: str = "key") -> None:
        super().__init__(k, column)

    @staticmethod
    def routes(
        dropoff: ArrayLike,
        pickup_longitude: ArrayLike,
        pickup_latitude: ArrayLike,
        dropoff_longitude: ArrayLike,
        dropoff_latitude: ArrayLike,
    ) -> Chunk:
        """Return the trips that start and end on the grid: their time and their route.

        Parameters
        ----------
        dropoff
            Time of each drop-off, int64, not decreasing; seconds, if windows are in seconds.
        pickup_longitude, pickup_latitude, dropoff_longitude, dropoff_latitude
            Degrees.
        """
        start = cells(pickup_longitude, pickup_latitude)
        end = cells(dropoff_longitude, dropoff_latitude)
        inside = (start > 0) & (end > 0)
        route = (start * _ROUTE + end)[inside].astype(np.uint64)
        return Chunk(np.asarray(dropoff)[inside], route)

    def conclude(self, results: pa.Table, end: int | None = None) -> pa.Table:
        """Return the `k` most frequent routes with their cells."""
        best = super().conclude(results, end)
        routes = best["key"].to_pylist()
        return pa.table(
            {
                "start_cell": pa.array([_named(r // _ROUTE) for r in routes], pa.string()),
                "end_cell": pa.array([_named(r % _ROUTE) for r in routes], pa.string()),
                "n": best["n"],
            }
        )


class ProfitableAreas(Workload):
    """List the ten areas with the highest fares per empty taxi.

    Use it where the key of the rows is not what the answer is about: trips are routed by taxi, and
    every taxi's state has fares of many areas. Not for a job without windows.

    Parameters
    ----------
    k : int of at least 1
        How many areas to list.
    recent : int of at least 1
        Fares count that ended less than this before the window's end; the unit of the time, 15 minutes
        in seconds by default. Taxis count that ended in the window: 30 minutes.

    Notes
    -----
    Columns: ``time`` of the drop-off, ``pickup`` and ``dropoff``, the `cells` with two in 500 metres, and
    ``cents``, fare and tip. Key: the taxi's medallion. Result: ``last``, time and cell of the latest
    drop-off as ``time * 2**20 + cell``, and ``fares``, an array of ``struct<cell, time, cents>``.
    Answer: ``area``, ``empty_taxis``, ``median_cents`` and ``profitability``, cents per taxi, the highest
    first, of equal ones the lower area. An area without an empty taxi has no profitability. A trip with
    a null is left out; one that starts outside the grid, cell 0, has no fare, and after one that ends
    there the taxi is empty nowhere.

    Guarantee: exact, however rows are split. Of two trips of a taxi that end at one time, the one
    with the higher cell is the latest.

    Cost: a pass over the trips. State: 8 bytes and 24 for every trip in the window.

    Deviations from the paper: the challenge asks for the list anew with every trip; here it is given at
    the end of every slide, of trips before that. The median of an even number is the mean of the middle
    two. PVLDB's plan merges in two steps, by taxi and by area; `conclude` is the second.

    Examples
    --------
    >>> trips = {"time": [0, 60], "pickup": [1001, 1001], "dropoff": [1001, 2002]}
    >>> trips = pa.table(trips | {"cents": [900, 500]})
    >>> part = ProfitableAreas().start(window=1800, slide=60)
    >>> part.update(Chunk(trips["time"].to_numpy(), [7, 8], trips))
    >>> part.answer(120).to_pylist()
    [{'area': '1.1', 'empty_taxis': 1, 'median_cents': 700.0, 'profitability': 700.0}]

    References
    ----------
    DEBS 2015, query 2, doi:10.1145/2675743.2772598. PVLDB 10(11), section 6.1.4,
    doi:10.14778/3137628.3137639.
    """

    merges: ClassVar[Mapping[str, str]] = {"last": "max", "fares": "concat"}

    def __init__(self, k: Count = 10, recent: Count = 900) -> None:
        check("ProfitableAreas", ProfitableAreas.__init__, k=k, recent=recent)
        self.k, self.recent = int(k), int(recent)
        columns = "last bigint, fares array<struct<cell: bigint, time: bigint, cents: bigint>>"
        self._declare(inputs=["time", "pickup", "dropoff", "cents"], state=columns, result=columns)

    def create(self) -> dict[str, Any]:
        """Return no trips."""
        return {"last": None, "fares": []}

    def update_groups(self, rows: pa.Table, starts: Starts) -> pa.Table:
        """Return the fares and the latest drop-off of each group."""
        columns = [whole_numbers("ProfitableAreas", rows, name) for name in self.inputs]
        known = np.logical_and.reduce(
            [column.is_valid().to_numpy(zero_copy_only=False) for column in columns]
        )
        time, pickup, dropoff, cents = (column.filter(known).to_numpy() for column in columns)
        starts = kept(starts, known)
        latest = time * 2**20 + dropoff
        filled = starts[1:] > starts[:-1]
        last = np.zeros(len(filled), np.int64)
        if filled.any():
            last[filled] = np.maximum.reduceat(latest, starts[:-1][filled])
        starts = kept(starts, pickup > 0)
        fares = pa.StructArray.from_arrays(
            [pa.array(column[pickup > 0]) for column in (pickup, time, cents)],
            ["cell", "time", "cents"],
        )
        return pa.table({"last": pa.array(last, mask=~filled), "fares": as_lists(starts, fares)})

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the trips of each taxi, its fares by cell, time and amount."""
        starts, fares = lists_of(states["fares"])
        cell, time, cents = (column.to_numpy() for column in fares.flatten())
        order = np.lexsort((cents, time, cell, group_of(starts)))
        return pa.table(
            {"last": states["last"], "fares": as_lists(starts, fares.take(pa.array(order)))}
        )

    def conclude(self, results: pa.Table, end: int | None = None) -> pa.Table:
        """Bring fares and empty taxis together by area; without windows, at the last drop-off."""
        latest = results["last"].drop_null().to_numpy()
        now = (int(latest.max() >> 20) + 1 if len(latest) else 0) if end is None else end
        _, fares = lists_of(results["fares"])
        cell, time, cents = (column.to_numpy() for column in fares.flatten())
        recent = time >= now - self.recent
        order = np.lexsort((cents[recent], cell[recent]))
        cell, cents = cell[recent][order], cents[recent][order]
        areas, first, n = np.unique(cell, return_index=True, return_counts=True)
        median = (cents[first + (n - 1) // 2] + cents[first + n // 2]) / 2
        where, empty = np.unique(latest & (2**20 - 1), return_counts=True)
        taxis = dict(zip(where.tolist(), empty.tolist(), strict=True))
        found = [
            (-m / taxis[a], a, taxis[a], m)
            for a, m in zip(areas.tolist(), median.tolist(), strict=True)
            if a in taxis
        ]
        best = sorted(found)[: self.k]
        return pa.table(
            {
                "area": pa.array([_named(a) for _, a, _, _ in best], pa.string()),
                "empty_taxis": pa.array([e for _, _, e, _ in best], pa.int64()),
                "median_cents": pa.array([m for _, _, _, m in best], pa.float64()),
                "profitability": pa.array([-p for p, _, _, _ in best], pa.float64()),
            }
        )
