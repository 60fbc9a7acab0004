"""What a window computes: a function, its column and its frame, as a value that can be checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from skewless.errors import DataError, ParameterError, did_you_mean
from skewless.spark.keys import quoted, resolve_column

__all__ = ["AGGREGATES", "RANKS", "SHIFTS", "Over", "over", "read_functions"]

#: Functions of the order alone.
RANKS: dict[str, Callable[[], Column]] = {
    "row_number": F.row_number,
    "rank": F.rank,
    "dense_rank": F.dense_rank,
    "percent_rank": F.percent_rank,
    "cume_dist": F.cume_dist,
}
#: Functions of one row some rows away.
SHIFTS: dict[str, Callable[..., Column]] = {"lag": F.lag, "lead": F.lead}
#: Aggregates over a frame.
AGGREGATES: dict[str, Callable[[Column], Column]] = {
    "sum": F.sum,
    "count": F.count,
    "min": F.min,
    "max": F.max,
    "avg": F.avg,
}
_KNOWN = (*RANKS, "ntile", *SHIFTS, *AGGREGATES)


@dataclass(frozen=True)
class Over:
    """A window function; made by `over`."""

    function: str
    column: str | None = None
    offset: int = 1
    default: Any = None
    rows: tuple[int | None, int | None] | None = None
    n: int = 1

    def __str__(self) -> str:
        inside = self.column or ""
        if self.function in SHIFTS:
            inside += f", {self.offset}"
        if self.function == "ntile":
            inside = str(self.n)
        frame = ""
        if self.rows is not None:
            first, last = self.rows
            frame = f" over rows {'start' if first is None else first} to "
            frame += "end" if last is None else str(last)
        return f"{self.function}({inside}){frame}"

    @property
    def reach(self) -> tuple[int, int]:
        """Rows before and after its own that the function looks at, if that is a fixed number."""
        if self.function == "lag":
            return self.offset, 0
        if self.function == "lead":
            return 0, self.offset
        if self.rows is None or None in self.rows:
            return 0, 0
        first, last = self.rows
        return max(0, -(first or 0)), max(0, last or 0)

    @property
    def shifts(self) -> bool:
        """Whether it looks at a fixed number of neighbours: a lag, a lead, a bounded frame."""
        return self.function in SHIFTS or (self.rows is not None and None not in self.rows)

    @property
    def takes_ties_together(self) -> bool:
        """Whether rows of equal order have one value, so that they must not be parted."""
        if self.function in AGGREGATES:
            return self.rows is None
        return self.function in RANKS and self.function != "row_number"

    def plain(self, by_order: WindowSpec, by_row: WindowSpec) -> Column:
        """Return the function as Spark has it.

        Parameters
        ----------
        by_order
            The window in the caller's order, for functions that take ties together.
        by_row
            The window in an order that leaves no ties, for all others.
        """
        if self.function in RANKS:
            spec = by_order if self.takes_ties_together else by_row
            return RANKS[self.function]().over(spec)
        if self.function == "ntile":
            return F.ntile(self.n).over(by_row)
        assert self.column is not None  # noqa: S101 - over() has checked it
        column = F.lit(1) if self.column == "*" else F.col(quoted(self.column))
        if self.function in SHIFTS:
            return SHIFTS[self.function](column, self.offset, self.default).over(by_row)
        return AGGREGATES[self.function](column).over(self.framed(by_order, by_row))

    def framed(self, by_order: WindowSpec, by_row: WindowSpec) -> WindowSpec:
        """Return the window with the frame of an aggregate."""
        if self.rows is None:
            return by_order.rangeBetween(Window.unboundedPreceding, Window.currentRow)
        first, last = self.rows
        return by_row.rowsBetween(
            Window.unboundedPreceding if first is None else first,
            Window.unboundedFollowing if last is None else last,
        )


def over(
    function: str,
    column: str | None = None,
    offset: int = 1,
    *,
    default: Any = None,
    rows: tuple[int | None, int | None] | None = None,
    n: int | None = None,
) -> Over:
    """Return a window function for `skewless.window`.

    Parameters
    ----------
    function
        ``"row_number"``, ``"rank"``, ``"dense_rank"``, ``"percent_rank"``, ``"cume_dist"``,
        ``"ntile"``, ``"lag"``, ``"lead"``, or one of the aggregates ``"sum"``, ``"count"``, ``"min"``,
        ``"max"``, ``"avg"``.
    column
        Name of the column that a lag, a lead or an aggregate takes; ``"*"`` for ``"count"``.
    offset
        Rows back (``"lag"``) or ahead (``"lead"``), at least 1.
    default
        What a lag or lead is where there is no such row; a plain value of the column's type.
    rows
        Frame of an aggregate: ``(first, last)``, relative to the row, negative is before.
        ``(None, 0)`` is all rows up to this one, ``(None, None)`` all rows of the key, ``(-3, 2)`` the
        three before to the two after. Left out, the frame is Spark's own: all rows up to this one
        and those that the order leaves equal to it (``RANGE``).
    n
        Number of tiles of ``"ntile"``, at least 1.

    Raises
    ------
    ParameterError
        An unknown function, a frame that is not supported, or an argument that does not belong.

    Examples
    --------
    >>> print(over("sum", "amount", rows=(None, 0)))
    sum(amount) over rows start to 0
    >>> over("lag", "amount", 2).reach
    (2, 0)
    >>> over("sum", "amount", rows=(None, -1))
    Traceback (most recent call last):
        ...
    skewless.errors.ParameterError: over: rows=(None, -1) is not supported: a part of a hot key would \
