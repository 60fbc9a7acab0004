"""The flat arrays that a routing is looked up in, by kernels and by Catalyst expressions alike."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.errors import DataError
from skewless.kernel import kernel, mix, spread

__all__ = ["GROUP_CHOICE", "Tables", "build_tables", "route_keys"]

#: The hash function that groups hot keys. No seed can be this one: hot keys that a planner takes from
#: one worker's buckets lie together under the function of the seed, and would all be in one group.
GROUP_CHOICE = np.uint64(2**64 - 1)
#: Functions that are tried for a group, and places per hot key, before the table is given up.
_MOST_TRIES, _MOST_PLACES = 100_000, 256
#: Entries of the slot table per fragment: a share is met to within 1/64 of a mean fragment.
_SLOTS_PER_FRAGMENT = 64


class Tables(NamedTuple):
    """A routing as flat arrays, the form that kernels and Catalyst expressions index.

    The hot keys lie in a hash-and-displace table: ``displacement[spread(mix(h, 0), R)]`` is the number
    of the hash function that places ``h`` at ``spread(mix(h, d), M)`` without a collision.
    """

    displacement: NDArray[np.int64]
    """int64, (R,): number of the hash function of each displacement group."""
    key: NDArray[np.uint64]
    """uint64, (M,): hot key at each place; an empty place holds a key that belongs elsewhere."""
    base: NDArray[np.int32]
    """int32, (M,): first entry of the key in `slot`; -1 at an empty place."""
    count: NDArray[np.int32]  # type: ignore[assignment]
    """int32, (M,): entries of the key in `slot`; at least 1."""
    slot: NDArray[np.int32]
    """int32, (S,): workers, interleaved in the proportions of the shares."""
    bucket: NDArray[np.int32]
    """int32, (H,): worker of each bucket, or `EVERY_WORKER`."""


def _interleave(shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return fragment numbers, each in proportion to its share, as evenly mixed as possible."""
    if len(shares) == 1:
        return np.zeros(1, np.int64)
    n_slots = _SLOTS_PER_FRAGMENT * len(shares)
    if float(shares.max() - shares.min()) < 1e-9:
        return np.arange(len(shares))
    exact = shares * n_slots
    copies = np.maximum(np.floor(exact).astype(np.int64), 1)
    short = n_slots - int(copies.sum())
    if short > 0:
        copies[np.argsort(copies - exact, kind="stable")[:short]] += 1
    who = np.repeat(np.arange(len(shares)), copies)
    nth = np.arange(len(who)) - np.repeat(np.cumsum(copies) - copies, copies)
    return who[np.argsort((nth + 0.5) / copies[who], kind="stable")]


def build_tables(
    keys: NDArray[np.uint64],
    offsets: NDArray[np.int32],
    workers: NDArray[np.int32],
    shares: NDArray[np.float64],
    buckets: NDArray[np.int32],
) -> Tables:
    """Return the tables of hot keys, whose fragments are at ``offsets[i]:offsets[i + 1]``, and buckets.

    Raises
    ------
    DataError
        The hashes of the keys are alike, as if they had been chosen to be.
    """
    n = len(keys)
    n_places = max(1, 1 << max(0, (2 * n - 1).bit_length()))
    n_groups = max(1, n_places // 4)
    displacement = np.zeros(n_groups, np.int64)
    place = np.zeros(n, np.int64)
    while not _displace(keys, n_places, displacement, place):
        # More groups, of fewer keys each.
        n_places, n_groups = 2 * n_places, 2 * n_groups
        if n_places > _MOST_PLACES * n:
            raise DataError(
                f"Routing: no table of up to {n_places:,} places holds the {n:,} hot keys: their hashes "
                "are alike, as if they had been chosen to be; take fewer hot keys."
            )
        displacement = np.zeros(n_groups, np.int64)
    slots: list[NDArray[np.int32]] = []
    base = np.full(n_places, -1, np.int32)
    count = np.ones(n_places, np.int32)
    filler = keys[0] if n else np.uint64(0)
    key = np.full(n_places, filler, np.uint64)
    length = 0
    for i in range(n):
        start, stop = offsets[i], offsets[i + 1]
        slot = workers[start:stop][_interleave(shares[start:stop])]
        at = place[i]
        key[at], base[at], count[at] = keys[i], length, len(slot)
        slots.append(slot)
        length += len(slot)
    slot = np.concatenate(slots) if slots else np.zeros(1, np.int32)
    return Tables(displacement, key, base, count, slot.astype(np.int32), buckets)


@kernel
def _displace(
    keys: NDArray[np.uint64],
    n_places: int,
    displacement: NDArray[np.int64],
    place: NDArray[np.int64],
) -> bool:
    """Hash and displace: groups by size, largest first, each takes the first function that fits.

    Return whether every group found one.
    """
    n_groups = len(displacement)
    group = np.empty(len(keys), np.int64)
    size = np.zeros(n_groups, np.int64)
    for i in range(len(keys)):
        group[i] = spread(mix(keys[i], GROUP_CHOICE), np.uint64(n_groups))
        size[group[i]] += 1
    by_group = np.argsort(group, kind="mergesort")
    start = np.cumsum(size) - size
    taken = np.zeros(n_places, np.bool_)
    for g in np.argsort(-size, kind="mergesort"):
        if size[g] == 0:
            break
        members = by_group[start[g] : start[g] + size[g]]
        d, fits = 0, False
        while not fits:
            d += 1
            if d > _MOST_TRIES:
                return False
            fits = True
            for j in range(len(members)):
                at = spread(mix(keys[members[j]], np.uint64(d)), np.uint64(n_places))
                if taken[at]:
                    fits = False
                for earlier in range(j):
                    if place[members[earlier]] == at:
                        fits = False
                place[members[j]] = at
                if not fits:
                    break
        displacement[g] = d
        for member in members:
            taken[place[member]] = True
    return True


@kernel
def route_keys(
    tables: Tables,
    seed: np.uint64,
    n_workers: int,
    keys: NDArray[np.uint64],
    salt: NDArray[np.int64],
    turn: NDArray[np.int64],
    out: NDArray[np.int32],
) -> None:
    """Write the worker of each key to `out`; deal by `salt`, or if that is empty by turns (`turn`)."""
    n_groups = np.uint64(len(tables.displacement))
    n_places = np.uint64(len(tables.key))
    n_buckets = np.uint64(len(tables.bucket))
    salted = len(salt) > 0
    last = len(turn) - 1
    for i in range(len(keys)):
        key = keys[i]
        d = tables.displacement[spread(mix(key, GROUP_CHOICE), n_groups)]
        at = spread(mix(key, np.uint64(d)), n_places)
        if tables.base[at] >= 0 and tables.key[at] == key:
            if salted:
                pick = salt[i] % tables.count[at]
            else:
                pick = turn[at]
                turn[at] = pick + 1 if pick + 1 < tables.count[at] else 0
            out[i] = tables.slot[tables.base[at] + pick]
            continue
        owner = tables.bucket[spread(mix(key, seed), n_buckets)]
        if owner < 0:
            if salted:
                owner = np.int32(salt[i] % n_workers)
            else:
                owner = np.int32(turn[last])
                turn[last] = owner + 1 if owner + 1 < n_workers else 0
        out[i] = owner
