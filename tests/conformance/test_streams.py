"""Checks 1 to 8 and 10: what every policy must hold on any stream."""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import os
import pickle
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless import partitioners
from skewless.chunk import Chunk
from skewless.histogram import Histogram, bucket_of
from skewless.planners import Planner
from skewless.policy import policy_name
from skewless.routing import Routing
from tests.conformance.routes import digests
from tests.conformance.table import EVERY, PARAMETERS, POLICIES, partitioner
from tests.unit.workload_cases import CASES, assert_same, part_of, value_of

pytestmark = pytest.mark.jit_modes
ROOT = Path(__file__).parents[2]

SMALL = os.environ.get("NUMBA_DISABLE_JIT") == "1"
LONGEST = 60 if SMALL else 250
EXAMPLES = settings(max_examples=4 if SMALL else 15, deadline=None, derandomize=True)

#: Few keys that occur often, any other now and then; time stands still, walks, or jumps.
keys = st.sampled_from([0, 1, 2, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
steps = st.sampled_from([0, 0, 1, 1, 1, 2, 7]) | st.integers(0, 120)


@st.composite
def chunks(draw: st.DrawFn) -> Chunk:
    tuples = draw(st.lists(st.tuples(keys, steps), max_size=LONGEST))
    start = draw(st.integers(-100, 100))
    times = start + np.cumsum([step for _, step in tuples], dtype=np.int64)
    return Chunk(times, np.array([key for key, _ in tuples], np.uint64), np.arange(len(tuples)))


def every_policy(test: Any) -> Any:
    return pytest.mark.parametrize("name", POLICIES)(test)


def some_parameters(name: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from(PARAMETERS[name])


def with_one_worker(name: str) -> dict[str, Any]:
    return next(
        parameters
        for parameters in PARAMETERS[name]
        if partitioner(name, parameters).n_workers == 1
    )


@every_policy
@EXAMPLES
@given(st.data(), chunks())
def test_01_ids_are_int32_and_within_the_workers(name, data, chunk):
    policy = partitioner(name, data.draw(some_parameters(name)))
    empty = policy.route(chunk[:0])
    workers = policy.route(chunk)
    assert workers.dtype == np.int32
    assert empty.dtype == np.int32
    assert (len(workers), len(empty)) == (len(chunk), 0)
    assert ((workers >= 0) & (workers < policy.n_workers)).all()
    assert not partitioner(name, with_one_worker(name)).route(chunk).any()


@every_policy
@EXAMPLES
@given(st.data(), chunks(), st.lists(st.integers(0, LONGEST), max_size=6))
def test_02_splitting_a_stream_into_chunks_changes_nothing(name, data, chunk, cuts):
    parameters = data.draw(some_parameters(name))
    whole = partitioner(name, parameters).route(chunk)
    policy = partitioner(name, parameters)
    edges = [0, *sorted(min(cut, len(chunk)) for cut in cuts), len(chunk)]
    parts = [policy.route(chunk[a:b]) for a, b in itertools.pairwise(edges)]
    assert np.concatenate(parts).tolist() == whole.tolist()


@functools.cache
def digests_of_another_process() -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance.routes"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@every_policy
def test_03_the_same_seed_gives_the_same_routes_in_every_process(name):
    assert digests()[name] == digests_of_another_process()[name]


@every_policy
@EXAMPLES
@given(st.data(), chunks())
def test_04_inputs_are_only_read(name, data, chunk):
    parameters = data.draw(some_parameters(name))
    expected = partitioner(name, parameters).route(chunk)
    columns = [column.copy() for column in (chunk.time, chunk.key, chunk.value)]
    frozen = [column.copy() for column in columns]
    for column in frozen:
        column.flags.writeable = False
    assert partitioner(name, parameters).route(Chunk(*frozen)).tolist() == expected.tolist()
    for before, after in zip(columns, (chunk.time, chunk.key, chunk.value), strict=True):
        assert before.tolist() == after.tolist()


@every_policy
@EXAMPLES
@given(st.data(), chunks(), st.integers(0, LONGEST))
def test_05_pickling_amid_a_stream_equals_never_stopping(name, data, chunk, cut):
    parameters = data.draw(some_parameters(name))
    whole = partitioner(name, parameters).route(chunk)
    policy = partitioner(name, parameters)
    first = policy.route(chunk[:cut])
    revived = pickle.loads(pickle.dumps(policy))  # noqa: S301 - our own bytes
    rest = policy.route(chunk[cut:])
    assert [*first, *revived.route(chunk[cut:])] == whole.tolist()
    assert [*first, *rest] == whole.tolist()


def oracle(name: str, chunk: Chunk, parameters: dict[str, Any]) -> Any:
    """Ask ``tests/oracles/<name>.py``: a function `route`, or a class that routes a tuple."""
    module = importlib.import_module(f"tests.oracles.{name}")
    times, stream = chunk.time.tolist(), chunk.key.tolist()
    if hasattr(module, "route"):
        return module.route(stream, times, **parameters)
    parameters = dict(parameters)
    one = getattr(module, POLICIES[name].__name__)(parameters.pop("n_workers"), **parameters)
    return [one.route(time, key) for time, key in zip(times, stream, strict=True)]


@pytest.mark.parametrize(
    "name", [name for name in POLICIES if not issubclass(POLICIES[name], Planner)]
)
@EXAMPLES
@given(st.data(), chunks())
def test_06_routes_equal_the_oracle(name, data, chunk):
    parameters = data.draw(some_parameters(name))
    routes = partitioner(name, parameters).route(chunk).tolist()
    if name == "replanned":
        planner = parameters["planner"]
        parameters = {**planner.parameters(), "every": parameters["every"]}
    assert routes == oracle(name, chunk, parameters)


@pytest.mark.parametrize("name", [name for name in POLICIES if issubclass(POLICIES[name], Planner)])
@EXAMPLES
@given(st.data(), st.lists(chunks(), max_size=4))
def test_06_plans_equal_the_oracle(name, data, windows):
    parameters = data.draw(some_parameters(name))
    module = importlib.import_module(f"tests.oracles.{name}")
    planner = POLICIES[name](**parameters)
    assert isinstance(planner, Planner)
    routing, expected = None, None
    for window in windows:
        routing = planner.plan(Histogram.of(window), routing)
        expected = module.plan(Counter(window.key.tolist()), expected, **parameters)
        assert (routing.hot, routing.buckets.tolist()) == expected


@pytest.mark.parametrize("name", [name for name in POLICIES if not POLICIES[name].splits_keys])
@EXAMPLES
@given(st.data(), chunks())
def test_07_without_splitting_a_key_has_one_worker_between_moves(name, data, chunk):
    policy = partitioner(name, data.draw(some_parameters(name)))
    windows = chunk.time // EVERY if policy.moves_keys else np.zeros(len(chunk), np.int64)
    owners = defaultdict(set)
    for window, key, worker in zip(windows, chunk.key, policy.route(chunk), strict=True):
        owners[window, key].add(worker)
    assert all(len(workers) == 1 for workers in owners.values())


# A partitioner is condensed over tens of thousands of tuples: too slow for kernels in plain Python.
CONDENSED = [name for name in POLICIES if not (SMALL and POLICIES[name] in partitioners.ALL)]


def ownership(routing: Routing, histogram: Histogram) -> Counter[tuple[int, int]]:
    """Return the weight of each key on each worker."""
    owned: Counter[tuple[int, int]] = Counter()
    hot = routing.hot
    for key, count in zip(histogram.keys.tolist(), histogram.counts.tolist(), strict=True):
        owner = int(routing.buckets[bucket_of([key], len(routing.buckets), routing.seed)[0]])
        cold = (
            {owner: 1.0}
            if owner >= 0
            else dict.fromkeys(range(routing.n_workers), 1 / routing.n_workers)
        )
        for worker, share in hot.get(key, cold).items():
            owned[key, worker] = share * count
    return owned


@pytest.mark.parametrize("name", CONDENSED)
@settings(EXAMPLES, max_examples=6)
@given(st.data(), chunks(), chunks())
def test_08_moves_explain_every_change_of_ownership(name, data, first, second):
    policy = POLICIES[name](**data.draw(some_parameters(name)))
    before = policy.learn(Histogram.of(first), None)
    histogram = Histogram.of(second)
    after = policy.learn(histogram, before)
    moves = after.moves(before, histogram)
    owned, expected = ownership(before, histogram), ownership(after, histogram)
    hot = {*before.hot, *after.hot}
    for key, is_bucket, source, target, amount in zip(*moves, strict=True):
        if not is_bucket:
            owned[int(key), int(source)] -= amount
            owned[int(key), int(target)] += amount
            continue
        # All cold keys of the bucket go where the bucket goes.
        cold = [key for key in histogram.keys.tolist() if key not in hot]
        for other in cold:
            if bucket_of([other], len(after.buckets), after.seed)[0] == key:
                owned[other, int(target)] += owned.pop((other, int(source)), 0)
    for place in {*owned, *expected}:
        assert owned[place] == pytest.approx(expected[place], abs=1e-6)


#: Comparing all records with all takes too long here; tests/unit does it under every policy.
WORKLOADS = sorted(CASES.keys() - {"correlation_clustering"})


@every_policy
@EXAMPLES
@given(st.data(), chunks(), st.sampled_from(WORKLOADS))
def test_10_every_workload_gives_the_answer_of_a_single_worker(name, data, chunk, workload):
    policy, case = partitioner(name, data.draw(some_parameters(name))), CASES[workload]
    rng = np.random.default_rng(len(chunk))
    chunk = Chunk(chunk.time, chunk.key, value_of(case, rng, chunk.key, chunk.time))
    workers = policy.route(chunk)
    alone, whole = case.workload.start(), case.workload.start()
    alone.update(chunk)
    for worker in data.draw(st.permutations(np.unique(workers).tolist())):
        part = case.workload.start()
        part.update(part_of(chunk, np.flatnonzero(workers == worker)))
        whole.merge(part)
    assert_same(whole.answer().to_pylist(), alone.answer().to_pylist())


def test_the_names_are_the_policies_own():
    assert all(policy_name(cls) == name for name, cls in POLICIES.items())
