"""DecisionTree: the streaming parallel decision tree, its histograms split by feature.

Y. Ben-Haim, E. Tom-Tov: A Streaming Parallel Decision Tree Algorithm, JMLR 11, 2010; M. A. U. Nasir
et al.: The Power of Both Choices, ICDE 2015, section VI-B.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError
from skewless.parameters import Count, Range, check
from skewless.spark.aggregator import Aggregator
from skewless.spark.aggregators.segments import Starts, numbers
from skewless.workloads.base import Workload
from skewless.workloads.bins import Bins, insert, reduced, sum_upto, uniform

__all__ = ["DecisionTree", "Tree"]


class Tree(NamedTuple):
    """A binary tree; node 0 is the root, and ``x[feature] <= threshold`` goes left."""

    feature: list[int]
    """Feature that the node tests, -1 at a leaf."""
    threshold: list[float]
    """What it is compared with."""
    left: list[int]
    """Node to the left, -1 at a leaf."""
    right: list[int]
    """Node to the right, -1 at a leaf."""
    label: list[int]
    """Class with the most rows at the node, or about, where it has just been made; -1 before any."""

    def leaves(self, x: ArrayLike) -> NDArray[np.int32]:
        """Return the leaf that each row of a matrix falls into, int32."""
        matrix = np.asarray(x, np.float64)
        node = np.zeros(len(matrix), np.int32)
        for i in range(len(self.feature)):  # children come after their node
            if self.feature[i] >= 0:
                here = node == i
                goes_left = matrix[here, self.feature[i]] <= self.threshold[i]
                node[here] = np.where(goes_left, self.left[i], self.right[i])
        return node

    def classify(self, x: ArrayLike) -> NDArray[np.int64]:
        """Return the class of each row of a matrix, int64."""
        return np.asarray(self.label, np.int64)[self.leaves(x)]


class DecisionTree(Workload):
    """Summarise each feature in histograms per leaf and class; a master grows the tree from them.

    Use it for an order-dependent state of middling size whose merge is what costs. Not where the rows
    fit in one process: any library's tree is better.

    Parameters
    ----------
    most_bins : int of at least 2
        Bins of a histogram (B).
    points : int of at least 2
        A split is looked for at ``points - 1`` places of a feature (B with a tilde).

    Notes
    -----
    The key is the feature's number; the columns are ``leaf`` and ``label``, whole numbers, and ``x``.
    Rows with a null or a NaN are left out. Result: ``histograms``, an array of
    ``struct<leaf, label, bins>`` by leaf and label, with ``bins`` an array of ``struct<p, m>``. Answer:
    those by ascending feature, which `grow` turns into the next level of the tree.

    Guarantee: the number of values of each histogram is exact, and its mean but for rounding, however
    rows are split. With at most `most_bins` distinct values in each histogram everything is exact, and
    the tree is that of a single worker. Else bins depend on order and split, without a bound on ranks:
    the paper has one under assumptions only.

    Cost: 2 B steps a value. State: 16 B bytes per leaf and class that the feature comes with.

    Deviations from the paper: all parts of a histogram are merged at once, not two by two. Equal gaps:
    the lower pair is joined. The impurity is Gini's. Leaves stop by their number of rows and by the
    gain.

    Examples
    --------
    >>> forest, x = DecisionTree(most_bins=10), np.array([[1.0], [2.0], [8.0], [9.0]])
    >>> tree = forest.sprout()
    >>> part = forest.start()
    >>> part.update(forest.messages(tree, x, [0, 0, 1, 1]))
    >>> tree = forest.grow(tree, part.answer())
    >>> tree.classify([[0.0], [7.5]]).tolist()
    [0, 1]

    References
    ----------
    JMLR 11, pages 849-872, algorithms 1 to 7. ICDE 2015, section VI-B, doi:10.1109/ICDE.2015.7113279.
    """

    in_order = True

    def __init__(
        self,
        most_bins: Annotated[int, Range(2)] = 50,
        points: Annotated[int, Range(2)] = 10,
    ) -> None:
        check("DecisionTree", DecisionTree.__init__, most_bins=most_bins, points=points)
        self.most_bins, self.points = int(most_bins), int(points)
        columns = (
            "histograms array<struct<leaf: int, label: int, "
            "bins: array<struct<p: double, m: double>>>>"
        )
        self._declare(inputs=["leaf", "label", "x"], state=columns, result=columns)

    def create(self) -> dict[str, Any]:
        """Return no histograms."""
        return {"histograms": []}

    def update(self, state: dict[str, Any], rows: pa.Table) -> dict[str, Any]:
        """Insert each value into its histogram, in order."""
        columns = [numbers("DecisionTree", rows, name) for name in self.inputs]
        (leaf, label, x), known = zip(*columns, strict=True)
        kept = np.logical_and.reduce(known) & ~np.isnan(x)
        found = _read(state)
        places = np.stack([leaf[kept], label[kept]]).astype(np.int64)
        for pair in np.unique(places, axis=1).T:
            here = (places == pair[:, None]).all(axis=0)
            place = (int(pair[0]), int(pair[1]))
            bins = found.get(place, Bins(np.empty(0), np.empty(0)))
            found[place] = insert(bins, x[kept][here], self.most_bins)
        return _written(found)

    def update_groups(self, rows: pa.Table, starts: Starts) -> pa.Table:
        """Return the histograms of each group."""
        return Aggregator.update_groups(self, rows, starts)

    def merge_groups(self, states: pa.Table, starts: Starts) -> pa.Table:
        """Merge the histograms of all parts of each key."""
        listed, merged = states.to_pylist(), []
        for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            parts: dict[tuple[int, int], list[Bins]] = {}
            for state in listed[start:stop]:
                for place, bins in _read(state).items():
                    parts.setdefault(place, []).append(bins)
            merged.append(_written({place: self._joined(all_) for place, all_ in parts.items()}))
        return pa.Table.from_pylist(merged, schema=self.state_schema)

    def _joined(self, parts: list[Bins]) -> Bins:
        p = np.concatenate([bins.p for bins in parts])
        return reduced(p, np.concatenate([bins.m for bins in parts]), self.most_bins)

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the histograms as they are."""
        return states

    @staticmethod
    def sprout() -> Tree:
        """Return a tree of one leaf."""
        return Tree([-1], [0.0], [-1], [-1], [-1])

    @staticmethod
    def messages(tree: Tree, x: ArrayLike, labels: ArrayLike) -> Chunk:
        """Return a tuple for each feature of each row, to the leaf that the row is at.

        Parameters
        ----------
        tree
            The tree so far.
        x
            float64, (rows, features).
        labels
            Class of each row, 0 or above.
        """
        matrix, label = np.asarray(x, np.float64), np.asarray(labels)
        if matrix.ndim != 2 or label.shape != (len(matrix),):
            raise DataError(
                f"DecisionTree.messages: x must be a matrix and labels one per row of it, got shapes "
                f"{matrix.shape} and {label.shape}."
            )
        n_features = matrix.shape[1]
        table = pa.table(
            {
                "leaf": np.repeat(tree.leaves(matrix), n_features),
                "label": np.repeat(label.astype(np.int32), n_features),
                "x": matrix.ravel(),
            }
        )
        return Chunk(None, np.tile(np.arange(n_features, dtype=np.uint64), len(matrix)), table)

    def grow(
        self,
        tree: Tree,
        answer: pa.Table,
        least_rows: Count = 2,
        least_gain: Annotated[float, Range(0, 1)] = 1e-9,
    ) -> Tree:
        """Return the tree with its leaves split where that lowers the impurity most.

        Parameters
        ----------
        tree
            The tree that the rows were sent through.
        answer
            Columns ``key``, the feature, and ``histograms``.
        least_rows : int of at least 1
            A leaf of fewer rows is not split.
        least_gain : float in [0, 1]
            Nor is one whose best split lowers Gini's impurity by no more.
        """
        check("DecisionTree.grow", DecisionTree.grow, least_rows=least_rows, least_gain=least_gain)
        by_leaf: dict[int, dict[int, dict[int, Bins]]] = {}
        for row in answer.sort_by("key").to_pylist():
            for (leaf, label), bins in _read(row).items():
                by_leaf.setdefault(leaf, {}).setdefault(row["key"], {})[label] = bins
        grown = Tree(
            list(tree.feature),
            list(tree.threshold),
            list(tree.left),
            list(tree.right),
            list(tree.label),
        )
        for leaf, features in sorted(by_leaf.items()):
            first = next(iter(features.values()))
            counts = {label: float(bins.m.sum()) for label, bins in first.items()}
            grown.label[leaf] = _most(counts)
            split = self._best(features)
            if sum(counts.values()) < least_rows or split.gain <= least_gain:
                continue
            grown.feature[leaf], grown.threshold[leaf] = split.feature, split.threshold
            for side, label in ((grown.left, split.left), (grown.right, split.right)):
                side[leaf] = len(grown.feature)
                grown.feature.append(-1)
                grown.threshold.append(0.0)
                grown.left.append(-1)
                grown.right.append(-1)
                grown.label.append(label)
        return grown

    def _best(self, features: dict[int, dict[int, Bins]]) -> _Split:
        """Return the best split (Algorithm 7, lines 5-8)."""
        best = _Split(0.0, -1, 0.0, -1, -1)
        for feature, classes in features.items():
            total = np.array([bins.m.sum() for bins in classes.values()])
            for u in uniform(self._joined(list(classes.values())), self.points):
                left = np.array([sum_upto(bins, u) for bins in classes.values()])
                share = left.sum() / total.sum()
                gain = _gini(total) - share * _gini(left) - (1 - share) * _gini(total - left)
                if gain > best.gain:
                    sides = (
                        _most(dict(zip(classes, n.tolist(), strict=True)))
                        for n in (left, total - left)
                    )
                    best = _Split(float(gain), feature, u, *sides)
        return best


