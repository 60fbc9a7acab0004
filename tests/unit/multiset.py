"""An aggregator with all it may have: a native sum, a merge in Python, and its inverse."""

from __future__ import annotations

from collections import Counter

import skewless


class Multiset(skewless.Aggregator):
    """All values of `v` in order, and the number of rows; the state is small for few distinct values."""

    inputs = ("v",)
    state = "n bigint, counts array<struct<value: bigint, times: bigint>>"
    result = "n_rows bigint, values array<bigint>"
    merges = {"n": "sum"}
    max_rows = 7

    @staticmethod
    def listed(counts):
        return [{"value": v, "times": t} for v, t in sorted(counts.items()) if t]

    @staticmethod
    def counter(state):
        return Counter({each["value"]: each["times"] for each in state["counts"]})

    def create(self):
        return {"n": 0, "counts": []}

    def update(self, state, rows):
        more = Counter(v for v in rows["v"].to_pylist() if v is not None)
        counts = self.listed(self.counter(state) + more)
        return {"n": state["n"] + rows.num_rows, "counts": counts}

    def merge(self, left, right):
        return {"counts": self.listed(self.counter(left) + self.counter(right))}

    def subtract(self, left, right):
        rest = self.counter(left)
        rest.subtract(self.counter(right))
        assert min(rest.values(), default=0) >= 0
        return {"counts": self.listed(rest)}

    def finish(self, state):
        return {"n_rows": state["n"], "values": sorted(self.counter(state).elements())}
