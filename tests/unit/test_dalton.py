from __future__ import annotations

import pickle

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram
from skewless.partitioners import Hash
from skewless.partitioners.dalton import Dalton
from skewless.windows.rows import DEAD, FRAGMENTS, KEY, MARK, SHAPE
from tests.oracles.dalton import Dalton as Oracle

WORKERS = (1, 2, 3, 8, 9, 64)


def zipf(exponent, n_tuples, n_keys=500, seed=0):
    weights = np.arange(1, n_keys + 1, dtype=float) ** -exponent
    keys = np.random.default_rng(seed).choice(n_keys, n_tuples, p=weights / weights.sum())
    return keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # also hashes above 2**63


def drifting(n_tuples, seed=0):
    keys = zipf(1.5, n_tuples, seed=seed)
    return keys + (np.arange(n_tuples) // (n_tuples // 4)).astype(np.uint64)


def bursts(n_tuples, seed=0):
    """Times that stand still, run, and now and then jump over slides or over whole windows."""
    random = np.random.default_rng(seed)
    steps = random.choice([0, 0, 1, 2], n_tuples)
    jumps = random.random(n_tuples) < 0.01
    steps[jumps] = random.integers(0, 2000, jumps.sum())
    return np.cumsum(steps) - 700


STREAMS = {
    "uniform": Chunk(None, zipf(0.0, 4000)),
    "zipf 1.0": Chunk(None, zipf(1.0, 4000)),
    "zipf 2.0": Chunk(None, zipf(2.0, 4000)),
    "drifting": Chunk(None, drifting(4000)),
    "three keys": Chunk(None, zipf(0.3, 3000, n_keys=3)),
    "bursts": Chunk(bursts(4000), drifting(4000, seed=1)),
}
#: Small windows, so that everything expires many times.
SETTINGS = {
    "defaults": {"window": 600, "slide": 20},
    "statistics per slide": {"window": 600, "slide": 20, "stats_window": 20},
    "window not a multiple": {"window": 130, "slide": 40, "stats_window": 40, "seed": 2**63 - 1},
    "one slide": {"window": 50, "slide": 50, "stats_window": 25, "epsilon": 0.3},
    "slides of one tuple": {"window": 25, "slide": 1, "stats_window": 40},
    "long statistics": {"window": 200, "slide": 20, "stats_window": 500, "p1": 0.9, "gamma": 1.0},
    "explores only": {"window": 300, "slide": 20, "stats_window": 20, "epsilon": 1.0},
    "never explores": {"window": 300, "slide": 20, "stats_window": 20, "epsilon": 0.0, "p1": 1.0},
    "too slow to learn": {"window": 300, "slide": 20, "stats_window": 20, "gamma": 1e-300},
    "sketched": {"window": 300, "slide": 20, "stats_window": 60, "statistics": "count_min"},
    "hybrid": {
        "window": 300,
        "slide": 20,
        "stats_window": 60,
        "statistics": "hybrid",
        "switch_keys": 25,
    },
    "capped": {"window": 400, "slide": 20, "stats_window": 20, "epsilon": 0.4, "max_split": 2},
}


def oracle_routes(chunk, n_workers, settings):
    oracle = Oracle(n_workers, **settings)
    tuples = zip(chunk.time.tolist(), chunk.key.tolist(), strict=True)
    return [oracle.route(t, k) for t, k in tuples]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())
def test_every_route_equals_the_oracle(stream, settings):
    for n_workers in WORKERS:
        routes = Dalton(n_workers, **settings).route(stream)
        assert routes.dtype == np.int32
        assert routes.tolist() == oracle_routes(stream, n_workers, settings), n_workers


@pytest.mark.jit_modes
@pytest.mark.parametrize("settings", ["defaults", "statistics per slide", "capped", "one slide"])
def test_a_short_stream_equals_the_oracle_however_the_kernels_run(settings):
    stream = STREAMS["bursts"][:600]
    for n_workers in (3, 64):
        routes = Dalton(n_workers, **SETTINGS[settings]).route(stream)
        assert routes.tolist() == oracle_routes(stream, n_workers, SETTINGS[settings])


