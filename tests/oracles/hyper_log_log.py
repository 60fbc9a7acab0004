"""HyperLogLog (AofA 2007, figure 3) and the optimistic test of the Holistic paper, section 3.2.2.

The low bits of the hash choose the register; the rank is the position of the first one among the
others, read from the highest bit, and stops at the register's limit.
"""

from __future__ import annotations

import math

from tests.oracles.hashing import mix


class HyperLogLog:
    def __init__(self, precision: int, register_bits: int, seed: int) -> None:
        self.precision, self.limit, self.seed = precision, 2**register_bits - 1, seed
        self.registers = [0] * 2**precision

    def place_and_rank(self, key: int) -> tuple[int, int]:
        bits = f"{mix(key, self.seed):064b}"
        place = int(bits[64 - self.precision :], 2)
        rank = (bits[: 64 - self.precision] + "1").index("1") + 1
        return place, min(rank, self.limit)

    def update(self, key: int) -> None:
        place, rank = self.place_and_rank(key)
        self.registers[place] = max(self.registers[place], rank)

    def estimate(self) -> float:
        m = len(self.registers)
        alpha = {16: 0.673, 32: 0.697, 64: 0.709}.get(m, 0.7213 / (1 + 1.079 / m))
        raw = alpha * m * m / math.fsum(2.0**-r for r in self.registers)
        zeros = self.registers.count(0)
        if raw <= 2.5 * m and zeros > 0:
            return m * math.log(m / zeros)
        return raw

    def contains(self, key: int) -> bool:
        before = self.estimate()
        kept = list(self.registers)
        self.update(key)
        after = self.estimate()
        self.registers = kept
        return before == after
