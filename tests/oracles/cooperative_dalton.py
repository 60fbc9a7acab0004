"""Cooperative Dalton (PVLDB 16(3), 2022, section 4): Algorithm 2 line by line, and the reducer."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from tests.oracles.dalton import Dalton
from tests.oracles.hashing import SplitMix64, mix, spread


class Agent(Dalton):
    """One partitioner: windows, fragments and loads are those of the single one."""

    def __init__(self, n: int, source: int, interval: int, **settings: Any) -> None:
        super().__init__(n, **settings)
        self.source, self.random = source, SplitMix64(self.seed + source)
        self.start: int | None = None  # of the statistics window
        self.interval = interval
        self.sent, self.waits, self.late = 0, False, False
        self.threshold = math.inf  # the load L of the algorithm
        self.expiry: dict[int, float] = {}
        self.buffer: list[tuple[int, int, float]] = []

    def due(self, t: int) -> bool:
        """Line 14, asked before the tuple that is after the interval."""
        if self.start is None:
            self.start = t // self.interval * self.interval
        return not self.waits and t - self.start >= self.interval

    def message(self, t: int) -> dict[str, Any]:
        """Lines 15 and 16."""
        assert self.start is not None
        others = [k for k in self.count if k not in self.q]
        top = sorted(others, key=lambda k: (-self.count[k], k))[: self.n]
        sync = {
            "time": t,
            "total": self.total,
            "late": self.late,
            "count": {k: self.count[k] for k in {*top, *self.q}},
            "q": {k: list(row) for k, row in self.q.items()},
        }
        self.count, self.total = Counter(), 0
        self.start += (t - self.start) // self.interval * self.interval
        self.sent, self.waits, self.late = t, True, False
        return sync

    def receive(self, reply: dict[str, Any]) -> None:
        """Lines 17 to 20."""
        self.q = {k: list(row) for k, row in reply["q"].items()}
        self.expiry = dict(reply["expiry"])
        self.threshold = reply["total"]
        # AggregateBufferedRewards: all steps of Eq. 5 at one (k, c) are Q <- keep Q + gain.
        steps: dict[tuple[int, int], tuple[float, float]] = {}
        for k, c, reward in self.buffer:
            keep, gain = steps.get((k, c), (1.0, 0.0))
            steps[k, c] = keep * (1 - self.gamma), gain + self.gamma * (reward - gain)
        for (k, c), (keep, gain) in steps.items():
            if k not in self.q and self.count[k] * self.n >= self.threshold:
                self.q[k], self.expiry[k] = [-2.0] * self.n, math.inf
            if k in self.q:
                self.q[k][c] = keep * self.q[k][c] + gain
        self.buffer = []
        self.interval = reply["interval"]
        self.late = reply["time"] > self.sent + self.interval
        self.waits = False

    def route(self, t: int, k: int) -> int:
        self._slides(t // self.slide)
        for old in [other for other, end in self.expiry.items() if t >= end]:
            del self.q[old], self.expiry[old]
        self.count[k] += 1  # lines 2 and 3
        self.total += 1
        if self.count[k] * self.n >= self.threshold:  # line 4
            self.q.setdefault(k, [-2.0] * self.n)
            self.expiry[k] = math.inf  # until the next reply
        home = spread(mix(k, self.seed), self.n)
        hot = k in self.q
        c = self._choose(k, home) if hot else home  # lines 5 and 12
        _, loads, workers = self.slides[-1]  # line 13
        loads[c] += 1
        self.load[c] += 1
        workers.setdefault(k, set()).add(c)
        if hot:
            reward = self._reward(k, c)  # line 6
            if not self.waits:  # lines 7 and 8
                self.q[k][c] = self.q[k][c] + self.gamma * (reward - self.q[k][c])
            else:  # line 10
                self.buffer.append((k, c, reward))
        return c

    def _choose(self, k: int, home: int) -> int:
        if self.random.unit() < self.epsilon:
            held = sorted(self._workers_of(k))
            if self.max_split is not None and len(held) >= self.max_split:
                return held[spread(self.random.bits(), len(held))]
            return spread(self.random.bits(), self.n)
        best = max(self.q[k])
        return home if self.q[k][home] == best else self.q[k].index(best)

    def _reward(self, k: int, c: int) -> float:
        mean = sum(self.load) / self.n
        imbalance = (self.load[c] - mean) / max(self.load[c], mean)
        return -(self.p1 * imbalance + self.p2 * len(self._workers_of(k)) / self.n)


class Reducer:
    """Section 4.1: waits for all, adds up, averages, and sets the interval."""

    def __init__(self, n: int, interval: int, shortest: int, *, adaptive: bool) -> None:
        self.n, self.adaptive = n, adaptive
        self.interval, self.shortest, self.longest = (
            interval,
            min(shortest, interval),
            64 * interval,
        )
        self.free_since: int | None = None

    def answer(self, messages: list[dict[str, Any]], latency: int) -> dict[str, Any]:
        total = sum(m["total"] for m in messages)
        count: Counter[int] = Counter()
        for m in messages:
            count.update(m["count"])
        hot = [k for k in count if count[k] * self.n >= total]
        now = max(m["time"] for m in messages)
        if self.adaptive:
            if any(m["late"] for m in messages):
                self.interval = min(2 * self.interval, self.longest)
            elif self.free_since is not None and now - self.free_since > latency:
                self.interval = max(self.interval // 2, self.shortest)
        self.free_since = now + latency
        return {
            "time": now + latency,
            "total": total,
            "interval": self.interval,
            "q": {k: self._mean(k, messages) for k in hot},
            "expiry": dict.fromkeys(hot, now + latency + 2 * self.interval),
        }

    def _mean(self, k: int, messages: list[dict[str, Any]]) -> list[float]:
        """The mean of the rows weighted by frequency, taken in one by one."""
        mean, weight = [-2.0] * self.n, 0
        for m in messages:
            if k in m["q"]:
                f, q = m["count"][k], m["q"][k]
                before, weight = weight, weight + f
                if before == 0:
                    mean = q
                else:
                    mean = [a + f / weight * (b - a) for a, b in zip(mean, q, strict=True)]
        return mean


class CooperativeDalton:
    """All partitioners and the reducer, driven by the time of the tuples."""

    def __init__(
        self,
        n: int,
        *,
        sources: int = 2,
        slide: int = 1_000,
        sync: int | None = None,
        adaptive: bool = True,
        shortest: int | None = None,
        latency: int = 0,
        **settings: Any,
    ) -> None:
        interval = sync or max(slide, 8 * n)
        self.latency = latency
        self.agents = [Agent(n, j, interval, slide=slide, **settings) for j in range(sources)]
        floor = shortest or max(slide // 16, 64 * n)
        self.reducer = Reducer(n, interval, floor, adaptive=adaptive)
        self.messages: dict[int, dict[str, Any]] = {}
        self.reply: dict[str, Any] | None = None
        self.tuples = 0

    def route(self, t: int, k: int) -> int:
        j = self.tuples % len(self.agents)
        self.tuples += 1
        self._deliver(t)
        if self.agents[j].due(t):
            self.messages[j] = self.agents[j].message(t)
            if len(self.messages) == len(self.agents):
                messages = [self.messages[i] for i in range(len(self.agents))]
                self.messages, self.reply = {}, self.reducer.answer(messages, self.latency)
                self._deliver(t)
        return self.agents[j].route(t, k)

    def _deliver(self, t: int) -> None:
        if self.reply is not None and t >= self.reply["time"]:
            for agent in self.agents:
                agent.receive(self.reply)
            self.reply = None
