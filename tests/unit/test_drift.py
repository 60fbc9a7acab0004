"""Keys that turn hot and cool again: how soon the learning loop follows, batch by batch."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from skewless.partitioners import Dalton
from skewless.planners import KIP, WrapAround
from skewless.routing import Routing
from skewless.spark.learning import Loop
from skewless.spark.policy_log import PolicyLog
from tests.unit.test_learning import BUCKETS, N, metrics

HOT, ALSO = 2**64 - 3, 12_345
ROWS = 20_000


def batch(seed: int, shares: dict[int, float], n_rows: int = ROWS) -> np.ndarray:
    """Rows of keys with so large a share; the rest is spread over 5,000 keys."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(1, 5_000, n_rows).astype(np.uint64)
    where = rng.random(n_rows)
    low = 0.0
    for key, share in shares.items():
        keys[(where >= low) & (where < low + share)] = np.uint64(key)
        low += share
    return keys


def fan_out(routing: Routing, key: int) -> int:
    return len(routing.hot.get(key, {0: 1.0}))


def follow(folder: Path, policy, batches: list[np.ndarray], keys: tuple[int, ...]):
    """Return per batch the fan-out of the keys in the routing that it ran with, and its max/mean."""
    log = PolicyLog(folder)
    log.write(Routing.hashing(N))
    loop = Loop(log, policy, N, 0, BUCKETS)
    fans, ratios = [], []
    for number, rows in enumerate(batches):
        fans.append([fan_out(loop.routing, key) for key in keys])
        loop.learn(number, metrics(loop, rows, loop.version))
        ratios.append(loop.records[-1].max_over_mean)
    return np.array(fans), np.array(ratios)


@pytest.mark.parametrize("policy", [WrapAround(N), Dalton(N)], ids=repr)
def test_fan_out_goes_up_within_2_batches_and_down_within_5(policy, tmp_path) -> None:
    hot = range(5, 11)
    batches = [batch(i, {HOT: 0.6} if i in hot else {}) for i in range(20)]
    fans, ratios = follow(tmp_path, policy, batches, (HOT,))
    assert (fans[:6] == 1).all()
    assert (fans[7:11] >= 3).all()
    assert (fans[16:] == 1).all()
    assert (ratios[7:11] < 1.5).all()
    assert (ratios[16:] < 1.5).all()
    assert ratios[5] > 2.0


@pytest.mark.parametrize("n_rows", [ROWS, 2_000])
def test_a_key_that_cools_in_small_batches_gets_its_one_worker_back(n_rows, tmp_path) -> None:
    batches = [batch(i, {HOT: 0.6}) for i in range(3)]
    batches += [batch(10 + i, {}, n_rows) for i in range(12)]
    fans, _ = follow(tmp_path, WrapAround(N), batches, (HOT,))
    assert (fans[1:4] >= 3).all()
    assert (fans[3 + 5 :] == 1).all()


@pytest.mark.parametrize("policy", [WrapAround(N), KIP(N)], ids=repr)
def test_no_key_goes_back_and_forth_while_the_stream_stays_as_it_is(policy, tmp_path) -> None:
    log = PolicyLog(tmp_path)
    log.write(Routing.hashing(N))
    loop = Loop(log, policy, N, 0, BUCKETS)
    names = [HOT, ALSO, 7, 8, 9]
    owners: list[dict[int, frozenset[int]]] = []
    for number in range(15):
        shares = dict(zip(names, (0.3, 0.2, 0.1, 0.05, 0.05), strict=True))
        loop.learn(number, metrics(loop, batch(number, shares), loop.version))
        home = loop.routing.route(np.array(names, np.uint64))
        owners.append(
            {
                key: frozenset(loop.routing.hot.get(key, {int(home[i]): 1.0}))
                for i, key in enumerate(names)
            }
        )
    for key in names:
        seen = [each[key] for each in owners[2:]]
        changes = [(a, b) for a, b in pairwise(seen) if a != b]
        back = [i for i in range(2, len(seen)) if seen[i] == seen[i - 2] != seen[i - 1]]
        assert len(changes) <= 2, (key, seen)
        assert not back, (key, seen)


def test_a_small_skewed_operator_is_judged_by_itself_beside_a_large_even_one(tmp_path) -> None:
    loops = []
    for name in ("small", "large"):
        log = PolicyLog(tmp_path / name)
        log.prepare()
        log.write(Routing.hashing(N))
        loops.append(Loop(log, WrapAround(N), N, 0, BUCKETS))
    small, large = loops
    for number in range(4):
        large.learn(number, metrics(large, batch(number, {}, 100 * 800), large.version))
        small.learn(number, metrics(small, batch(9 + number, {HOT: 0.86}, 800), small.version))
    assert fan_out(small.routing, HOT) >= N - 2
    assert small.records[-1].max_over_mean < 1.5
    assert large.version == 1
