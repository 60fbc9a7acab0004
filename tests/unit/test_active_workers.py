"""How many workers are active: traces of loads in, numbers out; and a policy remade for that number."""

from __future__ import annotations

import numpy as np
import pytest

from skewless import partitioners, planners
from skewless.active_workers import ActiveWorkers, Elastic, used_workers
from skewless.elasticity import Batch
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram, bucket_count, bucket_of, rebucketed
from skewless.planners import KIP, WrapAround
from skewless.policy import Policy
from skewless.routing import Routing

#: A name, where it starts (of 2 to 8), the load of each batch, the active workers after it; patience 2.
TRACES = {
    "a load in the zone that is left alone changes nothing": (4, [0.85] * 6, [4] * 6),
    "two batches above the threshold activate one": (4, [0.95, 0.95], [4, 5]),
    "one batch above it does not": (4, [0.95, 0.85, 0.95, 0.85], [4, 4, 4, 4]),
    "as long as it stays above, one more every two batches": (
        4,
        [1.5] * 6,
        [4, 5, 5, 6, 6, 7],
    ),
    "never more than the most": (7, [2.0] * 6, [7, 8, 8, 8, 8, 8]),
    "two short batches retire one": (4, [0.3, 0.3], [4, 3]),
    "never fewer than the fewest": (3, [0.01] * 6, [3, 2, 2, 2, 2, 2]),
    "a load that one fewer could not take retires nobody": (4, [0.7] * 6, [4] * 6),
    "a load that one fewer can just take retires one": (4, [0.675] * 2, [4, 3]),
    "the opposite change waits, however long the load asks for it": (
        4,
        [0.95, 0.95, 0.3, 0.3, 0.3, 0.3],
        [4, 5, 5, 5, 4, 4],
    ),
}


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_of_loads_gives_these_workers(name: str) -> None:
    start, loads, expected = TRACES[name]
    scaling = ActiveWorkers(2, 8, interval_s=10, patience=2)
    scaling.start_with(start)
    assert [scaling.decide(Batch(10 * load, 10.0, 100, 10)) for load in loads] == expected


