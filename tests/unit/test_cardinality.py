"""What CM, AM, CAM and LM have in common; what each claims for itself is in its own test file."""

from __future__ import annotations

import copy
import importlib
from collections import Counter

import numpy as np
import pytest

from skewless import partitioners
from skewless.chunk import Chunk
from skewless.datasets.generators import drifting, zipf
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram
from skewless.kernel import mix
from skewless.metrics import cardinalities, fragment_counts, fragments, gamma_bounds, loads
from skewless.partitioners import AM, CAM, CM, LM
from skewless.partitioners.cardinality import Settings, look_up, send, turn
from skewless.policy import policy_name

POLICIES = (CM, AM, CAM, LM)
X, Y, Z, NEW = 1, 2, 3, 4

#: Section 2.2: what the two workers hold, and what the aggregation makes of it.
WORKED = [{X: 12, Y: 123}, {X: 43, Y: 1, Z: 4}]
RESULT = {X: 55, Y: 124, Z: 4}


def stream_of(workers):
    rows = [(key, w) for w, held in enumerate(workers) for key in held for _ in range(held[key])]
    keys, at = zip(*rows, strict=True)
    return np.array(keys, np.uint64), np.array(at, np.int32)


def placed(policy, workers):
    """Put the tuples where the example has them, whatever the policy would decide."""
    settings = Settings(np.uint64(policy.n_workers), policy.window, np.uint64(policy.seed))
    choice = np.empty((2, policy.d), np.int64)
    for key, worker in zip(*stream_of(workers), strict=True):
        turn(policy.state, settings, 0, choice)
        mixed = np.uint64(mix(key, settings.seed))
        where = np.uint64(look_up(policy.state, settings, key, mixed, choice))
        send(policy.state, where, choice, choice[0].tolist().index(worker), False)
    return policy


def decision(policy, key):
    return int(copy.deepcopy(policy).route(Chunk([0], [key]))[0])


def first_candidate(key):
    return int(CM(2).route(Chunk(None, [key]))[0])


def test_the_worked_example_has_five_fragments_of_three_keys():
    keys, workers = stream_of(WORKED)
    assert loads(workers, 2).tolist() == [135, 48]
    assert cardinalities(keys, workers, 2).tolist() == [2, 3]
    assert fragments(keys, workers) == 5
    assert gamma_bounds(keys, 2) == (3, 6)
    assert sum((Counter(held) for held in WORKED), Counter()) == RESULT


@pytest.mark.parametrize("cardinality", ["exact", "hyper_log_log"])
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        # Worker 0 has 2 keys and 135 tuples, worker 1 has 3 keys and 48 tuples; both have X and Y.
        (CM(2), {X: 0, Y: 0, Z: 0, NEW: 0}),
        (AM(2), {X: "first", Y: "first", Z: 1, NEW: 0}),
        (CAM(2), {X: "first", Y: "first", Z: 1, NEW: 1}),
        # Scaled, worker 0 has load 1 and cardinality 0, worker 1 has load 0 and cardinality 1.
        (LM(2, p=0.4), {X: 0, Y: 0, Z: 0, NEW: 0}),
        (LM(2, p=0.6), {X: 1, Y: 1, Z: 1, NEW: 1}),
        (LM(2, p=0.5), {X: "first", Y: "first", Z: "first", NEW: "first"}),
    ],
    ids=repr,
)
def test_the_next_tuple_of_the_worked_example(policy, cardinality, expected):
    fresh = type(policy)(**{**policy.parameters(), "cardinality": cardinality})
    at_work = placed(fresh, WORKED)
    assert at_work.state.loads.window.tolist() == [135, 48]
    assert at_work.state.cardinality.tolist() == [2, 3]
    for key, worker in expected.items():
        wanted = first_candidate(key) if worker == "first" else worker
        assert decision(at_work, key) == wanted


@pytest.mark.parametrize("cls", partitioners.ALL)
@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.5])
def test_fragments_lie_between_the_keys_and_the_keys_times_the_workers(cls, exponent):
    """Proposition 1, in each of five windows."""
    policy = cls(8, window=2000) if issubclass(cls, POLICIES) else cls(8)
    keys = zipf(10_000, 2000, exponent, seed=3)
    workers = policy.route(Chunk(None, keys))
    for start in range(0, 10_000, 2000):
        window = slice(start, start + 2000)
        least, most = gamma_bounds(keys[window], 8)
        assert least <= fragments(keys[window], workers[window]) <= most


