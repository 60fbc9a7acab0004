"""The most frequent keys by definition."""

from __future__ import annotations

from collections import Counter


def answer(rows, k):
    counts = Counter(key for _, key, _ in rows)
    best = sorted(counts, key=lambda key: (-counts[key], key))[:k]
    return [{"key": key, "n": counts[key]} for key in best]