@pytest.mark.parametrize("sizes", [(1,), (7, 1, 1300), (999,)])
def test_chunks_and_pickling_in_between_change_nothing(sizes):
    stream, settings = STREAMS["bursts"], SETTINGS["defaults"]
    whole = Dalton(64, **settings).route(stream)
    partitioner, parts, start, turn = Dalton(64, **settings), [], 0, 0
    while start < len(stream):
        size = sizes[turn % len(sizes)]
        parts.append(partitioner.route(stream[start : start + size]))
        if turn % 50 == 0:
            partitioner = pickle.loads(pickle.dumps(partitioner))  # noqa: S301 (our own bytes)
        start, turn = start + size, turn + 1
    assert np.concatenate(parts).tolist() == whole.tolist()


def hot_keys(partitioner):
    rows = partitioner.state.rows.row
    alive = rows[:, SHAPE] != DEAD
    return set(rows[alive & (rows[:, MARK] >= 0), KEY].view(np.uint64).tolist())


def row_of(partitioner, key):
    rows = partitioner.state.rows.row
    found = np.flatnonzero((rows[:, SHAPE] != DEAD) & (rows[:, KEY] == key))
    return rows[found[0]] if len(found) else None


@pytest.mark.parametrize("n_workers", [2, 8, 64])
def test_at_most_n_keys_become_hot_in_a_window_as_long_as_the_one_before(n_workers):
    """Theorem 3.4."""
    partitioner, most = Dalton(n_workers, window=600, slide=100, stats_window=100), 0
    for piece in Chunk(None, zipf(2.0, 6000)).pieces(100):
        partitioner.route(piece)
        rows = partitioner.state.rows.row
        marks = rows[rows[:, SHAPE] != DEAD, MARK]
        became_hot = int((marks == partitioner.state.keys.number[0]).sum())
        most = max(most, became_hot)
        assert became_hot <= n_workers
    assert most > 0


@pytest.mark.jit_modes
def test_a_key_is_hot_for_this_statistics_window_and_the_whole_next_one_only():
    partitioner = Dalton(2, window=1000, slide=10, stats_window=10, epsilon=0.0)
    cold = np.arange(100, 200)
    partitioner.route(Chunk(np.arange(10), cold[:10]))
    assert hot_keys(partitioner) == set()  # nothing is hot in the first window
    partitioner.route(Chunk(np.arange(10, 20), [7] * 5 + cold[:5].tolist()))
    assert hot_keys(partitioner) == {7}
    partitioner.route(Chunk(np.arange(20, 30), cold[:10]))
    assert hot_keys(partitioner) == {7}
    partitioner.route(Chunk([30], [100]))
    assert hot_keys(partitioner) == set()
    assert row_of(partitioner, 7)[FRAGMENTS] == 1  # its fragment is still in the window


@pytest.mark.parametrize(
    ("n_workers", "window", "slide", "length"),
    [(2, 100, 100, 100), (64, 100, 100, 512), (2, 1000, 100, 1000), (64, 60_000, 1000, 4096)],
)
def test_a_statistics_window_is_a_slide_but_has_enough_tuples(n_workers, window, slide, length):
    partitioner = Dalton(n_workers, window=window, slide=slide)
    partitioner.route(Chunk(None, [7] * length))
    assert hot_keys(partitioner) == set()
    partitioner.route(Chunk(np.arange(length, 2 * length), [7] * length))
    assert hot_keys(partitioner) == {7}


def test_a_log_of_cold_keys_that_is_full_changes_no_route():
    """Cold keys fill the log several times, keep it, or repeat; then a tiny window asks for them."""
    random = np.random.default_rng(5)
    keys = random.integers(0, 3000, 60_000)
    keys[30_000:] %= 500
    times = np.arange(60_000)
    times[50_000:] += 4000 - 50_000 % 1000 + 900  # 100 tuples at the end of a window, then more
    settings = {"window": 40_000, "slide": 1000, "stats_window": 1000}
    stream = Chunk(times, keys)
    partitioner = Dalton(128, **settings)
    assert partitioner.route(stream).tolist() == oracle_routes(stream, 128, settings)
    assert partitioner.state_bytes <= partitioner.state_bytes_bound(3000)
    assert len(partitioner.state.cold.latest) > 0


def test_nothing_is_hot_after_an_empty_statistics_window():
    partitioner = Dalton(2, window=1000, slide=10, stats_window=10)
    partitioner.route(Chunk(np.arange(30), [7] * 30))
    assert hot_keys(partitioner) == {7}
    partitioner.route(Chunk(np.arange(100, 110), [7] * 10))
    assert hot_keys(partitioner) == set()
    assert partitioner.state.keys.total.tolist() == [10, 0]


