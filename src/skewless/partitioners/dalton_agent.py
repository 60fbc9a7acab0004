"""One partitioner of cooperative Dalton: what it does for a tuple, a SYNC and a reply.

E. Zapridou, I. Mytilinis, A. Ailamaki: Dalton: Learned Partitioning for Distributed Data Streams,
PVLDB 16(3), 2022, section 4.1, Algorithm 2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.partitioners.dalton_learner import DaltonSettings, DaltonState, advance
from skewless.partitioners.q_table_reducer import Reply, Sync
from skewless.windows.hot_exchange import (
    forget_rows,
    heaviest_cold,
    hot_rows,
    hot_values,
    indexed,
    keep_hot,
    take_over,
)
from skewless.windows.hot_keys import close_statistics, counts_of
from skewless.windows.hot_rewards import buffered, forget_rewards, no_rewards
from skewless.windows.hot_window import begin_window, no_hot_window, with_room
from skewless.windows.rows import MARK, UNSEEN
from skewless.windows.table import Table

__all__ = [
    "ENDLESS",
    "NEVER",
    "Agent",
    "accept",
    "begin",
    "drive",
    "expire",
    "new_agent",
    "report",
]

#: A statistics window that no kernel ends by itself.
ENDLESS = 2**62
#: A time that does not come.
NEVER = -(2**62)


class Agent(NamedTuple):
    """What a partitioner remembers."""

    learner: DaltonState
    """Statistics since the last SYNC, Q-table, loads and fragments, all of its own tuples."""
    rewards: Table
    """Rewards since the SYNC that waits for its reply."""
    start: NDArray[np.int64]
    """int64, (1,): when the statistics window began, in the unit of time; or `NEVER`."""
    sent: NDArray[np.int64]
    """int64, (1,): when the last SYNC was sent, or `NEVER`."""
    expiry: NDArray[np.int64]
    """int64, (1,): when the keys of the last reply stop to be hot, or `NEVER` if they have."""
    awaits: NDArray[np.bool_]
    """bool, (1,): whether the reply to its SYNC is still to come (the state AWAIT)."""
    late: NDArray[np.bool_]
    """bool, (1,): whether the last reply took longer than the interval that it names."""


def new_agent(n_slides: int, n_workers: int, seed: int) -> Agent:
    """Return a partitioner before its first tuple; `seed` is that of its explorations.

    Examples
    --------
    >>> new_agent(60, 8, 0).awaits.tolist()
    [False]
    """
    window = no_hot_window(n_slides, n_workers)
    return Agent(
        DaltonState(*window, words=np.array([seed % 2**64], np.uint64)),
        no_rewards(),
        np.full(1, NEVER),
        np.full(1, NEVER),
        np.full(1, NEVER),
        np.zeros(1, np.bool_),
        np.zeros(1, np.bool_),
    )


def begin(agent: Agent, slide: int, interval: int, now: int) -> None:
    """Begin the first windows, unless they have begun; statistics windows begin at multiples."""
    if agent.start[0] == NEVER:
        begin_window(agent.learner, slide, 1, now)
        agent.start[0] = now // interval * interval


def drive(
    agent: Agent,
    settings: DaltonSettings,
    times: NDArray[np.int64],
    keys: NDArray[np.uint64],
    out: NDArray[np.int32],
) -> Agent:
    """Route tuples between two events of the protocol (lines 1 to 13)."""
    buffer = agent.rewards if agent.awaits[0] else None
    learner, rewards = advance(agent.learner, settings, times, keys, out, buffer)
    return agent._replace(learner=learner, rewards=agent.rewards if rewards is None else rewards)


def report(agent: Agent, source: int, interval: int, now: int, seed: np.uint64) -> Sync:
    """Return the SYNC message, sent at time `now`, and await the reply (lines 14 to 16)."""
    keys, rows = agent.learner.keys, agent.learner.rows
    which = hot_rows(rows)
    hot, counts = np.empty(len(which), np.uint64), np.empty(len(which), np.int64)
    values = np.empty((len(which), len(agent.learner.loads.window)))
    if len(which):
        hot_values(keys, rows, which, seed, hot, counts, values)
    cold, frequency = heaviest_cold(keys, rows, values.shape[1])
    sync = Sync(
        source,
        now,
        int(keys.total[0]),
        np.concatenate((hot, cold)),
        np.concatenate((counts, frequency)),
        values,
        bool(agent.late[0]),
    )
    close_statistics(keys)
    agent.start[0] += (now - agent.start[0]) // interval * interval
    agent.sent[0], agent.awaits[0], agent.late[0] = now, True, False
    return sync


def accept(agent: Agent, reply: Reply, seed: np.uint64) -> Agent:
    """Take the reply over: Q-table, threshold and buffered rewards (lines 17 to 20)."""
    learner, keys = agent.learner, agent.learner.keys
    keys.heavy[0] = -(-reply.total // len(learner.loads.window))
    names, values, marks = _with_rewards(agent, reply, seed)
    have_rows = keep_hot(learner, names, seed)
    if keys.heavy[0] == 1 or not have_rows:
        learner = learner._replace(cold=indexed(learner.cold, seed))
    done = take_over(learner, names, values, marks, seed, 0) if len(names) else 0
    while done < len(names):
        hot, cold, larger = with_room(learner, seed)
        learner = learner._replace(keys=hot, cold=cold, rows=larger)
        done = take_over(learner, names, values, marks, seed, done)
    learner.keys.n_hot[:] = 0
    forget_rewards(agent.rewards)
    agent.expiry[0] = reply.expiry[0] if len(reply.expiry) else NEVER
    agent.late[0] = reply.time > agent.sent[0] + reply.interval
    agent.awaits[0] = False
    return agent._replace(learner=learner)


def _with_rewards(
    agent: Agent, reply: Reply, seed: np.uint64
) -> tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.int64]]:
    """Return the keys that are hot from now on, their values after the buffered rewards, and marks.

    A key with rewards that is not in the reply is hot if it has reached the new threshold.
    """
    keys = agent.learner.keys
    names, values, number = reply.keys, reply.values, int(keys.number[0])
    marks = np.full(len(names), number - 1)
    late = buffered(agent.rewards)
    if len(late.keys) == 0:
        return names, values, marks
    others = np.unique(late.keys)
    others = others[_place_in(names, others) < 0]
    counts = np.empty(len(others), np.int64)
    counts_of(keys, others, seed, counts)
    others = others[counts >= keys.heavy[0]]
    values = np.concatenate((values, np.full((len(others), values.shape[1]), UNSEEN)))
    marks = np.concatenate((marks, np.full(len(others), number)))
    if len(others):
        names = np.concatenate((names, others))
        order = np.argsort(names)
        names, values, marks = names[order], values[order], marks[order]
    place = _place_in(names, late.keys)
    stays = place >= 0
    cell = place[stays], late.workers[stays]
    values[cell] = late.keep[stays] * values[cell] + late.gain[stays]
    return names, values, marks


def _place_in(names: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return where each key is among the ascending `names`, or -1."""
    if len(names) == 0:
        return np.full(len(keys), -1)
    place = np.minimum(np.searchsorted(names, keys), len(names) - 1)
    return np.where(names[place] == keys, place, -1)


def expire(agent: Agent) -> None:
    """Make the keys of the last reply cold that have not reached the threshold here since."""
    rows, keys = agent.learner.rows, agent.learner.keys
    which = hot_rows(rows)
    oldest = int(agent.learner.slide[0]) - len(agent.learner.loads.slides) + 1
    # A SYNC has begun a window since the reply, whose keys had the mark of the window before it.
    gone = rows.row[which, MARK] < keys.number[0] - 1
    forget_rows(rows, which[gone], oldest)
    agent.expiry[0] = NEVER
    keys.n_hot[:] = 0
