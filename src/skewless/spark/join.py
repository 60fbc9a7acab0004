"""``join``: hot keys are cut on either side or both, and the rows are those of Spark's own join."""

from __future__ import annotations

import re
import time

from pyspark.sql import DataFrame

from skewless.costs import makespan
from skewless.errors import DataError, ParameterError
from skewless.join_plan import JoinCounts, JoinPlan, plan_join, plan_of_routing
from skewless.routing import Routing
from skewless.spark.batch import check_frame, default_workers
from skewless.spark.join_adaptive import Adaptive, adaptive
from skewless.spark.join_counts import PairCounts, count_pairs
from skewless.spark.join_keys import On, join_type, read_on
from skewless.spark.join_rows import Dealt
from skewless.spark.join_sample import estimate_pairs
from skewless.spark.policies import AUTO, SPARK
from skewless.spark.versions import slots_of

__all__ = ["SPLIT", "Join", "join"]

#: Cut what exceeds a fair share, whatever ``"auto"`` thinks of it.
SPLIT = "split"
#: Spark's own placing is good enough if its stage takes no longer than this times ours: to route, copy
#: and place rows adds a third to the work of a join that does nothing else, and to find the hot keys
#: takes a second or two (both measured).
_AS_GOOD = 1.5
#: First join operator of a physical plan: ours is the topmost.
_OPERATOR = re.compile(
    r"(BroadcastHashJoin|SortMergeJoin|ShuffledHashJoin|BroadcastNestedLoopJoin|CartesianProduct)"
)


def join(
    left: DataFrame,
    right: DataFrame,
    on: On = None,
    how: str = "inner",
    *,
    policy: str | Routing = AUTO,
    workers: int | None = None,
    sample: float | None = None,
) -> DataFrame:
    """Join two frames; the work on a hot key is shared out, on either side or both.

    Parameters
    ----------
    left, right
        Batch frames; with a `Routing` as policy also streams, of which one cannot count the keys before.
    on
        What ``DataFrame.join`` takes: a column name, several, or conditions. Conditions may hold more
        than equalities; rows are placed by the equalities.
    how
        ``"inner"``, ``"left"``, ``"right"``, ``"full"``, ``"semi"``, ``"anti"`` or ``"cross"``, and
        Spark's other names of them.
    policy
        ``"auto"`` (cut hot keys unless Spark's own join is as good), ``"split"`` (always cut what exceeds
        a fair share), ``"spark"``, or a `Routing` that says which keys to cut: their left rows are dealt
        to its workers (the right ones for ``how="right"``), and those of the other side are copied.
    workers
        Number of tasks of the join; ``spark.sql.shuffle.partitions`` if left out.
    sample
        Part of the rows to count, in (0, 1]; 1 counts all. Left out, a small sample finds the keys that
        matter, and only these are counted. The result is exact either way.

    Returns
    -------
    DataFrame
        Rows, names, types and nullability of ``left.join(right, on, how)``.

    Raises
    ------
    ParameterError
        `how`, `policy`, `workers` or `sample` is not known or out of range.
    DataError
        A side is no frame, or lacks a column; a side is a stream and no `Routing` was given; the
        `Routing` cannot be had with this type of join.

    Notes
    -----
    When this is called, one query samples both sides, and if there are keys that may need cutting, a
    second one counts the rows of these; the hot keys are then fixed. A hot key becomes a grid of cells
    (`skewless.join_plan`): only its rows are copied, and no more often than its share of the work asks
    for. Rows with a null key match nothing and are spread evenly.

    A side whose unmatched rows are kept may be copied only where the other side is known to have the
    key, since then every copy's null row can be dropped; with a further condition it is not copied at
    all, nor is the left side of a semi or anti join. `Join` says what was decided.

    A join of two streams keeps its rows as state, by key and cell; so a query must be restarted from its
    checkpoint with the same `Routing` (`Routing.save` and `Routing.load`). Spark places the cells by
    their hash, and a key cut into f cells may have two of them in one task.

    Examples
    --------
    >>> both = skewless.join(big, small, on="user", how="left")  # doctest: +SKIP
    """
    return Join(left, right, on, how, policy=policy, workers=workers, sample=sample).frame()


