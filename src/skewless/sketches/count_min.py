"""Count-Min: an upper bound of the count of any key, from a few rows of shared counters.

G. Cormode, S. Muthukrishnan: An Improved Data Stream Summary: The Count-Min Sketch and its
Applications, Journal of Algorithms 55(1), 2005.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.kernel import inline_kernel, lean_kernel, mix, spread
from skewless.parameters import Range, Seed, check
from skewless.sketches.base import Sketch

__all__ = ["CountMin", "CountMinState", "add", "add_conservative", "count_of", "no_cells"]


class CountMinState(NamedTuple):
    """The counters."""

    cell: NDArray[np.int64]
    """int64, (depth, width): weight of the keys that hash there, row by row."""
    total: NDArray[np.int64]
    """int64, (1,): weight of all keys."""


class CountMin(Sketch):
    """Add each key to one counter in each of `depth` rows; its least counter bounds its count.

    Use it to ask for the count of any key when keys are too many to keep. Not to list the heavy
    ones: it holds no keys; `SpaceSaving` does.

    Parameters
    ----------
    width : int in [1, 2147483647]
        Counters in a row; the error is ``e / width`` of the total.
    depth : int in [1, 64]
        Rows; the error is exceeded with a probability of ``exp(-depth)`` at most.
    conservative : bool
        Raise only the counters that the key's bound asks for: smaller errors, slower.
    seed : int in [0, 9223372036854775807]
        Which hash functions: row j takes function ``seed + j``.

    Notes
    -----
    Guarantee: ``true <= estimate`` always, and ``estimate <= true + e * total / width`` for each key with
    a probability of at least ``1 - exp(-depth)`` over the seeds (Theorem 1). `merge` keeps both, also
    of conservative sketches.

    Cost: a 64-bit hash and a counter a row. State: 8 bytes a counter, 8 for the total.

    Deviations from the paper: each row has a seeded 64-bit hash of its own in place of a pairwise
    independent one. Conservative update is C. Estan and G. Varghese's (SIGCOMM 2002).

    Examples
    --------
    >>> sketch = CountMin(100)
    >>> sketch.update(np.array([7, 7, 8], np.uint64))
    >>> sketch.estimate([7, 8, 9]).tolist()
    [2, 1, 0]
    >>> CountMin.within(epsilon=0.01, delta=0.01)
    CountMin(width=272, depth=5, conservative=False, seed=0)

    References
    ----------
    Journal of Algorithms 55(1), section 3 and 4.1, doi:10.1016/j.jalgor.2003.12.001. Conservative update:
    doi:10.1145/633025.633056.
    """

    width: int
    depth: int
    conservative: bool
    state: CountMinState

    def __init__(
        self,
        width: Annotated[int, Range(1, 2**31 - 1)],
        *,
        depth: Annotated[int, Range(1, 64)] = 4,
        conservative: bool = False,
        seed: Seed = 0,
    ) -> None:
        self._take(width=width, depth=depth, conservative=conservative, seed=seed)
        self.state = no_cells(width, depth)

    @classmethod
    def within(
        cls,
        epsilon: Annotated[float, Range(0, 1, low_open=True)],
        delta: Annotated[float, Range(0, 1, low_open=True, high_open=True)],
        *,
        conservative: bool = False,
        seed: Seed = 0,
    ) -> CountMin:
        """Return the sketch whose error exceeds `epsilon` of the total with probability `delta`."""
        check("CountMin.within", cls.within, epsilon=epsilon, delta=delta)
        width, depth = math.ceil(math.e / epsilon), math.ceil(math.log(1 / delta))
        return cls(width, depth=max(1, depth), conservative=conservative, seed=seed)

    @property
    def total(self) -> int:
        """Weight of all keys so far."""
        return int(self.state.total[0])

    @property
    def error_bound(self) -> float:
        """How far an estimate may exceed the truth, but for a chance of ``exp(-depth)``."""
        return math.e * self.total / self.width

    def update(self, keys: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Count `keys`, each by 1 or by its weight."""
        found = self._keys(keys)
        each = np.ones(1, np.int64) if weights is None else self._weights(weights, len(found))
        step = np.int64(weights is not None)
        run = _update_conservative if self.conservative else _update
        run(self.state, found, each, step, np.uint64(self.seed))

    def merge(self, other: CountMin) -> None:
        """Add the counters of `other`."""
        self._same(other)
        self.state.cell[:] += other.state.cell
        self.state.total[:] += other.state.total

    def estimate(self, keys: ArrayLike) -> NDArray[np.int64]:
        """Return the upper bound of each key's weight."""
        found = self._keys(keys)
        out = np.empty(len(found), np.int64)
        _ask(self.state, found, np.uint64(self.seed), out)
        return out


def no_cells(width: int, depth: int) -> CountMinState:
    """Return the state before the first key.

    Examples
    --------
    >>> no_cells(100, 4).cell.nbytes
    3200
    """
    return CountMinState(np.zeros((depth, width), np.int64), np.zeros(1, np.int64))


@inline_kernel
def _place(state: CountMinState, row: int, key: np.uint64, seed: np.uint64) -> int:
    place = spread(mix(key, seed + np.uint64(row)), np.uint64(state.cell.shape[1]))
    return int(place)


@inline_kernel
def add(state: CountMinState, key: np.uint64, weight: int, seed: np.uint64) -> None:
    """Count `key` (section 3, update procedure)."""
    for row in range(len(state.cell)):
        state.cell[row, _place(state, row, key, seed)] += weight
    state.total[0] += weight


@inline_kernel
def count_of(state: CountMinState, key: np.uint64, seed: np.uint64) -> int:
    """Return the least counter of `key` (section 4.1, point query)."""
    least = state.cell[0, _place(state, 0, key, seed)]
    for row in range(1, len(state.cell)):
        least = min(least, state.cell[row, _place(state, row, key, seed)])
    return least


@inline_kernel
def add_conservative(state: CountMinState, key: np.uint64, weight: int, seed: np.uint64) -> int:
    """Raise the counters of `key` to its new bound, where they are below; return the bound."""
    bound = count_of(state, key, seed) + weight
    for row in range(len(state.cell)):
        place = _place(state, row, key, seed)
        state.cell[row, place] = max(state.cell[row, place], bound)
    state.total[0] += weight
    return bound


@lean_kernel
def _update(
    state: CountMinState,
    keys: NDArray[np.uint64],
    weights: NDArray[np.int64],
    step: int,
    seed: np.uint64,
) -> None:
    for i in range(len(keys)):
        add(state, keys[i], weights[i * step], seed)


@lean_kernel
def _update_conservative(
    state: CountMinState,
    keys: NDArray[np.uint64],
    weights: NDArray[np.int64],
    step: int,
    seed: np.uint64,
) -> None:
    for i in range(len(keys)):
        add_conservative(state, keys[i], weights[i * step], seed)


@lean_kernel
def _ask(
    state: CountMinState, keys: NDArray[np.uint64], seed: np.uint64, out: NDArray[np.int64]
) -> None:
    for i in range(len(keys)):
        out[i] = count_of(state, keys[i], seed)
