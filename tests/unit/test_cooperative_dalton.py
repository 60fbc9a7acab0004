from __future__ import annotations

import pickle

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.datasets.generators import zipf
from skewless.errors import DataError, ParameterError
from skewless.metrics import max_over_mean
from skewless.partitioners import CooperativeDalton, Dalton, Hash
from skewless.windows.hot_exchange import hot_rows
from skewless.windows.rows import KEY
from skewless.windows.values import best_worker
from tests.oracles.cooperative_dalton import CooperativeDalton as Oracle
from tests.unit.test_dalton import STREAMS

#: Small windows, so that there are many rounds.
SETTINGS = {
    "one source": {"sources": 1, "sync": 30},
    "two sources, replies at once": {"sync": 30, "shortest": 10},
    "a slow reducer": {"sync": 20, "shortest": 10, "latency": 37},
    "slow and fixed": {"sync": 20, "latency": 75, "adaptive": False},
    "three sources": {"sources": 3, "sync": 50, "shortest": 15, "latency": 5},
    "capped": {"sources": 3, "sync": 25, "latency": 5, "epsilon": 0.5, "max_split": 2, "p1": 0.9},
}


def oracle_routes(chunk, n_workers, settings):
    oracle = Oracle(n_workers, **settings)
    tuples = zip(chunk.time.tolist(), chunk.key.tolist(), strict=True)
    return [oracle.route(t, k) for t, k in tuples]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.parametrize("stream", ["zipf 1.0", "zipf 2.0", "three keys", "bursts"])
def test_every_route_equals_the_oracle(stream, settings):
    settings = {"window": 300, "slide": 20, "seed": 1, **settings}
    for n_workers in (2, 12):
        routes = CooperativeDalton(n_workers, **settings).route(STREAMS[stream])
        assert routes.tolist() == oracle_routes(STREAMS[stream], n_workers, settings), n_workers


@pytest.mark.jit_modes
def test_a_short_stream_equals_the_oracle_however_the_kernels_run():
    stream = STREAMS["bursts"][:500]
    for name in ("a slow reducer", "three sources"):
        settings = {"window": 300, "slide": 20, **SETTINGS[name]}
        routes = CooperativeDalton(12, **settings).route(stream)
        assert routes.tolist() == oracle_routes(stream, 12, settings)


@pytest.mark.parametrize("sizes", [(1,), (7, 1, 1300), (999,)])
def test_chunks_and_pickling_in_between_change_nothing(sizes):
    stream = STREAMS["bursts"][:2000]
    settings = {"window": 300, "slide": 20, **SETTINGS["three sources"]}
    whole = CooperativeDalton(12, **settings).route(stream)
    partitioner, parts, start, turn = CooperativeDalton(12, **settings), [], 0, 0
    while start < len(stream):
        size = sizes[turn % len(sizes)]
        parts.append(partitioner.route(stream[start : start + size]))
        if turn % 50 == 0:
            partitioner = pickle.loads(pickle.dumps(partitioner))  # noqa: S301 (our own bytes)
        start, turn = start + size, turn + 1
    assert np.concatenate(parts).tolist() == whole.tolist()


@pytest.mark.parametrize("exponent", [1.0, 2.0])
@pytest.mark.parametrize("n_workers", [2, 12])
def test_a_single_source_with_instant_replies_is_dalton_once_a_window_without_hot_keys_is_over(
    n_workers, exponent
):
    """Dalton finds nothing hot in its first statistics window; the reducer does, at its end."""
    distinct = np.arange(10**6, 10**6 + 100, dtype=np.uint64)
    keys = np.concatenate((distinct, zipf(6000, 500, exponent, seed=3)))
    settings = {"window": 600, "slide": 20, "seed": 5, "max_split": 4}
    alone = Dalton(n_workers, stats_window=100, **settings)
    together = CooperativeDalton(n_workers, sources=1, sync=100, adaptive=False, **settings)
    stream = Chunk(None, keys)
    assert together.route(stream).tolist() == alone.route(stream).tolist()


def policies_of(partitioner):
    """The best worker of each hot key, per source."""
    found = []
    for agent in partitioner.state.agents:
        rows = agent.learner.rows
        keys = rows.row[hot_rows(rows), KEY].view(np.uint64)
        homes = Hash(partitioner.n_workers, seed=partitioner.seed).route(Chunk(None, keys))
        found.append(
            {
                key: best_worker(rows.row, rows.winner, i, home)
                for key, i, home in zip(
                    keys.tolist(), hot_rows(rows).tolist(), homes.tolist(), strict=True
                )
            }
        )
    return found


