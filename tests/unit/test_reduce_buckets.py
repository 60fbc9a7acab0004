from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram
from skewless.planners import Prompt, reduce_buckets
from tests.oracles.reduce_buckets import reduce_buckets as oracle

FEW = 10 if os.environ.get("NUMBA_DISABLE_JIT") == "1" else 100
clusters = st.dictionaries(st.integers(0, 2**64 - 1), st.integers(0, 1_000), max_size=60)


@pytest.mark.jit_modes
@settings(max_examples=FEW, deadline=None, derandomize=True)
@given(clusters, st.data(), st.integers(1, 12), st.integers(0, 5))
def test_equals_the_oracle(sizes, data, n_buckets, seed):
    split = data.draw(st.sets(st.sampled_from(sorted(sizes)))) if sizes else set()
    keys = np.array(list(sizes), np.uint64)
    found = reduce_buckets(
        keys, list(sizes.values()), [key in split for key in sizes], n_buckets, seed=seed
    )
    assert found.dtype == np.int32
    assert dict(zip(sizes, found.tolist(), strict=True)) == oracle(sizes, split, n_buckets, seed)


# Sizes in, loads out; no key is split.
TABLE = [
    (
        "each round gives one cluster to every bucket, the largest to the emptiest",
        [9, 7, 5, 3],
        [12, 12],
    ),
    ("a bucket waits for the others even if it is the emptiest", [10, 1, 1, 1], [11, 2]),
    ("an odd cluster goes to the emptiest bucket", [4, 3, 2, 1, 1], [6, 5]),
]


@pytest.mark.parametrize(("sizes", "loads"), [r[1:] for r in TABLE], ids=[r[0] for r in TABLE])
def test_table_of_loads(sizes, loads):
    found = reduce_buckets(range(len(sizes)), sizes, [False] * len(sizes), 2)
    assert np.bincount(found, sizes).tolist() == loads


def test_the_parts_of_a_split_key_meet_in_one_bucket():
    histogram = Histogram(range(1, 40), [500, 400, 300, *range(1, 37)])
    routing = Prompt(4).plan(histogram)
    assert len(routing.split_keys) > 0
    met: dict[int, set[int]] = {}
    for block in range(4):
        parts = {k: s[block] * 100 for k, s in routing.hot.items() if block in s}
        keys = np.array(list(parts), np.uint64)
        found = reduce_buckets(
            keys, [round(x) for x in parts.values()], np.isin(keys, routing.split_keys), 5
        )
        for key, bucket in zip(keys.tolist(), found.tolist(), strict=True):
            met.setdefault(key, set()).add(bucket)
    assert all(len(buckets) == 1 for buckets in met.values())


def test_bad_input_is_refused():
    with pytest.raises(
        ParameterError, match=r"reduce_buckets: n_buckets must be an int of at leas"
    ):
        reduce_buckets([1], [2], [False], 0)
    with pytest.raises(ParameterError, match=r"reduce_buckets: seed must be an int in"):
        reduce_buckets([1], [2], [False], 1, seed=-1)
    with pytest.raises(DataError, match=r"one entry per cluster, got 1, 2 and 1"):
        reduce_buckets([1], [2, 3], [False], 2)
    with pytest.raises(DataError, match=r"sizes must be integers of at least 0, got -2"):
        reduce_buckets([1], [-2], [False], 2)
    with pytest.raises(DataError, match=r"sizes must be integers of at least 0, got 1.5"):
        reduce_buckets([1], [1.5], [False], 2)
    assert len(reduce_buckets([], [], [], 3)) == 0
