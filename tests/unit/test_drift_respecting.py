from __future__ import annotations

import pickle

import pytest

from skewless.datasets.generators import drifting, zipf
from skewless.errors import ParameterError
from skewless.sketches import DriftRespecting
from tests.oracles.drift_respecting import DriftRespecting as Oracle

SETTINGS = {
    "small": {"take": 3, "step": 4, "boundary": 8, "cut": 3, "beta": 1.05, "patience": 2},
    "smooth": {"take": 5, "step": 5, "boundary": 20, "cut": 10, "beta": 1.2, "smoothing": 0.5},
    "wary": {"take": 5, "step": 5, "boundary": 20, "cut": 10, "drift": 0.0, "seed": 4, "beta": 1.1},
    "harness": {},
}


@pytest.mark.parametrize("cut", [0, 1, 777])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_counters_equal_the_oracle_whatever_the_chunks_and_after_pickling(settings, cut):
    for stream in (zipf(3000, 400, 1.2, seed=1), drifting(3000, 300, 1.3, period=500, n_hot=5)):
        sketch = DriftRespecting(**settings)
        oracle = Oracle(**sketch.parameters())
        for key in stream.tolist():
            oracle.update(key)
        sketch.update(stream[:cut])
        sketch = pickle.loads(pickle.dumps(sketch))  # noqa: S301 (our own bytes)
        sketch.update(stream[cut:])
        key, counts = sketch._sorted()
        assert dict(zip(key.tolist(), counts.tolist(), strict=True)) == oracle.counts
        assert sketch.state.tally[:3].tolist() == [len(oracle.counts), oracle.B, oracle.solidarity]
        assert sketch.state.rate.tolist() == [oracle.s, oracle.c, oracle.d, oracle.weight]


def test_a_boundary_that_a_cut_would_empty_is_refused():
    with pytest.raises(
        ParameterError, match="DriftRespecting: boundary must be at least take, 20, and"
    ):
        DriftRespecting(boundary=30, cut=30)
    with pytest.raises(ParameterError, match=r"DriftRespecting: drift must be a float in \[0, 1\]"):
        DriftRespecting(drift=1.5)
