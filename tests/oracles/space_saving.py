"""SpaceSaving (ICDT 2005, Algorithm 1) over a list of [key, count, error]; ties to the lowest slot."""

from __future__ import annotations


class SpaceSaving:
    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.slots: list[list[int]] = []

    def update(self, key: int, weight: int = 1) -> None:
        if weight == 0:
            return
        for slot in self.slots:
            if slot[0] == key:
                slot[1] += weight
                return
        if len(self.slots) < self.capacity:
            self.slots.append([key, weight, 0])
            return
        least = min(self.slots, key=lambda slot: slot[1])
        least[:] = [key, least[1] + weight, least[1]]

    def least(self) -> int:
        return min(slot[1] for slot in self.slots) if len(self.slots) == self.capacity else 0

    def merge(self, other: SpaceSaving) -> None:
        mine = {key: (count, error) for key, count, error in self.slots}
        theirs = {key: (count, error) for key, count, error in other.slots}
        m, t = self.least(), other.least()
        union = []
        for key in mine.keys() | theirs.keys():
            a, b = mine.get(key, (m, m)), theirs.get(key, (t, t))
            union.append([key, a[0] + b[0], a[1] + b[1]])
        self.slots = sorted(union, key=lambda slot: (-slot[1], slot[0]))[: self.capacity]

    def top(self) -> list[tuple[int, ...]]:
        return [tuple(slot) for slot in sorted(self.slots, key=lambda slot: (-slot[1], slot[0]))]