need rows of the part before it as well as their total; use (None, 0), (None, None) or two numbers.
    """
    if function not in _KNOWN:
        raise ParameterError(
            f"over: function {function!r} is not supported{did_you_mean(str(function), _KNOWN)}; what "
            "a hot key's parts cannot be put together from stays with Spark's own Window."
        )
    takes_column = function in SHIFTS or function in AGGREGATES
    if takes_column != (column is not None):
        raise ParameterError(
            f"over: {function} {'takes the name of a column' if takes_column else 'takes no column'}, "
            f"got {column!r}."
        )
    if column == "*" and function != "count":
        raise ParameterError(f"over: {function}('*') means nothing; name a column.")
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 1:
        raise ParameterError(f"over: offset must be an int of at least 1, got {offset!r}.")
    if function not in SHIFTS and (offset != 1 or default is not None):
        raise ParameterError(f"over: offset and default belong to lag and lead, not to {function}.")
    if (function == "ntile") != (n is not None):
        raise ParameterError(
            f"over: n is the number of tiles of ntile, got n={n!r} for {function}."
        )
    if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
        raise ParameterError(f"over: n must be an int of at least 1, got {n!r}.")
    if rows is not None:
        rows = _frame(function, rows)
    return Over(function, column, offset, default, rows, n or 1)


def _frame(function: str, rows: Any) -> tuple[int | None, int | None]:
    if function not in AGGREGATES:
        raise ParameterError(f"over: rows= is the frame of an aggregate; {function} has none.")
    numbers = isinstance(rows, (tuple, list)) and len(rows) == 2
    if not numbers or any(
        isinstance(edge, bool) or not isinstance(edge, (int, type(None))) for edge in rows
    ):
        raise ParameterError(
            f"over: rows must be two ints or None, such as (None, 0), got {rows!r}."
        )
    first, last = rows
    if first is not None and last is not None:
        if first > last:
            raise ParameterError(f"over: rows={(first, last)} ends before it starts.")
    elif first is not None or last not in (0, None):
        raise ParameterError(
            f"over: rows={(first, last)} is not supported: a part of a hot key would need rows of the "
            "part before it as well as their total; use (None, 0), (None, None) or two numbers."
        )
    return first, last


def read_functions(
    verb: str, df: DataFrame, functions: Mapping[str, Over | str]
) -> dict[str, Over]:
    """Return the functions of a window by the names of their columns, their arguments resolved.

    Raises
    ------
    DataError
        No function, a name twice, or a column that the frame lacks.
    ParameterError
        Something else than a function.
    """
    if not isinstance(functions, Mapping) or not functions:
        raise DataError(
            f"{verb}: functions must be a dict of at least one {{name: function}}, got {functions!r}."
        )
    found: dict[str, Over] = {}
    for name, one in functions.items():
        if not isinstance(name, str):
            raise DataError(f"{verb}: a new column's name must be text, got {name!r}.")
        made = over(one) if isinstance(one, str) else one
        if not isinstance(made, Over):
            raise ParameterError(
                f"{verb}: {name!r} must be made by skewless.over, or the name of a function, got "
                f"{type(one).__name__}."
            )
        if made.column not in (None, "*"):
            made = replace(made, column=resolve_column(verb, df, str(made.column)))
        found[name] = made
    folded = [name.lower() for name in found]
    if len(set(folded)) < len(folded):
        raise DataError(f"{verb}: two new columns share a name, got {', '.join(found)}.")
    return found
