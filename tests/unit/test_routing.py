from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless import document, routing_tables
from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram, bucket_count, bucket_of
from skewless.routing import EVERY_WORKER, Routing
from tests.oracles.routing import Router, slots

SMALL = os.environ.get("NUMBA_DISABLE_JIT") == "1"
EXAMPLES = settings(max_examples=8 if SMALL else 60, deadline=None, derandomize=True)
N = 5
keys = st.integers(0, 2**64 - 1) | st.integers(0, 12)
shares = st.dictionaries(st.integers(0, N - 1), st.floats(0.01, 100), min_size=1)
hot = st.dictionaries(keys, shares, max_size=12)
owners = st.lists(st.integers(EVERY_WORKER, N - 1), min_size=1, max_size=9)
histograms = st.dictionaries(keys, st.integers(0, 1000), max_size=20)


def example() -> Routing:
    owner = np.arange(64) % 4
    return Routing(4, {7: {0: 0.5, 3: 0.5}, 2**64 - 1: {2: 1}, 9: {1: 3, 2: 1}}, owner, seed=5)


def weights(routing: Routing, histogram: Histogram) -> dict[tuple[bool, int, int], float]:
    """How much of each key and each bucket every worker owns."""
    owned: dict[tuple[bool, int, int], float] = {}
    table = routing.hot
    for key, count in zip(histogram.keys.tolist(), histogram.counts.tolist(), strict=True):
        bucket = int(bucket_of([key], len(routing.buckets), routing.seed)[0])
        for worker, share in (table.get(key) or routing._bucket_share(bucket)).items():
            owned[False, key, worker] = share * count
    return owned


# -- routing ---------------------------------------------------------------------------------------


@pytest.mark.jit_modes
@EXAMPLES
@given(hot, owners, st.lists(keys, max_size=60), st.integers(0, 3))
def test_routes_like_a_dictionary(table, owner, stream, seed):
    routing = Routing(N, table, owner, seed=seed)
    stream = [*stream, *list(table) * 3]
    router = Router(N, routing.hot, owner, seed)
    expected = [router.route(key) for key in stream]
    assert routing.route(stream).tolist() == expected
    turn, pieces = routing.turns(), np.array_split(np.array(stream, np.uint64), 3)
    parts = [routing.route(piece, turn=turn) for piece in pieces]
    assert np.concatenate(parts).tolist() == expected


@pytest.mark.jit_modes
@EXAMPLES
@given(hot, owners, st.lists(st.tuples(keys, st.integers(0, 2**63 - 1)), max_size=60))
def test_a_salt_picks_the_slot(table, owner, rows):
    routing = Routing(N, table, owner)
    salts = [salt for _, salt in rows]
    expected = []
    for key, salt in rows:
        if key in table:
            mine = slots(routing.hot[key])
            expected.append(mine[salt % len(mine)])
        else:
            worker = owner[int(bucket_of([key], len(owner))[0])]
            expected.append(worker if worker >= 0 else salt % N)
    assert routing.route([key for key, _ in rows], salt=salts).tolist() == expected


@pytest.mark.jit_modes
@EXAMPLES
@given(shares)
def test_a_split_key_is_dealt_in_its_shares_at_every_moment(share):
    routing = Routing(N, {1: share})
    exact = routing.hot[1]
    slot = 1 / 64
    dealt = routing.route([1] * 64 * len(share) * 2)
    for n_dealt in range(1, len(dealt) + 1, 7):
        for worker, part in exact.items():
            count = int((dealt[:n_dealt] == worker).sum())
            # Largest remainder is off by a slot; a share below a slot gets one, at their expense.
            small = sum(p < slot / len(share) for p in exact.values())
            drift = n_dealt * (1 + small) * slot / len(share)
            assert abs(count - part * n_dealt) <= drift + len(share)


def test_many_tiny_shares_get_a_slot_each_and_leave_the_rest_to_the_others():
    routing = Routing(64, {1: {0: 1e6} | dict.fromkeys(range(1, 64), 1.0)})
    dealt = np.bincount(routing.route([1] * len(routing.tables.slot)), minlength=64)
    assert (dealt[1:] == 1).all()
    assert dealt[0] >= 64 * 64 - 64


