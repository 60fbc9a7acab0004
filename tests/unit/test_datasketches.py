"""The sketches beside Apache DataSketches: same streams, same memory, stated bounds."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.kernels.sketches import EXPONENTS, PAIRS
from skewless.datasets import zipf

FREQUENCIES = [
    (question, name)
    for question in PAIRS
    for name in PAIRS[question]
    if question.startswith("frequencies")
]


@pytest.fixture(scope="module", params=EXPONENTS.values(), ids=EXPONENTS.keys())
def stream(request):
    keys = zipf(20_000, 5_000, request.param, seed=3) >> np.uint64(1)
    distinct, counts = np.unique(keys, return_counts=True)
    return keys, distinct, counts


@pytest.mark.parametrize(("question", "name"), FREQUENCIES)
def test_every_estimate_lies_within_the_stated_bound(stream, question, name):
    keys, distinct, counts = stream
    fed = PAIRS[question][name](keys)
    off = np.abs(fed.estimate(distinct) - counts)
    allowed = int(name.endswith(("CountMin", "count_min_sketch")) * 0.02 * len(distinct))
    assert (off > fed.bound).sum() <= allowed  # Count-Min's bound holds for a key with probability


@pytest.mark.parametrize(
    ("question", "ours", "theirs"),
    [
        ("frequencies, 768 counters", "SpaceSaving", "datasketches.frequent_items_sketch"),
        ("frequencies, 4 x 2048 cells", "CountMin", "datasketches.count_min_sketch"),
    ],
)
def test_our_bound_is_no_wider_for_as_many_counters_and_our_worst_error_no_larger(
    stream, question, ours, theirs
):
    keys, distinct, counts = stream
    heaviest = np.argsort(-counts, kind="stable")[:200]
    mine, other = PAIRS[question][ours](keys), PAIRS[question][theirs](keys)
    assert mine.bound <= other.bound * 1.0001
    worst_mine, worst_other = (
        np.abs(fed.estimate(distinct[heaviest]) - counts[heaviest]).max() for fed in (mine, other)
    )
    assert worst_mine <= max(worst_other * 1.5, mine.bound)


def test_both_name_the_same_ten_heaviest_keys_of_a_skewed_stream():
    keys = zipf(50_000, 5_000, 1.5, seed=3) >> np.uint64(1)
    distinct, counts = np.unique(keys, return_counts=True)
    truth = distinct[np.argsort(-counts, kind="stable")[:10]].tolist()
    for name in PAIRS["frequencies, 768 counters"]:
        estimates = PAIRS["frequencies, 768 counters"][name](keys).estimate(distinct)
        assert distinct[np.argsort(-estimates, kind="stable")[:10]].tolist() == truth, name


def test_distinct_keys_are_within_four_standard_errors_in_both(stream):
    keys, distinct, _ = stream
    for name, feed in PAIRS["distinct keys, 4096 registers"].items():
        fed = feed(keys)
        assert abs(fed.estimate(distinct)[0] / len(distinct) - 1) <= 4 * fed.bound, name
