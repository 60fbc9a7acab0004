"""Prompt: blocks of equal size and equally many keys, few of them cut (Algorithm 2).

A. S. Abdelhamid, A. R. Mahmood, A. Daghistani, W. G. Aref: Prompt: Dynamic Data-Partitioning for
Distributed Micro-batch Stream Processing Systems, SIGMOD 2020, section 4.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.histogram import Histogram
from skewless.kernel import kernel
from skewless.parameters import Count, Seed
from skewless.planners.base import Planner
from skewless.planners.reading import comparable, default_hot_keys, items_of
from skewless.routing import Routing

__all__ = ["Prompt"]


class Prompt(Planner):
    """Give every worker the same number of tuples and nearly the same number of keys, cutting few.

    Use it on a micro-batch whose keys are counted before it is dealt out, when a worker's time
    depends on its keys as well as on its tuples. Not when state must move with a key: each plan
    starts from nothing. And not when cuts are dear: `WrapAround` needs at most n - 1.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers, the paper's data blocks (P).
    hot_keys : int of at least 1, or None
        Keys that are placed one by one; all others are placed by bucket. None means the larger of
        ``2 * n_workers`` and 64.
    seed : int in [0, 9223372036854775807]
        Seed of the bucket hash.

    Notes
    -----
    Guarantee: loads differ by one tuple at most, unless keys and buckets that were dealt whole
    exceed the mean; fragments of a key add up to its weight. Cost: none per tuple but the
    routing's own; a plan takes O((B + H) log(B + H) + B n) for B hot keys and H buckets, after one
    pass over the histogram. State: 0 bytes.

    With N the total weight and K the keys and buckets with a weight, a key above the mean, N / K,
    leaves a fragment of that size, rounded down, on the next block in turn. All others, the heaviest
    first, are dealt forth and back, starting at block 0. What was left of a key goes to its own
    block if it fits below N / n; else it fills its block, and the rest goes to the block with the
    least room that can hold all of it. Where N / n is a fraction, the first blocks hold one more.

    Ties go to the hot key before the bucket, to the lower hash or bucket number, and to the lowest
    block. Buckets of weight 0 stay where plain hashing has them.

    Deviations from the paper: light keys are placed by bucket, and buckets are never cut. With fewer
    keys than blocks the cut-off is the block size, not a multiple of it. If no block has room for
    the whole rest, it fills the one with the most room and goes on; the paper does not say.

    Examples
    --------
    >>> counts = Histogram([1, 2, 3, 4, 5, 6], [50, 22, 10, 8, 6, 4])
    >>> plan = Prompt(2).plan(counts)
    >>> plan.loads(counts).tolist(), plan.extra_fragments
    ([50.0, 50.0], 1)

    References
    ----------
    A. S. Abdelhamid, A. R. Mahmood, A. Daghistani, W. G. Aref, Prompt: Dynamic Data-Partitioning for
    Distributed Micro-batch Stream Processing Systems, SIGMOD 2020, Algorithm 2,
    doi:10.1145/3318464.3389713.
    """

    hot_keys: int | None

    def __init__(self, n_workers: Count, *, hot_keys: Count | None = None, seed: Seed = 0) -> None:
        self._take(n_workers=n_workers, hot_keys=hot_keys, seed=seed)

    def plan(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
        """Return the routing for the next window.

        Parameters
        ----------
        histogram
            Weight of each key in the micro-batch. An empty one changes nothing.
        previous
            The routing in force; read only if the histogram is empty.
        """
        n, seed = self.n_workers, self.seed
        hashing = Routing.hashing(n, seed=seed)
        if histogram.total == 0:
            return comparable(previous, n, seed) or hashing
        items = items_of(histogram, self.hot_keys or default_hot_keys(n), n, seed)
        n_hot = len(items.keys)
        weight = np.concatenate((items.weight, items.tail))
        order = np.argsort(-weight, kind="stable")[: np.count_nonzero(weight)]
        block = np.concatenate((np.zeros(n_hot, np.int64), hashing.buckets.astype(np.int64)))
        size = 2 * n_hot + n
        key, worker, amount = (np.empty(size, np.int64) for _ in range(3))
        used = _plan(weight, order, n_hot, n, block, key, worker, amount)
        return Routing.from_arrays(
            n, items.keys[key[:used]], worker[:used], amount[:used], block[n_hot:], seed=seed
        )


@kernel
def _plan(
    weight: NDArray[np.int64],
    order: NDArray[np.int64],
    n_hot: int,
    n: int,
    block: NDArray[np.int64],
    out_key: NDArray[np.int64],
    out_worker: NDArray[np.int64],
    out_amount: NDArray[np.int64],
) -> int:
    """Write the block of each bucket and the fragments of each key; return how many fragments."""
    total = 0
    for item in order:
        total += weight[item]
    # Line 1: what each block still has room for. The first total % n blocks take one more than others.
    room = np.full(n, total // n)
    room[: total % n] += 1
    # Lines 1 to 3: (N / n) / (K / n), with at least one key a block. A whole weight is above the
    # quotient if and only if it is above the quotient rounded down.
    cut = total // max(len(order), n)
    fragment = max(cut, 1)
    rest = np.zeros(n_hot, np.int64)
    turn, n_out = 0, 0
    for item in order:  # lines 4 to 9
        if item >= n_hot or weight[item] <= cut:
            continue
        block[item] = turn
        rest[item] = weight[item] - fragment
        room[turn] -= fragment
        turn = turn + 1 if turn + 1 < n else 0
    dealt = 0
    for item in order:  # lines 10 to 16
        if item < n_hot and weight[item] > cut:
            continue
        at = dealt % n
        if (dealt // n) % 2 == 1:
            at = n - 1 - at
        block[item] = at
        room[at] -= weight[item]
        dealt += 1
    for item in order:  # lines 17 to 25; whole keys and buckets have no rest
        if item >= n_hot:
            continue
        at = block[item]
        part = min(rest[item], max(room[at], 0))
        room[at] -= part
        out_key[n_out], out_worker[n_out] = item, at
        out_amount[n_out] = weight[item] - rest[item] + part
        n_out += 1
        n_out = _place_rest(item, rest[item] - part, room, out_key, out_worker, out_amount, n_out)
    return n_out


@kernel
def _place_rest(
    item: int,
    rest: int,
    room: NDArray[np.int64],
    out_key: NDArray[np.int64],
    out_worker: NDArray[np.int64],
    out_amount: NDArray[np.int64],
    n_out: int,
) -> int:
    """Do line 23: the least room that holds all of it, else the most room there is, and go on."""
    while rest > 0:
        least, most = -1, 0
        for b in range(len(room)):
            if room[b] >= rest and (least < 0 or room[b] < room[least]):
                least = b
            if room[b] > room[most]:
                most = b
        at = least if least >= 0 else most
        part = min(rest, room[at])
        room[at] -= part
        rest -= part
        out_key[n_out], out_worker[n_out], out_amount[n_out] = item, at, part
        n_out += 1
    return n_out
