from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless import metrics
from skewless.errors import DataError, ParameterError
from tests.oracles import metrics as oracle

N = 5
windows = st.lists(st.tuples(st.integers(0, 2**64 - 1) | st.integers(0, 6), st.integers(0, N - 1)))


def columns(window):
    keys = np.array([key for key, _ in window], np.uint64)
    return keys, np.array([worker for _, worker in window], np.int32)


@pytest.mark.jit_modes
@settings(max_examples=80, deadline=None, derandomize=True)
@given(windows, st.floats(0, 1), st.integers(1, 4), st.integers(0, 3))
def test_every_measure_equals_its_definition(window, p, n_reducers, seed):
    keys, workers = columns(window)
    load, cardinality = oracle.loads(window, N), oracle.cardinalities(window, N)
    assert metrics.loads(workers, N).tolist() == load
    assert metrics.cardinalities(keys, workers, N).tolist() == cardinality
    assert metrics.imbalance(load) == pytest.approx(oracle.imbalance(load))
    assert metrics.cardinality_imbalance(cardinality) == pytest.approx(
        oracle.imbalance(cardinality)
    )
    assert metrics.partitioning_imbalance(keys, workers, N, p1=p / 2, p2=p / 3) == pytest.approx(
        oracle.partitioning_imbalance(window, N, p / 2, p / 3)
    )
    assert metrics.normalized(load) == pytest.approx(oracle.normalized(load))
    hybrid = oracle.hybrid(window, N, p)
    assert metrics.hybrid_load(load, cardinality, p=p) == pytest.approx(hybrid)
    assert metrics.hybrid_imbalance(load, cardinality, p=p) == pytest.approx(
        max(hybrid) - sum(hybrid) / N
    )
    gamma = oracle.gamma(window, N)
    assert metrics.fragments(keys, workers) == gamma
    assert metrics.extra_fragments(keys, workers) == gamma - len(set(keys.tolist()))
    assert metrics.replication(keys, workers) == pytest.approx(oracle.replication(window))
    least, most = metrics.gamma_bounds(keys, N)
    assert least <= gamma <= most
    assert metrics.feasible(load, gamma) == (gamma <= max(load))
    assert metrics.aggregation_cost(
        keys, workers, n_reducers, seed=seed
    ) == oracle.aggregation_cost(window, n_reducers, seed)
    assert metrics.reward_imbalance(load) == pytest.approx(oracle.reward_imbalance(load))
    distinct, counts = metrics.fragment_counts(keys, workers)
    assert distinct.tolist() == sorted(set(keys.tolist()))
    assert metrics.reward_aggregation(counts, N) == pytest.approx(
        [oracle.reward_aggregation(window, key, N) for key in distinct.tolist()]
    )


def test_the_worked_example_of_holistic_section_2_2():
    # Two workers produce {(x, 12), (y, 123)} and {(x, 43), (y, 1), (z, 4)}.
    x, y, z = 1, 2, 3
    counts = [(x, 0, 12), (y, 0, 123), (x, 1, 43), (y, 1, 1), (z, 1, 4)]
    window = [(key, worker) for key, worker, count in counts for _ in range(count)]
    keys, workers = columns(window)
    assert metrics.loads(workers, 2).tolist() == [135, 48]
    assert metrics.imbalance([135, 48]) == 43.5
    assert metrics.fragments(keys, workers) == 5
    assert metrics.cardinalities(keys, workers, 2).tolist() == [2, 3]
    assert metrics.gamma_bounds(keys, 2) == (3, 6)
    assert metrics.feasible([135, 48], 5)
    assert metrics.hybrid_load([135, 48], [2, 3], p=0.25).tolist() == [0.25, 0.75]
    totals: dict[int, int] = {}
    for result in oracle.partial_results(window, 2):
        for key, count in result.items():
            totals[key] = totals.get(key, 0) + count
    assert totals == {x: 55, y: 124, z: 4}


# Loads in, (imbalance, max over mean) out.
TABLE = [
    ("equal loads are balanced", [5, 5, 5], 0, 1),
    ("one worker has all", [12, 0, 0, 0], 9, 4),
    ("no load at all is balanced", [0, 0], 0, 1),
    ("one worker is always balanced", [7], 0, 1),
]


@pytest.mark.parametrize(
    ("load", "imbalance", "ratio"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_balance_of_loads(load, imbalance, ratio):
    assert metrics.imbalance(load) == imbalance
    assert metrics.max_over_mean(load) == ratio


BAD = [
    ("a worker id too high", lambda: metrics.loads([0, 3], 3), r"loads: worker ids .* got 3"),
    ("a negative worker id", lambda: metrics.fragments([1], [-1]), r"not negative, got -1"),
    ("worker ids that are fractions", lambda: metrics.loads([0.5], 3), r"float64 of shape \(1,\)"),
    ("lengths that differ", lambda: metrics.fragments([1, 2], [0]), r"got 2 and 1"),
    ("keys that are text", lambda: metrics.fragments(["a"], [0]), r"^fragments: key must be"),
    ("no worker at all", lambda: metrics.imbalance([]), r"imbalance: loads must hold at least one"),
    ("a load of nan", lambda: metrics.max_over_mean([1, np.nan]), r"finite and not negative"),
    ("a negative load", lambda: metrics.normalized([1, -2]), r"got -2"),
    ("a table of loads", lambda: metrics.imbalance([[1, 2]]), r"shape \(1, 2\)"),
    ("other workers", lambda: metrics.hybrid_load([1, 2], [1]), r"got 2 and 1"),
    ("a key on too many", lambda: metrics.reward_aggregation([3], 2), r"be on 3 of 2 workers"),
]


@pytest.mark.parametrize(("call", "words"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_data_is_named(call, words):
    with pytest.raises(DataError, match=words):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: metrics.loads([0], 0),
        lambda: metrics.cardinalities([0], [0], 0),
        lambda: metrics.gamma_bounds([0], 0),
        lambda: metrics.hybrid_load([1], [1], p=1.5),
        lambda: metrics.aggregation_cost([0], [0], 0),
        lambda: metrics.reward_aggregation([1], 0),
    ],
)
def test_bad_parameters_are_named(call):
    with pytest.raises(ParameterError, match="must be"):
        call()


@pytest.mark.parametrize(
    ("before", "after", "state", "moved"),
    [
        ([0, 1, 1], [0, 1, 1], None, 0.0),
        ([0, 1, 1], [1, 0, 0], None, 1.0),
        ([0, 1, 1], [0, 1, 0], None, 1 / 3),
        ([0, 1, 1], [0, 1, 0], [70, 20, 10], 0.1),
        ([0, 1, 1], [1, 0, 0], [0, 0, 0], 0.0),
        ([], [], [], 0.0),
    ],
)
def test_relative_migration_is_the_part_of_the_state_that_moves(before, after, state, moved):
    keys = np.arange(len(before), dtype=np.uint64)
    assert metrics.relative_migration(keys, before, after, state) == pytest.approx(moved)


def test_migration_and_weights_refuse_what_has_no_meaning():
    with pytest.raises(DataError, match=r"^relative_migration: every key must be listed once"):
        metrics.relative_migration([7, 7], [0, 1], [1, 0])
    with pytest.raises(DataError, match=r"^relative_migration: .* got 2, 2, 1 and 2"):
        metrics.relative_migration([7, 8], [0, 1], [1])
    with pytest.raises(DataError, match=r"^partitioning_imbalance: p1 \+ p2 .* 0.7 \+ 0.6"):
        metrics.partitioning_imbalance([7], [0], 1, p1=0.7, p2=0.6)
