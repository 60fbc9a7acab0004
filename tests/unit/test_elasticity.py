"""Prompt's auto-scaling on traces: loads in, tasks out."""

from __future__ import annotations

import pytest

from skewless.elasticity import Batch, Elasticity
from skewless.errors import DataError, ParameterError

#: A name, (load, tuples, keys) per batch, and (mappers, reducers) after each; patience 3, from (4, 4).
TRACES = {
    "a steady load in the middle zone changes nothing": (
        [(0.85, 100, 10)] * 8,
        [(4, 4)] * 8,
    ),
    "a rising data rate adds mappers only": (
        [(0.85, 100, 10), (0.95, 120, 10), (0.96, 140, 10), (0.97, 160, 10)],
        [(4, 4), (4, 4), (4, 4), (5, 4)],
    ),
    "a rising number of keys adds reducers only": (
        [(0.85, 100, 10), (0.95, 100, 12), (0.96, 100, 14), (0.97, 100, 16)],
        [(4, 4), (4, 4), (4, 4), (4, 5)],
    ),
    "both rising add both, again and again while the load stays high": (
        [(0.85, 100, 10)] + [(1.2, 100 + 20 * i, 10 + i) for i in range(1, 7)],
        [(4, 4)] * 3 + [(5, 5)] * 3 + [(6, 6)],
    ),
    "one batch below the threshold starts the count anew": (
        [(0.95, 100, 10), (0.95, 110, 10), (0.85, 120, 10), (0.95, 130, 10), (0.95, 140, 10)],
        [(4, 4)] * 5,
    ),
    "a falling data rate takes mappers away after as many batches": (
        [(0.85, 100, 10), (0.7, 90, 10), (0.6, 80, 10), (0.5, 70, 10)],
        [(4, 4), (4, 4), (4, 4), (3, 4)],
    ),
    "a load of exactly the threshold is not above it": (
        [(0.9, 100 + i, 10) for i in range(6)],
        [(4, 4)] * 6,
    ),
    "dearer batches with the same tuples and keys add both": (
        [(0.95, 100, 10)] * 3,
        [(4, 4), (4, 4), (5, 5)],
    ),
    "no reverse decision within the grace period": (
        [(0.85, 100, 10)]
        + [(0.95, 100 + 10 * i, 10) for i in range(1, 4)]
        + [(0.5, 90 - 10 * i, 10) for i in range(4)],
        [(4, 4)] * 3 + [(5, 4)] * 3 + [(5, 4), (4, 4)],
    ),
}


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_of_batches_gives_these_tasks(name: str) -> None:
    batches, expected = TRACES[name]
    scaling = Elasticity(4, 4, patience=3)
    found = [scaling.decide(Batch(load, 1.0, n, k))[:2] for load, n, k in batches]
    assert found == expected


def test_tasks_stay_between_one_and_the_limit() -> None:
    up, down = Elasticity(3, 3, patience=1, max_tasks=4), Elasticity(2, 2, patience=1)
    for i in range(5):
        more, fewer = (
            up.decide(Batch(2.0, 1.0, 10 + i, 10 + i)),
            down.decide(Batch(0.1, 1.0, 9 - i, 9 - i)),
        )
    assert more[:2] == (4, 4)
    assert more.reason.endswith("the limit of tasks is reached")
    assert fewer[:2] == (1, 1)


def test_bad_input_says_what_is_wrong() -> None:
    with pytest.raises(
        ParameterError, match=r"^Elasticity: n_mappers must be an int of at least 1"
    ):
        Elasticity(0, 1)
    with pytest.raises(ParameterError, match=r"^Elasticity: step must be below .* 0.9, got 0.9"):
        Elasticity(1, 1, step=0.9)
    with pytest.raises(ParameterError, match=r"^Elasticity: max_tasks must be at least the 8"):
        Elasticity(8, 1, max_tasks=4)
    with pytest.raises(DataError, match=r"^Elasticity: interval_s must be a number above 0, got 0"):
        Elasticity(1, 1).decide(Batch(1.0, 0.0, 1, 1))
    with pytest.raises(DataError, match=r"^Elasticity: n_tuples must be a number of at least 0"):
        Elasticity(1, 1).decide(Batch(1.0, 1.0, -1, 1))
    with pytest.raises(DataError, match=r"processing_s .* got nan"):
        Elasticity(1, 1).decide(Batch(float("nan"), 1.0, 1, 1))
