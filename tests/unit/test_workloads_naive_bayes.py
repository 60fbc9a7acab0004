"""NaiveBayes: the model from merged counts classifies as the sequential classifier does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.partitioners import PKG
from skewless.workloads import NaiveBayes
from tests.oracles.naive_bayes import classify

EXAMPLES = settings(max_examples=40, deadline=None, derandomize=True)
documents = st.lists(st.lists(st.integers(1, 6), max_size=6), min_size=1, max_size=12)


def trained(chunk, workers, n_workers):
    bayes = NaiveBayes()
    whole = bayes.start()
    for worker in range(n_workers):
        rows = np.flatnonzero(workers == worker)
        part = bayes.start()
        part.update(Chunk(chunk.time[rows], chunk.key[rows], chunk.value.take(pa.array(rows))))
        whole.merge(part)
    return bayes.fit(whole.answer())


@EXAMPLES
@given(documents, st.randoms(use_true_random=False), documents)
def test_it_classifies_as_one_worker_with_exact_probabilities_does(known, random, queries):
    labels = [random.choice("abc") for _ in known]
    chunk = NaiveBayes.messages(known, labels)
    model = trained(chunk, PKG(4).route(chunk), 4)
    found = NaiveBayes.classify(model, [[*query, 99] for query in queries])
    wanted = classify(known, labels, queries)
    for one, other, query in zip(found, wanted, queries, strict=True):
        # Of classes that are equally likely, rounding may choose another one.
        assert one == other or score(model, one, query) == pytest.approx(score(model, other, query))


def score(model, label, query):
    i = model.labels.index(label)
    places = [model.features.tolist().index(w) for w in query if w in model.features]
    return model.prior[i] + sum(model.likelihood[p, i] for p in places)


def test_the_model_is_the_same_bit_for_bit_whatever_the_split():
    rng = np.random.default_rng(4)
    known = [(1 + rng.zipf(1.4, 30) % 50).tolist() for _ in range(60)]
    chunk = NaiveBayes.messages(known, [("x", "y", "z")[i % 3] for i in range(60)])
    one = trained(chunk, np.zeros(len(chunk), int), 1)
    for n_workers in (2, 9):
        other = trained(chunk, PKG(n_workers).route(chunk), n_workers)
        assert other.labels == one.labels
        for a, b in zip(one[1:], other[1:], strict=True):
            assert a.tolist() == b.tolist()


def test_pkg_keeps_the_counts_of_a_feature_on_two_workers():
    rng = np.random.default_rng(5)
    known = [(1 + rng.zipf(1.3, 40) % 80).tolist() for _ in range(100)]
    chunk = NaiveBayes.messages(known, ["a", "b"] * 50)
    workers = PKG(16).route(chunk)
    for feature in np.unique(chunk.key):
        assert len(np.unique(workers[chunk.key == feature])) <= 2


def test_a_model_by_hand():
    bayes = NaiveBayes()
    part = bayes.start()
    part.update(bayes.messages([[1, 1, 2], [2], [3]], ["a", "b", "b"]))
    model = bayes.fit(part.answer())
    assert (model.labels, model.features.tolist()) == (["a", "b"], [1, 2, 3])
    assert np.exp(model.prior).tolist() == pytest.approx([1 / 3, 2 / 3])
    # Class a has 3 features, b has 2; one is added to each of three counts.
    shares = [[3 / 6, 1 / 5], [2 / 6, 2 / 5], [1 / 6, 2 / 5]]
    assert np.exp(model.likelihood) == pytest.approx(np.array(shares))
    assert bayes.classify(model, [[], [1], [7]]) == ["b", "a", "b"]


def test_documents_without_features_and_without_a_class():
    bayes = NaiveBayes()
    part = bayes.start()
    part.update(bayes.messages([[], [], [5]], ["a", "a", None]))
    model = bayes.fit(part.answer())
    assert bayes.classify(model, [[5], []]) == ["a", "a"]


def test_bad_input_is_named():
    with pytest.raises(
        DataError, match=r"^NaiveBayes.messages: labels must be one per document, g"
    ):
        NaiveBayes.messages([[1]], [])
    with pytest.raises(
        DataError, match=r"^NaiveBayes.messages: feature 0 is taken .* document 1 has"
    ):
        NaiveBayes.messages([[1], [0]], ["a", "b"])
    with pytest.raises(DataError, match=r"^NaiveBayes.fit: no row of feature 0"):
        NaiveBayes.fit(NaiveBayes().start().answer())
    with pytest.raises(ParameterError, match=r"^NaiveBayes.fit: smoothing must be a float above 0"):
        NaiveBayes.fit(NaiveBayes().start().answer(), 0)
