"""Counts of keys by definition. `rows` are (time, key, columns) in arrival order, here as everywhere."""

from __future__ import annotations

from collections import Counter


def answer(rows):
    counts = Counter(key for _, key, _ in rows)
    return [{"key": key, "n": counts[key]} for key in sorted(counts)]
