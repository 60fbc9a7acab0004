"""The measures of the experiments: loads in, numbers out."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.experiments.drift import recoveries
from benchmarks.experiments.limit import forced_fragments


@pytest.mark.parametrize(
    ("counts", "n_workers", "forced"),
    [
        ([1, 1, 1, 1], 4, 0),
        ([6, 1, 1], 4, 2),
        ([8], 4, 3),
        ([5, 5], 2, 0),
        ([9, 1], 2, 1),
        ([9, 1], 3, 2),
        ([3, 3, 3], 1, 0),
    ],
)
def test_a_key_needs_as_many_workers_as_it_has_fair_shares(counts, n_workers, forced):
    keys = np.repeat(np.arange(len(counts), dtype=np.uint64), counts)
    assert forced_fragments(keys, n_workers) == forced


def test_a_policy_has_recovered_in_the_first_window_that_is_balanced_as_before():
    settled = [1.0] * 5
    balance = np.array([*settled, *settled, 4.0, 1.2, 1.1, 1.0, 1.0, 1.05, 1.0, 1.0, 1.0, 1.0])
    assert recoveries(balance, 5) == [2, 0]


def test_a_policy_that_does_not_recover_before_the_next_change_took_all_the_time_there_was():
    balance = np.array([1.0] * 10 + [3.0] * 5)
    assert recoveries(balance, 5) == [5]
