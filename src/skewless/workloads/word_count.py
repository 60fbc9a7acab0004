"""WordCount: how often each key comes, in all or per window.

P. Zapridou, I. Mytilinis, A. Ailamaki: Dalton: Learned Partitioning for Distributed Data Streams, PVLDB
16(3), 2022; M. A. U. Nasir et al.: The Power of Both Choices, ICDE 2015.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skewless.parameters import check
from skewless.spark.aggregators.segments import Starts
from skewless.workloads.base import Workload

__all__ = ["WordCount"]


class WordCount(Workload):
    """Count the rows of each key.

    Use it as the lightest workload there is: an update is one addition, so what a policy costs shows.
    Not for a job that only counts: Spark combines its own ``count`` before the shuffle.

    Parameters
    ----------
    column : str
        A column of the rows, mostly the key's own; it is not looked at.

    Notes
    -----
    Result: ``n``, the rows of the key, nulls included. Answer: the counts by ascending key.

    Guarantee: exact, however rows are split.

    Cost: a subtraction per key and batch. State: 8 bytes.

    Deviations from the paper: the words come as rows; cutting text into words is left to the caller.

    Examples
    --------
    >>> count = WordCount("word")
    >>> count.finish(count.update(count.create(), pa.table({"word": ["the", "the", None]})))
    {'n': 3}

    References
    ----------
    PVLDB 16(3), section 5, doi:10.14778/3570690.3570699. ICDE 2015, section II-A,
    doi:10.1109/ICDE.2015.7113279.
    """

    merges: ClassVar[Mapping[str, str]] = {"n": "sum"}

    def __init__(self, column: str = "key") -> None:
        check(type(self).__name__, WordCount.__init__, column=column)
        self.column = column
        self._declare(inputs=[column], state="n bigint", result="n bigint")

    def create(self) -> dict[str, Any]:
        """Return the count of no rows."""
        return {"n": 0}

    def update_groups(self, rows: pa.Table, starts: Starts) -> pa.Table:
        """Return the number of rows of each group."""
        return pa.table({"n": np.diff(starts)})

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the counts as they are."""
        return states