@pytest.mark.jit_modes
def test_fragments_expire_with_the_slide_of_their_last_tuple():
    partitioner = Dalton(64, window=100, slide=10, stats_window=10, epsilon=1.0)
    partitioner.route(Chunk(np.arange(100), [7] * 100))
    assert row_of(partitioner, 7)[FRAGMENTS] > 30
    partitioner.epsilon = 0.0
    partitioner.route(Chunk(np.arange(100, 190), [7] * 90))
    some = row_of(partitioner, 7)[FRAGMENTS]
    partitioner.route(Chunk(np.arange(190, 400), [7] * 210))
    assert row_of(partitioner, 7)[FRAGMENTS] < some
    partitioner.route(Chunk([600], [8]))
    assert row_of(partitioner, 7) is None
    assert partitioner.state.loads.total[0] == 1


def test_a_home_from_the_time_when_the_key_was_cold_counts_as_a_fragment():
    seed = next(s for s in range(50) if Hash(8, seed=s).route(Chunk(None, [7]))[0] != 0)
    partitioner = Dalton(8, window=100, slide=10, stats_window=10, epsilon=1.0, seed=seed)
    partitioner.route(Chunk(np.arange(10), [7, *range(100, 109)]))
    partitioner.route(Chunk([10, 11], [7, 7]))  # the second tuple makes it hot
    routes = set(partitioner.route(Chunk(np.arange(12, 20), [7] * 8)).tolist())
    row = row_of(partitioner, 7)
    assert row[MARK] == 1
    assert row[FRAGMENTS] >= len(routes)
    assert row[FRAGMENTS] <= 8


@pytest.mark.parametrize("n_workers", [8, 64])
@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.5])
def test_a_sketch_misses_no_hot_key_and_hardly_adds_any(n_workers, exponent):
    settings = {"window": 20_000, "slide": 1000, "stats_window": 10_000}
    exact, sketched = (
        Dalton(n_workers, statistics=statistics, **settings)
        for statistics in ("exact", "count_min")
    )
    added, keys = 0, zipf(exponent, 60_000, n_keys=20_000)
    for start in range(0, 60_000, 10_000):
        chunk = Chunk(np.arange(start, start + 10_000), keys[start : start + 10_000])
        exact.route(chunk)
        sketched.route(chunk)
        assert hot_keys(exact) <= hot_keys(sketched)
        added += len(hot_keys(sketched) - hot_keys(exact))
    assert added <= 12  # six windows, two at a time


def test_the_sketch_is_taken_after_a_window_with_many_keys_and_left_after_one_with_few():
    partitioner, found = (
        Dalton(4, window=400, slide=100, stats_window=100, statistics="hybrid", switch_keys=50),
        [],
    )
    for window, n_keys in enumerate((10, 49, 80, 80, 10, 10)):
        keys = np.arange(100) % n_keys
        partitioner.route(Chunk(np.arange(100) + 100 * window, keys))
        found.append(bool(partitioner.estimates.sketching[0]))
    assert found == [False, False, False, True, True, False]
    partitioner.route(Chunk([700], [1]))  # after an empty window
    assert not partitioner.estimates.sketching[0]


def test_the_table_of_a_sketch_does_not_grow_with_the_keys():
    keys = np.arange(100_000)
    sizes = {}
    for statistics in ("exact", "count_min"):
        partitioner = Dalton(8, window=2000, stats_window=50_000, statistics=statistics)
        partitioner.route(Chunk(None, keys))
        sizes[statistics] = partitioner.state_bytes
        assert partitioner.state_bytes <= partitioner.state_bytes_bound(100_000)
    assert sizes["count_min"] < sizes["exact"] / 3


def test_chunks_and_pickling_change_nothing_where_frequencies_are_estimated():
    stream, settings = STREAMS["bursts"], SETTINGS["hybrid"]
    whole = Dalton(12, **settings).route(stream)
    partitioner, parts = Dalton(12, **settings), []
    for piece in stream.pieces(7):
        parts.append(partitioner.route(piece))
        if len(parts) % 50 == 0:
            partitioner = pickle.loads(pickle.dumps(partitioner))  # noqa: S301 (our own bytes)
    assert np.concatenate(parts).tolist() == whole.tolist()


def test_cold_keys_go_where_hashing_sends_them():
    stream = Chunk(None, zipf(0.0, 5000))
    assert Dalton(8, slide=200).route(stream).tolist() == Hash(8).route(stream).tolist()


