"""Which worker reads which fragments in a batch: its own, and those whose keys came to it.

On shared storage a state moves by being read by its new owner, who writes it as its own; the old
owner writes what is left to it. Only fragments that lose or gain a key are touched.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.histogram import bucket_of
from skewless.routing import Routing
from skewless.state_store.manifest import Fragment

__all__ = ["WorkerPlan", "changed_owners", "plan_workers", "state_keys_moved"]

#: A bucket is the range of the high 32 bits of a mixed hash that Lemire's reduction maps to it.
_WIDTH = 2**32


class WorkerPlan(NamedTuple):
    """What one worker reads in a batch."""

    own: dict[int, Fragment]
    """By bucket: fragments that stay as they are unless the batch touches them."""
    rebuilt: dict[int, tuple[Fragment, ...]]
    """By bucket: fragments, its own among them, whose keys it takes as far as they are now its own."""


def plan_workers(
    fragments: tuple[Fragment, ...],
    before: Routing | None,
    after: Routing,
    n_buckets: int,
    seed: int,
) -> list[WorkerPlan]:
    """Return the plan of each worker of `after`.

    Parameters
    ----------
    fragments
        All fragments, owned as `before` says.
    before, after
        The routing of the last batch and of this one; they may have different numbers of workers.
    n_buckets, seed
        State buckets, and the seed of their hash.
    """
    held: defaultdict[int, dict[int, Fragment]] = defaultdict(dict)
    for fragment in fragments:
        held[fragment.bucket][fragment.worker] = fragment
    plans = [WorkerPlan({}, {}) for _ in range(after.n_workers)]
    changed = changed_owners(before, after, n_buckets, seed)
    for bucket, owners in held.items():
        sources: defaultdict[int, set[int]] = defaultdict(set)
        losers = set()
        for source, target in changed.get(bucket, ()):
            if source in owners:
                sources[target].add(source)
                losers.add(source)
        for worker in range(after.n_workers):
            incoming = sources.get(worker, set())
            if incoming or worker in losers:
                wanted = sorted(incoming | ({worker} & owners.keys()))
                plans[worker].rebuilt[bucket] = tuple(owners[source] for source in wanted)
            elif worker in owners:
                plans[worker].own[bucket] = owners[worker]
    return plans


def changed_owners(
    before: Routing | None, after: Routing, n_buckets: int, seed: int
) -> dict[int, set[tuple[int, int]]]:
    """Return, per state bucket, the pairs (old owner, new owner) between which keys may move.

    Examples
    --------
    >>> old, new = Routing.hashing(2), Routing(2, {7: {1: 1.0}})
    >>> bucket = int(bucket_of([7], 4)[0])
    >>> changed_owners(old, new, 4, 0) == ({bucket: {(0, 1)}} if bucket < 2 else {})
    True
    """
    if before is None or before == after:
        return {}
    found: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
    if before.seed == after.seed == seed:
        starts, _ = _ranges(len(before.buckets), len(after.buckets), n_buckets)
        old = before.buckets[_part_of(starts, len(before.buckets))]
        new = after.buckets[_part_of(starts, len(after.buckets))]
        bucket = _part_of(starts, n_buckets)
        for at in np.flatnonzero(old != new):
            found[int(bucket[at])].add((int(old[at]), int(new[at])))
    else:  # their buckets cut the hashes differently: anything may go anywhere
        anywhere = {
            (s, t) for s in range(before.n_workers) for t in range(after.n_workers) if s != t
        }
        return dict.fromkeys(range(n_buckets), anywhere)
    hot = np.union1d(before.keys, after.keys)
    old, new = before.route(hot), after.route(hot)
    for at in np.flatnonzero(old != new):
        number = int(bucket_of(hot[at : at + 1], n_buckets, seed)[0])
        found[number].add((int(old[at]), int(new[at])))
    return dict(found)


def state_keys_moved(
    fragments: tuple[Fragment, ...], before: Routing, after: Routing, n_buckets: int
) -> float:
    """Return about how many keys with a state would change owner: the plan's own estimate.

    A hot key counts as one; the keys of a state bucket count as spread evenly over its hashes.
    """
    keys = np.zeros(n_buckets)
    for fragment in fragments:
        keys[fragment.bucket] += fragment.keys
    hot = np.union1d(before.keys, after.keys)
    moved = float((before.route(hot) != after.route(hot)).sum())
    if before.seed != after.seed:
        return moved + float(keys.sum()) * (1 - 1 / after.n_workers)
    starts, widths = _ranges(len(before.buckets), len(after.buckets), n_buckets)
    old = before.buckets[_part_of(starts, len(before.buckets))]
    new = after.buckets[_part_of(starts, len(after.buckets))]
    density = keys[_part_of(starts, n_buckets)] * n_buckets / _WIDTH
    return moved + float((density * widths)[old != new].sum())


def _ranges(*counts: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return starts and widths of the ranges of 32-bit values within which no bucket changes."""
    edges = [-(-np.arange(count, dtype=np.int64) * _WIDTH // count) for count in counts]
    starts = np.unique(np.concatenate(edges))
    return starts, np.diff(starts, append=_WIDTH)


def _part_of(values: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return (values * count) >> 32
