"""Bytes that hold values and no code: what goes in comes back, and nothing else can come out."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import DataError
from skewless.plain_values import arrays, decode, encode, pack, rebuilt, unpack


def unfolded(time: dt.datetime) -> dt.datetime:
    return time.replace(fold=0)  # Arrow has no fold


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False),
    st.dates(),
    st.datetimes().map(unfolded),
    st.datetimes(timezones=st.just(dt.timezone.utc)).map(unfolded),
    st.timedeltas(),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(st.text(), st.integers(), st.binary()), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(values)
def test_a_value_comes_back_with_its_types(value) -> None:
    found = decode(encode(value))
    assert found == value
    assert repr(found) == repr(value)


def test_what_json_has_no_words_for_comes_back_too() -> None:
    found = decode(encode((math.nan, math.inf, -math.inf, -0.0, 2**3000)))
    assert math.isnan(found[0])
    assert found[1:3] == (math.inf, -math.inf)
    assert math.copysign(1, found[3]) == -1
    assert found[4] == 2**3000


def test_numbers_of_numpy_become_plain_ones() -> None:
    value = {"n": np.int64(3), "x": np.float64(0.5), "all": np.arange(3), "b": np.bool_(True)}
    found = decode(encode(value))
    assert found == {"n": 3, "x": 0.5, "all": [0, 1, 2], "b": True}
    assert type(found["n"]) is int


class Own:
    """A class of a user's script."""


@pytest.mark.parametrize("value", [Own(), {"a": [Own()]}, {1, 2}, object, len])
def test_objects_of_other_classes_are_refused_with_their_type(value) -> None:
    with pytest.raises(DataError, match="which is no value of a Spark type"):
        encode(value)


@pytest.mark.parametrize(
    "content", [b'{"eval": "1"}', b'{"tuple": [1], "dict": []}', b"{}", b"[", pickle.dumps(Own)]
)
def test_what_was_not_encoded_here_makes_nothing(content) -> None:
    with pytest.raises((KeyError, ValueError)):
        decode(content)


class Inner(NamedTuple):
    a: np.ndarray
    b: int


class Outer(NamedTuple):
    keys: np.ndarray
    inner: Inner
    late: bool


def test_nested_arrays_come_back_writable_with_shapes_types_and_classes() -> None:
    tree = Outer(np.array([2**64 - 1, 0], np.uint64), Inner(np.arange(6.0).reshape(2, 3), 5), False)
    empty = Outer(np.empty(0, np.uint64), Inner(np.empty((0, 3)), 0), True)
    found = rebuilt(empty, iter(unpack(pack(arrays(tree)))))
    assert type(found) is Outer
    assert type(found.inner) is Inner
    assert np.array_equal(found.keys, tree.keys)
    assert found.keys.dtype == np.uint64
    assert np.array_equal(found.inner.a, tree.inner.a)
    assert (found.inner.b, found.late) == (5, False)
    assert type(found.late) is bool
    found.keys[0] = 1


def test_arrays_of_objects_are_refused_both_ways() -> None:
    with pytest.raises(DataError, match="only arrays of numbers"):
        pack([np.array([Own()])])
    with pytest.raises(DataError, match="only arrays of numbers"):
        pack([np.array(["text"])])
    whole = pack([np.arange(3)])
    for bad in (b"", whole[: len(whole) // 2], pickle.dumps([1]), b"x" * 100):
        with pytest.raises(DataError, match="no arrays of numbers"):
            unpack(bad)
