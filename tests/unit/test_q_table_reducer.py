"""The reducer of cooperative Dalton alone: messages in, replies out."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from skewless.errors import DataError, ParameterError
from skewless.partitioners.q_table_reducer import QTableReducer, Sync, message_bytes


def sync(source, time, counts, rows=None, *, total=None, late=False, n_workers=2):
    """A SYNC with the counts of keys; `rows` has the Q of some of them."""
    rows = rows or {}
    keys = [*rows, *(key for key in counts if key not in rows)]
    return Sync(
        source,
        time,
        sum(counts.values()) if total is None else total,
        np.array(keys, np.uint64),
        np.array([counts.get(key, 0) for key in keys], np.int64),
        np.array(list(rows.values()), float).reshape(len(rows), n_workers),
        late,
    )


def answer(*messages, n_workers=2):
    reducer = QTableReducer(n_workers, len(messages), interval=10)
    replies = [reducer.receive(message) for message in messages]
    assert replies[:-1] == [None] * (len(messages) - 1)
    return replies[-1]


@pytest.mark.parametrize(
    ("counts", "total", "hot"),
    [
        ([{7: 3, 8: 2}, {7: 2, 9: 3}], 10, [7]),
        ([{7: 3, 8: 2}, {8: 3, 7: 2}], 10, [7, 8]),
        ([{7: 4}, {8: 4}], 10, []),
        ([{7: 5}, {}], 10, [7]),
        ([{2**64 - 1: 5}, {3: 5}], 10, [3, 2**64 - 1]),
        ([{7: 4}, {}], 9, []),
    ],
    ids=[
        "a key below the part of either source is hot by its sum",
        "two keys of half the load each, on two workers",
        "a key of one source alone is measured by the load of all",
        "exactly 1/n is hot",
        "keys come in ascending order, also above 2**63",
        "the part is not rounded down",
    ],
)
def test_hot_keys_are_those_with_1_nth_of_the_load_of_all(counts, total, hot):
    reply = answer(
        *(sync(j, 5, each, total=total // 2 + j % 2 * (total % 2)) for j, each in enumerate(counts))
    )
    assert reply.total == total
    assert reply.keys.tolist() == hot


@pytest.mark.parametrize(
    ("counts", "rows", "expected"),
    [
        ((6, 6), ([-0.5, -2], [-0.1, -2]), [-0.3, -2]),
        ((9, 3), ([-0.5, -2], [-0.1, -2]), [-0.4, -2]),
        ((6, 6), ([-0.3, -1], None), [-0.3, -1]),
        ((6, 6), (None, None), [-2, -2]),
        ((12, 0), ([-0.3, -1], [-0.9, -2]), [-0.3, -1]),
        ((7, 5), ([-0.1, -0.7], [-0.1, -0.7]), [-0.1, -0.7]),
    ],
    ids=[
        "equally frequent: the plain mean",
        "three to one",
        "a source without a row has no weight",
        "nobody has a row: a fresh one",
        "a source that did not see the key has no weight",
        "sources that agree keep what they have",
    ],
)
def test_rows_are_averaged_by_the_frequency_of_the_key(counts, rows, expected):
    messages = [
        sync(j, 5, {7: count}, {7: row} if row else {})
        for j, (count, row) in enumerate(zip(counts, rows, strict=True))
    ]
    reply = answer(*messages)
    assert reply.values[0] == pytest.approx(expected)
    if rows[0] == rows[1] or None in rows:
        assert reply.values[0].tolist() == expected


def test_at_most_n_keys_are_hot_whatever_the_sources_report():
    """Theorem 3.4, for the global table."""
    random = np.random.default_rng(1)
    for n_workers in (1, 3, 8):
        for _ in range(50):
            messages = [
                sync(
                    j,
                    5,
                    dict(
                        zip(
                            random.integers(0, 12, 12).tolist(),
                            random.integers(1, 40, 12).tolist(),
                            strict=True,
                        )
                    ),
                    n_workers=n_workers,
                )
                for j in range(3)
            ]
            assert len(answer(*messages, n_workers=n_workers).keys) <= n_workers


def test_rows_of_keys_that_are_not_hot_for_all_are_dropped():
    reply = answer(sync(0, 5, {7: 4, 8: 1}, {7: [-0.1, -0.2]}), sync(1, 5, {9: 20}))
    assert reply.keys.tolist() == [9]
    assert reply.values.tolist() == [[-2, -2]]


def test_the_order_in_which_messages_arrive_does_not_matter():
    messages = [sync(j, 5 + j, {7: 5 + j}, {7: [-0.1 * j - 0.1, -0.7]}) for j in range(3)]
    replies = []
    for order in ([0, 1, 2], [2, 0, 1]):
        reducer = QTableReducer(2, 3, interval=10)
        replies += [reply for j in order if (reply := reducer.receive(messages[j], 4))]
    assert [part.tolist() for part in replies[0][3:]] == [p.tolist() for p in replies[1][3:]]
    assert replies[0][:3] == replies[1][:3] == (11, 18, 10)


def test_a_reply_names_when_its_keys_expire():
    reducer = QTableReducer(2, 1, interval=10)
    reply = reducer.receive(sync(0, 100, {7: 5}), takes=6)
    assert reply is not None
    assert (reply.time, reply.expiry.tolist()) == (106, [126])


def rounds(reducer, steps):
    """Drive a single source, sending on time or as soon as it can; return the intervals."""
    sent, late, found = 0, False, []
    for takes in steps:
        reply = reducer.receive(sync(0, sent, {7: 1}, late=late), takes)
        late = reply.time > sent + reply.interval
        sent = max(sent + reply.interval, reply.time)
        found.append(reply.interval)
    return found


def test_the_interval_follows_the_reducers_time_as_in_figure_14b():
    """Time x1, x2, x4, x1 gives 10, 20, 40, 10 seconds, after a start from 20."""
    x1 = 6_000
    steps = [x1] * 6 + [2 * x1] * 6 + [4 * x1] * 6 + [x1] * 6
    found = rounds(QTableReducer(2, 1, interval=20_000), steps)
    assert [found[0], found[5], found[11], found[17], found[23]] == [
        20_000, 10_000, 20_000, 40_000, 10_000,
    ]  # fmt: skip
    # Nothing else in between: each change is one step that is kept, or two on the way down.
    assert [a for a, b in zip(found, [0, *found], strict=False) if a != b] == [
        20_000, 10_000, 20_000, 40_000, 20_000, 10_000,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "late", "takes", "last"),
    [
        ({"shortest": 3}, False, 0, 3),
        ({"shortest": 50}, False, 0, 20),
        ({}, False, 0, 1),
        ({}, True, 0, 64 * 20),
        ({"adaptive": False}, True, 0, 20),
        ({"adaptive": False}, False, 0, 20),
    ],
    ids=[
        "not below the shortest",
        "not below the first, if that is shorter",
        "not below 1",
        "not above 64 times the first",
        "fixed, though late",
        "fixed, though idle",
    ],
)
def test_the_interval_has_bounds(settings, late, takes, last):
    reducer = QTableReducer(2, 1, interval=20, **settings)
    for step in range(20):
        reply = reducer.receive(sync(0, 1000 * step, {7: 1}, late=late), takes)
    assert reply.interval == last


def test_one_request_to_double_outweighs_an_idle_reducer():
    reducer = QTableReducer(2, 2, interval=20)
    for time, late in ((0, False), (500, True)):
        reducer.receive(sync(0, time, {7: 1}, late=late))
        reply = reducer.receive(sync(1, time, {7: 1}))
    assert reply.interval == 40


def test_a_source_reports_once_a_round():
    reducer = QTableReducer(2, 2, interval=20)
    assert reducer.receive(sync(1, 0, {7: 1})) is None
    for source in (1, 2, -1):
        with pytest.raises(DataError, match=f"sources 0 to 1, got one more of {source}; send"):
            reducer.receive(sync(source, 0, {7: 1}))
    with pytest.raises(ParameterError, match="takes must be an int of at least 0, got -1"):
        reducer.receive(sync(0, 0, {7: 1}), -1)
    assert reducer.receive(sync(0, 0, {7: 1})) is not None


def test_a_round_that_has_begun_counts_as_state_and_survives_pickling():
    reducer = QTableReducer(2, 2, interval=20)
    first = sync(0, 0, {7: 3, 8: 1}, {7: [-0.1, -0.2]})
    reducer.receive(first)
    assert reducer.state_bytes == message_bytes(first) == 2 * 16 + 16
    revived = pickle.loads(pickle.dumps(reducer))  # noqa: S301 (our own bytes)
    reply = revived.receive(sync(1, 0, {7: 1}))
    assert reply.values.tolist() == [[-0.1, -0.2]]
    assert revived.state_bytes == 0


def test_a_bad_parameter_is_named():
    with pytest.raises(
        ParameterError, match="QTableReducer: interval must be an int of at least 1"
    ):
        QTableReducer(2, 2, interval=0)