def two_distributions(n_tuples):
    """Even tuples are Zipf, odd ones uniform, as in the paper's figure 14."""
    keys = np.empty(n_tuples, np.uint64)
    keys[::2] = zipf(n_tuples // 2, 1000, 1.5, seed=1)
    keys[1::2] = zipf(n_tuples // 2, 1000, 0.0, seed=2)
    return keys


def test_all_sources_have_one_policy_after_a_round():
    partitioner = CooperativeDalton(8, window=6000, slide=1000, adaptive=False, sources=3)
    keys = zipf(20_003, 1000, 1.5, seed=1)
    partitioner.route(Chunk(None, keys))  # the last three tuples bring the twentieth round
    first, *others = policies_of(partitioner)
    assert len(first) > 1
    assert all(other.keys() == first.keys() for other in others)
    same = [first[key] == other[key] for other in others for key in first]
    assert np.mean(same) == 1.0


def test_a_key_that_is_hot_at_one_source_only_is_not_split_after_the_reply():
    """Key 7 is 1/4 of one of three sources: 1/12 of all, below 1/8."""
    n = 9000
    keys = np.arange(10**6, 10**6 + n)
    keys[::12] = 7
    keys[1::3] = 5  # all tuples of the second source: hot for everybody
    partitioner = CooperativeDalton(8, sources=3, window=3000, slide=1000, sync=1000, seed=2)
    workers = partitioner.route(Chunk(None, keys))
    assert len(np.unique(workers[keys == 7])) == 1
    assert len(np.unique(workers[keys == 5])) > 1
    assert [set(policy) for policy in policies_of(partitioner)] == [{5}] * 3


def test_a_key_is_hot_at_a_source_that_has_never_seen_it():
    keys = np.arange(10**6, 10**6 + 4000)
    keys[::2] = 5
    partitioner = CooperativeDalton(8, window=3000, slide=1000, sync=1000, adaptive=False)
    partitioner.route(Chunk(None, keys[:2010]))
    ours, theirs = policies_of(partitioner)
    assert set(ours) == set(theirs) == {5}


@pytest.mark.parametrize("n_workers", [2, 8, 64])
def test_at_most_n_keys_are_hot_at_each_source_after_a_reply(n_workers):
    """Theorem 3.4, for the global table."""
    partitioner = CooperativeDalton(
        n_workers, sources=2, window=6000, slide=1000, sync=1000, adaptive=False
    )
    keys, most = zipf(12_002, 500, 2.0, seed=4), 0
    for start in range(0, 12_000, 1000):
        partitioner.route(Chunk(np.arange(start, start + 2), keys[start : start + 2]))
        found = [len(policy) for policy in policies_of(partitioner)]
        assert max(found) <= n_workers
        most = max(most, *found)
        partitioner.route(Chunk(np.arange(start + 2, start + 1000), keys[start + 2 : start + 1000]))
    assert most > 0


def test_the_interval_follows_the_latency_as_in_figure_14b():
    """Reducer time x1, x2, x4, x1 gives 10, 20, 40, 10 (thousand tuples), after a start from 20."""
    partitioner = CooperativeDalton(
        8, window=60_000, slide=20_000, sync=20_000, shortest=1, latency=6_000
    )
    keys, found = zipf(800_000, 10_000, 1.5, seed=1), []
    for phase, times in enumerate((1, 2, 4, 1)):
        partitioner.latency = 6_000 * times
        start = 200_000 * phase
        partitioner.route(Chunk(np.arange(start, start + 200_000), keys[start : start + 200_000]))
        found.append(partitioner.interval)
    assert found == [10_000, 20_000, 40_000, 10_000]


def test_rewards_of_the_time_of_waiting_are_not_lost():
    """With epsilon 1 all workers are tried while the reply is under way; all have a value then."""
    partitioner = CooperativeDalton(
        8, sources=1, sync=100, latency=90, adaptive=False, epsilon=1.0, window=1000, slide=100
    )
    partitioner.route(Chunk(np.arange(290), [7] * 290))  # SYNC at 100 and 200, replies at 190, 290
    agent = partitioner.state.agents[0]
    assert agent.awaits[0]
    assert agent.rewards.used[0] == 8
    partitioner.route(Chunk([290], [7]))
    agent = partitioner.state.agents[0]
    assert not agent.awaits[0]
    assert agent.rewards.used[0] == 0
    rows = agent.learner.rows
    values = rows.row.view(float)[hot_rows(rows)[0], 7:32:3][:8]
    assert (values > -2).all()


@pytest.mark.parametrize(("sources", "latency"), [(1, 0), (2, 0), (3, 0), (2, 40)])
@pytest.mark.parametrize("stream", ["zipf 1.0", "zipf 2.0", "drifting"])
def test_no_key_that_is_forwarded_has_two_workers_in_the_window(stream, sources, latency):
    window, slide = 300, 100
    partitioner = CooperativeDalton(
        8, sources=sources, window=window, slide=slide, sync=50, shortest=30, latency=latency
    )
    stream, workers, forwarded = STREAMS[stream], np.empty(0, np.int32), 0
    for end in range(slide, len(stream) + 1, slide):
        workers = np.concatenate((workers, partitioner.route(stream[end - slide : end])))
        held = {}
        for key, worker in zip(
            stream.key[max(0, end - window) : end].tolist(),
            workers[max(0, end - window) :].tolist(),
            strict=True,
        ):
            held.setdefault(key, set()).add(worker)
        split = np.array([len(each) > 1 for each in held.values()])
        forwards = partitioner.forwards(np.array(list(held), np.uint64))
        assert not (forwards & split).any()
        forwarded += forwards.sum()
    assert forwarded > 100


def test_without_a_reply_in_the_slide_nothing_is_forwarded():
    partitioner = CooperativeDalton(8, window=300, slide=100, sync=150, adaptive=False)
    found = []
    for start in range(0, 600, 100):
        partitioner.route(Chunk(np.arange(start, start + 100), np.arange(start, start + 100)))
        found.append(bool(partitioner.forwards([start])[0]))
    assert found == [False, True, False, True, True, False]  # replies at 151, 301, 450


@pytest.mark.parametrize("stream", ["zipf 1.0", "zipf 2.0", "drifting"])
def test_what_dalton_forwards_has_one_worker_in_the_window(stream):
    partitioner, stream = Dalton(8, window=300, slide=100), STREAMS[stream]
    workers, forwarded = np.empty(0, np.int32), 0
    for end in range(100, len(stream) + 1, 100):
        workers = np.concatenate((workers, partitioner.route(stream[end - 100 : end])))
        pairs = zip(stream.key[:end][-300:].tolist(), workers[-300:].tolist(), strict=True)
        held = {}
        for key, worker in pairs:
            held.setdefault(key, set()).add(worker)
        forwards = partitioner.forwards(np.array(list(held), np.uint64))
        assert all(len(held[key]) == 1 for key, yes in zip(held, forwards, strict=True) if yes)
        forwarded += forwards.sum()
    assert forwarded > 100


def test_sources_of_different_distributions_are_balanced_nearly_as_by_one_partitioner():
    keys = two_distributions(600_000)
    worst = {}
    for name, partitioner in {
        "alone": Dalton(16),
        "together": CooperativeDalton(16),
        "never": CooperativeDalton(16, sync=10**9),
    }.items():
        workers = partitioner.route(Chunk(None, keys))
        worst[name] = max_over_mean(np.bincount(workers[-100_000:], minlength=16))
    assert worst["together"] < 1.25 * worst["alone"]
    assert worst["never"] > 1.5 * worst["together"]


def test_the_state_keeps_its_bound_and_forgets_keys_that_left_the_window():
    sizes = []
    for n_keys in (2000, 200_000):
        partitioner = CooperativeDalton(16, window=2000, slide=100, latency=50)
        partitioner.route(Chunk(None, np.repeat(np.arange(n_keys), 2)))
        sizes.append(partitioner.state_bytes)
        assert partitioner.state_bytes <= partitioner.state_bytes_bound(2200)
    assert sizes[0] == pytest.approx(sizes[1], rel=0.2)


@pytest.mark.parametrize("n_workers", [1, 8, 16, 200])
def test_the_bound_holds_when_every_key_is_hot_on_every_worker(n_workers):
    keys = np.random.default_rng(3).integers(0, 20, 30_000)
    partitioner = CooperativeDalton(
        n_workers, epsilon=1.0, window=30_000, sync=10, shortest=1, latency=400, adaptive=False
    )
    for start in range(0, 30_000, 1000):
        partitioner.route(Chunk(np.arange(start, start + 1000), keys[start : start + 1000]))
        assert partitioner.state_bytes <= partitioner.state_bytes_bound(20)


def test_time_that_runs_back_between_chunks_is_refused():
    partitioner = CooperativeDalton(4)
    partitioner.route(Chunk([5, 9], [1, 2]))
    with pytest.raises(
        DataError, match="time must not decrease from chunk to chunk, got 8 after 9"
    ):
        partitioner.route(Chunk([8], [1]))


def test_a_slide_is_at_most_a_window():
    with pytest.raises(ParameterError, match="slide must be at most the window of 10, got 11"):
        CooperativeDalton(4, window=10, slide=11)
