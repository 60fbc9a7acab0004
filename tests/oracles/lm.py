"""LM, Algorithm 5 of Holistic: the candidate with the least hybrid load (Eq. 7 to 9), in fractions."""

from __future__ import annotations

from fractions import Fraction

from tests.oracles.cardinality import Partition


def scaled(value: int, values: list[int]) -> Fraction:
    """Eq. 7 and 8, with 0/0 = 0."""
    low, high = min(values), max(values)
    return Fraction(value - low, high - low) if high > low else Fraction(0)


class LM(Partition):
    def __init__(self, n: int, *, p: float = 0.5, **parameters: object) -> None:
        super().__init__(n, **parameters)  # type: ignore[arg-type]
        self.p = Fraction(str(p))  # 0.3 is three tenths

    def decide(self, k: int, choices: list[int]) -> int:
        loads = [self.load(c) for c in range(self.n)]
        keys = [self.estimate(c) for c in range(self.n)]
        hybrid = {
            c: self.p * scaled(loads[c], loads) + (1 - self.p) * scaled(keys[c], keys)
            for c in choices
        }
        c = next(c for c in choices if hybrid[c] == min(hybrid.values()))
        self.update(c, k)
        return c