class Join:
    """A join with what was decided about it: `explain` tells, `frame` gives the rows.

    Parameters are those of `join`.
    """

    def __init__(
        self,
        left: DataFrame,
        right: DataFrame,
        on: On = None,
        how: str = "inner",
        *,
        policy: str | Routing = AUTO,
        workers: int | None = None,
        sample: float | None = None,
    ) -> None:
        for df in (left, right):
            check_frame("join", df)
        if not isinstance(policy, Routing):
            if policy not in (AUTO, SPARK, SPLIT):
                raise ParameterError(
                    f"join: policy must be 'auto', 'split', 'spark' or a Routing, got {policy!r}."
                )
            if policy != SPARK and (left.isStreaming or right.isStreaming):
                raise DataError(
                    f"join: policy={policy!r} counts the keys of both sides, and a stream cannot be "
                    "counted before it runs. Give policy=Routing(...) (one that a policy log holds, or "
                    "of a batch of the same rows), or 'spark'."
                )
        if workers is not None and (isinstance(workers, bool) or workers < 1):
            raise ParameterError(f"join: workers must be an int of at least 1, got {workers!r}.")
        if sample is not None and not 0 < sample <= 1:
            raise ParameterError(f"join: sample must be in (0, 1], got {sample!r}.")
        self.how = join_type(how)
        self._left, self._right, self._on = left, right, on
        self._sample = sample
        self.workers = (
            policy.n_workers if isinstance(policy, Routing) else default_workers(left, workers)
        )
        self.keys = read_on(left, right, on)  # names a missing column before Spark does
        self._plain = left.join(right, on, how)  # type: ignore[arg-type]
        self._plain.schema  # noqa: B018 - analyses the query on Connect too, before any job
        self.plan: JoinPlan | None = None
        self._counted: PairCounts | None = None
        self.counted_s, self.counting = 0.0, ""
        self.null_rows = (0, 0)
        self.reason = self._decide(policy)

    def frame(self) -> DataFrame:
        """Return the joined rows."""
        if self.plan is None:
            return self._plain
        return Dealt(self._left, self._right, self._on, self.how, self.keys, self.plan).frame()

    def explain(self) -> str:
        """Return what was decided, why, and what it costs."""
        lines = [f"join ({self.how}): {self.reason}."]
        plan = self.plan
        if plan is not None and not plan.loads.any():
            parts = [
                max(pair) for pair in zip(plan.rows.tolist(), plan.columns.tolist(), strict=True)
            ]
            lines.append(f"  plan: {len(parts)} listed keys, cut into {sum(parts)} parts in all.")
        elif plan is not None:
            grids = [(a, b) for a, b in zip(plan.rows.tolist(), plan.columns.tolist(), strict=True)]
            cut = [f"{a} x {b}" for a, b in grids if a * b > 1]
            keys = "1 key" if len(cut) == 1 else f"{len(cut)} keys"
            lines += [
                (
                    f"  plan: {plan.n_workers} workers, {keys} cut"
                    + (f" into grids of {', '.join(cut[:5])}" if cut else "")
                    + f"; {plan.copied_left} left and {plan.copied_right} right rows more are shipped."
                ),
                (
                    f"  balance expected: max/mean {plan.max_over_mean:.2f}, under plain hashing "
                    f"{plan.hashed_max_over_mean:.2f}."
                ),
                (
                    f"  null keys: {self.null_rows[0]} left and {self.null_rows[1]} right rows, spread "
                    "evenly."
                ),
            ]
        if self.counted_s:
            lines.append(f"  cost of the plan: {self.counted_s:.2f} s {self.counting}.")
        return "\n".join(lines)

    def count(self) -> PairCounts:
        """Count the rows of both sides per key, once: all of them, or the part that was asked for."""
        if self._counted is None:
            self._counted = count_pairs(
                self._left, self._right, self.keys, self.how, self.workers, self._sample
            )
        return self._counted

    # -- what to do --------------------------------------------------------------------------------

    def _decide(self, policy: str | Routing) -> str:
        if isinstance(policy, Routing):
            return self._given(policy)
        if policy == SPARK:
            return "left to Spark, as asked for"
        if self.keys.why_not:
            return f"left to Spark: {self.keys.why_not}"
        operator = _OPERATOR.search(_physical_plan(self._plain))
        if policy == AUTO and operator and operator[1].startswith("Broadcast"):
            return (
                f"left to Spark: it broadcasts a side ({operator[1]}), so no row is placed by its key "
                "and the skew does not matter"
            )
        begun = time.perf_counter()
        counts, nulls, self.counting, beside = self._counts()
        self.counted_s, self.null_rows = time.perf_counter() - begun, nulls
        plan = plan_join(counts, self.workers, **_allowed(self.how, residual=self.keys.residual))
        kept_nulls = _kept_nulls(self.how, nulls) if not all(self.keys.null_safe) else 0
        if policy == AUTO:
            ours, spark = _seconds(plan, kept_nulls, slots_of(self._left.sparkSession))
            if spark <= _AS_GOOD * ours:
                return (
                    "left to Spark: its hash places the keys evenly enough (the longest task would be "
                    f"{spark / max(ours, 1e-9):.2f} times ours)"
                )
            nulls_are_few = kept_nulls * self.workers <= plan.hashed.sum()
            if beside is not None and beside.splits and nulls_are_few:
                return f"left to Spark: a hot key, but {beside.words}"
        self.plan = plan
        limit = ""
        if (
            plan.max_over_mean > 1.5
            and self.keys.residual
            and self.how in ("left", "right", "full")
        ):
            limit = (
                "; a side whose unmatched rows are kept cannot be copied under a further condition, so "
                "the heaviest key stays whole there"
            )
        return f"hot keys are cut; {beside.words if beside else 'whatever Spark would do'}{limit}"

    def _counts(self) -> tuple[JoinCounts, tuple[int, int], str, Adaptive | None]:
        """Return the rows by key, those with null keys, how they were found, and what AQE would do."""
        if self._sample is not None:
            counted = self.count()
            return counted.counts, counted.null_rows, "to count the keys", None
        found = estimate_pairs(self._left, self._right, self.keys, self.how, self.workers)
        how = "to count the keys"
        if found.sampled:
            keys = "1 key" if found.counted == 1 else f"{found.counted} keys"
            how = f"to sample {found.sampled:,} rows and count {keys}"
        beside = adaptive(self._left, self._right, self.how, found, self.workers)
        return found.counts, found.null_rows, how, beside

    def _given(self, routing: Routing) -> str:
        """Take the keys that a routing splits; nothing is counted."""
        streams = self._left.isStreaming or self._right.isStreaming
        takes = (
            ("inner", "left", "right") if streams else ("inner", "left", "right", "semi", "anti")
        )
        if self.how not in takes:
            raise DataError(
                f"join: how={self.how!r} cannot be cut by a Routing{' on streams' * streams}: it says "
                "nothing of the keys that only one side has, and their rows would come once for each "
                f"copy. Use {', '.join(map(repr, takes))}, or policy='spark'."
            )
        if self.keys.why_not:
            raise DataError(f"join: no key to cut by the Routing: {self.keys.why_not}.")
        cut_left = self.how != "right"
        self.plan = plan_of_routing(routing, cut_left=cut_left)
        sides = ("left", "right") if cut_left else ("right", "left")
        return f"as the given routing says, {sides[0]} rows are dealt and {sides[1]} rows copied"