@pytest.mark.parametrize("start", [2, 5, 16])
@pytest.mark.parametrize("fixed", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("work", [0.1, 1.3, 3.3, 3.84, 4.2, 7.7, 12.9, 30.0])
def test_a_steady_stream_comes_to_rest(start: int, fixed: float, work: float) -> None:
    # What cannot be shared out, and what is shared out over the active workers.
    scaling = ActiveWorkers(2, 16)
    scaling.start_with(start)

    def load(active: int) -> float:
        return fixed + work / active

    history = [scaling.active]
    for _ in range(150):
        history.append(scaling.decide(Batch(load(history[-1]), 1.0, 1_000, 50)))
    rest = history[-1]
    changes = np.diff(history)
    assert set(history[80:]) == {rest}
    assert (changes >= 0).all() or (changes <= 0).all()
    assert load(rest) <= 0.9 or rest == 16


@pytest.mark.parametrize("seed", range(8))
def test_noise_below_the_width_of_the_zone_does_not_make_it_flap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scaling = ActiveWorkers(1, 32)
    history = [scaling.active]
    for _ in range(400):
        load = (6.8 / history[-1]) * (1 + 0.04 * rng.standard_normal())
        rows = int(1_000 * (1 + 0.04 * rng.standard_normal()))
        history.append(scaling.decide(Batch(max(load, 0.0), 1.0, rows, 50)))
    turns = np.diff(np.sign([c for c in np.diff(history) if c]))
    assert np.count_nonzero(turns) <= 1
    assert set(history[-200:]) <= {8, 9}


def test_workers_follow_a_rate_that_rises_and_falls() -> None:
    scaling = ActiveWorkers(2, 16)
    scaling.start_with(2)
    rates = [*np.linspace(1, 12, 200), *[12.0] * 50, *np.linspace(12, 1, 200)]
    history, over = [], 0
    for i, rate in enumerate(rates):
        load = rate / scaling.active
        over += load > 1
        history.append(scaling.decide(Batch(load, 1.0, int(1_000 * rate), 50 + i % 3)))
    assert (np.diff(history[:250]) >= 0).all()
    assert (np.diff(history[250:]) <= 0).all()
    assert history[249] == 14  # 12 / 13 is above 0.9
    assert history[-1] == 2
    assert over == 0


def test_a_policy_is_told_with_what_differs_from_the_defaults() -> None:
    policy = Elastic(WrapAround(8), ActiveWorkers(2, 8, interval_s=10, patience=2))
    assert repr(policy) == "Elastic(WrapAround(8), ActiveWorkers(2, 8, interval_s=10, patience=2))"
    assert repr(ActiveWorkers(1, 2)) == "ActiveWorkers(1, 2)"


def test_bad_parameters_say_what_is_wrong() -> None:
    for bad, words in (
        ({"low": 0, "high": 2}, "low must be an int of at least 1, got 0"),
        ({"low": 3, "high": 2}, "low must be at most high, got 3 and 2; give the fewer"),
        ({"low": 1, "high": 2, "interval_s": 0}, "interval_s must be a float above 0, got 0"),
        ({"low": 1, "high": 2, "threshold": 0}, "threshold must be a float above 0, got 0"),
        ({"low": 1, "high": 2, "step": 0.9}, "step must be below the threshold of 0.9, got 0.9"),
        ({"low": 1, "high": 2, "patience": 0}, "patience must be an int of at least 1, got 0"),
    ):
        with pytest.raises(ParameterError, match=f"^ActiveWorkers: {words}"):
            ActiveWorkers(**bad)
    for batch in (Batch(-1, 1, 1, 1), Batch(float("nan"), 1, 1, 1), Batch(1, 0, 1, 1)):
        with pytest.raises(DataError, match=r"^Elasticity: "):
            ActiveWorkers(1, 2).decide(batch)


#: Every policy that can be remade for fewer workers.
POLICIES = [
    cls
    for cls in (*partitioners.ALL, *planners.ALL)
    if cls not in (partitioners.Shuffle, partitioners.TimeBased)
]


def counts(n_workers: int, seed: int = 0) -> Histogram:
    keys = np.random.default_rng(seed).zipf(1.3, 20_000).astype(np.uint64)
    return Histogram.of(keys).top(64, bucket_count(n_workers))


@pytest.mark.parametrize("cls", POLICIES)
def test_a_policy_of_fewer_workers_is_that_policy(cls: type[Policy]) -> None:
    scaling = ActiveWorkers(3, 8, interval_s=1)
    scaling.start_with(6)
    policy = Elastic(cls(8), scaling)
    found = policy.learn(counts(8), None)
    alone = cls(6).learn(rebucketed(counts(8), bucket_count(6), 0), None)
    assert found.n_workers == 8
    assert (found.hot, found.buckets.tolist()) == (alone.hot, alone.buckets.tolist())
    keys = np.arange(5_000, dtype=np.uint64)
    assert int(found.route(keys).max()) == 5
    again = policy.learn(counts(8, 1), found)
    assert int(again.route(keys).max()) == 5


@pytest.mark.parametrize("cls", POLICIES)
def test_with_all_workers_nothing_is_different(cls: type[Policy]) -> None:
    elastic, plain = Elastic(cls(8), ActiveWorkers(3, 8)), cls(8)
    before = None
    for seed in range(3):
        found = elastic.learn(counts(8, seed), before)
        assert found == plain.learn(counts(8, seed), before)
        before = found


def test_short_batches_retire_workers_and_long_ones_bring_them_back() -> None:
    policy = Elastic(WrapAround(8), ActiveWorkers(2, 8, patience=1))
    routing = policy.learn(counts(8), None)
    seen = []
    for load in [0.1] * 8 + [1.5] * 8:
        policy.scale(load, 1.0, 20_000, 500)
        routing = policy.learn(counts(8), routing)
        seen.append(used_workers(routing))
        loads = routing.loads(rebucketed(counts(8), len(routing.buckets), 0))
        assert loads[seen[-1] :].sum() == 0
        assert loads.max() / loads[: seen[-1]].mean() < 1.05
    assert seen[:8] == [7, 6, 5, 4, 3, 2, 2, 2]
    assert seen[-1] == 8


def test_what_need_not_move_stays_when_a_worker_is_retired() -> None:
    policy = Elastic(KIP(8), ActiveWorkers(2, 8, patience=1))
    before = policy.learn(counts(8), None)
    policy.scale(0.1, 1.0, 20_000, 500)
    after = policy.learn(counts(8), before)
    keys = np.random.default_rng(5).integers(0, 2**63, 20_000).astype(np.uint64)
    moved = float(np.mean(before.route(keys) != after.route(keys)))
    fresh = Elastic(KIP(8), ActiveWorkers(2, 8, patience=1))
    fresh.scale(0.1, 1.0, 20_000, 500)
    anew = float(np.mean(before.route(keys) != fresh.learn(counts(8), None).route(keys)))
    assert moved < 0.2
    assert anew > 0.4


def test_a_run_goes_on_with_the_workers_of_the_one_before() -> None:
    policy = Elastic(WrapAround(8), ActiveWorkers(2, 8))
    policy.resume(used_workers(Routing(8, {7: {0: 1.0}}, np.arange(2048) % 5)))
    assert policy.workers.active == policy.current.n_workers == 5
    assert used_workers(policy.learn(counts(8), None)) == 5
    policy.resume(used_workers(Routing.hashing(8)))
    assert policy.workers.active == 8
    policy.resume(1)
    assert policy.workers.active == 2
    policy.resume(used_workers(Routing.shuffling(8)))
    assert policy.workers.active == 8


def test_without_a_time_nothing_is_decided() -> None:
    policy = Elastic(WrapAround(4), ActiveWorkers(1, 4, patience=1))
    policy.scale(None, 1.0, 10, 1)
    policy.scale(0.1, None, 10, 1)
    policy.scale(0.1, 0.0, 10, 1)
    assert policy.workers.active == 4
    policy.scale(0.1, 1.0, 10, None)
    assert policy.workers.active == 3


def test_the_interval_that_was_given_counts_and_not_the_measured_one() -> None:
    policy = Elastic(WrapAround(4), ActiveWorkers(1, 4, interval_s=0.1, patience=1))
    policy.workers.start_with(2)
    policy.scale(0.1, 100.0, 10, 1)
    assert policy.workers.active == 3


def test_policies_that_cannot_be_remade_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"^Elastic: the policy has 4 workers, but .* up to 8"):
        Elastic(WrapAround(4), ActiveWorkers(2, 8))
    for cls in (partitioners.Shuffle, partitioners.TimeBased):
        with pytest.raises(ParameterError, match=r"^Elastic: .* deals rows to all workers"):
            Elastic(cls(4), ActiveWorkers(2, 4))

    class Anywhere(WrapAround):
        def learn(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
            return Routing.shuffling(self.n_workers)

    with pytest.raises(DataError, match=r"^Elastic: .* deals a bucket to all workers"):
        Elastic(Anywhere(4), ActiveWorkers(2, 4)).learn(counts(4))


@pytest.mark.parametrize(("before", "after"), [(4096, 2048), (2100, 700), (2048, 1)])
def test_fewer_buckets_that_divide_the_number_are_counted_exactly(before: int, after: int) -> None:
    keys = np.random.default_rng(1).integers(0, 2**63, 30_000).astype(np.uint64)
    told = Histogram([], [], np.bincount(bucket_of(keys, before), minlength=before))
    expected = np.bincount(bucket_of(keys, after), minlength=after)
    assert rebucketed(told, after, 0).tail.tolist() == expected.tolist()


@pytest.mark.parametrize(("before", "after"), [(204, 208), (208, 204), (3, 7), (7, 3), (1, 5)])
def test_other_buckets_get_their_overlap(before: int, after: int) -> None:
    tail = np.random.default_rng(2).integers(0, 100, before)
    found = rebucketed(Histogram([5], [9], tail), after, 0)
    assert found.keys.tolist() == [5]
    assert int(found.tail.sum()) == int(tail.sum())
    for j in range(after):  # by the definition: the overlap of two ranges
        low, high = j / after, (j + 1) / after
        expected = sum(
            weight * max(0.0, min(high, (i + 1) / before) - max(low, i / before)) * before
            for i, weight in enumerate(tail.tolist())
        )
        assert abs(found.tail[j] - expected) <= 1.0
