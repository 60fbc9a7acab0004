"""WrapAround: McNaughton's wrap-around rule, laid over a key histogram once per window.

R. McNaughton: Scheduling with Deadlines and Loss Functions, Management Science 6(1), 1959. The rule
gives a perfectly balanced preemptive schedule on n machines with at most n - 1 preemptions: fill
one machine up to the mean load, cut the job that does not fit, go on with its rest on the next.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.histogram import Histogram, bucket_count, bucket_of
from skewless.kernel import kernel
from skewless.parameters import Count, Seed
from skewless.planners.base import Planner
from skewless.planners.reading import comparable, default_hot_keys
from skewless.routing import Routing

__all__ = ["WrapAround"]

#: What a bucket weighs before anything of it is seen, as a part of the mean bucket.
_PRIOR = 1 / 16
#: Less than this part of the fair share is rounding: neither room to use nor excess to avoid.
_SLACK = 1e-6


class _Holders(NamedTuple):
    """Who owns the hot keys now: `worker[start[k]:stop[k]]` own key k, the largest share first."""

    start: NDArray[np.int64]
    """int64, (B,): first entry of each hot key in `worker`."""
    stop: NDArray[np.int64]
    """int64, (B,): end of the entries of each hot key; equal to `start` if nobody holds it."""
    worker: NDArray[np.int64]
    """int64: worker ids."""


class WrapAround(Planner):
    """Give every worker exactly its fair share of the last window, with at most n - 1 cuts in all.

    Use it when keys may be split and each extra fragment costs (a state to build, ship and merge).
    Not when a key must have one owner: only whole keys can be placed then.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers.
    hot_keys : int of at least 1, or None
        Keys that are placed one by one; all others are placed by bucket. None means the larger of
        ``2 * n_workers`` and 64.
    seed : int in [0, 9223372036854775807]
        Seed of the bucket hash.

    Notes
    -----
    Guarantee: no worker's expected load is above the fair share (total / n) unless its tail alone
    is (whole buckets may not fit below it); at most n - 1 extra fragments; the same histogram again
    moves nothing. Cost: none per tuple but the routing's own; a plan takes
    O(H log H + (B + n) n) for B hot keys and H buckets. State: 0 bytes.

    1. The tail. At the start a bucket is where plain hashing has it. Where a worker's tail is above
       the fair share, the fewest buckets that make up for it go, heaviest first, to the emptiest
       worker. This is repeated for as long as it lowers the sum of the squared excesses; a round
       that does not is undone.
    2. Hot keys that were whole, heaviest first, stay where they were if they fit.
    3. All other hot keys, heaviest first: whole where they fit, else cut. Whole means on a worker
       that holds the key, else on its hash home, else on the fullest. A cut fills one worker
       exactly to the fair share (a holder, else the emptiest); the rest is placed by the same rule.

    Ties go to the heavier share and then to the lowest worker, key hash or bucket number.

    Deviations from the paper: McNaughton fills the machines in turn; here order and start are free,
    and are used to move little and to keep keys whole. Each bucket gets a prior load, 1/16 of the
    mean bucket, shared fairly like any other load: without it, buckets that the last window did not
    show would all gather on the worker that is the emptiest at that moment.

    Examples
    --------
    >>> routing = WrapAround(4).plan(Histogram([1, 2, 3, 4], [500, 300, 100, 100]))
    >>> routing.loads(Histogram([1, 2, 3, 4], [500, 300, 100, 100])).tolist()
    [250.0, 250.0, 250.0, 250.0]
    >>> routing.extra_fragments
    2

    References
    ----------
    R. McNaughton, Scheduling with Deadlines and Loss Functions, Management Science 6(1), 1959,
    doi:10.1287/mnsc.6.1.1.
    """

    hot_keys: int | None

    def __init__(self, n_workers: Count, *, hot_keys: Count | None = None, seed: Seed = 0) -> None:
        self._take(n_workers=n_workers, hot_keys=hot_keys, seed=seed)

    def plan(self, histogram: Histogram, previous: Routing | None = None) -> Routing:
        """Return the routing for the next window.

        Parameters
        ----------
        histogram
            Weight of each key in the last window. An empty one changes nothing.
        previous
            The routing in force. One for another number of workers, or over other buckets, is
            ignored: nothing of it could stay.
        """
        n, n_buckets = self.n_workers, bucket_count(self.n_workers)
        hashing = Routing.hashing(n, seed=self.seed)
        previous = comparable(previous, n, self.seed)
        if histogram.total == 0:
            return hashing if previous is None else previous
        top = histogram.top(self.hot_keys or default_hot_keys(n), n_buckets, seed=self.seed)
        keys = top.keys[: np.count_nonzero(top.counts)]
        weight = top.counts[: len(keys)].astype(np.float64)
        tail = _with_prior(top)
        fair = (top.total + _PRIOR * (top.total - int(top.counts.sum()))) / n
        bucket = bucket_of(keys, n_buckets, self.seed)
        home = hashing.buckets[bucket].astype(np.int64)
        holders, whole = _holders(keys, bucket, previous)
        owner = (hashing if previous is None else previous).buckets.astype(np.int64)
        load = np.zeros(n)
        _place_buckets(tail, np.argsort(-tail, kind="stable"), fair, owner, load)
        if previous is not None and _fair_as_it_is(previous, owner, load, keys, weight, fair):
            return previous
        size = len(weight) + n
        key, worker, amount = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size)
        used = _place_keys(weight, home, holders, whole, fair, load, key, worker, amount)
        return Routing.from_arrays(
            n, keys[key[:used]], worker[:used], amount[:used], owner, seed=self.seed
        )


def _with_prior(top: Histogram) -> NDArray[np.float64]:
    """Return the weight of each bucket, float64, with the prior load that unseen keys stand for."""
    assert top.tail is not None  # noqa: S101 - `top` always gives a tail
    tail = top.tail.astype(np.float64)
    tail += _PRIOR * float(top.tail.sum()) / len(tail)
    return tail


def _holders(
    keys: NDArray[np.uint64], bucket: NDArray[np.int32], previous: Routing | None
) -> tuple[_Holders, NDArray[np.bool_]]:
    """Return who holds each hot key, and whether one worker holds the whole of it."""
    if previous is None:
        none = np.zeros(len(keys), np.int64)
        return _Holders(none, none, none[:0]), np.zeros(len(keys), np.bool_)
    place = np.searchsorted(previous.keys, keys)
    was_hot = place < len(previous.keys)
    was_hot[was_hot] = previous.keys[place[was_hot]] == keys[was_hot]
    key_of = np.repeat(np.arange(len(previous.keys)), np.diff(previous.offsets))
    order = np.lexsort((previous.workers, -previous.shares, key_of))
    worker = np.concatenate((previous.workers[order], previous.buckets[bucket])).astype(np.int64)
    start = len(order) + np.arange(len(keys), dtype=np.int64)
    stop = start + 1
    start[was_hot] = previous.offsets[place[was_hot]]
    stop[was_hot] = previous.offsets[place[was_hot] + 1]
    return _Holders(start, stop, worker), stop - start == 1


def _fair_as_it_is(
    previous: Routing,
    owner: NDArray[np.int64],
    tail_load: NDArray[np.float64],
    keys: NDArray[np.uint64],
    weight: NDArray[np.float64],
    fair: float,
) -> bool:
    """Say whether nothing need move: the tail stays, and the hot keys fit where they are."""
    gone = np.setdiff1d(previous.keys, keys, assume_unique=True)
    if len(gone) or not np.array_equal(owner, previous.buckets):
        return False
    hot = Histogram(keys, weight.astype(np.int64), seed=previous.seed)
    loads = previous.loads(hot) + tail_load
    slack = _SLACK * previous.n_workers  # one fragment takes what rounding left of all workers
    return bool((loads <= np.maximum(fair, tail_load) + slack * fair).all())


@kernel
def _place_buckets(
    weight: NDArray[np.float64],
    order: NDArray[np.int64],
    fair: float,
    owner: NDArray[np.int64],
    load: NDArray[np.float64],
) -> None:
    """Do step 1: take buckets from workers above the fair share while that helps."""
    for b in range(len(weight)):
        load[owner[b]] += weight[b]
    excess = _excess(load, fair)
    while excess > 0:
        new_owner, new_load = owner.copy(), load.copy()
        _shed(weight, order, fair, new_owner, new_load)
        for b in order:
            if new_owner[b] < 0:
                new_owner[b] = np.argmin(new_load)
                new_load[new_owner[b]] += weight[b]
        left = _excess(new_load, fair)
        if left >= excess * (1 - _SLACK):
            break
        excess = left
        owner[:] = new_owner
        load[:] = new_load


@kernel
def _shed(
    weight: NDArray[np.float64],
    order: NDArray[np.int64],
    fair: float,
    owner: NDArray[np.int64],
    load: NDArray[np.float64],
) -> None:
    """Take the fewest buckets (owner -1) from each worker that bring it down to the fair share.

    Heaviest first as long as no bucket alone makes up for the excess, then the lightest that does.
    One bucket that is above the fair share itself stays where it is, and all others leave it.
    """
    limit = fair * (1 + _SLACK)
    enough = np.full(len(load), -1, np.int64)  # the lightest bucket so far that makes up for it
    alone = np.zeros(len(load), np.bool_)
    for b in order:
        at = owner[b]
        if load[at] <= limit:
            continue
        if weight[b] > limit and not alone[at]:
            alone[at] = True
        elif weight[b] >= load[at] - fair:
            enough[at] = b
        elif enough[at] < 0:
            owner[b] = -1
            load[at] -= weight[b]
    for at in range(len(load)):
        if enough[at] >= 0 and load[at] > limit:
            owner[enough[at]] = -1
            load[at] -= weight[enough[at]]


@kernel
def _excess(load: NDArray[np.float64], fair: float) -> float:
    """Return the sum of the squared loads above the fair share."""
    total = 0.0
    for w in range(len(load)):
        if load[w] > fair * (1 + _SLACK):
            total += (load[w] - fair) ** 2
    return total


@kernel
def _place_keys(
    weight: NDArray[np.float64],
    home: NDArray[np.int64],
    holders: _Holders,
    whole: NDArray[np.bool_],
    fair: float,
    load: NDArray[np.float64],
    out_key: NDArray[np.int64],
    out_worker: NDArray[np.int64],
    out_amount: NDArray[np.float64],
) -> int:
    """Do steps 2 and 3: write the fragments of the hot keys, return how many there are."""
    crumb = fair * _SLACK
    done = np.zeros(len(weight), np.bool_)
    n_out = 0
    for k in range(len(weight)):
        if whole[k]:
            at = holders.worker[holders.start[k]]
            if load[at] <= fair + crumb - weight[k]:
                load[at] += weight[k]
                out_key[n_out], out_worker[n_out], out_amount[n_out] = k, at, weight[k]
                n_out += 1
                done[k] = True
    for k in range(len(weight)):
        rest = 0.0 if done[k] else weight[k]
        first = n_out
        while rest > 0:
            at = _where_it_fits(k, fair + crumb - rest, home[k], holders, load)
            part = rest
            if at < 0:
                at = _where_to_cut(k, fair - crumb, holders, load)
                room = fair - load[at]
                if room <= crumb and n_out > first:
                    # All workers are full: the rest is rounding, and makes no fragment of its own.
                    out_amount[n_out - 1] += rest
                    load[out_worker[n_out - 1]] += rest
                    break
                if crumb < room < rest - crumb:
                    part = room
            load[at] += part
            out_key[n_out], out_worker[n_out], out_amount[n_out] = k, at, part
            n_out += 1
            rest -= part
    return n_out


@kernel
def _where_it_fits(
    k: int, room: float, home: np.int64, holders: _Holders, load: NDArray[np.float64]
) -> int:
    """Return the best worker whose load is at most `room`; -1 if there is none."""
    for j in range(holders.start[k], holders.stop[k]):
        if load[holders.worker[j]] <= room:
            return int(holders.worker[j])
    if load[home] <= room:
        return int(home)
    best = -1
    for w in range(len(load)):
        if load[w] <= room and (best < 0 or load[w] > load[best]):
            best = w
    return best


@kernel
def _where_to_cut(k: int, full: float, holders: _Holders, load: NDArray[np.float64]) -> int:
    """Return the first holder that is not full, else the emptiest worker."""
    for j in range(holders.start[k], holders.stop[k]):
        if load[holders.worker[j]] < full:
            return int(holders.worker[j])
    return int(np.argmin(load))
