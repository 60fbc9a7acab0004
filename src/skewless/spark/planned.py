"""Windows of a stream whose every micro-batch is planned from its own counts: Prompt in ``foreachBatch``.

A. S. Abdelhamid, A. R. Mahmood, A. Daghistani, W. G. Aref: Prompt: Dynamic Data-Partitioning for
Distributed Micro-batch Stream Processing Systems, SIGMOD 2020.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skewless.active_workers import Elastic
from skewless.errors import DataError, ParameterError
from skewless.parameters import Count, check
from skewless.planners import Prompt
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.spark.aggregation import Prepared
from skewless.spark.aggregator import Aggregator
from skewless.spark.blocks import LATEST, TUPLES
from skewless.spark.keys import KeyColumns, quoted
from skewless.spark.pane_states import MERGES, PaneStates
from skewless.spark.pane_step import DUE, STATE_COLUMNS, WindowStep, state_schema
from skewless.spark.pane_windows import Spans
from skewless.spark.panes import duration_us, pane_us
from skewless.spark.planned_batches import PlannedStream
from skewless.spark.planned_stages import Work, partial_fields
from skewless.spark.policies import AUTO
from skewless.spark.running_totals import kind_of_sum
from skewless.spark.versions import arrow_schema
from skewless.state_store.job import Job
from skewless.state_store.repartitioning import Repartitioning
from skewless.state_store.step import Timing
from skewless.state_store.store import StateStore
from skewless.state_store.update import Update

__all__ = ["PlannedWindows", "Window"]


class Window(NamedTuple):
    """Windows by event time."""

    time: str
    """Event-time column."""
    size: str
    slide: str
    size_us: int
    slide_us: int
    watermark: str | None


class PlannedWindows:
    """A stream grouped by keys and windows; `aggregate` returns what plans and runs every batch."""

    def __init__(
        self,
        df: DataFrame,
        keys: KeyColumns,
        policy: Policy | Routing | str,
        n_workers: int,
        folder: str | None,
        weight: Column | None,
        window: Window,
    ) -> None:
        self._df, self._keys, self._weight, self._window = df, keys, weight, window
        self._policy = _planning(policy, n_workers)
        if folder is None:
            raise ParameterError(
                "window: mode='planned' keeps the window state itself; give group_by(..., state=...): a "
                "folder that the driver and all executors can reach."
            )
        self._folder = folder

    def agg(self, *_: Column) -> NoReturn:
        """Refuse: Spark combines its own aggregates before rows move, so that a plan gains nothing."""
        raise ParameterError(
            "agg: mode='planned' is for an Aggregator; Spark combines its own aggregates where the rows "
            "are, and a plan of blocks gains nothing: leave mode= out."
        )

    def aggregate(
        self,
        aggregator: Aggregator,
        *,
        reducers: Count | None = None,
        early: bool = False,
        buckets: Count | None = None,
        keep: Count = 10,
        compact_after: Count = 8,
        adopt: bool = False,
    ) -> PlannedStream:
        """Return an aggregator's result columns per key and window, as a stream that plans every batch.

        Parameters
        ----------
        aggregator
            Any whose state columns are merged by numbers' sums, by another merge of `NATIVE_MERGES` but
            ``"hll_union"``, or by `merge`. Where all are sums or `merge` has a `subtract`, what leaves
            a window is subtracted; else windows are merged from their panes.
        reducers : int of at least 1 or None
            Reduce buckets, and owners of window states; as many as blocks if left out.
        early
            Place a batch by the counts of the one before, which cost nothing; a key that turns hot is
            then cut one batch later. The first batch is counted.
        buckets : int of at least 1 or None
            Hash ranges of a new state folder; 4 for each reducer, at least 32, if left out.
        keep : int of at least 1
            Batches whose state stays readable; never fewer than 2.
        compact_after : int of at least 1
            Files of a fragment after which its base is written anew.
        adopt
            Take over the state of another query.

        Returns
        -------
        PlannedStream
            Its `writeStream` starts the query, in append or update mode; `planned` says what each
            batch did.

        Raises
        ------
        DataError
            There is no ``watermark=``, the aggregator does not fit the stream, or the folder holds
            other files.
        ParameterError
            A state column has a merge that is not to be had here, or an option is out of range.

        Notes
        -----
        Guarantee: windows and results are those of plain Spark's windows over the same batches; the
        effects of a batch, output among them, are there once or not at all, by batch id.

        Deviations from the paper: a batch is what Spark's trigger reads, not a time interval, and its
        keys are counted by one query of Spark's instead of Algorithm 1's tree; a bucket's work is
        measured in the rows of its keys, though it gets them combined; rows are dealt to the blocks
        of a split key by a salt, so that blocks differ by chance where the paper's do not.

        References
        ----------
        SIGMOD 2020, sections 2.1, 4.2, 5 and 8, doi:10.1145/3318464.3389713.
        """
        check(
            "aggregate",
            PlannedWindows.aggregate,
            reducers=reducers,
            early=early,
            buckets=buckets,
            keep=keep,
            compact_after=compact_after,
            adopt=adopt,
        )
        window, policy = self._window, self._policy
        if window.watermark is None:
            raise DataError(
                "aggregate: give window(..., watermark=...): it says when a window is complete and may "
                "be forgotten."
            )
        if early and self._weight is not None:
            raise ParameterError(
                "aggregate: early=True goes by the rows that the batch before counted, not by weight=; "
                "leave one of the two out."
            )
        prepared = Prepared("aggregate", self._df, self._keys, aggregator)
        states = _mergeable(prepared)
        taken = [name for name in self._keys.names if name in STATE_COLUMNS]
        if taken or "window" in self._keys.names:
            raise DataError(
                f"aggregate: key column {(taken or ['window'])[0]!r} has the name of a column of the "
                "state or the result; rename it."
            )
        n_reducers = reducers or policy.n_workers
        fields = [self._df.schema[name] for name in self._keys.names]
        spanned = self._df.select(F.window(F.col(quoted(window.time)), window.size, window.slide))
        schema = StructType([spanned.schema.fields[0], *fields, *prepared.result.fields])
        delay = duration_us("window", "watermark", window.watermark) // 1_000 * 1_000
        outputs = arrow_schema(schema)
        spans = Spans(window.size_us, window.slide_us, pane_us(window.size_us, window.slide_us))
        step = WindowStep(states, spans, self._keys.names, outputs)
        update = Update(
            step,
            "vectorised",
            "arrow",
            state_schema(prepared.aggregator),
            outputs,
        )
        job = Job(
            StateStore(self._folder),
            arrow_schema(StructType(fields)),
            arrow_schema(StructType(partial_fields(fields, prepared))),
            update,
            Routing.hashing(n_reducers, seed=policy.seed),
            Timing(LATEST, delay, timer=DUE, drops=False),
            Repartitioning(memory=0.0),
            buckets,
            max(keep, 2),
            compact_after,
            adopt,
            TUPLES,
        )
        job.store.refuse_foreign()
        work = Work(
            self._df,
            self._keys,
            policy,
            window.time,
            self._weight,
            prepared,
            step,
            n_reducers,
            early,
        )
        return PlannedStream(work, job, schema)


def _planning(policy: Policy | Routing | str, n_workers: int) -> Policy | Routing:
    if policy == AUTO:
        return Prompt(n_workers)
    if isinstance(policy, str):
        raise ParameterError(
            f"window: policy {policy!r} makes no plan, and mode='planned' asks for one of every batch; "
            "use Prompt, another policy, or 'auto', or leave mode= out."
        )
    if isinstance(policy, Elastic):
        raise ParameterError(
            "window: elastic= changes the workers of a policy that learns from batch to batch; with "
            "mode='planned' leave it out."
        )
    return policy


def _mergeable(prepared: Prepared) -> PaneStates:
    """Return how the states are put together in Python, or raise `ParameterError`."""
    aggregator = prepared.aggregator
    kinds: dict[str, str | int] = {}
    for field in prepared.state.fields:
        how = aggregator.merges.get(field.name)
        if how == "sum":
            kind = kind_of_sum(field.dataType)
            if kind is None:
                raise ParameterError(
                    f"aggregate: mode='planned' adds up numbers, and state column {field.name!r} of "
                    f"{type(aggregator).__name__} is {field.dataType.simpleString()}; write a merge, or "
                    "leave mode= out."
                )
            kinds[field.name] = kind
        elif how is not None and how not in MERGES:
            raise ParameterError(
                f"aggregate: mode='planned' merges windows in Python, and state column {field.name!r} "
                f"of {type(aggregator).__name__} is merged by {how!r}, which only Spark does; leave "
                "mode= out."
            )
    return PaneStates(aggregator, prepared.state.fieldNames(), kinds)
