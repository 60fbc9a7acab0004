"""TopK: the most frequent values of a column per key, with exact counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from skewless.parameters import Count, check
from skewless.spark.aggregators.counting import Ranking
from skewless.spark.aggregators.ddl import checked_value_type

__all__ = ["TopK"]


class TopK(Ranking):
    """List the `k` most frequent values of a column per key, with exact counts.

    Use it where a key has few enough distinct values to hold all their counts. Where it has not,
    `HeavyHitters` keeps a state of fixed size.

    Parameters
    ----------
    column : str
        The column whose values are counted.
    k : int of at least 1
        How many values to list.
    by : str or None
        A column of whole numbers: values are ranked by its sum instead of their number of rows.
    value_type : str
        Spark's type of `column`, such as ``"string"``, ``"bigint"`` or ``"decimal(10,2)"``.

    Notes
    -----
    Result: ``top``, an array of ``struct<value, n>``, highest `n` first; of equal counts the lower
    value first. Rows with a null in `column` or `by` are not counted; a key with no others has an
    empty array. NaN is one value, the highest, and -0.0 is 0.0, as in Spark's grouping.

    Guarantee: exact, however rows are split.

    Cost: one sort of the rows. State: each distinct value of the key, once, and 8 bytes for its
    count; the state of all its rows is in one task in the end.

    Examples
    --------
    >>> import pyarrow as pa
    >>> words = TopK("word", 2)
    >>> rows = pa.table({"word": ["the", "a", "the", None, "an"]})
    >>> words.finish(words.update(words.create(), rows))
    {'top': [{'value': 'the', 'n': 2}, {'value': 'a', 'n': 1}]}
    """

    fields: ClassVar[Sequence[str]] = ("value",)
    answer: ClassVar[str] = "top"

    def __init__(
        self, column: str, k: Count, by: str | None = None, *, value_type: str = "string"
    ) -> None:
        check("TopK", TopK.__init__, column=column, k=k, by=by)
        self.value_type = checked_value_type("TopK", value_type)
        self.columns, self.k, self.by = (column,), int(k), by
        entry = f"array<struct<value: {value_type}, n: bigint>>"
        self._declare(
            inputs=[column] if by is None else [column, by],
            state=f"n bigint, counted {entry}",
            result=f"top {entry}",
        )
