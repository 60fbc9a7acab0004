"""What CM, AM, CAM and LM share: candidates, and the loads and distinct keys of each worker in a window.

N. R. Katsipoulakis, A. Labrinidis, P. K. Chrysanthis: A Holistic View of Stream Partitioning Costs,
PVLDB 10(11), 2017: Algorithm 1, and the two structures of section 3.2 that estimate a cardinality.
"""

from __future__ import annotations

import abc
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.kernel import inline_kernel, lean_kernel, mix
from skewless.parameters import Range
from skewless.partitioners.base import Partitioner
from skewless.sketches.hyper_log_log import (
    HyperLogLogState,
    distinct,
    insert,
    no_registers,
    seems_held,
)
from skewless.windows.held_keys import (
    HeldKeys,
    choose_candidates,
    find_held,
    held_bytes_bound,
    held_has_room,
    hold,
    holds,
    no_held_keys,
    turn_held,
    with_room_for_held,
)
from skewless.windows.loads import SlidingLoads, no_loads, turn_loads
from skewless.windows.table import most_entries

__all__ = [
    "CardinalityAware",
    "CardinalityState",
    "Choices",
    "Scratch",
    "Settings",
    "contains",
    "has_room",
    "least_of",
    "look_up",
    "send",
    "turn",
]

#: Candidates of a key.
Choices = Annotated[int, Range(1, 64)]
#: Section 5.1: registers, as a power of two, and the bits of each.
_PRECISION, _REGISTER_BITS = 12, 5
#: Tuples whose entries are fetched together.
_AHEAD = 64
#: The hash function of the registers, counted from the seed: no candidate has it.
_REGISTER_CHOICE = np.uint64(64)


class CardinalityState(NamedTuple):
    """L and C of Algorithm 1, and the clock."""

    held: HeldKeys
    """C, exact: which candidates hold a key (no entry with HyperLogLog)."""
    registers: HyperLogLogState
    """C, estimated: one counter per worker (no counter if exact)."""
    loads: SlidingLoads
    """L: tuples per worker in the window."""
    cardinality: NDArray[np.int64]
    """int64, (n_workers,): distinct keys per worker in the window, or their estimate."""
    slide: NDArray[np.int64]
    """int64, (1,): slide, counted from the first tuple's; -1 before it."""
    start: NDArray[np.int64]
    """int64, (1,): when the slide began, in the unit of time."""
    last: NDArray[np.int64]
    """int64, (1,): time of the latest tuple."""


class Settings(NamedTuple):
    """What the kernels know besides the state."""

    n_workers: np.uint64
    slide: int
    seed: np.uint64


class Scratch(NamedTuple):
    """Room for the tuples at hand; nothing in it is remembered."""

    choice: NDArray[np.int64]
    """int64, (2, d): candidates of the key, in order and ascending."""
    mixed: NDArray[np.uint64]
    """uint64, (64,): mixed keys that come next."""
    latest: NDArray[np.int64]
    """int64, (64,): what was read of their entries."""


