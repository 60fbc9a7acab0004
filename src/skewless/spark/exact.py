"""Exact mode: every task of a micro-batch is a partitioner that decides tuple by tuple.

A task begins with what the driver published last, routes its rows by the policy's own kernels (8 bytes
of hash a row cross to Python) and, if the policy is `CooperativeDalton`, ends with a SYNC message.
Metrics and messages reach the driver by `observe`, and the answer is in what the next batch reads.
"""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F

from skewless.chunk import Chunk
from skewless.errors import ParameterError
from skewless.partitioners import CooperativeDalton
from skewless.partitioners.base import Partitioner
from skewless.partitioners.dalton_agent import (
    ENDLESS,
    Agent,
    accept,
    begin,
    drive,
    new_agent,
    report,
)
from skewless.partitioners.dalton_learner import DaltonSettings
from skewless.partitioners.q_table_reducer import QTableReducer, Reply, Sync
from skewless.plain_values import arrays, pack, rebuilt, unpack
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.spark.python_workers import keep_loaded

__all__ = ["ESTIMATES", "SyncRecord", "Syncs", "Task", "require_exact", "router"]

#: Where the loads that a task compares come from: it alone, or the batches before, or one task for all.
ESTIMATES = ("probed", "local", "global")
#: Spark's type of what the routing function returns.
_ROUTED = "worker int, sync binary"
#: Published states that stay on disk, and the most batches from one SYNC to the next.
_KEPT, _LONGEST = 20, 64
#: What messages are made of: the shapes to read them by.
_KEYS, _COUNTS, _VALUES = np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0)
_SYNC = Sync(0, 0, 0, _KEYS, _COUNTS, _VALUES)
_REPLY = Reply(0, 0, 0, _KEYS, _VALUES, _COUNTS)
#: Spark's, from 4.1 on.
_ARROW_UDF: Any = getattr(F, "arrow_udf", None)


def require_exact(policy: Policy | Routing | str, state: str | None, estimates: str) -> None:
    """Raise `ParameterError` where exact mode cannot be had."""
    if estimates not in ESTIMATES:
        raise ParameterError(
            f"window: estimates must be 'probed', 'local' or 'global', got {estimates!r}."
        )
    if not isinstance(policy, Partitioner) or state is None:
        raise ParameterError(
            f"window: mode='exact' is for policies that decide tuple by tuple, with group_by(..., "
            f"state=...), got {policy!r}; name such a policy, or leave mode= out."
        )
    if _ARROW_UDF is None:
        raise ParameterError(
            "window: mode='exact' needs Spark 4.1 or newer, whose Arrow UDFs keep the watermark; leave "
            "it out."
        )


class SyncRecord(NamedTuple):
    """One synchronisation of the partitioners."""

    batch: int
    """The last batch that it covers."""
    batches: int
    """Batches since the one before: the interval, in batches."""
    seconds: float
    """The same in seconds, from metrics to metrics."""
    lag: int
    """Policy versions that existed when the batch reported and that it had not read."""
    messages: int
    """SYNC messages of tasks; 0 unless the policy is `CooperativeDalton`."""