def _seconds(plan: JoinPlan, kept_nulls: int, slots: int | None) -> tuple[float, float]:
    """Return the length of the stage in rows of work: under our plan, and under plain hashing."""
    hashed = plan.hashed.copy()
    hashed[0] += kept_nulls  # nulls all have one hash
    return makespan(plan.loads + kept_nulls / plan.n_workers, slots), makespan(hashed, slots)


def _kept_nulls(how: str, nulls: tuple[int, int]) -> int:
    left = nulls[0] if how in ("left", "full", "anti") else 0
    return left + (nulls[1] if how in ("right", "full") else 0)


def _allowed(how: str, *, residual: bool) -> dict[str, bool]:
    """Return which side's rows may be copied, and whether only where the other side has the key."""
    keeps_left, keeps_right = how in ("left", "full"), how in ("right", "full")
    return {
        "copy_left": how not in ("semi", "anti") and not (keeps_left and residual),
        "copy_right": not (keeps_right and residual),
        "seen_left": keeps_left,
        "seen_right": keeps_right,
    }


def _physical_plan(df: DataFrame) -> str:
    if hasattr(df, "_jdf"):
        return str(df._jdf.queryExecution().executedPlan().toString())
    return str(df._explain_string(mode="simple"))  # type: ignore[operator] # Spark Connect
