"""Windows by running totals equal windows that are added up anew."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.spark.running import Running, States, Sums
from tests.unit.multiset import Multiset

PANES = st.lists(
    st.tuples(st.integers(1, 60), st.sampled_from([b"a", b"b"]), st.integers(-9, 9) | st.none()),
    max_size=40,
    unique_by=lambda pane: pane[:2],
)


def anew(panes, size: int, slide: int, watermark: int) -> dict[tuple[int, bytes], list[object]]:
    found: dict[tuple[int, bytes], list[object]] = {}
    for end, key, value in panes:
        for last in range(-slide * 100 + size, watermark + 1, slide):
            if end <= last < end + size:
                found.setdefault((last, key), []).append(value)
    return found


@given(
    panes=PANES,
    steps=st.lists(st.integers(0, 25), min_size=1, max_size=8),
    shape=st.sampled_from([(10, 5), (12, 3), (10, 10), (15, 6), (7, 7), (9, 1)]),
)
@settings(max_examples=200, deadline=None)
def test_every_window_is_returned_once_with_the_sum_of_its_panes(panes, steps, shape) -> None:
    size, slide = shape
    windows = Running(Sums(["int"]), size, slide)
    given_, watermark, found = [], 0, []
    for step in [*steps, 100]:
        fresh = [p for p in panes if watermark < p[0] <= watermark + step]
        watermark += step
        for end, key, value in reversed(fresh):
            windows.add(end, key, (value,))
        given_ += fresh
        windows = Running(Sums(["int"]), size, slide).load(windows.dump())
        found += windows.advance(watermark)
        later = windows.next_end
        assert later is None or later > watermark
    known = {
        at: sum(v for v in values if v is not None) if set(values) != {None} else None
        for at, values in anew(given_, size, slide, watermark).items()
    }
    assert len(found) == len({(e.end, e.key) for e in found})
    assert {(e.end, e.key): e.values[0] for e in found} == known
    if watermark > 60 + size:
        assert not windows.keys


FLOATS = st.none() | st.floats(width=64)


@given(values=st.lists(FLOATS, min_size=1, max_size=30), n=st.integers(1, 29))
@settings(max_examples=300, deadline=None)
def test_floats_are_subtracted_without_a_trace(values, n) -> None:
    gone, stay = values[:n], values[n:]
    sums = Sums(["float"])
    total = None
    for value in values:
        total = sums.plus(total, (value,))
    for value in gone:
        total = sums.minus(total, (value,))
    (found,) = sums.write(total)
    known = [v for v in stay if v is not None]
    if not known:
        assert found is None
    elif all(map(math.isfinite, known)):
        exact = sum(map(Fraction, known))
        try:
            assert found == float(exact)
        except OverflowError:
            assert found == (math.inf if exact > 0 else -math.inf)
    else:
        assert repr(found) == repr(sum(v for v in known if not math.isfinite(v)))


def test_a_small_float_survives_a_large_one_that_came_and_left() -> None:
    windows = Running(Sums(["float"]), 2, 1)
    for end, value in ((1, 1e300), (2, 0.1), (3, 0.1)):
        windows.add(end, b"k", (value,))
    assert [each.values[0] for each in windows.advance(4)] == [1e300, 1e300, 0.2, 0.1]


def test_decimals_of_38_digits_are_exact() -> None:
    sums = Sums([4])
    large, small = Decimal("9999999999999999999999999999999999.9999"), Decimal("0.0001")
    total = sums.plus(sums.plus(None, (large,)), (small,))
    assert sums.write(sums.minus(total, (large,))) == (small,)
    assert sums.write(total) == (Decimal(10) ** 34,)


@given(parts=st.lists(st.lists(st.integers(0, 3), max_size=5), min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_states_with_a_subtract_slide_too(parts) -> None:
    aggregator = Multiset()
    windows = Running(States(aggregator, ["n", "counts"], ["n"], ["int"]), 3, 1)
    for end, part in enumerate(parts, start=1):
        windows.add(end, b"k", (len(part), Multiset.listed(Counter(part))))
    for each in windows.advance(100):
        inside = [v for part in parts[max(0, each.end - 3) : each.end] for v in part]
        n, counts = each.values
        assert (n, aggregator.finish({"n": n, "counts": counts})["values"]) == (
            len(inside),
            sorted(inside),
        )


@pytest.mark.parametrize(("size", "slide"), [(10, 5), (15, 6)])
def test_a_key_that_pauses_has_no_windows_in_between(size, slide) -> None:
    windows = Running(Sums(["int"]), size, slide)
    windows.add(3, b"k", (1,))
    windows.add(9_003, b"k", (2,))
    found = windows.advance(20_000)
    assert {each.values[0] for each in found} == {1, 2}
    assert len(found) <= 2 * -(-size // slide)
