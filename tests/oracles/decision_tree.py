"""The histogram of Ben-Haim and Tom-Tov, JMLR 11, 2010, algorithms 1 to 4."""

from __future__ import annotations

import math


def update(bins, p, most):
    """Algorithm 1: add (p, 1), and if that is too many replace the nearest pair by its mean."""
    if p in bins:
        return {**bins, p: bins[p] + 1}
    return shrink({**bins, p: 1}, most)


def merge(left, right, most):
    """Algorithm 2: all bins of both, then as in algorithm 1 until there are few enough."""
    both = dict(left)
    for p, m in right.items():
        both[p] = both.get(p, 0) + m
    return shrink(both, most)


def shrink(bins, most):
    bins = dict(bins)
    while len(bins) > most:
        p = sorted(bins)
        i = min(range(len(p) - 1), key=lambda i: (p[i + 1] - p[i], i))
        a, b = p[i], p[i + 1]
        ma, mb = bins.pop(a), bins.pop(b)
        bins[(a * ma + b * mb) / (ma + mb)] = ma + mb
    return bins


def sum_upto(bins, b):
    """Algorithm 3: whole bins before, half the bin at the left, and the trapezoid up to b."""
    p = sorted(bins)
    if not p or b < p[0]:
        return 0
    if b >= p[-1]:
        return sum(bins.values())
    i = max(i for i in range(len(p)) if p[i] <= b)
    mi, mj = bins[p[i]], bins[p[i + 1]]
    share = (b - p[i]) / (p[i + 1] - p[i])
    mb = mi + (mj - mi) * share
    return sum(bins[q] for q in p[:i]) + mi / 2 + (mi + mb) / 2 * share


def uniform(bins, n):
    """Algorithm 4: u with sum_upto(u) = j / n of all; the root of the quadratic."""
    p, points = sorted(bins), []
    total = sum(bins.values())
    upto = [sum(bins[q] for q in p[:i]) + bins[p[i]] / 2 for i in range(len(p))]
    for j in range(1, n):
        s = j / n * total
        if s <= upto[0] or s >= upto[-1]:
            points.append(p[0] if s <= upto[0] else p[-1])
            continue
        i = max(i for i in range(len(p)) if upto[i] <= s)
        d, a, b = s - upto[i], bins[p[i + 1]] - bins[p[i]], 2 * bins[p[i]]
        z = d / bins[p[i]] if a == 0 else (-b + math.sqrt(b * b + 8 * a * d)) / (2 * a)
        points.append(p[i] + (p[i + 1] - p[i]) * z)
    return points


def answer(rows, most_bins):
    """One histogram per feature, leaf and class, values inserted in arrival order."""
    found = {}
    for _, key, columns in rows:
        features = found.setdefault(key, {})
        if None in columns.values():
            continue
        place = columns["leaf"], columns["label"]
        features[place] = update(features.get(place, {}), columns["x"], most_bins)
    return [
        {
            "key": key,
            "histograms": [
                {
                    "leaf": leaf,
                    "label": label,
                    "bins": [{"p": p, "m": bins[p]} for p in sorted(bins)],
                }
                for (leaf, label), bins in sorted(found[key].items())
            ],
        }
        for key in sorted(found)
    ]