def test_thousands_of_hot_keys_are_found_without_a_collision():
    n = 200 if SMALL else 5000
    table = {key * 0x9E3779B97F4A7C15 % 2**64: {key % 8: 1.0} for key in range(n)}
    routing = Routing(8, table)
    stream = np.array(list(table), np.uint64)
    assert routing.route(stream).tolist() == [key % 8 for key in range(n)]
    cold = np.arange(10**6, 10**6 + n, dtype=np.uint64)
    assert (routing.route(cold) == Routing.hashing(8).route(cold)).all()


def test_plain_hashing_gives_each_worker_equally_many_buckets():
    for n_workers in (1, 3, 8, 1000):
        owned = np.bincount(Routing.hashing(n_workers).buckets)
        assert owned.tolist() == [bucket_count(n_workers) // n_workers] * n_workers


def test_shuffling_deals_everything_in_turn():
    assert Routing.shuffling(3).route([9, 9, 4, 9, 1]).tolist() == [0, 1, 2, 0, 1]


def test_an_empty_array_gives_an_empty_array_of_int32():
    for routing in (example(), Routing.hashing(1), Routing.shuffling(2)):
        out = routing.route(Chunk(None, []))
        assert out.dtype == np.int32
        assert len(out) == 0


# -- loads and moves -------------------------------------------------------------------------------


@pytest.mark.jit_modes
@EXAMPLES
@given(hot, owners, histograms, st.integers(0, 25), st.integers(0, 3))
def test_expected_loads_add_up_key_by_key(table, owner, counts, n_top, seed):
    routing = Routing(N, table, owner, seed=seed)
    histogram = Histogram.of(counts)
    loads = [0.0] * N
    for (_, _, worker), amount in weights(routing, histogram).items():
        loads[worker] += amount
    assert routing.loads(histogram) == pytest.approx(loads)
    # A tail hides which keys are hot, so only the weight of keys that are cold may hide in it.
    folded = Histogram.of({key: count for key, count in counts.items() if key not in table})
    folded = folded.top(n_top, len(owner), seed=seed)
    assert routing.loads(folded).sum() == pytest.approx(folded.total)


def test_expected_loads_of_shuffling_are_equal_whatever_the_tail():
    histogram = Histogram.of({1: 50, 2: 30, 3: 20}).top(1, 2048)
    assert Routing.shuffling(4).loads(histogram).tolist() == [25.0] * 4


@pytest.mark.jit_modes
@EXAMPLES
@given(hot, hot, owners, st.data(), histograms)
def test_moves_applied_to_the_old_owners_give_the_new_ones(old_hot, new_hot, owner, data, counts):
    other = data.draw(
        st.lists(st.integers(EVERY_WORKER, N - 1), min_size=len(owner), max_size=len(owner))
    )
    old, new = Routing(N, old_hot, owner), Routing(N, new_hot, other)
    histogram = Histogram.of(counts)
    moves = new.moves(old, histogram)
    owned, expected = weights(old, histogram), weights(new, histogram)
    before, after = np.zeros(N), np.zeros(N)
    hot_keys = {*old_hot, *new_hot}
    for (_, key, worker), amount in owned.items():
        if key in hot_keys:
            owned[False, key, worker] = amount
        before[worker] += amount
    for (_, _, worker), amount in expected.items():
        after[worker] += amount
    for key, is_bucket, source, target, amount in zip(*moves, strict=True):
        assert source != target
        before[source] -= amount
        before[target] += amount
        if not is_bucket:
            owned[False, int(key), int(source)] = (
                owned.get((False, int(key), int(source)), 0) - amount
            )
            owned[False, int(key), int(target)] = (
                owned.get((False, int(key), int(target)), 0) + amount
            )
    assert before == pytest.approx(after, abs=1e-6)
    for key in hot_keys & set(counts):
        for worker in range(N):
            place = (False, key, worker)
            assert owned.get(place, 0) == pytest.approx(expected.get(place, 0), abs=1e-6)
    assert set(moves.key[moves.is_bucket].tolist()) == set(
        np.flatnonzero(np.array(owner) != np.array(other)).tolist()
    )


def test_a_cold_key_that_becomes_hot_moves_from_its_bucket_with_its_own_weight():
    bucket = int(bucket_of([7], 2)[0])
    before, after = Routing(3, None, [0, 0]), Routing(3, {7: {2: 1.0}}, [0, 0])
    moves = after.moves(before, Histogram([7, 8], [40, 5]))
    assert (moves.key.tolist(), moves.amount.tolist()) == ([7], [40.0])
    back = before.moves(after, Histogram([7, 8], [40, 5]))
    assert (back.source.tolist(), back.target.tolist(), back.total) == ([2], [0], 40.0)
    # When its bucket moves as well, the key is not counted twice.
    owner = [0, 0]
    owner[bucket] = 1
    both = Routing(3, {7: {2: 1.0}}, owner).moves(before, Histogram([7], [40]))
    assert both.amount.tolist() == [40.0, 0.0]


def test_cold_keys_of_a_complete_histogram_move_with_their_bucket():
    before, after = Routing(2, None, [0, 0]), Routing(2, None, [1, 1])
    assert after.moves(before, Histogram([7, 8], [40, 5])).total == 45.0


def test_equal_routings_move_nothing():
    moves = example().moves(example(), Histogram([7, 9], [10, 10]))
    assert len(moves.key) == 0
    assert moves.total == 0.0


def test_routings_over_other_buckets_are_not_compared():
    with pytest.raises(DataError, match=r"cannot compare 64 buckets with seed 5 to 2048"):
        example().moves(Routing.hashing(4), Histogram([], []))


# -- construction ----------------------------------------------------------------------------------


@EXAMPLES
@given(hot, owners)
def test_arrays_in_any_order_make_the_same_routing_as_a_dictionary(table, owner):
    rows = [(key, worker, share) for key in table for worker, share in table[key].items()]
    rows.sort(key=lambda row: (row[2], row[1]))
    key, worker, share = ([row[i] for row in rows] for i in range(3))
    assert Routing.from_arrays(N, key, worker, share, owner) == Routing(N, table, owner)


def test_shares_are_scaled_and_read_back():
    assert example().hot == {7: {0: 0.5, 3: 0.5}, 9: {1: 0.75, 2: 0.25}, 2**64 - 1: {2: 1.0}}
    assert example().split_keys.tolist() == [7, 9]
    assert example().extra_fragments == 2


def test_equality_is_by_content():
    assert example() == example()
    assert hash(example()) == hash(example())
    assert example() != Routing(4, example().hot, example().buckets, seed=6)
    assert example() != "a routing"


BAD = [
    ("a share of zero", lambda: Routing(2, {1: {0: 0.0}}), "must be positive, got 0.0"),
    ("a share of nan", lambda: Routing(2, {1: {0: float("nan")}}), "must be positive, got nan"),
    ("no worker for a key", lambda: Routing(2, {1: {0: 1}, 5: {}}), "hot key 5 has no worker"),
    ("a worker too high", lambda: Routing(2, {1: {2: 1}}), "hot key is given to worker 2"),
    ("a negative worker", lambda: Routing(2, {1: {-1: 1}}), "hot key is given to worker -1"),
    ("a bucket's worker too high", lambda: Routing(2, None, [0, 2]), "bucket is given to worker 2"),
    (
        "an owner of 2**32",
        lambda: Routing(2, None, [2**32]),
        "bucket is given to worker 4294967296",
    ),
    ("an owner below every", lambda: Routing(2, None, [-2]), "bucket is given to worker -2"),
    ("no bucket", lambda: Routing(2, None, []), "must not be empty"),
    (
        "a pair twice",
        lambda: Routing.from_arrays(2, [1, 1], [0, 0], [1, 2]),
        "lists worker 0 twice",
    ),
    ("lengths differ", lambda: Routing.from_arrays(2, [1], [0, 0], [1]), "got 1, 2 and 1"),
    ("a negative salt", lambda: example().route([1], salt=[-1]), "non-negative int64 per tuple"),
    ("too few salts", lambda: example().route([1, 2], salt=[1]), "non-negative int64 per tuple"),
    ("a tail over other buckets", lambda: example().loads(Histogram([], [], [1])), "1 buckets"),
]


@pytest.mark.parametrize(("call", "words"), [r[1:] for r in BAD], ids=[r[0] for r in BAD])
def test_bad_routings_are_refused(call, words):
    with pytest.raises(DataError, match=words):
        call()


@pytest.mark.parametrize("n_workers", [0, -1, 2.0, "4"])
def test_n_workers_must_be_a_count(n_workers):
    with pytest.raises(ParameterError, match="n_workers must be an int of at least 1"):
        Routing(n_workers)


# -- files -----------------------------------------------------------------------------------------


@EXAMPLES
@given(hot, owners, st.integers(0, 2**63 - 1))
def test_files_bring_back_the_same_routing_bit_for_bit(tmp_path_factory, table, owner, seed):
    path = tmp_path_factory.mktemp("routing") / "policy.json"
    routing = Routing(N, table, owner, seed=seed)
    routing.save(path)
    loaded = Routing.load(path)
    assert loaded == routing
    assert loaded.shares.tobytes() == routing.shares.tobytes()
    assert [p.name for p in path.parent.iterdir()] == ["policy.json"]


def test_extra_values_come_back(tmp_path):
    routing, extra = Routing.parse(example().to_json(epoch=7, why=["skew"]).encode())
    assert routing == example()
    assert extra == {"epoch": 7, "why": ["skew"]}


def test_a_file_truncated_anywhere_is_refused(tmp_path):
    content = example().to_json().encode()
    path = tmp_path / "policy.json"
    for length in range(0, len(content) - 1, 97):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match=r"policy\.json"):
            Routing.load(path)