class CardinalityAware(Partitioner):
    """Algorithm 1: reset L and C when the window ends; choose among the candidates of each key."""

    splits_keys = True
    moves_keys = True
    d: int
    window: int
    slide: int | None
    cardinality: str
    state: CardinalityState

    def _begin(self) -> None:
        """Check the parameters against each other, and make the state."""
        name = type(self).__name__
        if self.slide is not None and self.slide > self.window:
            raise ParameterError(
                f"{name}: slide must be at most the window of {self.window}, got {self.slide}; tuples "
                f"between two windows would belong to none."
            )
        if self.cardinality not in ("exact", "hyper_log_log"):
            raise ParameterError(
                f"{name}: cardinality must be 'exact' or 'hyper_log_log', got {self.cardinality!r}."
            )
        exact = self.cardinality == "exact"
        if not exact and self.n_slides > 1:
            raise ParameterError(
                f"{name}: cardinality='hyper_log_log' needs a tumbling window, as a register cannot "
                f"forget a key, got slide={self.slide}; leave slide out, or count exactly."
            )
        held, n = no_held_keys(self._n_choices, self.n_slides), self.n_workers
        self.state = CardinalityState(
            held if exact else held._replace(entry=held.entry[:0].copy()),
            no_registers(0 if exact else n, _PRECISION, _REGISTER_BITS),
            no_loads(self.n_slides, n),
            cardinality=np.zeros(n, np.int64),
            slide=np.full(1, -1, np.int64),
            start=np.zeros(1, np.int64),
            last=np.zeros(1, np.int64),
        )

    @property
    def n_slides(self) -> int:
        """Slides in a window, the one that has begun included; 1 if the window tumbles."""
        return 1 if self.slide is None else -(-self.window // self.slide)

    @property
    def _n_choices(self) -> int:
        return min(self.d, self.n_workers)

    @property
    def _plain(self) -> bool:
        """Whether a key has two candidates and they are counted exactly: the fast case."""
        return self._n_choices == 2 and self.cardinality == "exact"

    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32.

        Raises
        ------
        DataError
            The chunk begins before the latest tuple of the chunks before it.
        """
        out = np.empty(len(chunk), np.int32)
        if len(chunk) == 0:
            return out
        if self.state.slide[0] >= 0 and chunk.time[0] < self.state.last[0]:
            raise DataError(
                f"{type(self).__name__}: time must not decrease from chunk to chunk, got "
                f"{chunk.time[0]} after {self.state.last[0]}; number the tuples of a chunk on from the "
                f"chunk before."
            )
        settings = Settings(
            np.uint64(self.n_workers), self.slide or self.window, np.uint64(self.seed)
        )
        scratch = Scratch(
            np.empty((2, self._n_choices), np.int64),
            np.empty(_AHEAD, np.uint64),
            np.empty(_AHEAD, np.int64),
        )
        done = self._decide(settings, chunk, 0, out, scratch)
        while done < len(chunk):
            oldest = int(self.state.slide[0]) - self.n_slides + 1
            held = with_room_for_held(self.state.held, self._n_choices, oldest, settings.seed)
            self.state = self.state._replace(held=held)
            done = self._decide(settings, chunk, done, out, scratch)
        self.state.last[0] = chunk.time[-1]
        return out

    @abc.abstractmethod
    def _decide(
        self,
        settings: Settings,
        chunk: Chunk,
        first: int,
        out: NDArray[np.int32],
        scratch: Scratch,
    ) -> int:
        """Route from tuple `first` on; return the number of the tuple that finds no room."""

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return the most bytes of a state in whose windows there were at most `n_keys` keys."""
        n, n_slides = self.n_workers, self.n_slides
        if self.cardinality == "exact":
            counters = held_bytes_bound(n_keys, self._n_choices, n_slides) + 8
        else:
            counters = ((1 << _PRECISION) + 16) * n + 40  # the table without entries included
        return counters + 8 * (n_slides + 3) * n + 32

    def _settled(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Route the sample of a histogram within one slide: what it holds is of one time."""
        now = 0
        if self.state.slide[0] >= 0:
            now = int(self.state.start[0]) + (self.slide or self.window)
        return self.route(Chunk(np.full(len(keys), now, np.int64), keys))


@lean_kernel
def turn(state: CardinalityState, settings: Settings, now: int, choice: NDArray[np.int64]) -> None:
    """Lines 3 to 5: begin the slide that `now` lies in, and forget what leaves the window."""
    before = state.slide[0]
    if before < 0:
        state.slide[0] = 0
        state.start[0] = now // settings.slide * settings.slide
        return
    gap = (now - state.start[0]) // settings.slide
    if gap <= 0:
        return
    state.slide[0] += gap
    state.start[0] += gap * settings.slide
    turn_loads(state.loads, before, gap)
    held, n, seed = state.held, settings.n_workers, settings.seed
    turn_held(held, state.slide[0], gap, n, seed, state.cardinality, choice)
    registers = state.registers
    registers.register[:] = 0
    registers.zeros[:] = registers.register.shape[1]
    registers.harmonic[:] = float(registers.register.shape[1])


@inline_kernel
def has_room(state: CardinalityState) -> bool:
    """Say whether one more tuple of any key fits."""
    entry = state.held.entry
    return bool(len(entry) == 0 or held_has_room(state.held, most_entries(len(entry))))


@inline_kernel
def look_up(
    state: CardinalityState,
    settings: Settings,
    key: np.uint64,
    mixed: np.uint64,
    choice: NDArray[np.int64],
) -> np.uint64:
    """Lines 6 and 7: write the candidates of `key`; return where C has the key.

    That is its place in the table, or the mixed bits that the registers go by.
    """
    choose_candidates(key, mixed, settings.n_workers, settings.seed, choice)
    held, slide = state.held, state.slide[0]
    if len(held.entry) == 0:
        return mix(key, settings.seed + _REGISTER_CHOICE)
    floor = slide if len(held.journal) == 0 else np.int64(0)
    return find_held(held.entry, held.used, mixed, key, choice.shape[1], slide, floor)


@inline_kernel
def contains(
    state: CardinalityState, where: np.uint64, choice: NDArray[np.int64], j: int, oldest: int
) -> bool:
    """``C[c_j].contains(k)``; `oldest` is the first slide of the window."""
    if len(state.held.entry) > 0:
        return holds(state.held.entry, where, j, oldest)
    return seems_held(state.registers, choice[0, j], where)


@inline_kernel
def least_of(value: NDArray[np.int64], choice: NDArray[np.int64]) -> int:
    """Return the candidate with the least value, the first of several."""
    best = 0
    for j in range(1, choice.shape[1]):
        if value[choice[0, j]] < value[choice[0, best]]:
            best = j
    return best


@inline_kernel
def send(
    state: CardinalityState, where: np.uint64, choice: NDArray[np.int64], j: int, known: bool
) -> int:
    """Count the tuple at candidate `j` and return the worker; ``C.update`` is left out if `known`."""
    worker = choice[0, j]
    state.loads.window[worker] += 1
    slide = state.slide[0]
    if len(state.held.entry) > 0:
        oldest = slide - len(state.loads.slides) + 1
        state.cardinality[worker] += hold(state.held, where, j, slide, oldest)
    elif not known:
        before = state.registers.harmonic[worker]
        insert(state.registers, worker, where)
        if state.registers.harmonic[worker] != before:
            state.cardinality[worker] = np.int64(distinct(state.registers, worker) + 0.5)
    return int(worker)