@pytest.mark.parametrize("cls", POLICIES)
@pytest.mark.parametrize("cardinality", ["exact", "hyper_log_log"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_key_has_at_most_d_workers_in_a_window(cls, cardinality, d):
    keys = zipf(6000, 300, 1.2, seed=5)
    policy = cls(8, d=d, window=3000, cardinality=cardinality)
    workers = policy.route(Chunk(None, keys))
    for window in slice(0, 3000), slice(3000, 6000):
        counts = fragment_counts(keys[window], workers[window])[1]
        assert counts.max() <= d


@pytest.mark.parametrize("cls", [AM, CAM])
@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize(("window", "slide"), [(2000, None), (2000, 250)])
def test_affinity_never_splits_a_key_within_a_window(cls, d, window, slide):
    keys = drifting(10_000, 800, 1.2, period=1500, n_hot=5)
    workers = cls(8, d=d, window=window, slide=slide).route(Chunk(None, keys))
    step = slide or window
    for end in range(window, 10_001, step):
        now = slice(end - window, end)
        assert fragments(keys[now], workers[now]) == gamma_bounds(keys[now], 8)[0]


@pytest.mark.parametrize("cls", POLICIES)
def test_loads_and_keys_of_a_sliding_window_are_exact_after_every_tuple(cls):
    rng = np.random.default_rng(1)
    time = np.cumsum(rng.choice([0, 1, 1, 2, 40, 900], 600, p=[0.3, 0.3, 0.2, 0.15, 0.04, 0.01]))
    keys = zipf(600, 60, 0.8, seed=4)
    policy = cls(5, window=100, slide=30)
    sent = []
    for t, key in zip(time.tolist(), keys.tolist(), strict=True):
        sent.append((t // 30, key, int(policy.route(Chunk([t], [key]))[0])))
        live = [(k, worker) for s, k, worker in sent if s > t // 30 - 4]
        at = np.array([worker for _, worker in live])
        assert policy.state.loads.window.tolist() == loads(at, 5).tolist()
        expected = cardinalities(np.array([k for k, _ in live], np.uint64), at, 5)
        assert policy.state.cardinality.tolist() == expected.tolist()


@pytest.mark.parametrize("cls", POLICIES)
@pytest.mark.parametrize("slide", [None, 40])
def test_every_route_of_a_longer_stream_equals_the_oracle(cls, slide):
    module = importlib.import_module(f"tests.oracles.{policy_name(cls)}")
    oracle = getattr(module, cls.__name__)(16, window=200, slide=slide, seed=1)
    keys = drifting(1500, 90, 1.1, period=400, n_hot=3)
    routes = cls(16, window=200, slide=slide, seed=1).route(Chunk(None, keys)).tolist()
    assert routes == [oracle.route(t, k) for t, k in enumerate(keys.tolist())]


@pytest.mark.parametrize("cls", POLICIES)
@pytest.mark.parametrize("slide", [None, 500])
def test_keys_that_left_the_window_leave_the_state(cls, slide):
    policy = cls(8, window=2000, slide=slide)
    for start in range(0, 400_000, 50_000):
        keys = np.arange(start, start + 50_000)
        policy.route(Chunk(keys, keys))
        assert policy.state_bytes <= policy.state_bytes_bound(2000)


@pytest.mark.parametrize("cls", POLICIES)
def test_with_hyper_log_log_the_state_does_not_grow_with_the_keys(cls):
    policy = cls(8, window=10**6, cardinality="hyper_log_log")
    before = policy.state_bytes
    policy.route(Chunk(None, np.arange(100_000)))
    assert policy.state_bytes == before <= policy.state_bytes_bound(1)
    assert before < 8 * 4200


@pytest.mark.parametrize("cls", [CM, LM])
def test_an_estimate_that_falls_where_the_formula_changes_leaves_no_trace_in_the_chunks(cls):
    """Some 10,000 keys a worker: the linear count ends there, and the raw estimate may be lower."""
    keys = np.arange(26_000)
    whole = cls(2, cardinality="hyper_log_log").route(Chunk(None, keys))
    policy = cls(2, cardinality="hyper_log_log")
    parts = [policy.route(Chunk(keys[i : i + 7], keys[i : i + 7])) for i in range(0, 26_000, 7)]
    assert (np.concatenate(parts) == whole).all()
    assert policy.state.cardinality.min() > 10_500


@pytest.mark.parametrize("cls", [AM, CAM])
@pytest.mark.parametrize("slide", [None, 1000])
def test_a_histogram_is_of_one_time_so_learning_from_it_splits_no_key(cls, slide):
    counts = Counter(zipf(20_000, 1000, 1.2, seed=2).tolist())
    policy = cls(8, slide=slide)
    policy.route(Chunk([10**6], [5]))
    for _ in range(2):
        routing = policy.learn(Histogram(list(counts), list(counts.values())))
        assert routing.extra_fragments == 0


@pytest.mark.parametrize("cls", POLICIES)
def test_parameters_that_contradict_each_other_are_told_apart(cls):
    with pytest.raises(ParameterError, match=rf"^{cls.__name__}: slide must be at most the window"):
        cls(8, window=10, slide=11)
    with pytest.raises(ParameterError, match=r"'exact' or 'hyper_log_log', got 'hll'\."):
        cls(8, cardinality="hll")
    with pytest.raises(ParameterError, match="cannot forget a key, got slide=5"):
        cls(8, window=10, slide=5, cardinality="hyper_log_log")
    assert cls(8, window=10, slide=10, cardinality="hyper_log_log").n_slides == 1


@pytest.mark.parametrize("cls", POLICIES)
def test_time_that_runs_backwards_is_an_error(cls):
    policy = cls(8)
    policy.route(Chunk([5], [1]))
    with pytest.raises(
        DataError, match=rf"^{cls.__name__}: time must not decrease .* got 4 after 5"
    ):
        policy.route(Chunk([4], [1]))