def test_a_file_with_one_bit_flipped_anywhere_is_refused():
    content = example().to_json().encode()
    for position in range(0, len(content), 7):
        for bit in (1, 4, 32, 128):
            damaged = bytearray(content)
            damaged[position] ^= bit
            with pytest.raises(DataError):
                Routing.parse(bytes(damaged))


def _document(**fields) -> bytes:
    return document.render(*document.ROUTING, {"routing": example()._content() | fields}).encode()


def _document_of(body: Any) -> bytes:
    return document.render(*document.ROUTING, body).encode()


FOREIGN = [
    ("empty", b"", "truncated"),
    ("binary", bytes(range(256)), "truncated"),
    ("another JSON file", b'{"a": 1}', "skewless.routing"),
    ("a JSON list", b"[1, 2]", "skewless.routing"),
    (
        "a newer version",
        document.render("skewless.routing", 2, {}).encode(),
        "format version 2, this release reads version 1; upgrade",
    ),
    ("another of our formats", document.render("skewless.other", 1, {}).encode(), "format"),
    ("no routing in it", document.render(*document.ROUTING, {"x": 1}).encode(), "lacks a field"),
    ("a routing of text", document.render(*document.ROUTING, {"routing": "x"}).encode(), "lacks"),
    ("a body that is a list", _document_of([1]), "altered"),
    ("negative shares", _document(shares=[-1.0] * 5), "impossible"),
    ("a worker too high", _document(workers=[9] * 5), "worker 9"),
    ("too few offsets", _document(offsets=[0, 1]), "impossible"),
    ("no workers", _document(n_workers=0), "n_workers"),
    ("keys out of range", _document(keys=[-1, 7, 9]), "impossible"),
]


