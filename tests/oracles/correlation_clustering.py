"""Edit distance, VOTE, GREEDY and the cost, by definition; weights as in the docstring, in 2**-20."""

from __future__ import annotations

import functools
import math
from fractions import Fraction


@functools.cache
def distance(a, b):
    """Levenshtein by its recurrence."""
    if not a or not b:
        return len(a) + len(b)
    return min(
        distance(a[:-1], b) + 1,
        distance(a, b[:-1]) + 1,
        distance(a[:-1], b[:-1]) + (a[-1] != b[-1]),
    )


def similarity(a, b):
    longest = max(len(a), len(b))
    return Fraction(longest - distance(a, b), longest) if longest else Fraction(1)


@functools.cache
def weight(a, b):
    """2 s - 1, rounded half up."""
    return math.floor((2 * similarity(a, b) - 1) * 2**20 + Fraction(1, 2))


def vote(records):
    """Each record joins the cluster of the highest positive net weight, of equal ones the oldest."""
    clusters = []
    for record in records:
        votes = [sum(weight(record, other) for other in cluster) for cluster in clusters]
        if votes and max(votes) > 0:
            clusters[votes.index(max(votes))].append(record)
        else:
            clusters.append([record])
    return clusters


def between(left, right):
    return sum(weight(a, b) for a in left for b in right)


def gains(clusters):
    """What every merge, every record put on its own and every move would gain."""
    for i, left in enumerate(clusters):
        for right in clusters[:i]:
            yield between(left, right)
    for cluster in clusters:
        for i, record in enumerate(cluster):
            rest = cluster[:i] + cluster[i + 1 :]
            alone = -between([record], rest)
            yield alone
            for other in clusters:
                if other is not cluster:
                    yield alone + between([record], other)


def cost(clusters):
    total = Fraction(0)
    label = [(record, i) for i, cluster in enumerate(clusters) for record in cluster]
    for i, (a, cluster) in enumerate(label):
        for b, other in label[:i]:
            s = (1 + Fraction(weight(a, b), 2**20)) / 2
            total += 1 - s if cluster == other else s
    return float(total)


def greedy(clusters):
    """Merge, split, move as long as the cost falls; the best change first, of equal ones the first."""
    clusters = sorted(sorted(cluster) for cluster in clusters)
    records = [record for cluster in clusters for record in cluster]
    numbers = iter(range(len(records)))
    # Records by number, clusters in slots: that is what "the first" of equal ones means.
    slots = [[next(numbers) for _ in cluster] for cluster in clusters]
    changed = True
    while changed:
        changed = False
        for change in (merge_best, split_best, move_best):
            while change(slots, records):
                changed = True
    return sorted(sorted(records[i] for i in slot) for slot in slots if slot)


def fit(records, left, right):
    return sum(weight(records[i], records[j]) for i in left for j in right if i != j)


def put(slots, group, target):
    group = list(group)
    for slot in slots:
        slot[:] = [i for i in slot if i not in group]
    if target == len(slots):
        slots.append([])
    slots[target] = sorted([*slots[target], *group])


def merge_best(slots, records):
    best, found = 0, None
    for a in range(len(slots)):
        for b in range(a + 1, len(slots)):
            if fit(records, slots[a], slots[b]) > best:
                best, found = fit(records, slots[a], slots[b]), (a, b)
    if found:
        put(slots, slots[found[1]], found[0])
    return found is not None


def split_best(slots, records):
    for slot in [slot for slot in slots if len(slot) > 1]:
        rest, off, gain = list(slot), [], 0
        while rest:
            gains = [fit(records, [i], off) - fit(records, [i], rest) for i in rest]
            if off and max(gains) <= 0:
                break
            gain += max(gains)
            off.append(rest.pop(gains.index(max(gains))))
        if gain > 0:
            put(slots, off, slots.index([]) if [] in slots else len(slots))
            return True
    return False


def move_best(slots, records):
    best, found = 0, None
    for i in range(len(records)):
        mine = next(slot for slot in slots if i in slot)
        for target, slot in enumerate([*slots, []]):
            gain = fit(records, [i], slot) - fit(records, [i], mine)
            if slot is not mine and gain > best:
                best, found = gain, (i, target)
    if found:
        put(slots, [found[0]], found[1])
    return found is not None


def answer(rows):
    by_key = {}
    for _, key, columns in rows:
        by_key.setdefault(key, [])
        if columns["record"] is not None:
            by_key[key].append(columns["record"])
    found = []
    for key in sorted(by_key):
        clusters = greedy(vote(by_key[key]))
        n = len(by_key[key])
        found.append({"key": key, "n": n, "clusters": clusters, "cost": cost(clusters)})
    return found
