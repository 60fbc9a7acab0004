"""Where every key goes: the compact answer of planners and of condensed partitioners.

At most a few hundred hot keys have workers and shares of their own; every other key belongs to one of
many buckets, and each bucket to one worker. The same tables route a numpy array here and, as array
literals, the rows of a Spark job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless import document
from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram, bucket_count, bucket_of
from skewless.routing_tables import Tables, build_tables, route_keys

__all__ = ["EVERY_WORKER", "Moves", "Routing"]

#: The owner of a bucket whose tuples are dealt to all workers in turn.
EVERY_WORKER = -1


class Moves(NamedTuple):
    """What changes owner from one routing to the next: one entry per (key or bucket, source, target)."""

    key: NDArray[np.uint64]
    """uint64: the key hash, or the bucket's number where `is_bucket`."""
    is_bucket: NDArray[np.bool_]
    """bool: whether the entry speaks of all cold keys of a bucket."""
    source: NDArray[np.int32]
    """int32: worker that owned this part before."""
    target: NDArray[np.int32]
    """int32: worker that owns it now."""
    amount: NDArray[np.float64]
    """float64: weight that moves, in the histogram's unit (0 for what the histogram lacks)."""

    @property
    def total(self) -> float:
        """Weight that changes owner, in the histogram's unit."""
        return float(self.amount.sum())


