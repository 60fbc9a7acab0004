"""What every ready-made aggregator must do, whatever it computes."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import numpy as np
import pyarrow as pa
import pytest

from skewless.spark import aggregators
from skewless.spark.aggregator import NATIVE_MERGES, Aggregator
from skewless.spark.aggregators.ddl import arrow_schema
from tests.unit.split_rows import run

EXAMPLES = [
    aggregators.Correlation("x", "y"),
    aggregators.DistinctCount("w"),
    aggregators.FollowCounts("w", "next", 2),
    aggregators.HeavyHitters("w", 3),
    aggregators.Moments("x"),
    aggregators.Quantiles("x", [0.5]),
    aggregators.TopK("w", 2, by="n"),
]
ROWS = {
    "x": pa.array([1.0, 2.0, None, 4.0, 5.5, 7.25]),
    "y": pa.array([1, 0, 3, None, 2, 2]),
    "w": pa.array(["a", "b", None, "a", "c", "c"]),
    "next": pa.array(["b", "a", "b", "b", None, "c"]),
    "n": pa.array([1, 2, 3, None, 5, 6]),
}
every = pytest.mark.parametrize("aggregator", EXAMPLES, ids=lambda a: type(a).__name__)


def test_each_is_listed_and_imported_when_asked_for():
    assert [type(a).__name__ for a in EXAMPLES] == sorted(aggregators.__all__)
    assert set(aggregators.__all__) <= set(dir(aggregators))
    with pytest.raises(AttributeError, match="no attribute 'Median'"):
        _ = aggregators.Median


def assert_close(found, expected) -> None:
    """Equal, but for the rounding of floats."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert_close(found[name], value)
    else:
        is_float = isinstance(expected, float)
        assert found == (pytest.approx(expected, rel=1e-12, abs=1e-12) if is_float else expected)


@every
def test_it_keeps_the_protocol_for_spark_to_check(aggregator):
    assert isinstance(aggregator, Aggregator)
    names = aggregator.state_schema.names
    assert arrow_schema(aggregator.state) == aggregator.state_schema
    assert arrow_schema(aggregator.result) == aggregator.result_schema
    assert set(aggregator.merges) <= set(names)
    assert set(aggregator.merges.values()) <= set(NATIVE_MERGES)
    assert set(aggregator.merges) < set(names), "the rest is merged in Python"
    assert list(aggregator.create()) == names
    assert pa.Table.from_pylist([aggregator.create()], schema=aggregator.state_schema)


@every
def test_a_copy_and_a_pickle_give_the_same_result(aggregator):
    expected = run(aggregator, list("kkkkll"), ROWS, 0)
    for other in (copy.copy(aggregator), pickle.loads(pickle.dumps(aggregator))):  # noqa: S301
        for seed in range(6):
            assert_close(run(other, list("kkkkll"), ROWS, seed), expected)


@every
def test_the_forms_for_one_key_agree_with_those_for_many(aggregator):
    rows = pa.table(ROWS).select(aggregator.inputs)
    state = aggregator.update(aggregator.update(aggregator.create(), rows[:2]), rows[2:])
    assert_close(aggregator.finish(state), run(aggregator, ["k"] * 6, ROWS, 0)["k"])
    parts = [aggregator.update(aggregator.create(), rows[i:j]) for i, j in ((0, 3), (3, 6))]
    there, back = aggregator.merge(*parts), aggregator.merge(*parts[::-1])
    assert_close(there, back)
    for name, how in aggregator.merges.items():
        assert how == "sum"
        there[name] = parts[0][name] + parts[1][name]
    assert_close(aggregator.finish(there), aggregator.finish(state))


@every
def test_groups_without_rows_and_no_groups_at_all(aggregator):
    rows = pa.table(ROWS).select(aggregator.inputs)
    nothing = aggregator.finish(aggregator.create())
    states = aggregator.update_groups(rows, np.array([0, 0, 6, 6]))
    found = aggregator.finish_groups(states.select(aggregator.state_schema.names))
    found = found.cast(aggregator.result_schema).to_pylist()
    assert found[0] == found[2] == nothing
    states = aggregator.update_groups(rows[:0], np.array([0]))
    assert states.num_rows == 0
    states = states.select(aggregator.state_schema.names).cast(aggregator.state_schema)
    assert aggregator.merge_groups(states, np.array([0])).num_rows == 0
    assert aggregator.finish_groups(states).num_rows == 0


@every
def test_inputs_stay_as_they_were_and_may_be_chunked_or_spelled_in_capitals(aggregator):
    rows = pa.table(ROWS).select(aggregator.inputs)
    expected = aggregator.update_groups(rows, np.array([0, 2, 6]))
    before = rows.to_pylist()
    chunked = pa.concat_tables([rows[:1], rows[1:4], rows[4:]])
    capitals = chunked.rename_columns([name.upper() for name in chunked.column_names])
    for other in (rows, chunked, capitals):
        assert aggregator.update_groups(other, np.array([0, 2, 6])).equals(expected)
    assert rows.to_pylist() == before


@every
def test_the_docstring_names_the_parameters_the_guarantee_the_cost_and_the_state(aggregator):
    text = inspect.getdoc(type(aggregator))
    for parameter in inspect.signature(type(aggregator)).parameters:
        assert re.search(rf"^{parameter} : ", text, re.MULTILINE), parameter
    for word in ("Result:", "Guarantee:", "Cost:", "State:", "Examples\n", ">>> "):
        assert word in text, word
