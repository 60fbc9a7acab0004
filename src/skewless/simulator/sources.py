"""Sources and their interleaving: several streams become one, in the order in which tuples are due."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.simulator.rates import Constant, Rate

__all__ = ["CLOCKS", "Block", "Source", "as_sources", "interleaved"]

#: What ``Chunk.time`` is: the tuple's number, milliseconds of the simulation, or the data's own time.
CLOCKS = ("count", "arrival", "data")
#: Most tuples that are taken from a source at a time.
_PIECE = 65_536


class Block(NamedTuple):
    """Consecutive tuples of the interleaved stream."""

    due_us: NDArray[np.float64]
    """float64: when each is due, in microseconds; 0 of a saturated source."""
    time: NDArray[np.int64]
    """int64: what the policies see as time."""
    key: NDArray[np.uint64]
    """uint64: key hash."""
    owner: NDArray[np.int32]
    """int32: partitioner that routes it."""

    def part(self, start: int, stop: int) -> Block:
        """Return the tuples of a slice."""
        which = slice(start, stop)
        return Block(self.due_us[which], self.time[which], self.key[which], self.owner[which])

    @classmethod
    def joined(cls, parts: Sequence[Block]) -> Block:
        """Return several blocks as one."""
        return cls(
            np.concatenate([part.due_us for part in parts]),
            np.concatenate([part.time for part in parts]),
            np.concatenate([part.key for part in parts]),
            np.concatenate([part.owner for part in parts]),
        )


class Source:
    """A stream of tuples and the rate at which they come due.

    Parameters
    ----------
    data : array of keys, Chunk, or iterable of either
        The tuples, in order. A generator is read once and piece by piece, so that a stream need not
        fit into memory.
    rate : float above 0, Rate or None
        Tuples per second. ``None`` is a saturated source: the next tuple is there as soon as the
        system takes one, so the simulation shows the highest rate that it sustains.

    Examples
    --------
    >>> Source([7, 7, 9], rate=1000)
    Source(rate=Constant(1000))
    """

    def __init__(
        self,
        data: ArrayLike | Chunk | Iterable[ArrayLike | Chunk],
        rate: float | Rate | None = None,
    ) -> None:
        if isinstance(rate, Rate) or rate is None:
            self.rate: Rate | None = rate
        elif isinstance(rate, (int, float)) and not isinstance(rate, bool) and rate > 0:
            self.rate = Constant(rate)
        else:
            raise ParameterError(
                f"Source: rate must be tuples per second above 0, a Rate or None, got {rate!r}."
            )
        self.data = data
        self._spent = False

    def __repr__(self) -> str:
        return f"Source(rate={self.rate!r})"

    def chunks(self) -> Iterator[Chunk]:
        """Yield the tuples in pieces.

        Raises
        ------
        DataError
            The data are an iterator that was read before, or not made of integers.
        """
        if isinstance(self.data, Chunk):
            yield from self.data.pieces(_PIECE)
        elif _is_flat(self.data):
            yield from Chunk(None, self.data).pieces(_PIECE)  # type: ignore[arg-type]
        else:
            if self._spent and isinstance(self.data, Iterator):
                raise DataError(
                    "Source: the iterator was read to its end by an earlier simulation; make a new "
                    "Source, or give it a list."
                )
            self._spent = True
            for part in self.data:  # type: ignore[union-attr]
                whole = part if isinstance(part, Chunk) else Chunk(None, part)
                yield from whole.pieces(_PIECE)


def _is_flat(data: object) -> bool:
    if isinstance(data, np.ndarray):
        return True
    if isinstance(data, (list, tuple)):
        return not data or isinstance(data[0], (int, np.integer))
    if hasattr(data, "__array__"):
        return True
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return False
    raise DataError(
        f"Source: data must be an array of key hashes, a Chunk or an iterable of either, got {data!r}."
    )


def as_sources(sources: object) -> list[Source]:
    """Return a list of sources: of one, of several, or of bare keys."""
    if isinstance(sources, Source):
        return [sources]
    if isinstance(sources, Sequence) and sources and all(isinstance(s, Source) for s in sources):
        found = list(sources)
        if len({id(s) for s in found}) < len(found):
            raise ParameterError(
                "simulate: each source must be an object of its own, got one twice."
            )
        if len({s.rate is None for s in found}) > 1:
            raise ParameterError(
                "simulate: either all sources have a rate or none; a saturated source has no time to "
                "interleave by."
            )
        return found
    if sources is None or (isinstance(sources, (list, tuple)) and not sources):
        raise ParameterError(f"simulate: sources must hold at least one source, got {sources!r}.")
    return [Source(sources)]  # type: ignore[arg-type]


def interleaved(
    sources: list[Source], n_partitioners: int, *, clock: str, in_turn: bool
) -> Iterator[Block]:
    """Yield the tuples of all sources in the order in which they are due; ties to the lower source.

    Parameters
    ----------
    sources
        Saturated ones are dealt in turn.
    n_partitioners
        As many as sources: each routes its own source's tuples. Else the stream is dealt in turn.
    clock
        One of `CLOCKS`.
    in_turn
        Whether the stream is dealt in turn in any case.
    """
    own = n_partitioners == len(sources) and not in_turn
    begun, last = 0, np.iinfo(np.int64).min
    saturated = sources[0].rate is None
    for due, given, key, source in _merged(sources):
        n = len(key)
        number = np.arange(begun, begun + n, dtype=np.int64)
        if clock == "count":
            time = number
        elif clock == "arrival":
            time = (due // 1e3).astype(np.int64)
        elif given[0] >= last and (np.diff(given) >= 0).all():
            time = given
        else:
            raise DataError(
                "simulate: the data's own times run backwards where the sources are put together; "
                "use clock='arrival' or clock='count', or one source."
            )
        last = int(time[-1])
        owner = source if own else (number % n_partitioners).astype(np.int32)
        begun += n
        yield Block(np.zeros(n) if saturated else due, time, key, owner)


_Piece = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.uint64], NDArray[np.int32]]


def _merged(sources: list[Source]) -> Iterator[_Piece]:
    readers = [_dated(source, number) for number, source in enumerate(sources)]
    if len(readers) == 1:
        yield from readers[0]
        return
    held: list[_Piece | None] = [next(reader, None) for reader in readers]
    while any(piece is not None for piece in held):
        # Up to here, every source is known: what it has not given yet is due later.
        horizon = min(piece[0][-1] for piece in held if piece is not None)
        parts = []
        for i, piece in enumerate(held):
            if piece is None:
                continue
            upto = int(np.searchsorted(piece[0], horizon, side="right"))
            parts.append(tuple(column[:upto] for column in piece))
            rest = tuple(column[upto:] for column in piece)
            held[i] = rest if len(rest[0]) else next(readers[i], None)  # type: ignore[assignment]
        due, time, key, source = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(due, kind="stable")
        yield due[order], time[order], key[order], source[order]


def _dated(source: Source, number: int) -> Iterator[_Piece]:
    first = 0
    for chunk in source.chunks():
        n = len(chunk)
        if n == 0:
            continue
        if source.rate is None:
            due = np.arange(first, first + n, dtype=np.float64)
        else:
            due = source.rate.due_us(first, n)
        first += n
        yield due, chunk.time, chunk.key, np.full(n, number, np.int32)
