"""What the simulator counts: the policies' own decisions, and every tuple once."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless import planners, simulator
from skewless.chunk import Chunk
from skewless.costs import Costs
from skewless.datasets.generators import drifting, uniform, zipf
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram
from skewless.metrics import aggregation_cost, extra_fragments, loads
from skewless.partitioners import (
    PKG,
    CooperativeDalton,
    DAGreedy,
    DChoices,
    Hash,
    Shuffle,
    WChoices,
)
from skewless.planners import KIP, OffGreedy, Prompt, Replanned, WrapAround
from skewless.simulator import Source, Straggler, simulate
from skewless.simulator.sources import as_sources, interleaved
from tests.conformance.table import PARAMETERS, POLICIES, partitioner
from tests.oracles import simulator as oracle

KEYS = drifting(3_000, 200, 1.3, period=900, n_hot=5, seed=4)


def alone(policy, keys, times=None):
    return policy.route(Chunk(times, keys))


@pytest.mark.parametrize("name", POLICIES)
def test_the_loads_are_tuple_for_tuple_those_of_the_policy_alone(name):
    for parameters in PARAMETERS[name]:
        policy, twin = partitioner(name, parameters), partitioner(name, parameters)
        sources = int(getattr(policy, "sources", 1))
        found = simulate(
            KEYS, policy, window=600, slide=200, partitioners=sources, keep_workers=True
        )
        workers = alone(twin, KEYS)
        assert found.workers.tolist() == workers.tolist()
        n = twin.n_workers
        assert found.tuples_per_worker.tolist() == loads(workers, n).tolist()
        for pane in range(15):
            part = slice(200 * pane, 200 * (pane + 1))
            assert found.panes.loads[pane].tolist() == loads(workers[part], n).tolist()


@pytest.mark.parametrize("planner", planners.ALL)
def test_a_planner_is_driven_window_by_window(planner):
    found = simulate(KEYS, planner(8), window=900, slide=300, keep_workers=True)
    twin = Replanned(planner(8), every=300)
    assert found.workers.tolist() == alone(twin, KEYS).tolist()
    planned = found.panes.migration[:10]
    assert np.isnan(planned[0])
    assert ((planned[1:] >= 0) & (planned[1:] <= 1)).all()


@pytest.mark.parametrize("planner", planners.ALL)
def test_in_batches_a_planner_sees_each_batch_before_it_is_routed(planner):
    found = simulate(KEYS, planner(8), window=1_000, batch=500, keep_workers=True)
    previous, wanted = None, []
    for start in range(0, 3_000, 500):
        batch = KEYS[start : start + 500]
        previous = planner(8).plan(Histogram.of(batch), previous)
        wanted += previous.route(batch).tolist()
    assert found.workers.tolist() == wanted


def test_what_a_plan_moves_is_told_in_the_pane_that_it_begins_with():
    keys = np.repeat([7, 7], 100)
    found = simulate(keys, WrapAround(4), window=100)
    assert found.panes.migration.tolist()[1] == 0.75
    assert simulate(keys, Hash(4), window=100).summary().migration is not None
    assert math.isnan(simulate(keys, Hash(4), window=100).summary().migration)


def test_a_local_policy_sees_the_tuples_of_its_partitioner_only():
    found = simulate(KEYS, PKG(8), window=500, partitioners=3, local=True, keep_workers=True)
    wanted = np.empty(3_000, np.int32)
    for owner in range(3):
        times = np.arange(owner, 3_000, 3)
        wanted[owner::3] = alone(PKG(8), KEYS[owner::3], times)
    assert found.workers.tolist() == wanted.tolist()
    shared = simulate(KEYS, PKG(8), window=500, partitioners=3, keep_workers=True)
    assert shared.workers.tolist() == alone(PKG(8), KEYS).tolist()


def test_partitioners_may_have_different_policies():
    found = simulate(KEYS, [Hash(4), Shuffle(4)], window=500, partitioners=2, keep_workers=True)
    assert found.workers[::2].tolist() == alone(Hash(4), KEYS[::2]).tolist()
    assert found.workers[1::2].tolist() == [i % 4 for i in range(1_500)]


def test_each_of_as_many_partitioners_as_sources_has_its_own_source():
    slow, fast = np.full(100, 1, np.uint64), np.full(300, 2, np.uint64)
    found = simulate(
        [Source(slow, 1_000), Source(fast, 3_000)],
        Shuffle(2),
        window=100,
        partitioners=2,
        local=True,
    )
    assert found.panes.routed.sum(axis=0).tolist() == [100, 300]
    assert found.panes.routed[1].tolist() == [25, 75]


def test_cooperating_partitioners_take_tuples_in_turn_whoever_sent_them():
    halves = [Source(KEYS[:1_500], 1_000), Source(KEYS[1_500:], 1_000)]
    stream = np.stack((KEYS[:1_500], KEYS[1_500:])).T.ravel()
    policy = CooperativeDalton(8, sources=2, window=600, slide=200)
    found = simulate(halves, policy, window=600, partitioners=2, keep_workers=True)
    assert found.workers.tolist() == alone(policy, stream).tolist()


def test_the_policy_that_was_given_is_not_changed():
    policy = PKG(4)
    first = simulate(KEYS, policy, window=500).tuples_per_worker
    assert simulate(KEYS, policy, window=500).tuples_per_worker.tolist() == first.tolist()
    assert alone(policy, KEYS[:100]).tolist() == alone(PKG(4), KEYS[:100]).tolist()


# -- conservation --------------------------------------------------------------------------------------


@st.composite
def streams(draw):
    n = draw(st.integers(1, 120))
    keys = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    steps = draw(st.lists(st.sampled_from([0, 0, 1, 3, 40]), min_size=n, max_size=n))
    times = np.cumsum(steps) + draw(st.integers(-50, 50))
    return Chunk(times, keys)


@pytest.mark.jit_modes
@settings(max_examples=60, deadline=None)
@given(
    stream=streams(),
    n=st.integers(1, 5),
    reducers=st.integers(1, 3),
    slide=st.integers(1, 12),
    panes=st.integers(1, 4),
    forwarding=st.booleans(),
    batches=st.booleans(),
)
def test_panes_and_windows_hold_what_the_oracle_counts(
    stream, n, reducers, slide, panes, forwarding, batches
):
    window = slide * panes
    found = simulate(
        stream,
        Shuffle(n),
        window=window,
        slide=slide,
        batch=slide if batches else None,
        clock="data",
        reducers=reducers,
        forwarding=forwarding,
        keep_workers=True,
        seed=9,
    )
    pairs = list(zip(stream.key.tolist(), found.workers.tolist(), strict=True))
    dated = list(zip(stream.time.tolist(), pairs, strict=True))
    by_pane = oracle.windows_of(dated, slide, slide)
    by_window = oracle.windows_of(dated, window, slide)
    got = found.panes
    for row, number in enumerate(got.number.tolist()):
        wanted = oracle.count(
            by_pane.get((number + 1) * slide, []), n, reducers, forwarding, seed=9
        )
        assert got.loads[row].tolist() == wanted.loads
        assert got.merged[row].tolist() == wanted.merged
        assert (got.keys[row], got.split_keys[row]) == (wanted.keys, wanted.split_keys)
        assert got.fragments[row] == wanted.fragments
    shown = found.windows
    for row, number in enumerate(shown.last.tolist()):
        wanted = oracle.count(
            by_window.pop((number + 1) * slide, []), n, reducers, forwarding, seed=9
        )
        assert shown.tuples[row] == sum(wanted.loads)
        assert (shown.keys[row], shown.fragments[row]) == (wanted.keys, wanted.fragments)
        assert shown.imbalance[row] == pytest.approx(max(wanted.loads) - sum(wanted.loads) / n)
    assert not by_window
    # Laws that need no oracle.
    assert got.loads.sum() == got.routed.sum() == len(stream) == found.tuples_per_worker.sum()
    assert shown.tuples.sum() == len(stream) * panes
    assert ((got.keys <= got.fragments) & (got.fragments <= n * got.keys)).all()
    sent = got.merged.sum(axis=1)
    assert (sent == (got.fragments - (got.keys - got.split_keys) * forwarding)).all()
    assert (np.diff(got.out_s) >= 0).all()
    assert (got.out_s >= got.end_s).all()


def test_the_tables_grow_and_forget_what_no_window_holds():
    keys = uniform(60_000, 2**40, seed=2)
    keys[::3] = keys[0]
    found = simulate(keys, Shuffle(7), window=6_000, slide=2_000, keep_workers=True)
    pairs = list(zip(keys.tolist(), found.workers.tolist(), strict=True))
    for row in (0, 1, 5, 29):
        part = pairs[max(0, (row - 2) * 2_000) : (row + 1) * 2_000]
        assert found.windows.keys[row] == len({key for key, _ in part})
        assert found.windows.fragments[row] == len(set(part))
    assert found.windows.full.tolist() == [False] * 2 + [True] * 28 + [False] * 2


def test_batches_that_are_shorter_than_a_slide_are_added_up_to_windows():
    found = simulate(KEYS, Shuffle(4), window=1_200, slide=600, batch=200, keep_workers=True)
    assert found.panes.number.tolist() == list(range(15 + 5))
    assert found.windows.last.tolist() == [2, 5, 8, 11, 14, 17]
    assert found.windows.tuples.tolist() == [600, 1_200, 1_200, 1_200, 1_200, 600]
    pairs = list(zip(KEYS.tolist(), found.workers.tolist(), strict=True))
    assert found.windows.fragments[1] == len(set(pairs[:1_200]))
    assert found.windows.merged[1] == sum(
        len(set(pairs[i : i + 200])) for i in range(0, 1_200, 200)
    )


def test_a_window_that_the_stream_does_not_fill_does_not_count_as_full():
    found = simulate(KEYS[:2_500], Hash(4), window=1_000)
    assert found.windows.full.tolist() == [True, True, False]
    assert found.summary().windows == 2
    assert simulate(KEYS[:300], Hash(4), window=1_000).summary().windows == 1


def test_the_measures_of_a_window_are_those_of_the_module_of_measures():
    found = simulate(
        KEYS, PKG(8), window=500, reducers=3, forwarding=False, keep_workers=True, seed=5
    )
    for row in range(6):
        part = slice(500 * row, 500 * (row + 1))
        keys, workers = KEYS[part], found.workers[part]
        assert found.windows.busiest_merge[row] == aggregation_cost(keys, workers, 3, seed=5)
        extra = found.windows.fragments[row] - found.windows.keys[row]
        assert extra == extra_fragments(keys, workers)


# -- the result ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [None, 250])
def test_the_same_seed_gives_the_same_result_and_it_is_json(batch):
    def run():
        policy = DAGreedy(16, window=1_000, slide=250, seed=3)
        return simulate(
            [Source(KEYS, 500), Source(KEYS[::-1], 700)],
            policy,
            window=1_000,
            slide=250,
            batch=batch,
            clock="arrival",
            partitioners=3,
            local=True,
            reducers=2,
        ).to_dict()

    first = run()
    assert first == run()
    assert json.loads(json.dumps(first, allow_nan=False)) == first
    assert first["summary"]["tuples"] == 6_000


def test_a_generator_of_chunks_gives_what_the_whole_array_gives():
    parts = (Chunk(None, KEYS[at : at + 7]) for at in range(0, 3_000, 7))
    piecewise = simulate(Source(parts, 2_000), WChoices(8), window=500)
    whole = simulate(Source(KEYS, 2_000), WChoices(8), window=500)
    assert piecewise.to_dict() == whole.to_dict()


def test_bytes_are_rows_and_the_states_that_are_merged():
    found = simulate(
        np.repeat([1, 2], 50), Shuffle(2), window=100, row_bytes=10, state_bytes=1_000
    ).summary()
    assert found.shipped_bytes == 100 * 10 + 4 * 1_000
    assert (found.states, found.states_bytes, found.policy_bytes) == (4, 4_000, 8)


def test_progress_is_told_tuple_by_tuple_of_what_is_done():
    done = []
    simulate(np.arange(200_000), Hash(2), progress=done.append)
    assert sum(done) == 200_000
    assert len(done) > 1


def test_sources_are_put_together_in_the_order_in_which_their_tuples_are_due():
    rng = np.random.default_rng(1)
    sources = [
        Source([rng.integers(0, 9, size) for size in sizes], rate)
        for sizes, rate in (((5, 70, 2), 300.0), ((90,), 100.0), ((1, 1, 1), 7.0))
    ]
    blocks = list(interleaved(sources, 3, clock="arrival", in_turn=False))
    due = np.concatenate([block.due_us for block in blocks])
    owner = np.concatenate([block.owner for block in blocks])
    wanted = sorted(
        (i * (1e6 / rate), number)
        for number, (n, rate) in enumerate(((77, 300.0), (90, 100.0), (3, 7.0)))
        for i in range(n)
    )
    assert list(zip(due.tolist(), owner.tolist(), strict=True)) == wanted
    assert np.concatenate([b.time for b in blocks]).tolist() == [int(at // 1e3) for at, _ in wanted]


# -- errors --------------------------------------------------------------------------------------------

BAD = [
    ({"window": 0}, "simulate: window must be an int of at least 1, got 0."),
    ({"slide": 0}, "simulate: slide must be an int of at least 1, got 0."),
    ({"batch": -1}, "simulate: batch must be an int of at least 1, got -1."),
    ({"window": 100, "slide": 30}, "simulate: window must be a multiple of slide, got 100 and 30"),
    ({"window": 100, "batch": 30}, "simulate: slide must be a multiple of batch, got 100 and 30"),
    ({"clock": "wall"}, "simulate: clock must be one of count, arrival, data, got 'wall'."),
    ({"clock": 3}, "simulate: clock must be a str, got 3."),
    ({"clock": "arrival"}, "simulate: clock='arrival' needs sources with a rate"),
    ({"partitioners": 0}, "simulate: partitioners must be an int of at least 1, got 0."),
    ({"local": 1}, "simulate: local must be a bool, got 1."),
    ({"reducers": 0}, "simulate: reducers must be an int of at least 1, got 0."),
    ({"forwarding": "yes"}, "simulate: forwarding must be a bool, got 'yes'."),
    ({"costs": 3.0}, "simulate: costs must be a Costs, got 3.0."),
    ({"costs": Costs(merge_us=-1.0)}, "simulate: costs.merge_us must be finite"),
    ({"costs": Costs(route_us=math.inf)}, "simulate: costs.route_us must be finite"),
    ({"stragglers": [Straggler(9, 2.0)]}, "must be one of the workers 0 to 3, got 9."),
    ({"stragglers": [(0, 2.0)]}, "simulate: stragglers must be Straggler objects, got (0, 2.0)"),
    ({"queue": 0}, "simulate: queue must be an int of at least 1, got 0."),
    ({"in_flight": 0}, "simulate: in_flight must be an int of at least 1, got 0."),
    ({"row_bytes": 0}, "simulate: row_bytes must be an int of at least 1, got 0."),
    ({"state_bytes": 0}, "simulate: state_bytes must be an int of at least 1, got 0."),
    ({"keep_workers": None}, "simulate: keep_workers must be a bool, got None."),
    ({"seed": -1}, "simulate: seed must be an int in [0, 9223372036854775807], got -1."),
]


@pytest.mark.parametrize(("given", "sentence"), BAD)
def test_a_bad_parameter_raises_the_sentence_that_names_it(given, sentence):
    with pytest.raises(ParameterError) as error:
        simulate(KEYS, Hash(4), **given)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("hash", "simulate: every policy must be one such as PKG(64), got 'h'."),
        ([], "simulate: policy must be a policy such as PKG(64)"),
        (None, "simulate: policy must be a policy such as PKG(64)"),
        ([Hash(4)], "simulate: partitioners=2, but there are 1 policies"),
        ([Hash(4), Hash(5)], "simulate: all policies must have the same workers, got [4, 5]."),
        (CooperativeDalton(4, sources=3), "simulate: CooperativeDalton plays 3 sources itself"),
    ],
)
def test_policies_that_do_not_go_with_the_partitioners_are_refused(policy, sentence):
    with pytest.raises(ParameterError) as error:
        simulate(KEYS, policy, partitioners=2)
    assert sentence in str(error.value)


def test_streams_that_cannot_be_used_are_refused():
    with pytest.raises(DataError, match="holds no tuple"):
        simulate(np.empty(0, np.uint64), Hash(4))
    with pytest.raises(DataError, match="data must be an array of key hashes"):
        simulate("words", Hash(4))
    with pytest.raises(DataError, match="must be a one-dimensional array of integers"):
        simulate(np.array([0.5]), Hash(4))
    halves = [Source(Chunk([50, 60], [1, 2]), 5), Source(Chunk([0, 5], [1, 2]), 5)]
    with pytest.raises(DataError, match="run backwards"):
        simulate(halves, Hash(4), clock="data")
    once = Source(iter([np.arange(5)]))
    simulate(once, Hash(4))
    with pytest.raises(DataError, match="was read to its end"):
        simulate(once, Hash(4))


def test_sources_that_do_not_go_together_are_refused():
    one = Source([1], 5)
    for sources, sentence in (
        ([one, one], "each source must be an object of its own"),
        ([one, Source([1])], "either all sources have a rate or none"),
        ([], "at least one source"),
        (None, "at least one source"),
    ):
        with pytest.raises(ParameterError, match=sentence):
            as_sources(sources)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Source([1], 0), "Source: rate must be tuples per second above 0"),
        (lambda: Source([1], True), "Source: rate must be tuples per second above 0"),
        (lambda: Source([1], math.inf), "Constant: per_s must be finite, got inf."),
        (lambda: simulator.Constant(-1), "Constant: per_s must be a float above 0, got -1."),
        (lambda: simulator.Stepped([]), "Stepped: steps must be finite and begin at second 0"),
        (lambda: simulator.Stepped([(1, 5)]), "Stepped: steps must be finite and begin"),
        (lambda: simulator.Stepped([(0, 5), (0, 6)]), "Stepped: seconds must ascend"),
        (lambda: simulator.Stepped([(0, 5), (1, 0)]), "Stepped: seconds must ascend"),
        (lambda: simulator.Stepped([5]), "Stepped: steps must be pairs"),
        (lambda: simulator.Sinusoidal(5, 6, 1), "Sinusoidal: amplitude must be at most the mean"),
        (lambda: simulator.Sinusoidal(0, 0, 1), "Sinusoidal: mean must be a float above 0"),
        (lambda: simulator.Sinusoidal(1, 0, 0), "Sinusoidal: period_s must be a float above 0"),
        (lambda: Straggler(-1, 2.0), "Straggler: worker must be an int of at least 0, got -1."),
        (lambda: Straggler(0, 0.0), "Straggler: factor must be a float above 0, got 0.0."),
        (lambda: Straggler(0, 2.0, -1), "Straggler: start_s must be a float of at least 0"),
        (lambda: Straggler(0, 2.0, 5, 5), "Straggler: stop_s must be above start_s of 5, got 5."),
    ],
)
def test_a_bad_source_rate_or_straggler_raises_the_sentence_that_names_it(make, sentence):
    with pytest.raises(ParameterError) as error:
        make()
    assert sentence in str(error.value)


# -- what the papers say -------------------------------------------------------------------------------


def test_on_skew_splitting_sustains_more_than_hashing_and_on_uniform_keys_less_than_it():
    def throughput(keys, policy):
        return simulate(keys, policy, window=20_000, reducers=2).summary().throughput

    skewed, even = zipf(100_000, 10_000, 1.5, seed=1), uniform(100_000, 10_000, seed=1)
    assert throughput(skewed, WChoices(16)) > 3 * throughput(skewed, Hash(16))
    assert throughput(even, Hash(16)) > 3 * throughput(even, Shuffle(16))


def test_prompt_plans_each_batch_better_than_what_decides_tuple_by_tuple():
    keys = zipf(50_000, 2_000, 1.5, seed=2)
    found = {
        type(p).__name__: simulate(keys, p, window=10_000, batch=10_000).summary()
        for p in (Prompt(16), PKG(16), Hash(16), DChoices(16), OffGreedy(16), KIP(16))
    }
    assert found["Prompt"].max_over_mean < 1.01
    assert all(other.throughput <= found["Prompt"].throughput for name, other in found.items())