@pytest.mark.parametrize(
    ("content", "words"), [r[1:] for r in FOREIGN], ids=[r[0] for r in FOREIGN]
)
def test_a_file_that_is_no_routing_is_refused(content, words):
    with pytest.raises(DataError, match=words):
        Routing.parse(content, "policy.json")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "policy.json"
    example().save(path)
    with pytest.raises(TypeError):
        example().save(path, unwritable=object())
    assert Routing.load(path) == example()
    assert len(list(tmp_path.iterdir())) == 1


def test_files_are_json_and_say_what_they_are():
    head = json.loads(example().to_json())
    assert (head["format"], head["version"]) == ("skewless.routing", 1)


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_hot_keys_of_one_worker_find_places_in_the_table(seed: int) -> None:
    plain = Routing.hashing(64, seed=seed)
    keys = np.random.default_rng(3).integers(0, 2**64, 20_000, np.uint64)
    mine = keys[plain.route(keys) == 37][:200]
    routing = Routing(64, {int(key): {1: 1.0} for key in mine}, plain.buckets, seed=seed)
    assert set(routing.route(mine).tolist()) == {1}
    assert len(routing.tables.key) <= 4 * len(mine)


def test_many_hot_keys_make_a_table_soon() -> None:
    keys = np.random.default_rng(4).integers(0, 2**64, 20_000, np.uint64)
    routing = Routing.from_arrays(8, keys, np.full(len(keys), 3), np.ones(len(keys)))
    assert set(routing.route(keys).tolist()) == {3}


def test_hot_keys_that_no_table_holds_are_refused() -> None:
    keys = np.array([5, 6], np.uint64)
    place, displacement = np.zeros(2, np.int64), np.zeros(1, np.int64)
    assert not routing_tables._displace(keys, 1, displacement, place)
