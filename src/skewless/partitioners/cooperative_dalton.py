"""Cooperative Dalton: several Dalton partitioners that share what they learn about hot keys.

E. Zapridou, I. Mytilinis, A. Ailamaki: Dalton: Learned Partitioning for Distributed Data Streams,
PVLDB 16(3), 2022, section 4.
"""

from __future__ import annotations

import copy
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.chunk import Chunk
from skewless.errors import DataError, ParameterError
from skewless.parameters import Count, Range, Seed
from skewless.partitioners.base import Partitioner
from skewless.partitioners.dalton_agent import (
    ENDLESS,
    NEVER,
    Agent,
    accept,
    begin,
    drive,
    expire,
    new_agent,
    report,
)
from skewless.partitioners.dalton_learner import DaltonSettings
from skewless.partitioners.q_table_reducer import QTableReducer, Reply, message_bytes
from skewless.windows import hot_exchange
from skewless.windows.hot_rewards import rewards_bytes_bound
from skewless.windows.hot_window import hot_window_bytes_bound

__all__ = ["CooperativeDalton"]

#: What may happen before a tuple, in this order.
_REPLY, _SYNC, _EXPIRY = 0, 1, 2


class CooperativeDaltonState(NamedTuple):
    """The partitioners, and what is common to them."""

    agents: tuple[Agent, ...]
    """One for each source."""
    tuples: NDArray[np.int64]
    """int64, (1,): tuples so far."""
    last: NDArray[np.int64]
    """int64, (1,): time of the latest tuple."""
    interval: NDArray[np.int64]
    """int64, (1,): time from a SYNC to the next (DSYNC)."""
    reached: NDArray[np.int64]
    """int64, (1,): when the last reply came."""


