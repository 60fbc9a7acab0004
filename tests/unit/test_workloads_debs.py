"""DEBS 2015: the grid by the challenge's definition, windows of 30 and 15 minutes, empty taxis."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from skewless.chunk import Chunk
from skewless.errors import ParameterError
from skewless.workloads import FrequentRoutes, ProfitableAreas
from skewless.workloads.debs import cells
from tests.oracles import debs


@pytest.mark.parametrize(("per_500_m", "side"), [(1, 500), (2, 250)])
def test_places_are_in_the_cells_of_the_definition(per_500_m, side):
    rng = np.random.default_rng(1)
    longitude = rng.uniform(-74.95, -73.1, 4000)
    latitude = rng.uniform(40.1, 41.5, 4000)
    found = cells(longitude, latitude, per_500_m).tolist()
    wanted = [debs.cell(*place, side) for place in zip(longitude, latitude, strict=True)]
    assert found == [0 if cell is None else 1000 * cell[0] + cell[1] for cell in wanted]
    assert 0 in found
    assert len(set(found)) > 3000


def test_the_corners_of_the_grid():
    east, south = 0.005986, 0.004491556
    west, north = -74.913585, 41.474937
    table = [
        ((west, north), 1001),
        ((west - 0.49 * east, north + 0.49 * south), 1001),
        ((west - 0.51 * east, north), 0),
        ((west, north + 0.51 * south), 0),
        ((west + 299.49 * east, north - 299.49 * south), 300300),
        ((west + 299.51 * east, north - 299.49 * south), 0),
        ((west + 299.49 * east, north - 299.51 * south), 0),
        ((math.nan, 41.0), 0),
        ((0.0, 0.0), 0),
    ]
    for (longitude, latitude), cell in table:
        assert cells([longitude], [latitude]).tolist() == [cell]
    assert cells([west - 0.4 * east, west + 0.1 * east], [north] * 2, 2).tolist() == [1002, 2002]


def test_trips_off_the_grid_are_no_routes():
    chunk = FrequentRoutes.routes(
        [5, 6, 7], [-74.0] * 3, [40.7, 0, 40.7], [-74.0] * 3, [40.7, 40.7, 0]
    )
    assert chunk.time.tolist() == [5]


def test_routes_of_equal_frequency_come_by_their_cells():
    part = FrequentRoutes(2).start(window=1800, slide=60)
    routes = [3003 * 10**6 + 1001, 1001 * 10**6 + 3003, 1001 * 10**6 + 1001]
    part.update(Chunk([0, 1, 2], routes))
    assert [(r["start_cell"], r["end_cell"]) for r in part.answer(60).to_pylist()] == [
        ("1.1", "1.1"),
        ("1.1", "3.3"),
    ]


def areas(trips, **parameters):
    part = ProfitableAreas(**parameters).start(window=1800, slide=60)
    names = ("time", "taxi", "pickup", "dropoff", "cents")
    columns = {name: list(column) for name, *column in zip(names, *trips, strict=True)}
    taxi = np.array(columns.pop("taxi"), np.uint64)
    part.update(Chunk(np.array(columns["time"]), taxi, pa.table(columns)))
    return part


def test_fares_count_for_15_minutes_and_taxis_for_30():
    part = areas([(0, 1, 1001, 2002, 500), (60, 2, 1001, 1001, 900)])
    assert part.answer(900)["median_cents"].to_pylist() == [700.0]
    # The fare of minute 0 is 15 minutes old now; the taxi of minute 1 is still empty.
    assert part.answer(960)["median_cents"].to_pylist() == [900.0]
    assert part.answer(1020).num_rows == 0


def test_a_taxi_is_empty_where_it_was_last_and_areas_without_one_are_left_out():
    part = areas([(0, 1, 1001, 1001, 100), (1, 1, 1001, 2002, 300), (2, 2, 2002, 3003, 50)])
    # Taxi 1 went on to 2.2, so no taxi is left in 1.1.
    assert part.answer(60).to_pylist() == [
        {"area": "2.2", "empty_taxis": 1, "median_cents": 50.0, "profitability": 50.0}
    ]


def test_more_taxis_make_an_area_less_profitable():
    part = areas([(i, i, 1001, 1001, 100 * i) for i in (1, 2, 3, 6)])
    assert part.answer(60).to_pylist() == [
        {"area": "1.1", "empty_taxis": 4, "median_cents": 250.0, "profitability": 62.5}
    ]


def test_a_trip_that_ends_off_the_grid_leaves_no_empty_taxi():
    assert areas([(0, 1, 1001, 1001, 100), (1, 1, 1001, 0, 100)]).answer(60).num_rows == 0


def test_bad_parameters_are_named():
    with pytest.raises(
        ParameterError, match=r"^FrequentRoutes: k must be an int of at least 1, got 0"
    ):
        FrequentRoutes(0)
    with pytest.raises(
        ParameterError, match=r"^ProfitableAreas: recent must be an int of at least 1"
    ):
        ProfitableAreas(recent=0)
    with pytest.raises(
        ParameterError, match=r"^cells: per_500_m must be an int in \[1, 2\], got 3"
    ):
        cells([0.0], [0.0], 3)
