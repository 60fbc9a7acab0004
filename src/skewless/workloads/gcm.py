"""CpuByClass, MeanCpuByJob: two queries of Google's cluster monitoring, over sliding windows.

N. R. Katsipoulakis, A. Labrinidis, P. K. Chrysanthis: A Holistic View of Stream Partitioning Costs,
PVLDB 10(11), 2017; the first after A. Koliousis et al.: SABER, SIGMOD 2016.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skewless.parameters import check
from skewless.spark.aggregators.segments import Starts, kept, numbers, sums
from skewless.workloads.base import Workload

__all__ = ["CpuByClass", "MeanCpuByJob"]


class CpuByClass(Workload):
    """Add up the CPU that is asked for by each scheduling class; windows of 60 s, one a second.

    Use it for few keys and small windows that follow closely. Not where keys are many: `MeanCpuByJob`.

    Parameters
    ----------
    column : str
        The column of the CPU request, numbers; in a `Partial` its values. The key is the class.

    Notes
    -----
    Result: ``n``, the events with a request, and ``cpu``, their sum; null without one. Answer: those
    by ascending class.

    Guarantee: exact but for the rounding of sums, however rows are split.

    Cost: one pass. State: 16 bytes.

    Deviations from the paper: none.

    Examples
    --------
    >>> from skewless.chunk import Chunk
    >>> part = CpuByClass().start(window=60, slide=1)
    >>> part.update(Chunk([0, 30, 70], [0, 0, 2], np.array([0.25, 0.5, 0.125])))
    >>> part.answer(60).to_pylist()
    [{'key': 0, 'n': 2, 'cpu': 0.75}]
    >>> part.answer(90).to_pylist()
    [{'key': 0, 'n': 1, 'cpu': 0.5}, {'key': 2, 'n': 1, 'cpu': 0.125}]

    References
    ----------
    PVLDB 10(11), section 6 and 6.2.1, doi:10.14778/3137628.3137639. SIGMOD 2016,
    doi:10.1145/2882903.2882906.
    """

    merges: ClassVar[Mapping[str, str]] = {"n": "sum", "total": "sum"}
    #: What the result is called.
    measure: ClassVar[str] = "cpu"

    def __init__(self, column: str = "cpu_request") -> None:
        check(type(self).__name__, CpuByClass.__init__, column=column)
        self.column = column
        self._declare(
            inputs=[column],
            state="n bigint, total double",
            result=f"n bigint, {self.measure} double",
        )

    def create(self) -> dict[str, Any]:
        """Return the sum of no events."""
        return {"n": 0, "total": 0.0}

    def update_groups(self, rows: pa.Table, starts: Starts) -> pa.Table:
        """Return the sum of each group."""
        cpu, known = numbers(type(self).__name__, rows, self.column)
        starts = kept(starts, known)
        return pa.table({"n": np.diff(starts), "total": sums(cpu[known], starts)})

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the sums."""
        n, total = states["n"].to_numpy(), states["total"].to_numpy()
        return pa.table({"n": n, self.measure: pa.array(total, mask=n == 0)})


class MeanCpuByJob(CpuByClass):
    """Take the mean CPU that is asked for by each job; windows of 45 min, one a second.

    Use it for hundreds of thousands of skewed keys in long windows. Not where keys are few:
    `CpuByClass`.

    Parameters
    ----------
    column : str
        The column of the CPU request, numbers; in a `Partial` its values. The key is the job.

    Notes
    -----
    Result: ``n``, the events with a request, and ``mean_cpu``; null without one. Answer: those by
    ascending job.

    Guarantee: exact but for the rounding of sums, however rows are split.

    Cost: one pass. State: 16 bytes.

    Deviations from the paper: none; it counts events of all kinds.

    Examples
    --------
    >>> mean = MeanCpuByJob()
    >>> mean.finish(mean.update(mean.create(), pa.table({"cpu_request": [0.25, None, 0.75]})))
    {'n': 2, 'mean_cpu': 0.5}

    References
    ----------
    PVLDB 10(11), section 6 and 6.2.2, doi:10.14778/3137628.3137639.
    """

    measure: ClassVar[str] = "mean_cpu"

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the means."""
        n, total = states["n"].to_numpy(), states["total"].to_numpy()
        mean = total / np.maximum(n, 1)
        return pa.table({"n": n, self.measure: pa.array(mean, mask=n == 0)})
