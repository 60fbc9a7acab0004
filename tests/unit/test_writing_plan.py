"""How files of a partitioned write are cut and placed, as tables of weights in, loads out."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pyspark")

from skewless.spark.writing import deal_slots, pieces_of, place_pieces


@pytest.mark.parametrize("target", [1, 3, 100, 10_000])
def test_every_file_is_within_half_and_one_and_a_half_of_the_target(target: int) -> None:
    weights = np.arange(0, 40 * target, max(1, target // 50))
    sizes = weights / pieces_of(weights, target)
    assert (sizes <= 1.5 * target).all()
    assert (sizes[weights >= 0.5 * target] >= 0.5 * target).all()


@pytest.mark.parametrize("seed", range(20))
def test_pieces_of_a_value_have_different_workers_and_loads_are_even(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    weights = np.sort(rng.zipf(1.3, 200).clip(1, 10**6))[::-1]
    target = int(max(weights.sum() / n / 4, weights[0] / n))
    pieces = np.minimum(pieces_of(weights, target), n)
    tail = rng.integers(0, 1 + target // 50, 16 * n)
    owners, buckets = place_pieces(weights, pieces, tail, n)
    loads = np.bincount(buckets, tail, n)
    for weight, k, workers in zip(weights, pieces, owners, strict=True):
        assert len(set(workers)) == len(workers) == k
        loads[workers] += weight / k
    assert loads.sum() == pytest.approx(weights.sum() + tail.sum())
    biggest = max((weights / pieces).max(), tail.max(initial=0))
    assert loads.max() <= loads.mean() + biggest  # the bound of greedy placing


def test_the_worked_example_of_nine_files_and_seven_small_values() -> None:
    weights = np.array([90_000, *[1_400] * 7])
    pieces = pieces_of(weights, 10_000)
    assert pieces.tolist() == [8, 1, 1, 1, 1, 1, 1, 1]
    owners, _ = place_pieces(weights, pieces, np.zeros(16, np.int64), 8)
    assert owners[0] == list(range(8))
    assert sorted(worker for of_key in owners[1:] for worker in of_key) == list(range(7))


@pytest.mark.parametrize("seed", range(20))
def test_slots_make_even_pieces(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    weights = rng.poisson(rng.uniform(0.5, 30), 64 * n)
    dealt = deal_slots(weights, n)
    loads = np.bincount(dealt, weights, n)
    assert loads.max() - loads.min() <= weights.max()
    assert np.bincount(dealt, minlength=n).min() > 0
