"""Windows over panes that keep growing equal those of plain Python, whatever comes late."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skewless
from skewless.plain_values import decode, encode
from skewless.spark.pane_states import MERGES, PaneStates, Total
from skewless.spark.pane_windows import Clock, Held, PaneWindows, Spans
from tests.oracles import stream_windows as oracle
from tests.unit.multiset import Multiset

MS = 1_000


class Span(skewless.Aggregator):
    """A sum with an inverse beside a maximum without: windows are merged from their panes."""

    inputs = ("v",)
    state = "n bigint, total bigint, top bigint"
    result = "n bigint, total bigint, top bigint"
    merges = {"n": "sum", "total": "sum", "top": "max"}

    def create(self):
        return {"n": 0, "total": None, "top": None}

    def update(self, state, rows):
        values = [v for v in rows["v"].to_pylist() if v is not None]
        return {
            "n": rows.num_rows,
            "total": sum(values) if values else None,
            "top": max(values, default=None),
        }

    def finish(self, state):
        return state


def of_multiset(values):
    rows = pa.table({"v": pa.array(values, pa.int64())})
    state = Multiset().update(Multiset().create(), rows)
    return state["n"], state["counts"]


def of_span(values):
    known = [v for v in values if v is not None]
    return len(values), sum(known) if known else None, max(known, default=None)


KINDS = {
    "inverse": (PaneStates(Multiset(), ["n", "counts"], {"n": "int"}), of_multiset),
    "no inverse": (
        PaneStates(Span(), ["n", "total", "top"], {"n": "int", "total": "int"}),
        of_span,
    ),
}
ROWS = st.tuples(st.integers(1, 90), st.sampled_from("ab"), st.none() | st.integers(-4, 4))
BATCHES = st.lists(st.lists(ROWS, max_size=12), min_size=1, max_size=6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["append", "update"])
@given(
    batches=BATCHES,
    shape=st.sampled_from([(10, 4), (12, 12), (15, 6), (9, 3), (7, 1)]),
    delay=st.integers(0, 12),
    advance=st.integers(0, 30),
)
@settings(max_examples=120, deadline=None)
def test_each_batch_emits_the_windows_of_the_reference(
    kind, mode, batches, shape, delay, advance
) -> None:
    states, state_of = KINDS[kind]
    size, slide, pane = (n * MS for n in (*shape, math.gcd(*shape)))
    timed = [
        [((time + advance * i) * MS - 1, key, value) for time, key, value in rows]
        for i, rows in enumerate(batches)
    ]
    spans = Spans(size, slide, pane)
    windows = PaneWindows(states, spans)
    held: dict[str, Held] = {}
    expected = oracle.windows(timed, size, slide, delay * MS)
    clocks = oracle.clocks(timed, delay * MS)
    for (rows, at), (complete, updated) in zip(clocks, expected, strict=True):
        clock = Clock(at.late, at.now)
        parts: dict[str, dict[tuple[int, int], list]] = defaultdict(lambda: defaultdict(list))
        for number, (time, key, value) in enumerate(rows):
            end = time // pane * pane + pane
            if end > spans.needed_after(clock.late):
                parts[key][end, number % 2].append(value)  # two partial results of each pane
        found = {}
        for key in {*held, *parts}:
            fresh = [(end, state_of(values)) for (end, _), values in parts[key].items()]
            step = windows.complete if mode == "append" else windows.changed
            done, kept = step(held.get(key, Held()), fresh, clock)
            found.update({(end, key): state for end, state in done})
            due = windows.due(kept, clock)
            assert (due is None) == (not kept.panes)
            assert due is None or due > clock.now
            held[key] = kept
        wanted = complete if mode == "append" else updated
        assert found == {window: state_of(values) for window, values in wanted.items()}


@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(1, 8), st.floats(-1e12, 1e12) | st.just(1e300)), max_size=6),
        max_size=8,
    )
)
@settings(max_examples=80, deadline=None)
def test_a_running_total_of_floats_is_that_of_its_panes_to_the_last_digit(batches) -> None:
    class Sum(Span):
        state = "x double"
        merges = {"x": "sum"}

    states = PaneStates(Sum(), ["x"], {"x": "float"})
    windows = PaneWindows(states, Spans(6, 2, 2))
    held = Held()
    for i, rows in enumerate(batches):
        clock = Clock(4 * i - 4, 4 * i)
        needed = windows.spans.needed_after(clock.late)
        fresh = [(2 * (i + at), (x,)) for at, x in rows if 2 * (i + at) > needed]
        _, held = windows.complete(held, fresh, clock)
        inside = [Fraction(state[0]) for end, state in held.panes if end <= held.upto]
        assert (held.total is None) == (not inside)
        if held.total is not None:
            total = held.total
            total = Total(*decode(encode(tuple(total))))
            assert states.write(total)[0] == float(sum(inside))


@pytest.mark.parametrize(
    ("merge", "parts", "result"),
    [
        ("min", [None, 3, 2], 2),
        ("min", [math.nan, 1.0], 1.0),
        ("max", [1.0, math.inf], math.inf),
        ("max", ["é", "z"], "é"),
        ("min", [b"\xff", b"a"], b"a"),
        ("max", [[1, None], [1, 0]], [1, 0]),
        ("min", [{"a": 2, "b": 1}, {"a": 1, "b": 9}], {"a": 1, "b": 9}),
        ("bit_and", [6, None, 3], 2),
        ("bit_or", [6, 3], 7),
        ("bit_xor", [6, 3], 5),
        ("bool_and", [True, None, False], False),
        ("bool_or", [None, None], None),
        ("concat", [[1], [], [2, 2]], [1, 2, 2]),
    ],
)
def test_merges_by_name_are_those_of_spark(merge, parts, result) -> None:
    total = parts[0]
    for part in parts[1:]:
        total = MERGES[merge](total, part)
    assert total == result


def test_nan_is_the_largest_number() -> None:
    assert math.isnan(MERGES["max"](math.nan, 1e308))
    assert math.isnan(MERGES["max"](1e308, math.nan))
