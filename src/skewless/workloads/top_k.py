"""TopK: the most frequent keys of a window; combiners count, reducers keep the best.

M. A. U. Nasir et al.: The Power of Both Choices, ICDE 2015.
"""

from __future__ import annotations

import pyarrow as pa

from skewless.parameters import Count, check
from skewless.workloads.word_count import WordCount

__all__ = ["TopK"]


class TopK(WordCount):
    """List the `k` keys with the most rows.

    Use it where the answer is about all keys: counts are split and merged per key, and what is kept of
    them is decided last. Not for the top values within each key: that is
    `skewless.spark.aggregators.TopK`.

    Parameters
    ----------
    k : int of at least 1
        How many keys to list.
    column : str
        A column of the rows, mostly the key's own; it is not looked at.

    Notes
    -----
    Result: ``n``, the rows of the key. Answer: the `k` highest counts, of equal ones the lower key
    first. The last stage may itself be split by key: the best of the best of parts are the best.

    Guarantee: exact, however rows are split.

    Cost: as `WordCount`; the last stage selects among all keys. State: 8 bytes.

    Deviations from the paper: none; it leaves ties open.

    Examples
    --------
    >>> from skewless.chunk import Chunk
    >>> top = TopK(2).start(window=4)
    >>> top.update(Chunk(None, [7, 9, 7, 8, 8, 8, 9, 8]))
    >>> [(end, answer["key"].to_pylist()) for end, answer in top.answers()]
    [(4, [7, 8]), (8, [8, 9])]

    References
    ----------
    ICDE 2015, section II-A, doi:10.1109/ICDE.2015.7113279.
    """

    def __init__(self, k: Count, column: str = "key") -> None:
        check(type(self).__name__, TopK.__init__, k=k)
        super().__init__(column)
        self.k = int(k)

    def conclude(self, results: pa.Table, end: int | None = None) -> pa.Table:
        """Return the `k` highest counts."""
        return results.sort_by([("n", "descending"), ("key", "ascending")])[: self.k]
