"""How a join is dealt out: loads in, loads out, and no pair of rows lost or met twice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from skewless.errors import ParameterError
from skewless.histogram import bucket_count
from skewless.join_plan import JoinCounts, plan_join


def counts(rows: dict[int, tuple[int, int]], n_workers: int = 8, tail: float = 0.0, **traits):
    keys = np.array(list(rows), np.uint64)
    left, right = (np.array([p[i] for p in rows.values()], np.int64) for i in (0, 1))
    n_buckets = bucket_count(n_workers)
    return JoinCounts(keys, left, right, np.full(n_buckets, tail / n_buckets), **traits)


@pytest.mark.parametrize(
    ("pairs", "tail", "grid", "limit"),
    [
        pytest.param({5: (18_000, 1)}, 4_000, (8, 1), 1.1, id="hot left: the left side is cut"),
        pytest.param({5: (1, 18_000)}, 4_000, (1, 8), 1.1, id="hot right: the right side is cut"),
        pytest.param({5: (2_000, 2_000)}, 0, (2, 4), 1.01, id="hot on both: a grid"),
        pytest.param({5: (10, 10)}, 10_000, None, 1.1, id="nothing is hot: nothing is cut"),
        pytest.param(
            {5: (4_500, 1)}, 23_000, (5, 1), 1.1, id="2.3 fair shares: five cells of half a share"
        ),
    ],
)
def test_what_is_cut_and_how_even_it_is_then(pairs, tail, grid, limit) -> None:
    plan = plan_join(counts(pairs, tail=tail), 8)
    cut = [
        (a, b) for a, b in zip(plan.rows.tolist(), plan.columns.tolist(), strict=True) if a * b > 1
    ]
    assert cut == ([] if grid is None else [grid])
    assert plan.max_over_mean <= limit


def test_each_pair_of_rows_meets_in_exactly_one_cell() -> None:
    plan = plan_join(counts({5: (2_000, 1_500), 6: (900, 3)}), 12)
    for a, b in zip(plan.rows.tolist(), plan.columns.tolist(), strict=True):
        met = [
            {i * b + j for j in range(b)} & {i2 * b + j2 for i2 in range(a)}
            for i, j2 in itertools.product(range(a), range(b))
        ]
        assert all(len(cells) == 1 for cells in met)
        assert set().union(*met) == set(range(a * b))


@pytest.mark.parametrize(
    ("traits", "grid"),
    [
        ({"copy_left": False}, (8, 1)),
        ({"copy_right": False}, (1, 8)),
        ({"copy_left": False, "copy_right": False}, (1, 1)),
        ({"seen_left": True}, (2, 4)),
    ],
)
def test_a_side_that_may_not_be_copied_leaves_the_other_whole(traits, grid) -> None:
    plan = plan_join(counts({5: (2_000, 2_000)}), 8, **traits)
    assert (int(plan.rows[0]), int(plan.columns[0])) == grid


def test_rows_kept_without_a_match_are_copied_only_where_the_key_is_on_the_other_side() -> None:
    pairs = {5: (0, 9_000)}
    assert plan_join(counts(pairs), 8, seen_right=True).columns.tolist() == [8]
    assert plan_join(counts({5: (9_000, 0)}), 8, seen_left=True).rows.tolist() == [8]
    # Whoever is copied must be seen: nothing of the left side is here, so nothing of it is copied.
    plan = plan_join(counts(pairs), 8, seen_left=True, seen_right=True)
    assert (plan.rows.tolist(), plan.copied_right) == ([1], 0)


def test_semi_joins_count_rows_and_no_pairs() -> None:
    assert counts({5: (10, 20)}, pairs=False).work.tolist() == [30.0]
    assert counts({5: (10, 20)}).work.tolist() == [230.0]


def test_an_empty_join_and_one_worker() -> None:
    nothing = counts({}, 4)
    plan = plan_join(nothing, 4)
    assert (plan.max_over_mean, plan.hashed_max_over_mean) == (1.0, 1.0)
    assert plan_join(counts({5: (100, 100)}, 1), 1).rows.tolist() in ([], [1])
    with pytest.raises(ParameterError, match="n_workers must be at least 1, got 0"):
        plan_join(nothing, 0)


def test_many_random_joins_are_within_the_bound_of_longest_first() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        n = int(rng.integers(2, 40))
        n_keys = int(rng.integers(1, 60))
        sides = (rng.zipf(1.3, (2, n_keys)) % 5_000) + 1
        keys = rng.integers(1, 2**63, n_keys).astype(np.uint64)
        tail = np.full(bucket_count(n), float(rng.integers(0, 50)))
        plan = plan_join(JoinCounts(keys, sides[0], sides[1], tail), n)
        assert plan.loads.sum() >= JoinCounts(keys, sides[0], sides[1], tail).work.sum()
        assert plan.max_over_mean <= 1.5
        assert plan.max_over_mean <= plan.hashed_max_over_mean + 1e-9
