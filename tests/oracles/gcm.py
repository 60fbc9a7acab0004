"""Sum and mean of the CPU request by key, by definition; sums rounded once."""

from __future__ import annotations

import math


def requests(rows):
    found = {}
    for _, key, columns in rows:
        found.setdefault(key, [])
        if columns["cpu_request"] is not None:
            found[key].append(columns["cpu_request"])
    return found


def by_class(rows):
    return [
        {"key": key, "n": len(cpu), "cpu": math.fsum(cpu) if cpu else None}
        for key, cpu in sorted(requests(rows).items())
    ]


def by_job(rows):
    return [
        {"key": key, "n": len(cpu), "mean_cpu": math.fsum(cpu) / len(cpu) if cpu else None}
        for key, cpu in sorted(requests(rows).items())
    ]
