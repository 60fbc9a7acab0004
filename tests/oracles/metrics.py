"""The measures of the four papers from their definitions: a window is a list of (key, worker)."""

from __future__ import annotations

from tests.oracles.hashing import mix, spread

Window = list[tuple[int, int]]


def loads(window: Window, n: int) -> list[int]:
    """|L^j|, j = 1..V."""
    return [sum(1 for _, worker in window if worker == j) for j in range(n)]


def imbalance(load: list[int]) -> float:
    """Holistic Eq. 1."""
    return abs(max(load) - sum(load) / len(load))


def partial_results(window: Window, n: int) -> list[dict[int, int]]:
    """f(L^o): the counts that each worker hands to the aggregation (Holistic, section 2.2)."""
    results: list[dict[int, int]] = [{} for _ in range(n)]
    for key, worker in window:
        results[worker][key] = results[worker].get(key, 0) + 1
    return results


def gamma(window: Window, n: int) -> int:
    """Holistic Eq. 2 and 4."""
    return sum(len(result) for result in partial_results(window, n))


def cardinalities(window: Window, n: int) -> list[int]:
    """Holistic Eq. 5."""
    return [len({key for key, worker in window if worker == j}) for j in range(n)]


def normalized(values: list[int]) -> list[float]:
    """Holistic Eq. 7 and 8, 0/0 = 0."""
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.0 for value in values]


def hybrid(window: Window, n: int, p: float) -> list[float]:
    """Holistic Eq. 9."""
    load, cardinality = normalized(loads(window, n)), normalized(cardinalities(window, n))
    return [p * a + (1 - p) * b for a, b in zip(load, cardinality, strict=True)]


def replication(window: Window) -> float:
    """Prompt Eq. 5: fragments over keys."""
    return len(set(window)) / len({key for key, _ in window}) if window else 1.0


def aggregation_cost(window: Window, m: int, seed: int) -> int:
    """Dalton Eq. 2: the reducers get the fragments by a hash of the key."""
    cost = [0] * m
    for key, _ in set(window):
        cost[spread(mix(key, seed), m)] += 1
    return max(cost)


def reward_imbalance(load: list[int]) -> list[float]:
    """Dalton Eq. 3."""
    mean = sum(load) / len(load)
    return [(x - mean) / max(x, mean) if max(x, mean) else 0.0 for x in load]


def reward_aggregation(window: Window, key: int, n: int) -> float:
    """Dalton Eq. 4: ones in the key's bit vector, over n."""
    return len({worker for k, worker in window if k == key}) / n


def partitioning_imbalance(window: Window, n: int, p1: float, p2: float) -> float:
    """Prompt Eq. 2 and 4 to 6, for blocks."""
    bsi, bci = imbalance(loads(window, n)), imbalance(cardinalities(window, n))
    return p1 * bsi + p2 * bci + (1 - p1 - p2) * replication(window)
