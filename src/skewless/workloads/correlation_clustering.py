"""CorrelationClustering: records of a key into clusters; VOTE in combiners, GREEDY in reducers.

P. Zapridou, I. Mytilinis, A. Ailamaki: Dalton, PVLDB 16(3), 2022, names the two; M. Elsner, W. Schudy:
Bounding and Comparing Methods for Correlation Clustering beyond ILP, ILP-NLP 2009; A. Gruenheid,
X. L. Dong, D. Srivastava: Incremental Record Linkage, PVLDB 7(9), 2014.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.kernel import kernel
from skewless.parameters import check
from skewless.spark.aggregator import Aggregator
from skewless.spark.aggregators.ddl import typed_values
from skewless.spark.aggregators.segments import Starts
from skewless.workloads.base import Workload
from skewless.workloads.edit_distance import ONE, agreement, packed

__all__ = ["CorrelationClustering"]

Ints = NDArray[np.int64]


class CorrelationClustering(Workload):
    """Put the records of each key into clusters of similar ones, in no given number.

    Use it as the heavy workload: an update compares a record with all before it, and the merge looks
    at all pairs. Not to link records in earnest: the similarity is the edit distance, nothing learned.

    Parameters
    ----------
    column : str
        The column of the records, strings; in a `Partial` its values.

    Notes
    -----
    The similarity s of two records is 1 minus their edit distance over the longer length. A clustering
    costs ``1 - s`` for each pair in one cluster and s for each pair apart. *VOTE*: a record joins the
    cluster with the highest sum of ``2 s - 1`` if it is positive, else it opens one. *GREEDY*: as long as
    something lowers the cost, the two clusters whose union lowers it most are merged; then a group of
    records is split off, grown from the record that fits its cluster least; then a record moves to
    another cluster.

    Result: ``n`` records; ``clusters``, each sorted, in ascending order; ``cost``.

    Guarantee: no merge of two clusters, no record put on its own and no record moved to another cluster
    lowers the cost. Where some clustering has s above 1/2 in clusters and below 1/2 between them, it is
    the answer, however rows are split. Elsewhere the answer depends on the order and on the split, as
    VOTE does: it is a local optimum, not the same one.

    Cost: VOTE compares a record with all earlier ones of its key and part; GREEDY all pairs of the key,
    8 bytes each. State: the records.

    Deviations from the paper: Dalton's says only which algorithms it takes. Parts are merged by listing
    their clusters, and GREEDY runs once, over clusters in a fixed order. GREEDY's paper keeps a queue of
    clusters that changed and tries merge, split and move on each; here the best change is taken first.
    Weights are rounded to multiples of 2**-20. Nulls are left out.

    Examples
    --------
    >>> cluster = CorrelationClustering("name")
    >>> rows = pa.table({"name": ["smith", "jones", "smyth", "johns", "smit"]})
    >>> cluster.finish(cluster.update(cluster.create(), rows))["clusters"]
    [['johns', 'jones'], ['smit', 'smith', 'smyth']]

    References
    ----------
    PVLDB 16(3), section 5, doi:10.14778/3570690.3570699. ILP-NLP 2009, pages 19-27.
    PVLDB 7(9), pages 697-708, doi:10.14778/2732939.2732943.
    """

    in_order: ClassVar[bool] = True
    merges: ClassVar[Mapping[str, str]] = {"clusters": "concat"}

    def __init__(self, column: str = "record") -> None:
        check("CorrelationClustering", CorrelationClustering.__init__, column=column)
        self.column = column
        self._declare(
            inputs=[column],
            state="clusters array<array<string>>",
            result="n bigint, clusters array<array<string>>, cost double",
        )

    def create(self) -> dict[str, Any]:
        """Return no clusters."""
        return {"clusters": []}

    def update(self, state: dict[str, Any], rows: pa.Table) -> dict[str, Any]:
        """Put each record into a cluster by VOTE, one after the other."""
        values = typed_values("CorrelationClustering", rows, self.column, "string")
        old = [(record, i) for i, records in enumerate(state["clusters"]) for record in records]
        strings = [*(record for record, _ in old), *values.drop_null().to_pylist()]
        label = np.full(len(strings), -1)
        label[: len(old)] = [i for _, i in old]
        _vote(*packed(strings), label, len(state["clusters"]))
        clusters = [list(records) for records in state["clusters"]]
        for record, i in zip(strings[len(old) :], label[len(old) :].tolist(), strict=True):
            if i == len(clusters):
                clusters.append([])
            clusters[i].append(record)
        return {"clusters": clusters}

    def update_groups(self, rows: pa.Table, starts: Starts) -> pa.Table:
        """Return the clusters of each group."""
        return Aggregator.update_groups(self, rows, starts)

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Improve the clusters of each key by GREEDY."""
        finished = [_finished(clusters) for clusters in states["clusters"].to_pylist()]
        return pa.Table.from_pylist(finished, schema=self.result_schema)


