"""The simulator's clock: against an oracle that goes from event to event, and in closed form."""

from __future__ import annotations

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
    for start, stop in zip(edges, edges[1:], strict=False):
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