class Routing:
    """Hot keys with workers and shares, buckets with workers.

    Parameters
    ----------
    n_workers
        Number of workers, at least 1.
    hot
        ``{key hash: {worker: share}}``; shares are positive and are scaled to sum to 1.
    buckets
        Worker of each bucket, int32; `EVERY_WORKER` deals a bucket's tuples to all workers in turn.
        ``None`` gives plain hashing.
    seed
        Seed of the bucket hash.

    Notes
    -----
    A routing is a value: it is never changed after it is made, and two routings with the same content
    are equal. A split key's tuples are dealt by weighted round robin, 64 slots a fragment, so each
    worker gets its share to within 1/64 of a mean fragment of that key, and never less than a slot.

    Examples
    --------
    >>> r = Routing(4, {7: {0: 0.5, 3: 0.5}})
    >>> r.route([7, 7, 7, 7]).tolist()
    [0, 3, 0, 3]
    >>> r.extra_fragments
    1
    """

    def __init__(
        self,
        n_workers: int,
        hot: Mapping[int, Mapping[int, float]] | None = None,
        buckets: ArrayLike | None = None,
        *,
        seed: int = 0,
    ) -> None:
        if not isinstance(n_workers, (int, np.integer)) or n_workers < 1:
            raise ParameterError(
                f"Routing: n_workers must be an int of at least 1, got {n_workers!r}."
            )
        self.n_workers = int(n_workers)
        self.seed = seed
        hot = hot or {}
        rows = [(key, worker, share) for key in hot for worker, share in hot[key].items()]
        if len({key for key, _, _ in rows}) < len(hot):
            empty = next(key for key in hot if not hot[key])
            raise DataError(f"Routing: hot key {empty} has no worker.")
        keys, workers, shares = zip(*rows, strict=True) if rows else ((), (), ())
        self._set_hot(
            np.array(keys, np.uint64), np.array(workers, np.int64), np.array(shares, np.float64)
        )
        if buckets is None:
            n_buckets = bucket_count(self.n_workers)
            owners = np.arange(n_buckets, dtype=np.int64) * self.n_workers // n_buckets
        else:
            owners = np.asarray(buckets, np.int64)
        self._check_workers("bucket", owners, EVERY_WORKER)
        self.buckets: NDArray[np.int32] = owners.astype(np.int32)
        if len(self.buckets) == 0:
            raise DataError("Routing: buckets must not be empty; leave it out for plain hashing.")
        self._tables: Tables | None = None

    def _set_hot(
        self, keys: NDArray[np.uint64], workers: NDArray[np.int64], shares: NDArray[np.float64]
    ) -> None:
        """Take one row per fragment, in any order; scale the shares of each key to sum to 1."""
        self._check_workers("hot key", workers, 0)
        if len(shares) and not (np.isfinite(shares).all() and shares.min() > 0):
            bad = shares[~(np.isfinite(shares) & (shares > 0))][0]
            raise DataError(f"Routing: shares must be positive, got {bad}.")
        order = np.argsort(keys)
        if (keys[order[1:]] == keys[order[:-1]]).any():  # a key is split: by worker, too
            order = np.lexsort((workers, keys))
        keys, workers, shares = keys[order], workers[order], shares[order]
        fresh = np.ones(len(keys), np.bool_)
        fresh[1:] = keys[1:] != keys[:-1]
        twice = np.flatnonzero(~fresh[1:] & (workers[1:] == workers[:-1]))
        if len(twice):
            raise DataError(
                f"Routing: hot key {keys[twice[0]]} lists worker {workers[twice[0]]} twice; add up "
                f"its shares first."
            )
        first = np.flatnonzero(fresh)
        self.keys: NDArray[np.uint64] = keys[first]
        self.offsets: NDArray[np.int32] = np.append(first, len(keys)).astype(np.int32)
        self.workers: NDArray[np.int32] = workers.astype(np.int32)
        sums = np.bincount(np.cumsum(fresh) - 1, shares) if len(first) else shares
        sums[np.abs(sums - 1) < 1e-12] = 1  # already scaled: keep the shares bit for bit
        self.shares: NDArray[np.float64] = shares / np.repeat(sums, np.diff(self.offsets))

    def _check_workers(self, name: str, ids: NDArray[Any], low: int) -> None:
        bad = np.flatnonzero((ids < low) | (ids >= self.n_workers))
        if len(bad):
            raise DataError(
                f"Routing: a {name} is given to worker {ids[bad[0]]}, but workers are "
                f"0 to {self.n_workers - 1}."
            )

    @classmethod
    def from_arrays(
        cls,
        n_workers: int,
        keys: ArrayLike,
        workers: ArrayLike,
        shares: ArrayLike,
        buckets: ArrayLike | None = None,
        *,
        seed: int = 0,
    ) -> Routing:
        """Make a routing from one row per fragment of a hot key, in any order.

        Parameters
        ----------
        n_workers
            Number of workers, at least 1.
        keys, workers, shares
            Key hash, worker and positive share (or weight) of each fragment.
        buckets, seed
            As for the class.

        Examples
        --------
        >>> Routing.from_arrays(4, [7, 9, 7], [3, 1, 0], [30, 5, 10]).hot
        {7: {0: 0.25, 3: 0.75}, 9: {1: 1.0}}
        """
        routing = cls(n_workers, None, buckets, seed=seed)
        key = Chunk(None, keys).key
        worker, share = np.asarray(workers, np.int64), np.array(shares, np.float64)
        if not len(key) == len(worker) == len(share):
            raise DataError(
                f"Routing: keys, workers and shares must have one entry per fragment, got "
                f"{len(key)}, {len(worker)} and {len(share)}."
            )
        routing._set_hot(key, worker, share)
        return routing

    @classmethod
    def hashing(cls, n_workers: int, *, seed: int = 0) -> Routing:
        """Return the routing of plain hashing: no hot key, equal runs of buckets."""
        return cls(n_workers, seed=seed)

    @classmethod
    def shuffling(cls, n_workers: int) -> Routing:
        """Return the routing that deals all tuples to all workers in turn, whatever their key."""
        return cls(n_workers, buckets=[EVERY_WORKER])

    # -- reading -----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return (
            f"Routing({self.n_workers} workers, {len(self.keys)} hot keys in "
            f"{len(self.workers)} fragments, {len(self.buckets)} buckets)"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Routing) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash((self.n_workers, self.keys.tobytes(), self.buckets.tobytes()))

    @property
    def hot(self) -> dict[int, dict[int, float]]:
        """``{key hash: {worker: share}}`` of every hot key, in the order of the hashes."""
        found: dict[int, dict[int, float]] = {}
        for key, start, stop in zip(self.keys, self.offsets[:-1], self.offsets[1:], strict=True):
            workers, shares = self.workers[start:stop].tolist(), self.shares[start:stop].tolist()
            found[int(key)] = dict(zip(workers, shares, strict=True))
        return found

    @property
    def extra_fragments(self) -> int:
        """Fragments above one per hot key: what the splits cost in the merge."""
        return len(self.workers) - len(self.keys)

    @property
    def split_keys(self) -> NDArray[np.uint64]:
        """Hashes of the keys that have more than one worker, uint64, ascending."""
        return self.keys[np.diff(self.offsets) > 1]

    def loads(self, histogram: Histogram) -> NDArray[np.float64]:
        """Return the expected load of each worker, float64, in the histogram's unit."""
        weight, cold = self._weights(self.keys, histogram)
        parts = self.shares * np.repeat(weight, np.diff(self.offsets))
        loads = np.zeros(self.n_workers)
        loads += np.bincount(self.workers, parts, self.n_workers)
        owned = self.buckets >= 0
        loads += np.bincount(self.buckets[owned], cold[owned], self.n_workers)
        loads += cold[~owned].sum() / self.n_workers
        return loads

    def _tail(self, histogram: Histogram) -> NDArray[np.int64]:
        if histogram.tail is None:
            return np.zeros(len(self.buckets), np.int64)
        if len(self.buckets) == 1:
            return np.array([histogram.tail.sum()], np.int64)
        if len(histogram.tail) != len(self.buckets) or histogram.seed != self.seed:
            raise DataError(
                f"Routing: the histogram's tail has {len(histogram.tail)} buckets with seed "
                f"{histogram.seed}, this routing {len(self.buckets)} with seed {self.seed}."
            )
        return histogram.tail

    def moves(self, previous: Routing, histogram: Histogram) -> Moves:
        """Return what changes owner when this routing replaces `previous`.

        Parameters
        ----------
        previous
            A routing over the same buckets, possibly for another number of workers.
        histogram
            Weights of keys and buckets (state sizes, or counts of the last window).

        Raises
        ------
        DataError
            The two routings hash their buckets differently.

        Examples
        --------
        >>> before, after = Routing(2, {7: {0: 1.0}}), Routing(2, {7: {0: 0.5, 1: 0.5}})
        >>> m = after.moves(before, Histogram([7], [100]))
        >>> m.source.tolist(), m.target.tolist(), m.amount.tolist()
        ([0], [1], [50.0])
        """
        if len(self.buckets) != len(previous.buckets) or self.seed != previous.seed:
            raise DataError(
                f"Routing: cannot compare {len(self.buckets)} buckets with seed {self.seed} to "
                f"{len(previous.buckets)} with seed {previous.seed}."
            )
        hot = np.union1d(previous.keys, self.keys)
        bucket = bucket_of(hot, len(self.buckets), self.seed)
        weight, cold = self._weights(hot, histogram)
        old, new = previous.hot, self.hot
        entries: list[tuple[int, bool, int, int, float]] = []
        for key, at, amount in zip(hot.tolist(), bucket.tolist(), weight.tolist(), strict=True):
            before = old.get(key) or previous._bucket_share(at)
            after = new.get(key) or self._bucket_share(at)
            if before != after:
                for source, target, share in _transport(before, after):
                    entries.append((key, False, source, target, share * amount))
        for at in np.flatnonzero(self.buckets != previous.buckets).tolist():
            before, after = previous._bucket_share(at), self._bucket_share(at)
            for source, target, share in _transport(before, after):
                entries.append((at, True, source, target, share * float(cold[at])))
        columns: Sequence[Any] = list(zip(*entries, strict=True)) if entries else [[]] * 5
        return Moves(
            np.array(columns[0], np.uint64),
            np.array(columns[1], np.bool_),
            np.array(columns[2], np.int32),
            np.array(columns[3], np.int32),
            np.array(columns[4], np.float64),
        )

    def _weights(
        self, hot: NDArray[np.uint64], histogram: Histogram
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the weight of each of the `hot` keys, ascending, and of all others by bucket."""
        place = np.searchsorted(hot, histogram.keys)
        known = place < len(hot)
        known[known] = hot[place[known]] == histogram.keys[known]
        weight = np.zeros(len(hot))
        weight[place[known]] = histogram.counts[known]
        cold = self._tail(histogram).astype(np.float64)
        bucket = bucket_of(histogram.keys[~known], len(cold), self.seed)
        cold += np.bincount(bucket, histogram.counts[~known], len(cold))
        return weight, cold

    def _bucket_share(self, bucket: int) -> dict[int, float]:
        owner = int(self.buckets[bucket])
        if owner == EVERY_WORKER:
            return dict.fromkeys(range(self.n_workers), 1 / self.n_workers)
        return {owner: 1.0}

    # -- routing -----------------------------------------------------------------------------------

    @property
    def tables(self) -> Tables:
        """The flat arrays that kernels and Catalyst expressions index (made once, then kept)."""
        if self._tables is None:
            self._tables = build_tables(
                self.keys, self.offsets, self.workers, self.shares, self.buckets
            )
        return self._tables

    def route(
        self,
        keys: ArrayLike | Chunk,
        *,
        salt: ArrayLike | None = None,
        turn: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32.

        Parameters
        ----------
        keys
            Key hashes, or a chunk.
        salt
            Non-negative int64 per tuple that picks the slot of a split key, as a Spark row's salt
            does. ``None`` deals a split key's tuples in turn.
        turn
            int64, shape ``(len(tables.key) + 1,)``: next turn of each place of the hot-key table and,
            last, of the buckets that belong to every worker. Changed in place, so that a stream may
            be routed in pieces; ``None`` starts from zero.
        """
        key = keys.key if isinstance(keys, Chunk) else Chunk(None, keys).key
        tables = self.tables
        if turn is None:
            turn = self.turns()
        out = np.empty(len(key), np.int32)
        if salt is None:
            empty = np.empty(0, np.int64)
            route_keys(tables, np.uint64(self.seed), self.n_workers, key, empty, turn, out)
            return out
        salts = np.asarray(salt, np.int64)
        if len(salts) != len(key) or (len(salts) and int(salts.min()) < 0):
            raise DataError("Routing: salt must hold one non-negative int64 per tuple.")
        route_keys(tables, np.uint64(self.seed), self.n_workers, key, salts, turn, out)
        return out

    def turns(self) -> NDArray[np.int64]:
        """Return fresh turn counters for `route`."""
        return np.zeros(len(self.tables.key) + 1, np.int64)

    # -- files -------------------------------------------------------------------------------------

    def _content(self) -> dict[str, Any]:
        return {
            "n_workers": self.n_workers,
            "seed": self.seed,
            "keys": self.keys.tolist(),
            "offsets": self.offsets.tolist(),
            "workers": self.workers.tolist(),
            "shares": self.shares.tolist(),
            "buckets": self.buckets.tolist(),
        }

    def to_json(self, **extra: Any) -> str:
        """Return the file content: format, version, checksum, routing, and any `extra` JSON values."""
        return document.render(*document.ROUTING, {"routing": self._content(), **extra})

    def save(self, path: str | Path, **extra: Any) -> None:
        """Write the routing as one JSON file, complete or not at all (temporary file, then rename)."""
        document.write(Path(path), self.to_json(**extra))

    @classmethod
    def load(cls, path: str | Path) -> Routing:
        """Read a routing that `save` wrote.

        Raises
        ------
        DataError
            The file is truncated, altered, of another format, or of a newer version.
        """
        return cls.parse(Path(path).read_bytes(), str(path))[0]

    @classmethod
    def parse(cls, content: bytes, name: str = "<bytes>") -> tuple[Routing, dict[str, Any]]:
        """Return the routing in a file's content and the extra values saved with it."""
        body = document.parse(content, *document.ROUTING, f"Routing: {name}")
        try:
            fields = body.pop("routing")
            routing = cls.from_arrays(
                fields["n_workers"],
                np.repeat(np.array(fields["keys"], np.uint64), np.diff(fields["offsets"])),
                fields["workers"],
                fields["shares"],
                fields["buckets"],
                seed=fields["seed"],
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"Routing: {name} lacks a field or has an impossible one ({error}); write it anew."
            ) from error
        return routing, body


def _transport(
    before: Mapping[int, float], after: Mapping[int, float]
) -> list[tuple[int, int, float]]:
    """Match the shares that shrink with those that grow, both in the order of the workers."""
    workers = sorted({*before, *after})
    change = [(w, after.get(w, 0.0) - before.get(w, 0.0)) for w in workers]
    givers = [(w, -c) for w, c in change if c < -1e-12]
    takers = [(w, c) for w, c in change if c > 1e-12]
    pairs: list[tuple[int, int, float]] = []
    while givers and takers:
        (source, has), (target, wants) = givers[0], takers[0]
        part = min(has, wants)
        pairs.append((source, target, part))
        givers = givers[1:] if has - part <= 1e-12 else [(source, has - part), *givers[1:]]
        takers = takers[1:] if wants - part <= 1e-12 else [(target, wants - part), *takers[1:]]
    return pairs
