"""Policies as the simulator drives them: one for all partitioners, or one for each."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.errors import ParameterError
from skewless.histogram import Histogram
from skewless.partitioners import Partitioner
from skewless.planners import Planner, Replanned
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.simulator.sources import Block

__all__ = ["Move", "Router"]


class Move(NamedTuple):
    """A change of plan."""

    row: int
    """Tuple of the block before which it happened."""
    moved: float
    """Weight of the last window that changed owner."""
    total: float
    """Weight of the last window."""


class _Alone:
    """A partitioner that decides tuple by tuple."""

    def __init__(self, policy: Partitioner) -> None:
        self.policy = policy

    def route(self, chunk: Chunk) -> tuple[NDArray[np.int32], list[Move]]:
        return self.policy.route(chunk), []

    @property
    def state_bytes(self) -> int:
        return self.policy.state_bytes


class _Planned(_Alone):
    """`Replanned`: routed window by window, so that no change of plan is missed."""

    policy: Replanned

    def route(self, chunk: Chunk) -> tuple[NDArray[np.int32], list[Move]]:
        policy, moves = self.policy, []
        out = np.empty(len(chunk), np.int32)
        cuts = np.flatnonzero(np.diff(chunk.time // policy.every)) + 1
        edges = [0, *cuts.tolist(), len(chunk)]
        for start, stop in itertools.pairwise(edges):
            before, counted = policy.moves, policy.state
            total = float(counted.tuples.sum() + counted.n_recent[0])
            out[start:stop] = policy.route(chunk[start:stop])
            if policy.moves is not before and policy.moves is not None:
                moves.append(Move(start, policy.moves.total, total))
        return out, moves


class _WholeBatch:
    """A planner that sees a batch before it routes it."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.routing: Routing | None = None
        self.last: Histogram | None = None

    def route(self, chunk: Chunk) -> tuple[NDArray[np.int32], list[Move]]:
        keys, counts = np.unique(chunk.key, return_counts=True)
        batch = Histogram(keys, counts, seed=self.planner.seed)
        routing, moves = self.planner.plan(batch, self.routing), []
        if self.routing is not None and self.last is not None:
            moved = routing.moves(self.routing, self.last)
            moves.append(Move(0, moved.total, float(self.last.total)))
        self.routing, self.last = routing, batch
        return routing.route(chunk), moves

    @property
    def state_bytes(self) -> int:
        return 0 if self.last is None else self.last.keys.nbytes + self.last.counts.nbytes


class Router:
    """Route blocks with copies of the policies.

    Parameters
    ----------
    policy
        One policy, or one for each partitioner. Policies that were given are not changed.
    n_partitioners
        Partitioners; the owner of each tuple says which.
    local
        Whether each partitioner has a copy of its own, which sees its own tuples only.
    every
        Length of a planner's window, where it is driven tuple by tuple.
    batches
        Whether each block is a whole batch, which planners see before it is routed.
    """

    def __init__(
        self,
        policy: Policy | Sequence[Policy],
        n_partitioners: int,
        *,
        local: bool,
        every: int,
        batches: bool,
    ) -> None:
        policies = _policies(policy, n_partitioners, local)
        self.n_workers = policies[0].n_workers
        self.n_partitioners = n_partitioners
        self.name = _name(policies[0])
        self.in_turn = False
        for one in policies:
            sources = int(getattr(one, "sources", 1))
            if sources not in (1, n_partitioners) or (sources > 1 and len(policies) > 1):
                raise ParameterError(
                    f"simulate: {type(one).__name__} plays {sources} sources itself, so partitioners "
                    f"must be {sources} and local=False, got {n_partitioners}."
                )
            self.in_turn |= sources > 1
        self._drivers = [_driver(copy.deepcopy(one), every, batches) for one in policies]

    def route(self, block: Block) -> tuple[NDArray[np.int32], list[Move]]:
        """Return the combiner of each tuple, and the changes of plan in the order of the tuples."""
        if len(self._drivers) == 1:
            return self._drivers[0].route(Chunk(block.time, block.key))
        out = np.empty(len(block.key), np.int32)
        moves: list[Move] = []
        for number, driver in enumerate(self._drivers):
            rows = np.flatnonzero(block.owner == number)
            if len(rows):
                out[rows], found = driver.route(Chunk(block.time[rows], block.key[rows]))
                moves += [move._replace(row=int(rows[move.row])) for move in found]
        return out, sorted(moves)

    @property
    def state_bytes(self) -> int:
        """Bytes that the policies hold now."""
        return sum(driver.state_bytes for driver in self._drivers)


def _policies(policy: object, n_partitioners: int, local: bool) -> list[Policy]:
    if isinstance(policy, Policy):
        return [policy] * (n_partitioners if local else 1)
    if not isinstance(policy, Sequence) or not policy:
        raise ParameterError(
            f"simulate: policy must be a policy such as PKG(64), or a list with one for each "
            f"partitioner, got {policy!r}."
        )
    for one in policy:
        if not isinstance(one, Policy):
            raise ParameterError(
                f"simulate: every policy must be one such as PKG(64), got {one!r}."
            )
    if len(policy) != n_partitioners:
        raise ParameterError(
            f"simulate: partitioners={n_partitioners}, but there are {len(policy)} policies; give one "
            f"for each partitioner, or a single one."
        )
    if len({one.n_workers for one in policy}) > 1:
        raise ParameterError(
            f"simulate: all policies must have the same workers, got "
            f"{[one.n_workers for one in policy]}."
        )
    return list(policy)


def _name(policy: Policy) -> str:
    return policy.planner.name if isinstance(policy, Replanned) else policy.name


def _driver(policy: Policy, every: int, batches: bool) -> _Alone | _WholeBatch:
    if isinstance(policy, Planner):
        return _WholeBatch(policy) if batches else _Planned(Replanned(policy, every=every))
    if isinstance(policy, Replanned):
        return _Planned(policy)
    if isinstance(policy, Partitioner):
        return _Alone(policy)
    raise ParameterError(f"simulate: policy must be a partitioner or a planner, got {policy!r}.")
