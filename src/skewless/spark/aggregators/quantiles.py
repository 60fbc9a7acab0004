"""Quantiles: percentiles of a column per key, from a sketch whose rank error has a hard bound.

G. S. Manku, S. Rajagopalan, B. G. Lindsay: Approximate Medians and other Quantiles in One Pass and with
Limited Memory, SIGMOD 1998; in the form of compactors as in Z. Karnin, K. Lang, E. Liberty: Optimal
Quantile Approximation in Streams, FOCS 2016, with their coin replaced by a choice that balances.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.errors import ParameterError
from skewless.parameters import Range, check
from skewless.spark.aggregators.base import GroupAggregator
from skewless.spark.aggregators.segments import as_lists, group_of, kept, lists_of, numbers, sums

__all__ = ["Quantiles"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Values of a key up to which `accuracy` is promised, as a power of two.
_LOG_MOST = 40


class Quantiles(GroupAggregator):
    """Estimate quantiles of a numeric column per key, with a rank error that is known for each key.

    Use it for medians and percentiles of many or large groups. For one exact median of a small frame
    Spark's ``percentile`` will do.

    Parameters
    ----------
    column : str
        A column of numbers; they are read as doubles.
    probabilities : sequence of float in [0, 1]
        Which quantiles.
    accuracy : int in [1, 100000]
        The rank error is at most ``n / accuracy``.

    Notes
    -----
    Result: ``n``, the values that are not null; ``quantiles``, one value per probability in their order,
    null without a value; ``rank_error``, the bound of this key, as a part of `n`. The quantile of ``p``
    is the lowest value with at least ``ceil(p * n)`` values up to it; the one reported is that of a rank
    at most ``rank_error * n`` away. NaN is above all numbers, as Spark orders.

    Guarantee: with ``k = capacity``, no error up to `k` values, and beyond at most
    ``n / (2 k) * (floor(log2(n / k)) + 2)`` ranks, whatever the data, the split and the order of
    merges. `k` is chosen so that this is below ``n / accuracy`` up to ``2**40`` values. Not a
    probability: each compaction of values of weight ``w`` moves ranks by 0 or by ``w`` in a known
    direction, and there are at most ``n / (k w)`` of them at that weight.

    Cost: a sort of the rows, and one per level of what is above. State: at most `k` doubles per
    level, ``log2(n / k) + 2`` levels, 4 bytes for each and 24. For an accuracy of 100, `k` is 1,550.

    Deviations from the papers: all levels have the same capacity, which a hard bound needs; KLL's
    shrink. There is no coin: a compaction keeps the even or the odd places, whichever balances the
    errors above and below so far. That halves the bound, and a result does not depend on chance.

    Examples
    --------
    >>> quantiles = Quantiles("ms", [0.5, 0.99])
    >>> state = quantiles.update(quantiles.create(), pa.table({"ms": [float(i) for i in range(1000)]}))
    >>> quantiles.finish(state)
    {'n': 1000, 'quantiles': [499.0, 989.0], 'rank_error': 0.0}

    References
    ----------
    SIGMOD 1998, section 3, doi:10.1145/276304.276342. FOCS 2016, section 2,
    doi:10.1109/FOCS.2016.17.
    """

    merges: ClassVar[Mapping[str, str]] = {"n": "sum"}

    def __init__(
        self,
        column: str,
        probabilities: Sequence[float],
        accuracy: Annotated[int, Range(1, 100_000)] = 100,
    ) -> None:
        check("Quantiles", Quantiles.__init__, column=column, accuracy=accuracy)
        self.column, self.accuracy = column, int(accuracy)
        self.probabilities = _checked(probabilities)
        self.capacity = _capacity(self.accuracy)
        self._declare(
            inputs=[column],
            state="n bigint, over bigint, under bigint, values array<double>, sizes array<int>",
            result="n bigint, quantiles array<double>, rank_error double",
        )

    def create(self) -> dict[str, Any]:
        """Return the sketch of no values."""
        return {"n": 0, "over": 0, "under": 0, "values": [], "sizes": []}

    def update_groups(self, rows: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return the sketch of each group: all values at the lowest level, then compacted."""
        x, known = numbers("Quantiles", rows, self.column)
        starts = kept(starts, known)
        none = np.zeros(len(starts) - 1, np.int64)
        items = _Items(group_of(starts), np.zeros(int(known.sum()), np.int64), x[known])
        return _states(items, none, none, self.capacity).append_column(
            "n", pa.array(np.diff(starts))
        )

    def merge_groups(self, states: pa.Table, starts: NDArray[np.int64]) -> pa.Table:
        """Return the sketch of all parts of each key: level joins level, then compacted."""
        state, level, value = _read(states)
        items = _Items(group_of(starts)[state], level, value)
        over, under = (sums(states[name].to_numpy(), starts) for name in ("over", "under"))
        return _states(items, over, under, self.capacity)

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the quantiles of each state."""
        group, level, value = _read(states)
        n = states["n"].to_numpy()
        order = np.lexsort((value, group))
        value, upto = value[order], np.cumsum(np.left_shift(1, level[order]))
        some = n > 0
        before = np.cumsum(n) - n  # weights add up to n, group by group
        ranks = np.ceil(np.outer(n[some], self.probabilities)).astype(np.int64)
        ranks = np.clip(ranks, 1, n[some, None])
        found = value[np.searchsorted(upto, before[some, None] + ranks)]
        offsets = np.concatenate([[0], np.cumsum(some * len(self.probabilities))])
        quantiles = pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), pa.array(found.ravel()), mask=pa.array(~some)
        )
        worst = np.maximum(states["over"].to_numpy(), states["under"].to_numpy())
        error = pa.array(worst / np.maximum(n, 1), mask=~some)
        return pa.table({"n": states["n"], "quantiles": quantiles, "rank_error": error})


class _Items(NamedTuple):
    """Values of sketches; one at level ``h`` stands for ``2**h`` values."""

    group: Ints
    """int64: which sketch."""
    level: Ints
    """int64: its level."""
    value: Floats
    """float64: the value."""


def _checked(probabilities: Sequence[float]) -> tuple[float, ...]:
    """Return the probabilities as a tuple, or raise `ParameterError`."""
    listed = list(probabilities) if isinstance(probabilities, Sequence | np.ndarray) else []
    if not listed or not all(
        isinstance(p, Real) and not isinstance(p, bool) and 0 <= p <= 1 for p in listed
    ):
        raise ParameterError(
            "Quantiles: probabilities must be one or more floats in [0, 1], such as [0.5, 0.99], got "
            f"{probabilities!r}."
        )
    return tuple(float(p) for p in listed)


def _capacity(accuracy: int) -> int:
    """Return the lowest even capacity whose bound is below ``n / accuracy`` for ``n = 2**40``."""

    def suffices(half: int) -> bool:
        k = 2 * half
        log = ((1 << _LOG_MOST) // k).bit_length() - 1
        return (log + 2) * accuracy <= 2 * k

    return 2 * bisect.bisect_left(range(2**24), True, lo=1, key=suffices)


def _compacted(items: _Items, over: Ints, under: Ints, capacity: int) -> _Items:
    """Halve every level of more than `capacity` values; count in `over` and `under` what it may move.

    Of the sorted values of a level the even or the odd places go up one level, at twice the weight,
    and the others go. With ``r`` of them below some value, even places make that ``r`` or ``r + 1``, odd
    ones ``r`` or ``r - 1``, times the weight. A last one without a partner stays.
    """
    done: list[_Items] = []
    rising = _Items(items.group[:0], items.level[:0], items.value[:0])
    top = int(items.level.max(initial=-1))
    level = 0
    while level <= top or len(rising.value):
        here = items.level == level
        group = np.concatenate([items.group[here], rising.group])
        value = np.concatenate([items.value[here], rising.value])
        order = np.lexsort((value, group))
        group, value = group[order], value[order]
        sizes = np.bincount(group, minlength=len(over))
        full = sizes > capacity
        place = np.arange(len(group)) - (np.cumsum(sizes) - sizes)[group]
        leaves = full[group] & (place < (sizes - sizes % 2)[group])
        odd = over > under
        rises = leaves & (place % 2 == odd[group])
        over[full & ~odd] += 1 << level
        under[full & odd] += 1 << level
        stays = ~leaves
        done.append(_Items(group[stays], np.full(int(stays.sum()), level), value[stays]))
        level += 1
        rising = _Items(group[rises], np.full(int(rises.sum()), level), value[rises])
    if not done:
        return items
    group = np.concatenate([part.group for part in done])
    order = np.argsort(group, kind="stable")  # levels are in order already
    levels = np.concatenate([part.level for part in done])
    values = np.concatenate([part.value for part in done])
    return _Items(group[order], levels[order], values[order])


def _states(items: _Items, over: Ints, under: Ints, capacity: int) -> pa.Table:
    """Return the state columns of compacted sketches."""
    over, under = over.copy(), under.copy()
    group, level, value = _compacted(items, over, under, capacity)
    n_groups = len(over)
    n_levels = np.zeros(n_groups, np.int64)
    np.maximum.at(n_levels, group, level + 1)
    first = np.concatenate([[0], np.cumsum(n_levels)])
    sizes = np.bincount(first[group] + level, minlength=first[-1])
    starts = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n_groups))])
    return pa.table(
        {
            "over": over,
            "under": under,
            "values": as_lists(starts, pa.array(value, from_pandas=False)),
            "sizes": as_lists(first, pa.array(sizes, pa.int32())),
        }
    )


def _read(states: pa.Table) -> _Items:
    """Return the values of sketches, each with its state's row."""
    starts, values = lists_of(states["values"])
    first, sizes = lists_of(states["sizes"])
    level = np.arange(len(sizes)) - np.repeat(first[:-1], np.diff(first))
    return _Items(group_of(starts), np.repeat(level, sizes.to_numpy()), values.to_numpy())
