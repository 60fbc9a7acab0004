"""Counts of features by class, and a multinomial naive Bayes classifier by Bayes' theorem."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction


def answer(rows):
    counts = {}
    for _, key, columns in rows:
        counts.setdefault(key, Counter())
        if columns["label"] is not None:
            counts[key][columns["label"]] += 1
    return [
        {
            "key": key,
            "n": counts[key].total(),
            "classes": [{"label": c, "n": counts[key][c]} for c in sorted(counts[key])],
        }
        for key in sorted(counts)
    ]


def classify(documents, labels, queries):
    """Train on all documents at once with Laplace's smoothing; exact probabilities."""
    vocabulary = {word for document in documents for word in document}
    found = []
    for query in queries:
        best = None
        for label in sorted(set(labels)):
            mine = [d for d, other in zip(documents, labels, strict=True) if other == label]
            words = Counter(word for document in mine for word in document)
            p = Fraction(len(mine), len(documents))
            for word in query:
                if word in vocabulary:
                    p *= Fraction(words[word] + 1, words.total() + len(vocabulary))
            if best is None or p > best[0]:
                best = (p, label)
        found.append(best[1])
    return found
