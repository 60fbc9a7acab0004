"""The simulator's clock: against an oracle that goes from event to event, and in closed form."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.costs import Costs
from skewless.partitioners import PKG, Hash, Shuffle
from skewless.simulator import Sinusoidal, Source, Stepped, Straggler, simulate
from skewless.simulator.queues import TupleQueues
from skewless.simulator.stragglers import spans_of
from tests.oracles import simulator as oracle

#: Binary fractions, so that both sides add without rounding.
ROUTE = st.sampled_from([0.125, 0.25, 0.5, 1.0, 2.0])
WORK = st.sampled_from([0.25, 0.5, 1.0, 1.75, 4.0])
MERGE = st.sampled_from([0.0, 0.5, 3.0, 16.0])


@st.composite
def systems(draw):
    partitioners, workers = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    n = draw(st.integers(1, 60))
    steps = draw(st.lists(st.sampled_from([0.0, 0.25, 1.0, 6.0]), min_size=n, max_size=n))
    pane_of = np.cumsum(draw(st.lists(st.integers(0, 15), min_size=n, max_size=n))) // 10
    pane_of -= pane_of[0]
    due = np.cumsum(steps)
    tuples = [
        oracle.Tuple(
            float(due[i]),
            int(pane_of[i]),
            draw(st.integers(0, workers - 1)),
            draw(st.integers(0, partitioners - 1)),
        )
        for i in range(n)
    ]
    panes = int(pane_of[-1]) + 1
    reducers = draw(st.integers(1, 3))
    merge = [[draw(MERGE) for _ in range(reducers)] for _ in range(panes)]
    spans = draw(
        st.lists(
            st.builds(
                Straggler,
                st.integers(0, workers - 1),
                st.sampled_from([0.5, 2.0, 4.0]),
                st.sampled_from([0.0, 8e-6, 16e-6]),
                st.sampled_from([24e-6, 32e-6, math.inf]),
            ),
            max_size=2,
        )
    )
    return tuples, panes, merge, partitioners, workers, spans


def run_queues(tuples, ends, merge, cuts, *, saturated, workers, spans, partitioners, **setting):
    queues = TupleQueues(
        workers,
        len(merge[0]),
        partitioners,
        queue=setting["queue"],
        in_flight=setting["in_flight"],
        route_us=setting["route"],
        work_us=setting["work"],
        spans=spans_of(spans, workers),
        saturated=saturated,
    )
    loads = np.zeros(workers, np.int64)
    closed = 0
    edges = [0, *sorted({c for c in cuts if 0 < c < len(tuples)}), len(tuples)]
    for start, stop in itertools.pairwise(edges):
        part = tuples[start:stop]
        for pane in range(closed, part[-1].pane):
            queues.close(pane, loads, np.array(merge[pane]), ends[pane])
            closed = pane + 1
        queues.feed(
            np.array([0.0 if saturated else t.due for t in part]),
            np.array([t.worker for t in part], np.int32),
            np.array([t.pane for t in part], np.int64),
            np.array([t.owner for t in part], np.int32),
        )
    for pane in range(closed, len(merge)):
        queues.close(pane, loads, np.array(merge[pane]), ends[pane])
    queues.finish()
    return queues.times


@settings(max_examples=150, deadline=None)
@given(
    systems(),
    ROUTE,
    WORK,
    st.integers(1, 5),
    st.integers(1, 3),
    st.booleans(),
    st.lists(st.integers(1, 59), max_size=4),
)
def test_every_pane_ends_and_is_out_at_the_moment_that_the_oracle_says(
    system, route, work, queue, in_flight, saturated, cuts
):
    tuples, panes, merge, partitioners, workers, spans = system
    last_due = [max([t.due for t in tuples if t.pane <= pane]) for pane in range(panes)]
    if saturated:
        tuples = [t._replace(due=0.0) for t in tuples]
        last_due = [0.0] * panes

    def factor(worker, now):
        product = 1.0
        for one in spans:
            if one.worker == worker and one.start_s * 1e6 <= now < one.stop_s * 1e6:
                product *= one.factor
        return product

    setting = {
        "partitioners": partitioners,
        "workers": workers,
        "queue": queue,
        "in_flight": in_flight,
        "route": route,
        "work": work,
    }
    held = {t.pane for t in tuples}
    wanted = oracle.tuple_at_a_time(
        tuples,
        [None if saturated and p in held else last_due[p] for p in range(panes)],
        merge,
        factor=factor,
        **setting,
    )
    found = run_queues(tuples, last_due, merge, cuts, saturated=saturated, spans=spans, **setting)
    assert found.waiting[:panes].tolist() == [0] * panes
    assert found.done_us[:panes].tolist() == wanted.done
    assert found.out_us[:panes].tolist() == wanted.out
    assert found.lag_us[:panes].tolist() == wanted.lag
    if saturated:
        full = [p for p in range(panes) if p in held]
        assert found.end_us[full].tolist() == [wanted.end[p] for p in full]


@pytest.mark.jit_modes
@pytest.mark.parametrize("saturated", [False, True])
def test_the_pieces_in_which_tuples_come_change_nothing(saturated):
    rng = np.random.default_rng(5)
    tuples = [
        oracle.Tuple(0.0 if saturated else i * 0.25, i // 60, int(worker), int(owner))
        for i, (worker, owner) in enumerate(
            zip(rng.integers(0, 3, 300), rng.choice(4, 300, p=[0.7, 0.1, 0.1, 0.1]), strict=True)
        )
    ]
    ends = [0.0 if saturated else tuples[60 * p + 59].due for p in range(5)]
    setting = {
        "workers": 3,
        "partitioners": 4,
        "queue": 3,
        "in_flight": 2,
        "route": 0.5,
        "work": 0.5,
    }
    merge = [[3.0, 1.0]] * 5
    whole, single = (
        run_queues(tuples, ends, merge, cuts, saturated=saturated, spans=[], **setting)
        for cuts in ([], range(300))
    )
    wanted = oracle.tuple_at_a_time(
        tuples, [None if saturated else end for end in ends], merge, **setting
    )
    assert single.out_us[:5].tolist() == whole.out_us[:5].tolist() == wanted.out
    assert single.lag_us[:5].tolist() == whole.lag_us[:5].tolist() == wanted.lag


@pytest.mark.parametrize("in_flight", [1, 2, 4])
@pytest.mark.parametrize("work", [0.25, 4.0])
def test_batches_are_out_at_the_moment_that_the_oracle_says(in_flight, work):
    keys = np.random.default_rng(3).integers(0, 12, 100).astype(np.uint64)
    rate, costs = 500_000.0, Costs(0.5, 0.0, work, 2.0)
    found = simulate(
        Source(keys, rate),
        PKG(3),
        window=20,
        batch=20,
        partitioners=2,
        reducers=2,
        in_flight=in_flight,
        costs=costs,
        keep_workers=True,
    )
    tuples = [
        oracle.Tuple(2.0 * i, i // 20, int(worker), i % 2) for i, worker in enumerate(found.workers)
    ]
    batches = [tuples[at : at + 20] for at in range(0, 100, 20)]
    merge = (found.panes.merged * 2.0).tolist()
    wanted = oracle.batch_at_a_time(
        batches,
        [batch[-1].due for batch in batches],
        merge,
        partitioners=2,
        workers=3,
        in_flight=in_flight,
        route=0.5,
        work=work,
    )
    assert (found.panes.out_s * 1e6).tolist() == pytest.approx(wanted, rel=1e-12)


# -- in closed form ------------------------------------------------------------------------------------


def test_a_system_without_load_is_as_late_as_a_tuple_takes_and_the_merge_of_its_fragments():
    keys = np.tile(np.arange(4), 25)  # each key is on all four workers of a shuffle that skips one
    found = simulate(
        Source(np.concatenate((keys, [9])), 1_000),
        Shuffle(3),
        window=101,
        costs=Costs(2.0, 3.0, 5.0, 7.0),
    )
    assert found.panes.merged.tolist() == [[12]]
    assert found.summary().latency_mean_s == pytest.approx((2 + 3 + 5 + 12 * 7) / 1e6)
    assert found.summary().lag_s == 0.0


def test_by_the_clock_a_window_waits_for_its_end_and_not_for_a_tuple():
    found = simulate(
        Source(np.zeros(10, np.uint64), 1_000),
        Shuffle(2),
        window=100,
        clock="arrival",
        costs=Costs(0.0, 0.0, 1.0, 5.0),
    )
    assert found.panes.end_s.tolist() == [0.1]
    assert found.panes.out_s.tolist() == pytest.approx([0.1 + 2 * 5e-6])


@pytest.mark.parametrize("factor", [0.5, 1.0, 4.0])
def test_one_worker_sustains_a_tuple_per_its_time_and_a_straggler_as_much_less(factor):
    found = simulate(
        np.zeros(5_000, np.uint64),
        Hash(1),
        window=1_000,
        costs=Costs(0.5, 1.0, 3.0, 0.0),
        stragglers=[Straggler(0, factor)],
    ).summary()
    assert found.throughput == pytest.approx(1e6 / (4 * factor))
    assert found.measured == pytest.approx(1e6 / (4 * factor), rel=1e-3)
    assert found.bottleneck == "combine"


def test_the_router_bounds_the_stream_if_it_is_slowest_and_a_second_one_doubles_it():
    keys, costs = np.arange(8_000), Costs(4.0, 0.0, 1.0, 0.0)
    one = simulate(keys, Shuffle(4), window=1_000, costs=costs).summary()
    two = simulate(keys, Shuffle(4), window=1_000, costs=costs, partitioners=2).summary()
    assert (one.bottleneck, two.bottleneck) == ("route", "route")
    assert one.throughput == pytest.approx(250_000)
    assert one.measured == pytest.approx(250_000, rel=1e-3)
    assert two.throughput == pytest.approx(500_000)
    assert two.measured == pytest.approx(500_000, rel=1e-3)


def test_shuffling_uniform_keys_is_as_fast_as_all_workers_together():
    found = simulate(
        np.arange(16_000), Shuffle(8), window=4_000, costs=Costs(0.0, 0.0, 2.0, 5.0)
    ).summary()
    assert found.throughput == pytest.approx(8 * 500_000)
    assert found.measured == pytest.approx(8 * 500_000, rel=1e-3)
    assert (found.max_over_mean, found.merged) == (1.0, 0.0)


def test_a_key_with_half_of_the_tuples_halves_what_hashing_sustains():
    keys = np.where(np.arange(10_000) % 2 == 0, 7, 0)  # two keys on one worker each
    costs = Costs(0.0, 0.0, 1.0, 5.0)
    found = simulate(keys, Hash(64), window=1_000, costs=costs)
    fullest = found.tuples_per_worker.max()
    assert found.summary().throughput == pytest.approx(1e6 * 10_000 / fullest)
    assert found.summary().measured == pytest.approx(1e6 * 10_000 / fullest, rel=1e-2)


def test_reducers_bound_the_stream_if_merging_is_dear_and_more_of_them_help():
    keys = np.repeat(np.arange(500), 8)  # each key on all of 8 workers
    costs = Costs(0.0, 0.0, 1.0, 5.0)
    one = simulate(keys, Shuffle(8), window=4_000, costs=costs).summary()
    assert one.bottleneck == "merge"
    assert one.throughput == pytest.approx(1e6 * 4_000 / (4_000 * 5))
    found = simulate(keys, Shuffle(8), window=4_000, costs=costs, reducers=4)
    assert found.panes.merged.sum() == 4_000
    assert found.summary().throughput == pytest.approx(1e6 * 4_000 / (found.panes.merged.max() * 5))


def test_a_batch_takes_what_its_slowest_combiner_takes_and_then_its_slowest_reducer():
    keys, costs = np.repeat(np.arange(250), 4), Costs(0.0, 0.0, 1.0, 2.0)
    found = simulate(
        np.tile(keys, 5), Shuffle(4), window=1_000, batch=1_000, costs=costs, in_flight=3
    ).summary()
    process_us = 250 + 1_000 * 2
    assert found.bottleneck == "process"
    assert found.throughput == pytest.approx(1e6 * 1_000 / process_us)
    assert found.measured == pytest.approx(1e6 * 1_000 / process_us, rel=1e-3)


@pytest.mark.parametrize("batch", [None, 500])
def test_what_is_due_faster_than_it_can_be_done_is_held_back_and_never_lost(batch):
    n, costs = 5_000, Costs(0.0, 0.0, 10.0, 0.0)
    found = simulate(
        Source(np.arange(n), 1_000_000), Shuffle(2), window=500, batch=batch, costs=costs, queue=4
    )
    assert found.tuples_per_worker.sum() == n
    assert found.summary().measured == pytest.approx(200_000, rel=0.02)
    # Due within 5 ms, done within 25. What does not fit into the queues waits at its source: all but 13
    # tuples, or all but two batches of 2.5 ms each.
    assert (19.9e-3 if batch is None else 15e-3) < found.summary().lag_s <= 20e-3
    assert (np.diff(found.panes.lag_s)[1:] > 0).all()
    assert (np.diff(found.panes.out_s) > 0).all()


def test_a_straggler_holds_its_windows_up_and_those_after_it_recover():
    found = simulate(
        Source(np.arange(40_000), 2_000_000),
        Shuffle(4),
        window=1_000,
        costs=Costs(0.0, 0.0, 1.0, 0.0),
        stragglers=[Straggler(2, 8.0, 5e-3, 7e-3)],
    )
    late = found.windows.latency_s
    during = (found.panes.end_s >= 5.5e-3) & (found.panes.end_s < 7e-3)
    assert late[during].min() > 100 * late[:9].max()
    assert late[-5:].max() < 1e-5
    assert found.panes.combine_s[during].tolist() == pytest.approx([8 * 250e-6] * during.sum())


def test_costs_and_factors_may_be_whole_numbers():
    found = [
        simulate(
            Source(np.arange(900), 5_000), Shuffle(3), window=300, costs=costs, stragglers=[slow]
        )
        for costs, slow in (
            (Costs(1, 2, 3, 4), Straggler(1, 4)),
            (Costs(1.0, 2.0, 3.0, 4.0), Straggler(1, 4.0)),
        )
    ]
    assert found[0].to_dict() == found[1].to_dict()
    assert found[0].panes.combine_s.tolist() == pytest.approx([100 * 5e-6 * 4] * 3)


# -- rates ---------------------------------------------------------------------------------------------


def test_the_steps_of_a_rate_give_the_tuples_that_they_say():
    due = Stepped([(0, 1_000), (2, 0), (3, 500)]).due_us(0, 2_600) / 1e6
    assert (due < 2).sum() == 2_000
    assert ((due >= 2) & (due < 3)).sum() == 0
    assert ((due >= 3) & (due < 4)).sum() == 500


def test_the_swing_of_a_rate_gives_the_integral_of_the_sine():
    mean, amplitude, period = 1_000.0, 900.0, 4.0
    due = Sinusoidal(mean, amplitude, period).due_us(0, 8_000) / 1e6
    come = mean * due + amplitude * period / (2 * math.pi) * (
        1 - np.cos(2 * math.pi * due / period)
    )
    assert come == pytest.approx(np.arange(8_000), abs=1e-6)
    assert (np.diff(due) > 0).all()
    tail = Sinusoidal(mean, amplitude, period).due_us(5_000, 100) / 1e6
    assert tail == pytest.approx(due[5_000:5_100])