def _finished(clusters: list[list[str]]) -> dict[str, Any]:
    # The order that parts come in must not matter.
    clusters = sorted(sorted(records) for records in clusters if records)
    strings = [record for records in clusters for record in records]
    label = np.repeat(np.arange(len(clusters)), [len(records) for records in clusters])
    weight = _weights(*packed(strings))
    _greedy(weight, label)
    found: dict[int, list[str]] = {}
    for record, i in zip(strings, label.tolist(), strict=True):
        found.setdefault(i, []).append(record)
    together = label[:, None] == label[None, :]
    pairs = len(strings) * (len(strings) - 1) // 2
    # 1 - s is (1 - w) / 2 in a cluster, and s is (1 + w) / 2 between two.
    signed = int(np.where(together, -weight, weight).sum()) // 2 if strings else 0
    return {
        "n": len(strings),
        "clusters": sorted(sorted(records) for records in found.values()),
        "cost": (pairs + signed / ONE) / 2,
    }


@kernel
def _vote(codes: NDArray[np.uint32], starts: Ints, label: Ints, n_clusters: int) -> None:
    """Give the records without a label one: Elsner and Schudy's VOTE, records in arrival order."""
    votes = np.zeros(len(label) + 1, np.int64)
    for i in range(len(label)):
        if label[i] >= 0:
            continue
        votes[:n_clusters] = 0
        for j in range(i):
            votes[label[j]] += agreement(codes, starts, i, j)
        best = n_clusters
        for c in range(n_clusters):
            if votes[c] > 0 and (best == n_clusters or votes[c] > votes[best]):
                best = c
        label[i] = best
        if best == n_clusters:
            n_clusters += 1


@kernel
def _weights(codes: NDArray[np.uint32], starts: Ints) -> NDArray[np.int64]:
    """Return ``2 s - 1`` of all pairs in units of 2**-20; 0 on the diagonal."""
    n = len(starts) - 1
    weight = np.zeros((n, n), np.int64)
    for i in range(n):
        for j in range(i):
            weight[i, j] = agreement(codes, starts, i, j)
            weight[j, i] = weight[i, j]
    return weight


@kernel
def _greedy(weight: NDArray[np.int64], label: Ints) -> None:
    """Change the clusters as long as one change raises the weight within them; ids below ``n``."""
    n = len(label)
    fit = np.zeros((n, n + 1), np.int64)  # of a record to a cluster
    for i in range(n):
        for j in range(n):
            fit[i, label[j]] += weight[i, j]
    improved = True
    while improved:
        improved = False
        while _merge_best(weight, label, fit):
            improved = True
        while _split_best(weight, label, fit):
            improved = True
        while _move_best(weight, label, fit):
            improved = True


@kernel
def _put(weight: NDArray[np.int64], label: Ints, fit: NDArray[np.int64], i: int, c: int) -> None:
    """Move a record to a cluster."""
    old = label[i]
    for j in range(len(label)):
        fit[j, old] -= weight[j, i]
        fit[j, c] += weight[j, i]
    label[i] = c


@kernel
def _merge_best(weight: NDArray[np.int64], label: Ints, fit: NDArray[np.int64]) -> bool:
    """Merge the two clusters with the highest weight between them, if it is positive."""
    n = len(label)
    between = np.zeros((n, n), np.int64)
    for i in range(n):
        for c in range(n):
            between[label[i], c] += fit[i, c]
    best, left, right = 0, -1, -1
    for a in range(n):
        for b in range(a + 1, n):
            if between[a, b] > best:
                best, left, right = between[a, b], a, b
    if best <= 0:
        return False
    for i in range(n):
        if label[i] == right:
            _put(weight, label, fit, i, left)
    return True


@kernel
def _split_best(weight: NDArray[np.int64], label: Ints, fit: NDArray[np.int64]) -> bool:
    """Split off the group that raises the weight, grown from the record that fits least."""
    n = len(label)
    sizes = np.zeros(n + 1, np.int64)
    for i in range(n):
        sizes[label[i]] += 1
    free = 0
    while sizes[free] > 0:
        free += 1
    for c in range(n):
        if sizes[c] < 2:
            continue
        seed = -1
        for i in range(n):
            if label[i] == c and (seed < 0 or fit[i, c] < fit[seed, c]):
                seed = i
        gain = -fit[seed, c]
        _put(weight, label, fit, seed, free)
        while True:
            more, which = 0, -1
            for i in range(n):
                if label[i] == c and fit[i, free] - fit[i, c] > more:
                    more, which = fit[i, free] - fit[i, c], i
            if which < 0:
                break
            gain += more
            _put(weight, label, fit, which, free)
        if gain > 0:
            return True
        for i in range(n):
            if label[i] == free:
                _put(weight, label, fit, i, c)
    return False


@kernel
def _move_best(weight: NDArray[np.int64], label: Ints, fit: NDArray[np.int64]) -> bool:
    """Move the record that gains most by it to another cluster."""
    n = len(label)
    best, which, target = 0, -1, -1
    for i in range(n):
        for c in range(n):
            if c != label[i] and fit[i, c] - fit[i, label[i]] > best:
                best, which, target = fit[i, c] - fit[i, label[i]], i, c
    if which < 0:
        return False
    _put(weight, label, fit, which, target)
    return True
