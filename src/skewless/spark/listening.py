"""How the metrics of each micro-batch reach the loop that asked for them: a listener on the driver.

No error in here reaches the query.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import weakref
from typing import Any, ClassVar

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from skewless.operations.batch_metrics import Timing
from skewless.spark.checkpoint import state_partitions, warning_of
from skewless.spark.learning import Loop

__all__ = ["follow"]

_log = logging.getLogger("skewless")


class _Listener(StreamingQueryListener):
    """One per Spark session: hands each batch's metrics to the loop that asked for them."""

    def __init__(self) -> None:
        self.loops: dict[str, Loop] = {}
        self.partitions: dict[str, int] = {}
        self.lock = threading.Lock()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Note the end; the loop stays, for a restart of the same frame."""
        self.end(str(event.runId), event.exception)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Learn from a batch."""
        progress = event.progress
        for name, metrics in (progress.observedMetrics or {}).items():
            if name in self.loops:
                self.warn(name, progress.json)
                self.learn(name, int(progress.batchId), metrics, Timing.of(progress.json))

    def end(self, run: str, error: str | None) -> None:
        """Note that a run of a query has ended."""
        for loop in list(self.loops.values()):
            loop.monitor.end(run, error)

    def warn(self, name: str, progress: str) -> None:
        """Warn once, of state that is not in as many partitions as the session asks for."""
        wanted = self.partitions.pop(name, None)
        if wanted is not None:
            warning = warning_of(state_partitions(progress), wanted)
            if warning:
                _log.warning("skewless: %s", warning)

    def learn(
        self, name: str, batch: int, metrics: dict[str, Any], timing: Timing | None = None
    ) -> None:
        """Let the loop of that name learn; whatever fails must not reach the query."""
        loop = self.loops.get(name)
        if loop is None:
            return
        try:
            with self.lock:
                loop.learn(batch, metrics, timing)
        except Exception:  # noqa: BLE001 - whatever fails here must not reach the query
            _log.exception("skewless: batch %d taught nothing", batch)


class _JvmListener:
    """The same, called by the JVM: takes from an event the few fields that a loop needs.

    PySpark's own wrapper turns every field of the event into Python objects first, a hundred calls to
    the JVM and about half a second of two cores for each micro-batch.
    """

    def __init__(self, listener: _Listener, jvm: Any) -> None:
        self.listener = listener
        self._rows = jvm.org.apache.spark.sql.api.python.PythonSQLUtils

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Note the end."""
        try:
            error = event.exception()
            text = str(error.get()) if error.isDefined() else None
            self.listener.end(str(event.runId().toString()), text)
        except Exception:  # noqa: BLE001 - whatever fails here must not reach the query
            _log.exception("skewless: the end of a query is not noted")

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Learn from a batch."""
        try:
            progress = event.progress()
            metrics = progress.observedMetrics()
            for name in list(metrics):
                if name in self.listener.loops:
                    # Spark's own pickle of its own row, over the socket that PySpark trusts.
                    row = cloudpickle.loads(self._rows.toPyRow(metrics[name]))
                    # Its times and offsets as one text: one call, not one for each field.
                    text = progress.json()
                    self.listener.warn(name, text)
                    self.listener.learn(name, int(progress.batchId()), row, Timing.of(text))
        except Exception:  # noqa: BLE001 - whatever fails here must not reach the query
            _log.exception("skewless: a batch taught nothing")

    class Java:
        """What py4j implements."""

        implements: ClassVar[list[str]] = [
            "org.apache.spark.sql.streaming.PythonStreamingQueryListener"
        ]


def _listen(session: SparkSession, listener: _Listener) -> None:
    """Register the listener: with the JVM directly where there is one, else as PySpark does."""
    if hasattr(session, "_jsparkSession"):
        jvm = session._jvm
        wrapper = jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(  # type: ignore[union-attr]
            _JvmListener(listener, jvm)
        )
        # What PySpark makes when asked for it, and what it removes by.
        listener._jlistenerobj = wrapper
    session.streams.addListener(listener)


def _leave(session: SparkSession, listener: _Listener) -> None:
    with contextlib.suppress(Exception):
        session.streams.removeListener(listener)


_listeners: weakref.WeakKeyDictionary[SparkSession, _Listener] = weakref.WeakKeyDictionary()


def follow(session: SparkSession, name: str, loop: Loop) -> None:
    """Let `loop` learn from every batch that reports metrics under `name`."""
    listener = _listeners.get(session)
    if listener is None:
        listener = _listeners[session] = _Listener()
        _listen(session, listener)
        # A program may end without stopping Spark; the JVM must not call into it any more.
        atexit.register(_leave, session, listener)
    with contextlib.suppress(Exception):  # only a warning hangs on it
        listener.partitions[name] = int(str(session.conf.get("spark.sql.shuffle.partitions")))
    listener.loops[name] = loop