def test_a_hot_key_explores_at_the_rate_epsilon():
    stream = Chunk(None, [7] * 20_000)
    partitioner = Dalton(1000, stats_window=1000, epsilon=0.25, p1=0.0, gamma=1e-9)
    away = partitioner.route(stream)[1000:] != Hash(1000).route(Chunk(None, [7]))[0]
    assert away.mean() == pytest.approx(0.25, abs=0.01)
    assert len(np.unique(partitioner.route(Chunk(np.arange(20_000, 40_000), [7] * 20_000)))) > 950


def test_max_split_keeps_exploration_among_the_workers_that_hold_the_key():
    stream = Chunk(None, [7] * 5000)
    free = Dalton(64, epsilon=0.5, window=1000, slide=100).route(stream)
    capped = Dalton(64, epsilon=0.5, window=1000, slide=100, max_split=4).route(stream)
    assert len(np.unique(capped[-1000:])) <= 4 < len(np.unique(free[-1000:]))


def test_the_state_keeps_its_bound_and_forgets_keys_that_left_the_window():
    sizes = []
    for n_keys in (2000, 200_000):
        partitioner = Dalton(16, window=2000, slide=100)
        partitioner.route(Chunk(None, np.repeat(np.arange(n_keys), 2)))
        sizes.append(partitioner.state_bytes)
        assert partitioner.state_bytes <= partitioner.state_bytes_bound(1200)
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("n_workers", [1, 8, 16, 1000])
def test_the_bound_holds_when_every_key_is_hot_on_every_worker(n_workers):
    keys = np.random.default_rng(3).integers(0, 20, 30_000)
    partitioner = Dalton(n_workers, epsilon=1.0, window=30_000, stats_window=10)
    partitioner.route(Chunk(None, keys))
    assert partitioner.state_bytes <= partitioner.state_bytes_bound(20)


def test_zipf_1_5_is_balanced_better_than_by_hashing_with_few_fragments():
    keys = zipf(1.5, 300_000, n_keys=100_000)
    stream = Chunk(None, keys)
    routes = Dalton(64).route(stream)[-100_000:]
    loads = np.bincount(routes, minlength=64)
    assert loads.max() <= 2.2 * loads.mean()  # hashing: 24.7
    pairs = np.unique(np.stack((stream.key[-100_000:].astype(np.int64), routes)), axis=1)
    assert pairs.shape[1] - len(np.unique(stream.key[-100_000:])) < 1200


def test_learning_from_a_histogram_goes_on_after_routing_and_splits_the_heaviest_key():
    partitioner = Dalton(8)
    partitioner.route(Chunk(np.arange(5000, 6000), np.arange(1000)))
    counts = {7: 30_000, **dict.fromkeys(range(100, 1100), 40)}
    for _ in range(3):
        routing = partitioner.learn(Histogram.of(counts))
    assert len(routing.hot[7]) > 1
    loads = routing.loads(Histogram.of(counts))
    assert loads.max() <= 2.0 * loads.mean()  # hashing: 4


def test_time_that_runs_back_between_chunks_is_refused():
    partitioner = Dalton(4)
    partitioner.route(Chunk([5, 9], [1, 2]))
    with pytest.raises(
        DataError, match="time must not decrease from chunk to chunk, got 8 after 9"
    ):
        partitioner.route(Chunk([8], [1]))


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n_workers": 0}, "Dalton: n_workers must be an int of at least 1, got 0"),
        ({"window": 0}, "Dalton: window must be an int of at least 1, got 0"),
        ({"window": 10, "slide": 11}, "Dalton: slide must be at most the window of 10, got 11"),
        ({"statistics": "some"}, "statistics must be one of exact, count_min, hybrid, got 'some'"),
        ({"switch_keys": 0}, "Dalton: switch_keys must be an int of at least 1, got 0"),
        ({"stats_window": 0}, "Dalton: stats_window must be an int of at least 1, got 0"),
        ({"epsilon": 1.5}, r"Dalton: epsilon must be a float in \[0, 1\], got 1.5"),
        ({"gamma": 0.0}, r"Dalton: gamma must be a float in \(0, 1\], got 0.0"),
        ({"p1": -0.1}, r"Dalton: p1 must be a float in \[0, 1\], got -0.1"),
        ({"max_split": 0}, "Dalton: max_split must be an int of at least 1, got 0"),
        ({"seed": -1}, "Dalton: seed must be an int in"),
    ],
)
def test_a_bad_parameter_is_named_with_its_range_and_value(parameters, sentence):
    with pytest.raises(ParameterError, match=sentence):
        Dalton(**{"n_workers": 4, **parameters})