class CooperativeDalton(Partitioner):
    """Let every source run a `Dalton` of its own, and average their Q-tables at regular intervals.

    Use it where one partitioner is too slow for the stream, so that each of several sources has its
    own; they agree on which keys are hot in the whole stream and on where these go. Not with a single
    source, where `Dalton` does the same without messages.

    Parameters
    ----------
    n_workers : int of at least 1
        Number of workers.
    sources : int of at least 1
        Number of partitioners; tuple number i belongs to partitioner ``i % sources``.
    window : int of at least 1
        Length of the window that load and fragments are balanced in, in the unit of ``Chunk.time``.
    slide : int of at least 1
        Step of the window, at most `window`.
    sync : int of at least 1, optional
        Time from a SYNC message to the next at first, and the length of the window in which hot keys
        are found; by default a slide, but at least ``8 * n_workers``.
    adaptive : bool
        Whether that interval halves while the reducer is idle, and doubles while it is late.
    shortest : int of at least 1, optional
        The interval does not shrink below this, nor below `sync` if that is less; by default a
        sixteenth of a slide, but at least ``64 * n_workers``.
    latency : int of at least 0
        Time from the last SYNC of a round to the reply: what the reducer and the network take.
    epsilon : float in [0, 1]
        Part of the tuples of hot keys that go to a random worker, to explore.
    gamma : float in (0, 1]
        Step size of learning (Eq. 5): how fast old rewards are forgotten.
    p1 : float in [0, 1]
        Weight of the load imbalance in the reward; the fragmentation has ``1 - p1``.
    max_split : int of at least 1, optional
        Once a key has this many fragments at its source, exploration stays among them.
    seed : int in [0, 9223372036854775807]
        Which hash function, and which random choices; partitioner j explores by ``seed + j``.

    Notes
    -----
    A partitioner sends its SYNC before its first tuple that is an interval or more after the start of
    its statistics window: Q-table, tuples, and the counts of its hot keys and of the n most frequent
    others. Until the reply comes its rewards are buffered. The reply replaces its Q-table, and GL/n, a
    part of all sources' tuples, becomes the count that makes a key hot. Time is that of the tuples.

    Guarantee: a reply lists at most n keys (Theorem 3.4), and once all partitioners have it they split
    these and the keys that have GL/n tuples at one source alone, no others. None on the balance: each
    source knows the load that it sends itself.

    Cost: that of `Dalton`; a round costs each source some 0.3 ms here, n values for each hot key, and
    a look at the keys since the last SYNC. State: that of `Dalton` for each source, 52 to 103
    bytes for each fragment with a buffered reward, and the messages under way, ``8 n_workers`` bytes
    for each hot key and source.

    Deviations from the paper: the printed mean of Q-tables divides by GL and by the number of sources,
    which shrinks Q against the rewards; here it is ``sum f_j Q_j / sum f_j`` over the sources that
    have a row. A partitioner whose SYNC falls due while it awaits a reply sends it after the reply,
    and is late if the reply took longer than the interval that it names. The first round of all does not
    shorten the interval. Hot keys of a reply expire two intervals after it. Several rewards of a key
    at a worker are merged into one step. Nothing is hot before the first reply. `max_split` is not in
    the paper.

    Examples
    --------
    >>> partitioner = CooperativeDalton(4, window=600, slide=10)
    >>> loads = np.bincount(partitioner.route(Chunk(None, [7] * 1000)), minlength=4)
    >>> int(loads.min()), int(loads.max())
    (19, 566)

    References
    ----------
    PVLDB 16(3), section 4, doi:10.14778/3570690.3570699.
    """

    splits_keys = True
    moves_keys = True
    sources: int
    window: int
    slide: int
    sync: int | None
    adaptive: bool
    shortest: int | None
    latency: int
    epsilon: float
    gamma: float
    p1: float
    max_split: int | None
    state: CooperativeDaltonState

    def __init__(
        self,
        n_workers: Count,
        *,
        sources: Count = 2,
        window: Count = 60_000,
        slide: Count = 1_000,
        sync: Count | None = None,
        adaptive: bool = True,
        shortest: Count | None = None,
        latency: Annotated[int, Range(0)] = 0,
        epsilon: Annotated[float, Range(0, 1)] = 0.1,
        gamma: Annotated[float, Range(0, 1, low_open=True)] = 0.1,
        p1: Annotated[float, Range(0, 1)] = 0.5,
        max_split: Count | None = None,
        seed: Seed = 0,
    ) -> None:
        self._take(
            n_workers=n_workers,
            sources=sources,
            window=window,
            slide=slide,
            sync=sync,
            adaptive=adaptive,
            shortest=shortest,
            latency=latency,
            epsilon=epsilon,
            gamma=gamma,
            p1=p1,
            max_split=max_split,
            seed=seed,
        )
        if slide > window:
            raise ParameterError(
                f"CooperativeDalton: slide must be at most the window of {window}, got {slide}; "
                f"tuples between two windows would belong to none."
            )
        interval = sync or max(slide, 8 * n_workers)
        self.reducer = QTableReducer(
            n_workers,
            sources,
            interval=interval,
            shortest=shortest or max(slide // 16, 64 * n_workers),
            adaptive=adaptive,
        )
        self.under_way: Reply | None = None
        self.state = CooperativeDaltonState(
            tuple(new_agent(self.n_slides, n_workers, seed + j) for j in range(sources)),
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
            np.array([interval]),
            np.array([NEVER]),
        )

    @property
    def n_slides(self) -> int:
        """Slides in a window, the one that has begun included."""
        return -(-self.window // self.slide)

    @property
    def interval(self) -> int:
        """Time from a SYNC to the next, as it is now (DSYNC)."""
        return int(self.state.interval[0])

    @property
    def state_bytes(self) -> int:
        """Bytes that the state and the messages under way hold now."""
        reply = message_bytes(self.under_way) if self.under_way else 0
        return super().state_bytes + self.reducer.state_bytes + reply

    def state_bytes_bound(self, n_keys: int) -> int:
        """Return the most bytes of a state in whose windows there were at most `n_keys` keys.

        Windows are those of `window` and two from a SYNC to the next. The bound holds even if all keys
        were hot on all workers at all sources.
        """
        n = self.n_workers
        agent = hot_window_bytes_bound(n_keys, self.n_slides, n) + 34
        message = n_keys * (8 * n + 16)
        return self.sources * (agent + rewards_bytes_bound(n_keys * n) + message) + message + 32

    def route(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the worker of each tuple, int32.

        Raises
        ------
        DataError
            The chunk begins before the latest tuple of the chunks before it.
        """
        out = np.empty(len(chunk), np.int32)
        if len(chunk) == 0:
            return out
        if self.state.tuples[0] > 0 and chunk.time[0] < self.state.last[0]:
            raise DataError(
                f"CooperativeDalton: time must not decrease from chunk to chunk, got {chunk.time[0]} "
                f"after {self.state.last[0]}; number the tuples of a chunk on from the chunk before."
            )
        run = _Run(self, chunk)
        while True:
            at, event, source = run.next_event()
            if at >= len(chunk):
                break
            if event == _REPLY:
                run.deliver(at)
            elif event == _SYNC:
                run.send(source, at)
            else:
                run.expire(source, at)
        run.finish(out)
        self.state.tuples[0] += len(chunk)
        self.state.last[0] = chunk.time[-1]
        return out

    def forwards(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Say of each key whether its partial result for this window may skip the final aggregation.

        Asked when a slide ends (section 4.2): true for a key that no partitioner has in its Q-table or
        has split in the window, if a reply has come to all of them since the slide began.
        """
        found = Chunk(None, keys).key
        agents, seed = self.state.agents, np.uint64(self.seed)
        if (
            len(agents) > 1
            and self.state.reached[0] < self.state.last[0] // self.slide * self.slide
        ):
            return np.zeros(len(found), np.bool_)
        out = np.ones(len(found), np.bool_)
        for agent in agents:
            hot_exchange.forwards(agent.learner, found, seed, len(agents) > 1, out)
        return out

    def _settled(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Learn from the sample; judge by a second pass that does not explore."""
        if self.state.tuples[0] > 0:
            self._clock = max(self._clock, int(self.state.last[0]) + 1)
        sample = self._next(keys)
        self.route(sample)
        judge = copy.deepcopy(self)
        judge.epsilon = 0.0
        return judge.route(Chunk(sample.time + len(sample), keys))


class _Run:
    """One chunk, dealt to the partitioners; each is driven from one of its events to the next."""

    def __init__(self, policy: CooperativeDalton, chunk: Chunk) -> None:
        self.policy, self.chunk = policy, chunk
        n, begun = policy.sources, int(policy.state.tuples[0])
        self.agents = list(policy.state.agents)
        self.first = [(source - begun) % n for source in range(n)]
        self.times = [np.ascontiguousarray(chunk.time[first::n]) for first in self.first]
        self.keys = [np.ascontiguousarray(chunk.key[first::n]) for first in self.first]
        self.out = [np.empty(len(keys), np.int32) for keys in self.keys]
        self.done = [0] * n
        self.answered = 0
        self.settings = DaltonSettings(
            policy.n_workers,
            policy.slide,
            ENDLESS,
            float(policy.epsilon),
            float(policy.gamma),
            float(policy.p1),
            policy.max_split or policy.n_workers + 1,
            np.uint64(policy.seed),
        )
        for agent, times in zip(self.agents, self.times, strict=True):
            if len(times):
                begin(agent, policy.slide, policy.interval, int(times[0]))

    def next_event(self) -> tuple[int, int, int]:
        """Return the tuple before which something happens next, what it is, and to which source."""
        reply, n = self.policy.under_way, self.policy.sources
        found = (len(self.chunk), _REPLY, 0)
        if reply is not None:
            at = int(np.searchsorted(self.chunk.time, reply.time))
            found = (max(at, self.answered), _REPLY, 0)
        for source, agent in enumerate(self.agents):
            due = agent.expiry[0] if agent.awaits[0] else agent.start[0] + self.policy.interval
            if due == NEVER:
                continue
            # Each SYNC reports a tuple at least.
            done = self.done[source] + int(not agent.awaits[0] and agent.learner.keys.total[0] == 0)
            mine = max(int(np.searchsorted(self.times[source], due)), done)
            if mine < len(self.times[source]):
                event = _EXPIRY if agent.awaits[0] else _SYNC
                found = min(found, (self.first[source] + n * mine, event, source))
        return found

    def deliver(self, at: int) -> None:
        """Let the reply under way reach all partitioners before tuple `at` (lines 17 to 20)."""
        policy, reply = self.policy, self.policy.under_way
        if reply is None:
            return
        policy.under_way = None
        policy.state.interval[0], policy.state.reached[0] = reply.interval, reply.time
        for source in range(policy.sources):
            self._advance(source, at)
            self.agents[source] = accept(self.agents[source], reply, self.settings.seed)

    def send(self, source: int, at: int) -> None:
        """Let a partitioner send its SYNC before its tuple `at` (lines 14 to 16)."""
        self._advance(source, at)
        policy, now = self.policy, int(self.chunk.time[at])
        sync = report(self.agents[source], source, policy.interval, now, self.settings.seed)
        policy.under_way = policy.reducer.receive(sync, policy.latency)
        self.answered = at

    def expire(self, source: int, at: int) -> None:
        """Let the keys of a partitioner's last reply become cold before its tuple `at`."""
        self._advance(source, at)
        expire(self.agents[source])

    def finish(self, out: NDArray[np.int32]) -> None:
        """Route what is left of the chunk, and give the state back."""
        for source, workers in enumerate(self.out):
            self._advance(source, len(self.chunk))
            out[self.first[source] :: self.policy.sources] = workers
        self.policy.state = self.policy.state._replace(agents=tuple(self.agents))

    def _advance(self, source: int, at: int) -> None:
        begin, n = self.done[source], self.policy.sources
        end = max(0, -(-(at - self.first[source]) // n))
        if begin < end:
            part = slice(begin, end)
            self.agents[source] = drive(
                self.agents[source],
                self.settings,
                self.times[source][part],
                self.keys[source][part],
                self.out[source][part],
            )
            self.done[source] = end
