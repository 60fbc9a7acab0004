from __future__ import annotations

import numpy as np
import pytest

from skewless.chunk import Chunk
from skewless.errors import DataError


def test_columns_have_their_types():
    chunk = Chunk([3, 3, 9], np.array([1, 2, 3], np.int16), np.array(["a", "b", "c"]))
    assert chunk.time.dtype == np.int64
    assert chunk.key.dtype == np.uint64
    assert len(chunk) == 3


def test_tuples_are_numbered_if_there_is_no_time():
    assert Chunk(None, [8, 8, 8]).time.tolist() == [0, 1, 2]


def test_signed_keys_are_reinterpreted():
    assert Chunk(None, np.array([-1], np.int64)).key.tolist() == [2**64 - 1]
    assert Chunk(None, np.array([-1], np.int8)).key.tolist() == [2**64 - 1]
    assert Chunk(None, [5, -1, 2**64 - 1]).key.tolist() == [5, 2**64 - 1, 2**64 - 1]
    assert Chunk(None, np.array([2**64 - 1], np.uint64)).key.tolist() == [2**64 - 1]


def test_a_slice_shares_memory_and_keeps_all_columns():
    chunk = Chunk([1, 2, 3, 4], [5, 6, 7, 8], np.arange(4))
    part = chunk[1:3]
    assert (part.time.tolist(), part.key.tolist()) == ([2, 3], [6, 7])
    assert part.value is not None
    assert part.value.tolist() == [1, 2]
    assert np.shares_memory(part.key, chunk.key)


def test_pieces_cover_the_chunk_in_order():
    chunk = Chunk(None, np.arange(10, dtype=np.uint64))
    pieces = list(chunk.pieces(4))
    assert [len(piece) for piece in pieces] == [4, 4, 2]
    assert np.concatenate([piece.key for piece in pieces]).tolist() == list(range(10))
    assert list(Chunk(None, []).pieces(4)) == []


def test_datetimes_are_taken_as_they_count():
    stamps = np.array(["1970-01-01T00:00:01", "1970-01-01T00:00:02"], "datetime64[ms]")
    assert Chunk(stamps, [1, 2]).time.tolist() == [1000, 2000]


def test_empty_chunks_have_typed_columns():
    chunk = Chunk([], [])
    assert len(chunk) == 0
    assert chunk.time.dtype == np.int64
    assert chunk.key.dtype == np.uint64


BAD = [
    ("time runs backwards", lambda: Chunk([1, 5, 4], [1, 2, 3]), "tuple 2 has 4 after 5"),
    ("keys are fractions", lambda: Chunk(None, [1.5]), "got float64 of shape"),
    ("a key is too large", lambda: Chunk(None, [5, 2**64]), "got object|got float64"),
    ("keys are text", lambda: Chunk(None, ["a"]), "skewless.keys.hash64"),
    ("keys are a table", lambda: Chunk(None, [[1], [2]]), r"shape \(2, 1\)"),
    ("times are fractions", lambda: Chunk([0.5], [1]), "got float64"),
    ("times are missing", lambda: Chunk([1], [1, 2]), "got 1, 2 and none"),
    ("values are missing", lambda: Chunk(None, [1, 2], np.zeros(1)), "got 2, 2 and 1"),
]


@pytest.mark.parametrize(("call", "words"), [r[1:] for r in BAD], ids=[r[0] for r in BAD])
def test_bad_columns_are_refused(call, words):
    with pytest.raises(DataError, match=words):
        call()


def test_read_only_columns_become_the_type_that_kernels_are_compiled_for():
    lent = np.arange(6)
    lent.flags.writeable = False
    apart = np.frombuffer(b"\0" + lent.tobytes(), np.uint8)[1:].view(np.int64)
    for column in (lent, lent[::2], lent.view(np.uint64), apart):
        chunk = Chunk(column, column)
        for array in (chunk.key, chunk.time):
            assert array.flags.writeable
            assert array.flags.aligned
            assert array.flags.c_contiguous
    own = np.arange(3, dtype=np.uint64)
    assert np.shares_memory(Chunk(None, own).key, own)
