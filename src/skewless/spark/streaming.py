"""Grouped streams: what `group_by` returns for a streaming frame.

The result is one ordinary Structured Streaming frame: Spark's source, watermark, state store and sink
are untouched. The policy is a scalar subquery that Spark evaluates anew in every micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from skewless.errors import DataError, ParameterError
from skewless.policy import Policy
from skewless.spark import panes as pane_rules
from skewless.spark.batch import fixed_routing
from skewless.spark.keys import KeyColumns, resolve_column
from skewless.spark.policies import PolicyLike, resolve_policy
from skewless.spark.salt import order_repeats
from skewless.spark.stream_routing import StreamRouting
from skewless.spark.windowed import WindowedGroups

if TYPE_CHECKING:
    from skewless.spark.planned import PlannedWindows
    from skewless.spark.sessions import SessionGroups
    from skewless.spark.stateful import Stateful

__all__ = ["StreamGroups", "WindowedGroups"]


class StreamGroups:
    """A grouped stream; `window` or `session` says by which time, `stateful` keeps a state per key."""

    def __init__(
        self,
        df: DataFrame,
        keys: KeyColumns,
        policy: PolicyLike,
        workers: int | None,
        state: str | None,
        weight: Column | None = None,
    ) -> None:
        default = int(df.sparkSession.conf.get("spark.sql.shuffle.partitions", "200") or 200)
        self._df, self._keys, self._workers = df, keys, workers or default
        self._policy = resolve_policy("group_by", policy, workers, default)
        self._state, self._weight = state, weight
        if isinstance(self._policy, Policy) and state is None:
            # What learns nothing needs no folder to keep it in.
            self._policy = fixed_routing(self._policy) or self._policy
        if isinstance(self._policy, Policy) and state is None:
            raise ParameterError(
                f"group_by: policy {self._policy!r} learns while the stream runs and needs state=, a "
                "folder beside the checkpoint that the driver and all executors can reach."
            )

    @overload
    def window(
        self,
        time: str,
        size: str,
        slide: str | None = None,
        *,
        watermark: str | None = None,
        mode: Literal["planned"],
    ) -> PlannedWindows: ...

    @overload
    def window(
        self,
        time: str,
        size: str,
        slide: str | None = None,
        *,
        watermark: str | None = None,
        panes: bool = True,
        running: bool = False,
        mode: Literal["compiled", "exact"] = "compiled",
        estimates: str = "probed",
    ) -> WindowedGroups: ...

    def window(
        self,
        time: str,
        size: str,
        slide: str | None = None,
        *,
        watermark: str | None = None,
        panes: bool = True,
        running: bool = False,
        mode: str = "compiled",
        estimates: str = "probed",
    ) -> WindowedGroups | PlannedWindows:
        """Group by event-time windows too.

        Parameters
        ----------
        time
            Event-time column, a timestamp.
        size, slide
            Durations such as ``"60 seconds"``; a slide of ``None`` gives tumbling windows.
        watermark
            How late a row may be, a duration. ``None`` leaves the stream's own watermark as it is.
        panes
            Whether sliding windows of Spark's aggregates are put together from panes. Rows later than
            the watermark are then dropped with their pane, up to ``size - slide`` earlier than plain
            Spark would drop them from the last window that holds them; and the query must use append
            mode. ``False`` expands every row, exactly as plain Spark does.
        running
            Whether a sliding window is the one before it plus the pane that comes, minus the pane that
            leaves, instead of all its panes anew. Needs aggregates that have an inverse, a watermark and
            append mode; late rows are dropped with their pane.
        mode
            ``"compiled"``: the policy is condensed to a routing that rows are placed by natively.
            ``"exact"``: every task runs the policy itself, row by row. ``"planned"``: every micro-batch
            is counted whole and placed by the plan of its own counts, in ``foreachBatch``; for
            `aggregate` only, in append and update mode. The results are the same.
        estimates
            In exact mode, where the loads that a task compares come from. ``"probed"``: all tasks, up
            to a batch before, and then its own rows; ``"local"``: its own rows of this batch alone;
            ``"global"``: one task routes all rows.

        Raises
        ------
        DataError
            `time` is no timestamp column; a duration cannot be read; the slide exceeds the size.
        ParameterError
            ``running=True``, ``mode="exact"`` or ``mode="planned"`` where it cannot be had.
        """
        verb = "window"
        name = self._event_time(verb, time)
        size_us = _positive(verb, "size", size)
        slide_us = size_us if slide is None else _positive(verb, "slide", slide)
        if slide_us > size_us:
            raise DataError(
                f"{verb}: slide must not exceed size, got slide={slide!r} and size={size!r}."
            )
        if watermark is not None:
            pane_rules.duration_us(verb, "watermark", watermark)
        if mode == "planned":
            if running or not panes:
                raise ParameterError(
                    f"{verb}: mode='planned' subtracts what leaves a window wherever the aggregator has "
                    f"an inverse, always by panes; leave out running={running} and panes={panes}."
                )
            from skewless.spark.planned import PlannedWindows, Window

            span = Window(name, size, slide or size, size_us, slide_us, watermark)
            parts = self._df, self._keys, self._policy, self._workers, self._state, self._weight
            return PlannedWindows(*parts, span)
        if running and not (panes and watermark is not None and slide_us < size_us):
            raise ParameterError(
                f"{verb}: running=True is for sliding windows by panes with a watermark, got "
                f"slide={slide!r}, panes={panes}, watermark={watermark!r}; give those, or leave it out."
            )
        spans = size, slide or size, size_us, slide_us
        routing = self._routing(mode, estimates)
        return WindowedGroups(routing, name, watermark, *spans, panes, running)

    def session(
        self,
        time: str,
        gap: str,
        *,
        watermark: str | None = None,
        mode: str = "compiled",
        estimates: str = "probed",
    ) -> SessionGroups:
        """Group by sessions too: runs of a key's rows with no pause longer than `gap`.

        Parameters
        ----------
        time
            Event-time column, a timestamp.
        gap
            A duration such as ``"30 minutes"``.
        watermark
            How late a row may be, a duration. ``None`` leaves the stream's own watermark as it is.
        mode, estimates
            As for `window`.

        Raises
        ------
        DataError
            `time` is no timestamp column; a duration cannot be read.
        ParameterError
            ``mode="exact"`` where it cannot be had.
        """
        from skewless.spark.sessions import SessionGroups

        name = self._event_time("session", time)
        gap_us = _positive("session", "gap", gap)
        if watermark is not None:
            pane_rules.duration_us("session", "watermark", watermark)
        routing = self._routing(mode, estimates)
        return SessionGroups(routing, name, watermark, gap, gap_us)

    def stateful(
        self,
        update: Callable[..., Any],
        state_schema: StructType | str,
        output_schema: StructType | str,
        **options: Any,
    ) -> Stateful:
        """Keep a state per key that moves with the key when the policy changes its owner.

        Parameters and guarantees: `skewless.spark.stateful.stateful`.
        """
        from skewless.spark.stateful import stateful

        self._refuse_weight()
        args = self._df, self._keys, self._policy, self._workers, self._state
        return stateful(*args, update, state_schema, output_schema, **options)

    def agg(self, *_: Any, **__: Any) -> DataFrame:
        """Refuse: a stream is grouped by windows."""
        raise DataError("group_by: on a stream call .window(time, size, ...) before .agg.")

    aggregate = agg

    def _refuse_weight(self) -> None:
        if self._weight is not None:
            raise ParameterError(
                "group_by: weight= drives the plan of a batch: on a stream it goes with "
                "window(..., mode='planned'); all else balances rows. Leave it out."
            )

    def _routing(self, mode: str, estimates: str) -> StreamRouting:
        self._refuse_weight()
        parts = self._df, self._keys, self._policy, self._state
        if mode == "compiled":
            return StreamRouting(*parts)
        if mode != "exact":
            raise ParameterError(
                f"window: mode must be 'compiled', 'exact' or 'planned', got {mode!r}."
            )
        from skewless.spark.exact import require_exact

        require_exact(self._policy, self._state, estimates)
        if not order_repeats(self._df):
            raise ParameterError(
                "window: mode='exact' needs rows straight from the source: behind a shuffle their order "
                "may differ when Spark runs a task again, and so would their workers; leave mode= out."
            )
        return StreamRouting(*parts, estimates)

    def _event_time(self, verb: str, time: str) -> str:
        name = resolve_column(verb, self._df, time)
        kind = self._df.schema[name].dataType
        if not isinstance(kind, (TimestampType, TimestampNTZType)):
            raise DataError(
                f"{verb}: column {name!r} must be a timestamp, got {kind.simpleString()}; convert it "
                "with to_timestamp or timestamp_seconds first."
            )
        return name


def _positive(verb: str, name: str, text: str) -> int:
    value = pane_rules.duration_us(verb, name, text)
    if value == 0:
        raise DataError(f"{verb}: {name} must be longer than nothing, got {text!r}.")
    return value
