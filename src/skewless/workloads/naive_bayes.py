"""NaiveBayes: a classifier from counts of each feature by class, one key per feature.

M. A. U. Nasir et al.: The Power of Both Choices, ICDE 2015, section VI-A.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError
from skewless.parameters import Positive, check
from skewless.spark.aggregators.counting import count_rows, known_rows, parts_of
from skewless.spark.aggregators.ddl import typed_values
from skewless.spark.aggregators.segments import Starts
from skewless.workloads.base import Workload

__all__ = ["Model", "NaiveBayes"]

#: The feature that every document has once: its counts are those of the classes.
_DOCUMENT = 0


class Model(NamedTuple):
    """A trained multinomial model, all in natural logarithms."""

    labels: list[str]
    """The classes, ascending."""
    features: NDArray[np.uint64]
    """uint64: known features, ascending."""
    prior: NDArray[np.float64]
    """float64, (classes,): log of the class's share of the documents."""
    likelihood: NDArray[np.float64]
    """float64, (features, classes): log of the feature's smoothed share of the class's features."""


class NaiveBayes(Workload):
    """Count each feature by class; the counts of all features are a naive Bayes model.

    Use it for a skewed key whose state is small, a count per class: words of documents. Not to train
    on a sparse matrix that fits in memory.

    Parameters
    ----------
    column : str
        The column of the class, strings; in a `Partial` its values. The key is the feature; feature
        0 stands for the document itself and comes once in each.

    Notes
    -----
    Result: ``n``, the feature's rows, and ``classes``, an array of ``struct<label, n>`` by ascending
    label. Answer: those by ascending feature, which `fit` turns into a `Model`. Rows without a class
    are not counted.

    Guarantee: the counts are exact, however rows are split, so the model is that of a single worker.

    Cost: a sort of each batch. State: a class and 8 bytes for each class that the feature comes with.

    Deviations from the paper: it probes both workers of a feature for every query; here the counts are
    merged first. It leaves smoothing and the priors open: Laplace's, and the share of the documents.

    Examples
    --------
    >>> bayes = NaiveBayes()
    >>> part = bayes.start()
    >>> part.update(bayes.messages([[1, 1, 2], [2, 3]], ["a", "b"]))
    >>> model = bayes.fit(part.answer())
    >>> bayes.classify(model, [[1, 9], [3]])
    ['a', 'b']

    References
    ----------
    ICDE 2015, section VI-A, doi:10.1109/ICDE.2015.7113279.
    """

    merges: ClassVar[Mapping[str, str]] = {"n": "sum"}

    def __init__(self, column: str = "label") -> None:
        check("NaiveBayes", NaiveBayes.__init__, column=column)
        self.column = column
        entry = "array<struct<label: string, n: bigint>>"
        self._declare(
            inputs=[column], state=f"n bigint, classes {entry}", result=f"n bigint, classes {entry}"
        )

    def create(self) -> dict[str, Any]:
        """Return the counts of no rows."""
        return {"n": 0, "classes": []}

    def update_groups(self, rows: pa.Table, starts: Starts) -> pa.Table:
        """Return the counts of each group."""
        labels = typed_values("NaiveBayes", rows, self.column, "string")
        group, columns = known_rows([labels], starts)
        counts = count_rows(group, len(starts) - 1, columns)
        n = np.bincount(group, minlength=len(starts) - 1)
        return pa.table({"n": n, "classes": counts.all(["label"])})

    def merge_groups(self, states: pa.Table, starts: Starts) -> pa.Table:
        """Add up the counts of all parts of each key."""
        group, labels, n = parts_of(states["classes"], starts)
        return pa.table({"classes": count_rows(group, len(starts) - 1, labels, n).all(["label"])})

    def finish_groups(self, states: pa.Table) -> pa.Table:
        """Return the counts as they are."""
        return states

    @staticmethod
    def messages(documents: Sequence[ArrayLike], labels: Sequence[str | None]) -> Chunk:
        """Return a tuple for each feature of each document, and one for the document.

        Parameters
        ----------
        documents
            Features of each, uint64 but 0, as often as they come.
        labels
            Class of each.
        """
        if len(documents) != len(labels):
            raise DataError(
                f"NaiveBayes.messages: labels must be one per document, got {len(labels)} for "
                f"{len(documents)} documents."
            )
        keys = [np.array([_DOCUMENT, *np.asarray(document).tolist()]) for document in documents]
        for i, key in enumerate(keys):
            if (key[1:] == _DOCUMENT).any():
                raise DataError(
                    f"NaiveBayes.messages: feature 0 is taken by the document itself, document {i} "
                    "has it; hash the features, or number them from 1."
                )
        sizes = [len(key) for key in keys]
        value = np.repeat(np.array(labels, object), sizes)
        key = np.concatenate([np.empty(0, np.uint64), *(key.astype(np.uint64) for key in keys)])
        return Chunk(None, key, pa.array(value, pa.string()))

    @staticmethod
    def fit(answer: pa.Table, smoothing: Positive = 1.0) -> Model:
        """Return the model of the counts of all features.

        Parameters
        ----------
        answer
            Columns ``key`` and ``classes``.
        smoothing : float above 0
            Added to each count; 1 is Laplace's.

        Raises
        ------
        DataError
            There is no document: no feature 0.
        """
        check("NaiveBayes.fit", NaiveBayes.fit, smoothing=smoothing)
        rows = answer.sort_by("key").to_pylist()
        counts = {row["key"]: {c["label"]: c["n"] for c in row["classes"]} for row in rows}
        documents = counts.pop(_DOCUMENT, {})
        if not documents:
            raise DataError(
                "NaiveBayes.fit: no row of feature 0, which counts the documents of each class; "
                "messages() makes them."
            )
        labels = sorted(documents)
        matrix = np.array(
            [[found.get(label, 0) for label in labels] for found in counts.values()], np.float64
        ).reshape(len(counts), len(labels))
        total = matrix.sum(axis=0) + smoothing * len(counts)
        prior = np.array([documents[label] for label in labels], np.float64)
        return Model(
            labels,
            np.array(list(counts), np.uint64),
            np.log(prior / prior.sum()),
            np.log((matrix + smoothing) / np.where(total > 0, total, 1.0)),
        )

    @staticmethod
    def classify(model: Model, documents: Iterable[ArrayLike]) -> list[str]:
        """Return the likeliest class of each document, of equal ones the lower.

        Features that the model does not know are passed over.
        """
        found = []
        for document in documents:
            features = np.asarray(document).astype(np.uint64)
            place = np.searchsorted(model.features, features)
            place[place == len(model.features)] = 0
            known = model.features[place] == features if len(model.features) else place < 0
            score = model.prior + model.likelihood[place[known]].sum(axis=0)
            found.append(model.labels[int(score.argmax())])
        return found