class _Split(NamedTuple):
    """A test that a leaf may get."""

    gain: float
    """By how much it lowers Gini's impurity."""
    feature: int
    """What is tested."""
    threshold: float
    """At most this goes left."""
    left: int
    """Class of the left leaf."""
    right: int
    """Class of the right leaf."""


def _most(counts: dict[int, float]) -> int:
    """Return the class of the highest count, of equal ones the lower."""
    return min(counts, key=lambda label: (-counts[label], label))


def _gini(counts: NDArray[np.float64]) -> float:
    n = counts.sum()
    return float(1.0 - ((counts / n) ** 2).sum()) if n > 0 else 0.0


def _read(state: dict[str, Any]) -> dict[tuple[int, int], Bins]:
    return {
        (h["leaf"], h["label"]): Bins(
            np.array([b["p"] for b in h["bins"]], np.float64),
            np.array([b["m"] for b in h["bins"]], np.float64),
        )
        for h in state["histograms"]
    }


def _written(found: dict[tuple[int, int], Bins]) -> dict[str, Any]:
    return {
        "histograms": [
            {
                "leaf": leaf,
                "label": label,
                "bins": [
                    {"p": p, "m": m} for p, m in zip(bins.p.tolist(), bins.m.tolist(), strict=True)
                ],
            }
            for (leaf, label), bins in sorted(found.items())
        ]
    }
