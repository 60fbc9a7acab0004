"""Counts of entities by host by definition; an entity is a run of words that start in capitals."""

from __future__ import annotations

from collections import Counter


def entities(text):
    found, run = [], []
    for word in text.split(" "):
        if word[:1].isupper():
            run.append(word)
        elif run:
            found.append(" ".join(run))
            run = []
    return [*found, *([" ".join(run)] if run else [])]


def answer(rows, k):
    hosts = {}
    for _, key, columns in rows:
        n, counts = hosts.setdefault(key, [0, Counter()])
        if columns["text"] is not None:
            hosts[key][0] = n + 1
            counts.update(entities(columns["text"]))
    found = []
    for key, (n, counts) in sorted(hosts.items()):
        best = sorted(counts, key=lambda entity: (-counts[entity], entity))[:k]
        top = [{"entity": entity, "n": counts[entity]} for entity in best]
        found.append({"key": key, "n": n, "entities": top})
    return found
