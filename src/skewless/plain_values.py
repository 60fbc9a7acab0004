"""Values and arrays as bytes that hold no code: what a query remembers and what its tasks tell.

Values of Spark's types become JSON, arrays an Arrow stream. Reading either makes nothing but values.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.errors import DataError

__all__ = ["arrays", "decode", "encode", "pack", "rebuilt", "unpack"]

_Tree = TypeVar("_Tree", bound=tuple[Any, ...])
_LAYOUT = pa.schema(
    [("dtype", pa.string()), ("shape", pa.list_(pa.int64())), ("content", pa.large_binary())]
)
#: Kinds of array that are numbers and nothing else.
_NUMBERS = "biuf"


def encode(value: Any) -> bytes:
    """Return a value as JSON: what Arrow gives for Spark's types, in tuples, lists and dictionaries.

    Equal values of equal types give equal bytes; floats and whole numbers of any size come back as
    they were.

    Raises
    ------
    DataError
        It holds something else, such as an object of a class of the user's.

    Examples
    --------
    >>> decode(encode((1, None, [b"x", 0.1], {"a": decimal.Decimal("2.50")})))
    (1, None, [b'x', 0.1], {'a': Decimal('2.50')})
    """
    return json.dumps(_plain(value), separators=(",", ":")).encode()


def decode(content: bytes) -> Any:
    """Return the value that `encode` was given."""
    return json.loads(content, object_hook=_back)


def _plain(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [_plain(each) for each in value]
    for types, tag, write in _WRITTEN:
        if isinstance(value, types):
            return {tag: write(value)}
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind in _NUMBERS:
        return _plain(value.tolist())
    raise DataError(
        f"a state holds {value!r} of type {kind.__name__}, which is no value of a Spark type; let "
        "`create`, `update` and `merge` return numbers, text, bytes, times, lists and dictionaries."
    )


def _lasting(span: dt.timedelta) -> list[int]:
    return [span.days, span.seconds, span.microseconds]


#: Types, the name that a value of them is tagged with, and how it is written; the first that fits counts.
_WRITTEN: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (tuple, "tuple", lambda value: [_plain(each) for each in value]),
    (dict, "dict", lambda value: [[_plain(name), _plain(each)] for name, each in value.items()]),
    ((bytes, bytearray, memoryview), "bytes", lambda value: base64.b64encode(value).decode()),
    (decimal.Decimal, "decimal", str),
    (dt.datetime, "datetime", dt.datetime.isoformat),
    (dt.date, "date", dt.date.isoformat),
    (dt.timedelta, "duration", _lasting),
)
_READ: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "dict": dict,
    "bytes": base64.b64decode,
    "decimal": decimal.Decimal,
    "datetime": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "duration": lambda parts: dt.timedelta(*parts),
}


def _back(tagged: dict[str, Any]) -> Any:
    [(kind, inner)] = tagged.items()
    return _READ[kind](inner)


def pack(values: Sequence[NDArray[Any]]) -> bytes:
    """Return arrays of numbers as an Arrow stream.

    Raises
    ------
    DataError
        An array holds anything but numbers.

    Examples
    --------
    >>> [each.tolist() for each in unpack(pack([np.arange(3), np.array(0.5)]))]
    [[0, 1, 2], 0.5]
    """
    for each in values:
        if not isinstance(each, np.ndarray) or each.dtype.kind not in _NUMBERS:
            raise DataError(f"only arrays of numbers can be kept, got {each!r}.")
    table = pa.table(
        [
            [each.dtype.str for each in values],
            [list(each.shape) for each in values],
            [np.ascontiguousarray(each).tobytes() for each in values],
        ],
        schema=_LAYOUT,
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _LAYOUT) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpack(content: bytes) -> list[NDArray[Any]]:
    """Return the arrays that `pack` was given, each writable.

    Raises
    ------
    DataError
        The content is none of that.
    """
    try:
        rows = pa.ipc.open_stream(content).read_all().cast(_LAYOUT).to_pylist()
        return [_numbers(**row) for row in rows]
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"these are no arrays of numbers ({error}).") from error


def _numbers(dtype: str, shape: list[int], content: bytes) -> NDArray[Any]:
    if np.dtype(dtype).kind not in _NUMBERS:
        raise ValueError(f"an array of {dtype}")
    return np.frombuffer(content, dtype).reshape(shape).copy()


def arrays(tree: tuple[Any, ...]) -> list[NDArray[Any]]:
    """Return the leaves of nested tuples, plain numbers as arrays without a dimension.

    Examples
    --------
    >>> arrays((np.arange(2), (True, 7)))
    [array([0, 1]), array(True), array(7)]
    """
    found: list[NDArray[Any]] = []
    for each in tree:
        found += arrays(each) if isinstance(each, tuple) else [np.asarray(each)]
    return found


def rebuilt(like: _Tree, leaves: Iterator[NDArray[Any]]) -> _Tree:
    """Return nested tuples of the same classes with other leaves.

    Examples
    --------
    >>> rebuilt((np.zeros(1), (False, 0)), iter([np.arange(2), np.array(True), np.array(7)]))
    (array([0, 1]), (True, 7))
    """
    made: list[Any] = []
    for each in like:
        if isinstance(each, tuple):
            made.append(rebuilt(each, leaves))
        else:
            leaf = next(leaves)
            made.append(leaf if isinstance(each, np.ndarray) else leaf.item())
    kind: Callable[..., _Tree] = type(like)
    return kind(made) if type(like) is tuple else kind(*made)
