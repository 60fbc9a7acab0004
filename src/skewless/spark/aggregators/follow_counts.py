"""FollowCounts: which value follows which, per key, with exact counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from skewless.parameters import Count, check
from skewless.spark.aggregators.counting import Ranking
from skewless.spark.aggregators.ddl import checked_value_type

__all__ = ["FollowCounts"]


class FollowCounts(Ranking):
    """List the `k` most frequent steps from one value to the next, per key, with exact counts.

    Use it for transitions: the pages a visitor goes to from a page, the words that follow a word. The
    next value must be in the row: ``lead(column) over (...)`` puts it there.

    Parameters
    ----------
    column : str
        The value that is followed. It may be the key itself: then the answer is what follows it.
    next_column : str
        The value that follows.
    k : int of at least 1
        How many pairs to list.
    value_type : str
        Spark's type of both columns, such as ``"string"`` or ``"bigint"``.

    Notes
    -----
    Result: ``n``, the rows without a null in either column, and ``follows``, an array of
    ``struct<value, next, n>``, highest `n` first; of equal counts the lower value first, then the
    lower next one. Rows with a null are not counted.

    Guarantee: exact, however rows are split.

    Cost: two sorts of the rows. State: each distinct pair of the key, once, and 8 bytes for its
    count; the state of all its rows is in one task in the end.

    Examples
    --------
    >>> import pyarrow as pa
    >>> steps = FollowCounts("page", "next_page", 1)
    >>> rows = pa.table({"page": ["a", "b", "a"], "next_page": ["b", "a", "b"]})
    >>> steps.finish(steps.update(steps.create(), rows))
    {'n': 3, 'follows': [{'value': 'a', 'next': 'b', 'n': 2}]}
    """

    fields: ClassVar[Sequence[str]] = ("value", "next")
    answer: ClassVar[str] = "follows"

    def __init__(
        self, column: str, next_column: str, k: Count, *, value_type: str = "string"
    ) -> None:
        check("FollowCounts", FollowCounts.__init__, column=column, next_column=next_column, k=k)
        self.value_type = checked_value_type("FollowCounts", value_type)
        self.columns, self.k = (column, next_column), int(k)
        entry = f"array<struct<value: {value_type}, next: {value_type}, n: bigint>>"
        self._declare(
            inputs=[column, next_column],
            state=f"n bigint, counted {entry}",
            result=f"n bigint, follows {entry}",
        )