class Syncs:
    """When the driver publishes, and what: the interval adapts as in Dalton, in batches.

    Parameters
    ----------
    policy
        The driver's copy of the policy, which learns from the metrics.
    estimates
        One of `ESTIMATES`; with ``"local"`` there is nothing that tasks begin with.

    Notes
    -----
    The interval doubles, up to 64 batches, if a batch ran on an older version than the newest (the
    driver was late), and halves, down to 1, if it did not (it was idle): section 4.1 of the paper, with
    a micro-batch for the unit of time.
    """

    def __init__(self, policy: Partitioner, estimates: str) -> None:
        self.policy, self.estimates = policy, estimates
        self.interval = 1
        self.records: list[SyncRecord] = []
        self._messages: list[Sync] = []
        self._since = 0
        self._last_s: float | None = None
        self._lag = 0

    def due(self, batch: int, lag: int, messages: Sequence[bytes], now_s: float) -> bool:
        """Take what a batch reported; say whether it is time to publish.

        Parameters
        ----------
        batch
            Its id.
        lag
            Versions that it had not read.
        messages
            SYNC messages of its tasks.
        now_s
            When the metrics came, in seconds of any clock.
        """
        self._messages += [rebuilt(_SYNC, iter(unpack(message))) for message in messages]
        self._since += 1
        self._lag = max(self._lag, lag)
        if self._since < self.interval:
            return False
        seconds = 0.0 if self._last_s is None else now_s - self._last_s
        self._last_s = now_s
        self.records.append(SyncRecord(batch, self._since, seconds, self._lag, len(self._messages)))
        if self._lag:
            self.interval = min(2 * self.interval, _LONGEST)
        else:
            self.interval = max(self.interval // 2, 1)
        self._since = self._lag = 0
        return True

    def publish(self, folder: Path, version: int) -> None:
        """Write what the tasks of a version begin with: to a temporary name, then renamed."""
        if self.estimates == "local":
            return
        path = _path(str(folder), version)
        content = self._answer()
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_bytes(hashlib.sha256(content).digest() + content)
        temporary.replace(path)
        for old in sorted(folder.glob("exact-*.bin"))[:-_KEPT]:
            old.unlink(missing_ok=True)

    def _answer(self) -> bytes:
        if not isinstance(self.policy, CooperativeDalton):
            return pack(arrays(_memory(self.policy)))
        found, self._messages = self._messages, []
        if not found:
            return b""
        # A round has as many partitioners as there were tasks with rows.
        reducer = QTableReducer(self.policy.n_workers, len(found), interval=1, adaptive=False)
        latest = max(sync.time for sync in found)
        replies = [
            reducer.receive(sync._replace(source=i, time=latest)) for i, sync in enumerate(found)
        ]
        last = replies[-1]
        return b"" if last is None else pack(arrays(last))


class Task:
    """One partitioner of a batch.

    Parameters
    ----------
    policy
        As it was made.
    number
        Of the task: its random choices are its own, and the same if Spark runs it again.
    begins_with
        What the driver published; empty for a task that knows nothing yet.

    Examples
    --------
    >>> from skewless.partitioners import PKG
    >>> task = Task(PKG(4), 0, b"")
    >>> task.route(np.full(4, 7, np.uint64)).tolist(), task.message()
    ([3, 1, 3, 1], None)
    """

    def __init__(self, policy: Partitioner, number: int, begins_with: bytes) -> None:
        self._number = number
        self._agent: Agent | None = None
        self._policy = policy
        if isinstance(policy, CooperativeDalton):
            reply = rebuilt(_REPLY, iter(unpack(begins_with))) if begins_with else None
            self._agent, self._tuples = _agent(policy, number, reply), 0
        else:
            if begins_with:
                _remember(policy, begins_with)
            words = getattr(self._policy.state, "words", None)
            if words is not None:
                words[:] ^= np.uint64(number * 0x9E3779B97F4A7C15 % 2**64)

    def route(self, keys: NDArray[Any]) -> NDArray[np.int32]:
        """Return the worker of each of the next rows."""
        keys = Chunk(None, keys).key
        if self._agent is None:
            return self._policy.route(self._policy._next(keys))
        out = np.empty(len(keys), np.int32)
        times = np.arange(self._tuples, self._tuples + len(keys), dtype=np.int64)
        self._agent = drive(self._agent, _settings(self._policy), times, keys, out)
        self._tuples += len(keys)
        return out

    @classmethod
    def warm_up(cls, policy: Partitioner) -> None:
        """Compile what a task needs, so that tasks on this machine find it in the cache of kernels."""
        task = cls(copy.deepcopy(policy), 0, b"")
        task.route(np.zeros(2, np.uint64))
        task.message()

    def message(self) -> bytes | None:
        """Return the SYNC that ends the task, if the policy has one."""
        if self._agent is None or self._tuples == 0:
            return None
        seed = np.uint64(self._policy.seed)
        return pack(arrays(report(self._agent, self._number, 1, self._tuples, seed)))


def _memory(policy: Partitioner) -> tuple[Any, ...]:
    """Return all that a partitioner remembers: its clock, its state, and the estimates of some."""
    estimates = getattr(policy, "estimates", None)  # sketches of Dalton's; of PKG it is a word
    return (policy._clock, policy.state, estimates if isinstance(estimates, tuple) else ())


def _remember(policy: Partitioner, content: bytes) -> None:
    """Let a new partitioner go on from what another one of its kind remembered."""
    policy._clock, policy.state, estimates = rebuilt(_memory(policy), iter(unpack(content)))
    if estimates:
        policy.estimates = estimates  # type: ignore[attr-defined]


def _agent(policy: CooperativeDalton, number: int, reply: Reply | None) -> Agent:
    agent = new_agent(policy.n_slides, policy.n_workers, policy.seed + number)
    begin(agent, policy.slide, 1, 0)
    if reply is None:
        return agent
    # It goes on behind the SYNC that the reply answers, which other tasks sent.
    report(agent, number, 1, 0, np.uint64(policy.seed))
    agent.sent[0] = reply.time
    return accept(agent, reply, np.uint64(policy.seed))


def _settings(policy: Any) -> DaltonSettings:
    return DaltonSettings(
        policy.n_workers,
        policy.slide,
        ENDLESS,
        float(policy.epsilon),
        float(policy.gamma),
        float(policy.p1),
        policy.max_split or policy.n_workers + 1,
        np.uint64(policy.seed),
    )


def router(policy: Partitioner, folder: str | None) -> Callable[[Column, Column], Column]:
    """Return an Arrow UDF (key hash, policy version) -> struct of worker and SYNC message.

    Tasks begin with what is published in the folder, or with nothing if it is ``None``. The message is
    on the last row of a task; all other rows have none.
    """

    def route(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        keep_loaded()
        task: Task | None = None
        held: NDArray[np.int32] | None = None
        for hashes, versions in batches:
            if len(hashes) == 0:
                yield _routed(np.empty(0, np.int32), None)
                continue
            if held is not None:
                yield _routed(held, None)
            if task is None:
                begins_with = _published(folder, versions[0].as_py()) if folder else b""
                task = Task(copy.deepcopy(policy), _task_number(), begins_with)
            held = task.route(hashes.to_numpy())
        if held is not None and task is not None:
            yield _routed(held, task.message())

    # The types are read from the hints, which are text in this file.
    route.__annotations__ = {
        "batches": Iterator[tuple[pa.Array, pa.Array]],
        "return": Iterator[pa.Array],
    }
    udf: Callable[[Column, Column], Column] = _ARROW_UDF(route, _ROUTED).asNondeterministic()
    return udf


def _routed(workers: NDArray[np.int32], message: bytes | None) -> pa.Array:
    messages: list[bytes | None] = [None] * len(workers)
    if messages:
        messages[-1] = message
    return pa.StructArray.from_arrays(
        [pa.array(workers), pa.array(messages, pa.binary())], ["worker", "sync"]
    )


def _task_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


# -- what is published ------------------------------------------------------------------------------


def _path(folder: str, version: int) -> Path:
    return Path(folder, f"exact-{version:09d}.bin")


def _published(folder: str, version: int) -> bytes:
    """Return what was published; nothing, with a warning, where it is lost or damaged."""
    if version <= 1:  # the version before anything was learned
        return b""
    try:
        content = _path(folder, version).read_bytes()
    except OSError as error:
        warnings.warn(f"skewless: exact state {version} is not read: {error}", stacklevel=2)
        return b""
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        warnings.warn(f"skewless: exact state {version} is damaged", stacklevel=2)
        return b""
    return content[32:]
