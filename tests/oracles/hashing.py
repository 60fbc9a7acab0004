"""The key mixer and the random generator in plain Python integers, shared by the oracles."""

from __future__ import annotations

MASK = 2**64 - 1
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def xxh64_long(value: int, seed: int) -> int:
    """XXH64 of one 8-byte value."""
    h = (seed + P5 + 8) & MASK
    v = value * P2 & MASK
    v = (v << 31 | v >> 33) & MASK
    h ^= v * P1 & MASK
    h = (h << 27 | h >> 37) & MASK
    h = (h * P1 + P4) & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


def mix(key: int, choice: int) -> int:
    """Hash function number `choice`: XXH64 of the key, seeded by XXH64 of the choice from 42."""
    return xxh64_long(key, xxh64_long(choice, 42))


def spread(mixed: int, n: int) -> int:
    """The high 32 bits, scaled to ``0 .. n - 1``."""
    return (mixed >> 32) * n >> 32


class SplitMix64:
    """Vigna's SplitMix64."""

    def __init__(self, seed: int) -> None:
        self.word = seed

    def bits(self) -> int:
        self.word = (self.word + 0x9E3779B97F4A7C15) & MASK
        z = self.word
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        return z ^ z >> 31

    def unit(self) -> float:
        return (self.bits() >> 11) / 2**53
