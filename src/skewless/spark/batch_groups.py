"""The groups of a batch frame: aggregates, aggregators and functions, under any policy."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skewless.errors import DataError, ParameterError
from skewless.planners import WrapAround
from skewless.policy import Policy
from skewless.replay import Replay
from skewless.routing import Routing
from skewless.spark.aggregation import Prepared, aggregate_batch, check_sample, forwarding_fails
from skewless.spark.aggregator import Aggregator
from skewless.spark.auto import Choice, choose
from skewless.spark.batch import Plan, place, plan, plan_auto, worker_of
from skewless.spark.cogroup import CoGroups
from skewless.spark.expressions import needs_salt
from skewless.spark.functions import read_function
from skewless.spark.keys import KeyColumns, quoted, resolve_column
from skewless.spark.order import order_sensitive
from skewless.spark.plan_text import choice_lines, cost_lines, limit_lines, replay_lines
from skewless.spark.policies import AUTO, LOCAL, SPARK
from skewless.spark.replaying import Replayed, found_loads, replan
from skewless.spark.whole import WholePlan, apply_whole, plan_whole, schema_of, whole_rule

__all__ = ["BatchGroups"]

_COMBINED = (
    "Spark combines its own aggregates on the map side, so a hot key reaches the reduce stage as "
    "one row per map task; routing its rows first would only cost"
)
_REASONS = {
    AUTO: f"chosen by 'auto': {_COMBINED}. For aggregate(...), whose states are Python's, 'auto' "
    "times the aggregator on some rows and takes what the cost model predicts to be the fastest of "
    "hashing, combining where the rows are, and cutting the keys that exceed a fair share (WrapAround)",
    SPARK: f"asked for. {_COMBINED}. For aggregate(...) every key is hashed to one task",
    LOCAL: "asked for: rows are combined where they are, and only their states are shuffled; every "
    "task may hold a state of every key",
}
_REPLAYED = (
    "chosen by 'auto': with replay=, what WrapAround plans from the first tasks, or plain hashing"
)


class BatchGroups:
    """The groups of a batch frame; made by `group_by`.

    Notes
    -----
    The result has the rows, names, types and nullability of ``df.groupBy(*keys)``. With a policy
    that learns, the first verb counts the keys in one query (`explain` says how long it took); the
    routing is then kept for further verbs of the same object.
    """

    def __init__(
        self,
        df: DataFrame,
        keys: KeyColumns,
        policy: Policy | Routing | str,
        workers: int,
        spelled: tuple[str, ...],
        *,
        weight: Column | None = None,
        strict: bool = False,
        replay: Replay | None = None,
    ) -> None:
        self._df = df
        self._keys = keys
        self._policy = policy
        self._workers = workers
        self._spelled = spelled
        self._weight = weight
        self._strict = strict
        self._replay = replay
        self._replayed: Replayed | None = None
        self._replayed_whole: Replayed | None = None
        self._plan: Plan | None = None
        self._whole: WholePlan | None = None
        self._pivoted: tuple[str, list[Any] | None] | None = None
        self._dealing = ""
        self._kept_whole = ""
        self._finish = ""
        self._choice: Choice | None = None

    def agg(self, *aggregates: Column | dict[str, str]) -> DataFrame:
        """Return one row per group: Spark's own aggregates, as ``GroupedData.agg`` takes them.

        Parameters
        ----------
        *aggregates
            Columns such as ``F.sum("v")``, or one dict ``{column: function}``.

        Raises
        ------
        pyspark.errors.AnalysisException
            An aggregate refers to a column that the frame lacks; raised before anything runs.
        """
        return self._computed(
            lambda groups: groups.agg(*aggregates),  # type: ignore[arg-type]
            order_sensitive(aggregates),
        )

    def count(self) -> DataFrame:
        """Return the number of rows per group."""
        return self._computed(lambda groups: groups.count())

    def sum(self, *columns: str) -> DataFrame:
        """Return the sum per group of the columns, or of all numeric ones."""
        return self._computed(lambda groups: groups.sum(*columns))

    def avg(self, *columns: str) -> DataFrame:
        """Return the mean per group of the columns, or of all numeric ones."""
        return self._computed(lambda groups: groups.avg(*columns))

    mean = avg

    def min(self, *columns: str) -> DataFrame:
        """Return the least value per group of the columns, or of all numeric ones."""
        return self._computed(lambda groups: groups.min(*columns))

    def max(self, *columns: str) -> DataFrame:
        """Return the greatest value per group of the columns, or of all numeric ones."""
        return self._computed(lambda groups: groups.max(*columns))

    def aggregate(self, aggregator: Aggregator) -> DataFrame:
        """Return one row per group: a custom aggregator, whose work on a hot key is split.

        Parameters
        ----------
        aggregator
            An instance of `Aggregator`. With ``strict=True`` a small job works on the first rows whole
            and in parts, and refuses an aggregator whose results differ.

        Notes
        -----
        ``"auto"`` times the aggregator on some rows when this is called, counts the keys unless its
        states turn out to cost nothing, and takes what the cost model predicts to be the fastest
        (`skewless.spark.auto`); `explain` says what that was.
        """
        # Checked on the frame as it is, so that a bad aggregator fails before anything runs.
        checked = aggregate_batch(self._df, self._keys, aggregator, "group_by")
        if self._strict:
            check_sample(self._df, self._keys, aggregator, "group_by")
        if self._replay is not None:
            self._planned(aggregator)
        elif self._policy == AUTO:
            self._choice = choose(
                self._df, self._keys, aggregator, self._workers, weight=self._weight
            )
            self._plan = self._choice.plan
        if LOCAL in (self._policy, self._choice and self._choice.policy):
            return checked
        whole = not needs_salt(self._planned().routing)
        if whole:
            prepared = Prepared("group_by", self._df, self._keys, aggregator)
            fails = forwarding_fails(self._df, self._keys, prepared)
            self._finish = f"behind a second shuffle, although no key is split: {fails}"
            if not fails:
                self._finish = (
                    "where they are combined: no key is split, so none needs a second shuffle"
                )
        return aggregate_batch(self._placed(), self._keys, aggregator, "group_by", whole=whole)

    def pivot(self, column: str, values: list[Any] | None = None) -> BatchGroups:
        """Return the groups with a column per value of `column`, as ``GroupedData.pivot`` does.

        Parameters
        ----------
        column
            Column whose values become columns.
        values
            The values, in order; left out, Spark finds them in a query of its own.
        """
        resolve_column("pivot", self._df, column)
        pivoted = copy.copy(self)
        pivoted._pivoted = (column, values)
        return pivoted

    def apply(
        self,
        function: Callable[..., Any],
        schema: StructType | str,
        *,
        form: str | None = None,
    ) -> DataFrame:
        """Hand every group, whole, to a function; heavy groups do not share a task.

        Parameters
        ----------
        function
            Takes the rows of a group, or the key (a tuple) and the rows, and returns the rows of the
            result: what ``applyInPandas`` and ``applyInArrow`` take.
        schema
            Columns of the result.
        form
            ``"pandas"``, ``"arrow"``, or ``"pandas_batches"`` and ``"arrow_batches"`` for functions
            from an iterator of frames to an iterator of frames. Left out, the type hint of the rows
            decides, and pandas is what a function without hints gets.

        Raises
        ------
        ParameterError
            Policy ``"local"``, a routing that splits keys, or with ``strict=True`` a policy that does.
        DataError
            The function takes another number of arguments; while the query runs: it raises, or
            returns other columns. The key is named.

        Notes
        -----
        A function cannot be split: a group of more than a fair share makes its task the longest one
        (`explain_apply` says how long). If parts of a group can be worked on one by one and put
        together, write an `Aggregator`.

        ``"auto"`` samples the keys when this is called. Spark's own hash keeps the groups where a plan
        would gain less than a tenth; else heavy groups are placed first, each on the emptiest worker.

        Examples
        --------
        >>> groups = skewless.group_by(df, "user", workers=8)  # doctest: +SKIP
        >>> groups.apply(lambda rows: rows.nlargest(3, "amount"), df.schema)  # doctest: +SKIP
        """
        found = read_function("apply", function, form)
        schema_of(schema)
        if self._policy == SPARK:
            return apply_whole(self._df, self._keys, None, found, schema)
        return apply_whole(self._df, self._keys, self._planned_whole(), found, schema)

    def cogroup(self, other: BatchGroups) -> CoGroups:
        """Return the groups of this frame and of another one, key by key.

        Parameters
        ----------
        other
            Groups of a batch frame by as many keys, of the same types.

        Raises
        ------
        ParameterError
            One of the two has ``replay=``.
        DataError
            `other` is no groups of a batch frame, or the keys do not fit.
        """
        if not isinstance(other, BatchGroups):
            raise DataError(
                f"cogroup: takes the groups of a batch frame, got {type(other).__name__}; write "
                "group_by(other, key)."
            )
        if self._replay is not None or other._replay is not None:
            raise ParameterError(
                "cogroup: replay= plans from the first tasks of one frame, not of two; leave it out."
            )
        return CoGroups(self, other)

    def explain_apply(self) -> str:
        """Return where `apply` places the groups, why, and the longest task that is left."""
        head = f"group_by({', '.join(self._keys.names)}).apply: policy {self._policy!r}"
        if self._policy == SPARK:
            return f"{head}\n  reason: asked for; Spark hashes every group to a task."
        whole = self._planned_whole()
        costs = self._cost_lines(whole.plan, self._replayed_whole, whole.by_spark)
        return "\n".join([head, f"  reason: {whole.reason}.", *costs, *limit_lines(whole.plan)])

    def explain(self) -> str:
        """Return the policy, why it is used, what it decided, and what that cost.

        A policy that learns counts the keys now, if no verb has made it do so before.
        """
        head = f"group_by({', '.join(self._keys.names)}): policy {self._policy!r}"
        if self._choice is not None:
            return "\n".join([head, *choice_lines(self._choice), *self._finish_lines()])
        if isinstance(self._policy, str):
            reason = f"  reason: {_REPLAYED if self._replayed else _REASONS[self._policy]}."
            if self._plan is None:
                return f"{head}\n{reason}"
        else:
            reason = "  reason: asked for by policy=."
        found = self._planned()
        n_hot, n_split = len(found.routing.keys), len(found.routing.split_keys)
        if not self._dealing:
            self._placed()
        lines = [
            head,
            reason,
            (
                f"  routing: {found.routing.n_workers} workers, {n_hot} hot keys, {n_split} of "
                f"them split into {found.routing.extra_fragments} extra fragments."
            ),
            f"  dealing: {self._dealing}.",
            *self._whole_lines(),
            *self._finish_lines(),
            *self._cost_lines(found, self._replayed),
            "  cost of the run: one more exchange of the rows before the aggregate.",
        ]
        return "\n".join(lines)

    def _finish_lines(self) -> list[str]:
        return [f"  states are finished {self._finish}."] if self._finish else []

    def _cost_lines(
        self,
        found: Plan,
        replayed: Replayed | None,
        by_spark: NDArray[np.float64] | None = None,
    ) -> list[str]:
        if replayed is None:
            return cost_lines(found, by_spark)
        loads = None
        if replayed.gain is not None:
            loads = found_loads(self._df, self._keys, found.routing, weight=self._weight)
        return replay_lines(replayed, loads)

    def _whole_lines(self) -> list[str]:
        if not self._kept_whole:
            return []
        return [
            f"  kept whole: {self._kept_whole} depends on the order of rows, so no key was split there."
        ]

    # -- how it is done ---------------------------------------------------------------------------

    def _computed(
        self, verb: Callable[[GroupedData], DataFrame], ordered: Sequence[str] = ()
    ) -> DataFrame:
        plain = verb(self._grouped(self._df))
        plain.schema  # noqa: B018 - analyses the query on Connect too, before any job
        if isinstance(self._policy, str):
            return plain
        if not ordered:
            return verb(self._grouped(self._placed()))
        # Partial results of a split key would be put together in any order.
        if self._strict and (
            len(self._planned().routing.split_keys) or needs_salt(self._planned().routing)
        ):
            raise ParameterError(
                f"agg: {', '.join(ordered)} depends on the order of rows, so a key must stay whole, and "
                f"{self._policy!r} splits keys; leave strict=True out to keep keys whole here."
            )
        self._kept_whole = ", ".join(ordered)
        routing = self._planned_whole().plan.routing
        worker, self._dealing = worker_of(self._df, self._keys, routing)
        return verb(self._grouped(place(self._df, routing.n_workers, worker)))

    def _grouped(self, df: DataFrame) -> GroupedData:
        # Spark names a key column as the caller spells it.
        groups = df.groupBy(*[F.col(quoted(name)) for name in self._spelled])
        return groups if self._pivoted is None else groups.pivot(*self._pivoted)

    def _placed(self) -> DataFrame:
        routing = self._planned().routing
        worker, self._dealing = worker_of(self._df, self._keys, routing)
        return place(self._df, routing.n_workers, worker)

    def _routing(self) -> Routing | None:
        """Return the routing; ``None`` where rows stay where they are."""
        return None if self._policy == LOCAL else self._planned().routing

    def _planned(self, aggregator: Aggregator | None = None) -> Plan:
        if self._plan is None:
            rule = self._policy
            if self._replay is not None:
                learner = WrapAround(self._workers) if isinstance(rule, str) else rule
                self._replayed = self._replan(learner, self._replay, aggregator)
                self._plan = self._replayed.plan
                return self._plan
            if rule == SPARK:
                rule = Routing.hashing(self._workers)
            if isinstance(rule, str):
                self._plan = plan_auto(
                    self._df, self._keys, WrapAround(self._workers), weight=self._weight
                )
            else:
                self._plan = plan(self._df, self._keys, rule, weight=self._weight)
        return self._plan

    def _replan(
        self, rule: Policy | Routing, replay: Replay, aggregator: Aggregator | None = None
    ) -> Replayed:
        return replan(
            self._df,
            self._keys,
            rule,
            replay,
            weight=self._weight,
            aggregator=aggregator,
            strict=self._strict,
        )

    def _planned_whole(self) -> WholePlan:
        if self._whole is None and self._replay is not None:
            rule, reason = whole_rule(self._policy, self._workers, strict=self._strict)
            self._replayed_whole = self._replan(rule, self._replay)
            self._whole = WholePlan(self._replayed_whole.plan, reason)
        if self._whole is None:
            self._whole = plan_whole(
                self._df,
                self._keys,
                self._policy,
                self._workers,
                weight=self._weight,
                strict=self._strict,
            )
        return self._whole
