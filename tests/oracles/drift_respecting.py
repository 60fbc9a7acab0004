"""The counter-based heavy hitter algorithm of Dynamic Repartitioning, with D and w as real numbers."""

from __future__ import annotations

from tests.oracles.hashing import SplitMix64


class DriftRespecting:
    def __init__(self, take, step, beta, boundary, cut, drift, patience, smoothing, seed):
        self.k, self.S, self.beta, self.B0, self.C = take, step, beta, boundary, cut
        self.D, self.G, self.w = drift, patience, smoothing
        self.counts: dict[int, float] = {}
        self.s = self.c = 1.0
        self.B, self.d, self.solidarity = boundary, drift, 0
        self.history: list[int] = []
        self.weight = 0.0
        self.random = SplitMix64(seed)

    def update(self, x: int) -> None:
        if self.random.unit() >= self.s:
            return
        self.weight += self.c
        self.counts[x] = self.counts.get(x, 0.0) + self.c
        if len(self.counts) >= self.B:
            self.check()

    def check(self) -> None:
        self.s /= self.beta
        self.c *= self.beta
        ranked = sorted(self.counts, key=lambda key: (-self.counts[key], key))
        k, n, fmin = self.k, len(ranked), self.counts[ranked[self.k - 1]]
        top = ranked[:k]
        if not self.history:
            self.B, self.solidarity = self.B + self.S, 0
        else:
            distance = 0.0
            for key in self.history:
                if key not in top:
                    pos = ranked.index(key) if key in self.counts else n
                    distance += (pos - k) + (fmin - self.counts.get(key, 0.0))
            most = k * ((fmin - k + n) + (fmin - 2 * k + n)) / 2
            ratio = distance / most if most > 0 else float(distance > 0)
            self.d = self.w * self.d + (1 - self.w) * ratio
            if self.d > self.D:
                self.B, self.solidarity = self.B + self.S, 0
            else:
                self.solidarity += 1
                if self.solidarity >= self.G and self.B > self.B0:
                    self.B, self.solidarity = self.B - self.S, 0
                self.counts = {key: self.counts[key] for key in ranked[: self.B - self.C]}
        self.history = top
