"""The two queries of the DEBS 2015 Grand Challenge as its text has them, over the trips of one window."""

from __future__ import annotations

import math
import statistics
from collections import Counter


def cell(longitude, latitude, side=500):
    """(east, south) from 1, or None: cell 1.1 of 500 m is centred at 41.474937, -74.913585."""
    share = side / 500
    east = math.floor((longitude + 74.913585 + 0.005986 / 2) / (0.005986 * share)) + 1
    south = math.floor((41.474937 + 0.004491556 / 2 - latitude) / (0.004491556 * share)) + 1
    most = 300 * 500 // side
    return (east, south) if 1 <= east <= most and 1 <= south <= most else None


def name(area):
    return f"{area // 1000}.{area % 1000}"


def routes(rows, k=10):
    counts = Counter(key for _, key, _ in rows)
    best = sorted(counts, key=lambda key: (-counts[key], key))[:k]
    return [
        {
            "start_cell": name(key // 10**6),
            "end_cell": name(key % 10**6),
            "n": counts[key],
        }
        for key in best
    ]


def areas(rows, end, k=10, recent=900):
    """Median fare of each area's trips of the last 15 minutes, over its taxis that are empty."""
    fares, last = {}, {}
    for _, taxi, trip in rows:
        if None in trip.values():
            continue
        if trip["pickup"] and trip["time"] >= end - recent:
            fares.setdefault(trip["pickup"], []).append(trip["cents"])
        last[taxi] = max(last.get(taxi, (-math.inf,)), (trip["time"], trip["dropoff"]))
    empty = Counter(area for _, area in last.values())
    found = []
    for area, cents in fares.items():
        if empty[area]:
            median = statistics.median(cents)
            found.append((-median / empty[area], area, empty[area], median))
    return [
        {"area": name(a), "empty_taxis": e, "median_cents": m, "profitability": -p}
        for p, a, e, m in sorted(found)[:k]
    ]
