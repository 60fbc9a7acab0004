"""``window``: Spark's window functions, with hot partitions cut into ranges of their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from skewless.errors import ParameterError
from skewless.planners import WrapAround
from skewless.routing import Routing
from skewless.spark.batch import Plan, as_placed, default_workers, place_by, plan, plan_auto
from skewless.spark.keys import fresh_name, quoted, resolve_keys
from skewless.spark.neighbours import with_neighbours
from skewless.spark.policies import AUTO, LOCAL, SPARK, PolicyLike, resolve_policy
from skewless.spark.ranges import Cuts, cut_keys, find_bounds, part_of
from skewless.spark.sort_order import OrderLike, SortKey, resolve_order, row_hash
from skewless.spark.split_keys import hash_in, index_of, part_worker
from skewless.spark.top_n import batch_only, names_of
from skewless.spark.whole import whole_of
from skewless.spark.window_functions import AGGREGATES, Over, read_functions
from skewless.spark.window_values import Specs, cannot_cut, carried_of, nullable_as, value

__all__ = ["WindowQuery", "explain_window", "window"]


def window(
    df: DataFrame,
    partition_by: str | Sequence[str],
    order_by: OrderLike,
    functions: Mapping[str, Over | str],
    *,
    policy: PolicyLike = AUTO,
    workers: int | None = None,
) -> DataFrame:
    """Return the frame with window functions as new columns, without one task per hot partition.

    Use it where ``F.sum(...).over(Window.partitionBy(...).orderBy(...))`` waits for one key, or has no
    key at all. For the first rows per key `window_top_n` is cheaper.

    Parameters
    ----------
    df
        A batch frame. It is read several times: cache one that is costly to compute, or that computes
        other rows each time.
    partition_by
        Name of the key column, or names; ``[]`` makes the whole frame one partition. Null is a key.
    order_by
        Names, or columns with a direction such as ``F.desc("v")``.
    functions
        ``{name of the new column: function}``; a function is made by `over`, or is the name of one
        that takes no arguments, such as ``"row_number"``. A name that the frame has is replaced.
    policy
        A policy object, a saved `Routing`, or a name. ``"auto"`` leaves the query to Spark if hashing
        the keys is balanced, and else is ``"wrap_around"``.
    workers
        Number of workers for a policy given by name; ``spark.sql.shuffle.partitions`` if left out.

    Returns
    -------
    DataFrame
        Rows, values, names, types and nullability of ``df.withColumns(...)`` with Spark's own
        functions; sums and means of floating-point numbers to 1e-9 relative. Rows that `order_by`
        leaves equal are put in order by a hash of their other columns, so that numbers, shifts and
        frames of rows are the same each time, and are values that plain Spark may give.

    Raises
    ------
    ParameterError
        The policy, the number of workers or a function cannot be used.
    DataError
        The frame is streaming, a column is missing, or cannot be grouped or ordered by.

    Notes
    -----
    1. A policy counts the keys and says which are cut, in what shares, and whose the parts are.
    2. A sample of the cut keys, about 256 rows a part, is sorted; its quantiles are the bounds of the
       parts. They are fixed before the query runs, and decide nothing but how even the parts are.
    3. Each row goes to the worker of its range, and Spark's own window functions run in each part.
       With ``RANGE`` frames, ranks and distributions rows of equal order are never parted: if they
       are most of a key, so large a part stays whole.
    4. Rows, distinct orders, sums, counts and extremes of the parts before are added: one small row a
       part, joined by broadcast. Longs are summed as decimals under ANSI, so a sum overflows where
       Spark's would and nowhere else.
    5. Lags, leads and bounded frames get copies of the few rows on either side of their part.

    All keys stay whole where a function cannot be put together exactly (`explain_window` says which).
    Steps 1 and 2 run when this is called; the rest is lazy.

    Examples
    --------
    >>> totals = skewless.window(  # doctest: +SKIP
    ...     df, "user", "ts", {"so_far": skewless.over("sum", "amount", rows=(None, 0))}
    ... )
    """
    return WindowQuery("window", df, partition_by, order_by, functions, policy, workers).frame()


def explain_window(
    df: DataFrame,
    partition_by: str | Sequence[str],
    order_by: OrderLike,
    functions: Mapping[str, Over | str],
    *,
    policy: PolicyLike = AUTO,
    workers: int | None = None,
) -> str:
    """Say what `window` would do with the same arguments: which keys are cut, how often, and why.

    Parameters
    ----------
    df, partition_by, order_by, functions, policy, workers
        As for `window`.

    Returns
    -------
    str
        A few lines.

    Raises
    ------
    ParameterError, DataError
        As for `window`.

    Examples
    --------
    >>> print(skewless.explain_window(df, "user", "ts", {"n": "row_number"}))  # doctest: +SKIP
    """
    query = WindowQuery("explain_window", df, partition_by, order_by, functions, policy, workers)
    return query.explain()


class WindowQuery:
    """A window query, read and checked; `frame` and `explain` say what comes of it."""

    def __init__(
        self,
        verb: str,
        df: DataFrame,
        partition_by: str | Sequence[str],
        order_by: OrderLike,
        functions: Mapping[str, Over | str],
        policy: PolicyLike,
        workers: int | None,
    ) -> None:
        batch_only(verb, df)
        names = names_of(verb, partition_by)
        self._temporary: list[str] = []
        if not names:
            names = [fresh_name(df, "all")]
            self._temporary += names
            df = df.withColumn(names[0], F.lit(0))
        self._keys = resolve_keys(verb, df, names)
        self._order = resolve_order(verb, df, order_by)
        self._functions = read_functions(verb, df, functions)
        self._policy = resolve_policy(verb, policy, workers, default_workers(df, workers))
        self._workers = default_workers(df, workers)
        if self._policy == LOCAL:
            raise ParameterError(
                f"{verb}: policy 'local' leaves rows where they are, and a window needs the rows of a "
                "key in order; use another policy."
            )
        self._by_row = list(self._order)
        if not all(one.takes_ties_together for one in self._functions.values()):
            tie = fresh_name(df, "tie")
            self._temporary.append(tie)
            known = [*self._keys.names, *(key.name for key in self._order)]
            df = df.withColumn(tie, row_hash(df, known))
            self._by_row.append(SortKey(tie))
        self._df = df
        self._ties_together = any(one.takes_ties_together for one in self._functions.values())

    # -- what is decided --------------------------------------------------------------------------

    @cached_property
    def reasons(self) -> list[str]:
        """Why no key may be cut, a sentence a function; empty if keys may be."""
        found = [(one, cannot_cut(one, self._df)) for one in self._functions.values()]
        return [f"{one}: {reason}" for one, reason in found if reason is not None]

    @cached_property
    def planned(self) -> Plan | None:
        """Where keys go, ``None`` if the query is left to Spark."""
        if self._policy == SPARK:
            return None
        if isinstance(self._policy, str):
            found = plan_auto(self._df, self._keys, WrapAround(self._workers))
            if found.routing == Routing.hashing(self._workers):
                return None
        else:
            found = plan(self._df, self._keys, self._policy)
        return found._replace(routing=whole_of(found.routing)) if self.reasons else found

    @cached_property
    def located(self) -> tuple[DataFrame, Cuts, str, str]:
        """The frame with each row's worker and place among the cut keys, and these columns' names."""
        assert self.planned is not None  # noqa: S101 - asked for if there is a plan only
        routing, df = self.planned.routing, self._df
        cuts = cut_keys(routing)
        index, worker = fresh_name(df, "key"), fresh_name(df, "worker")
        part: Column = F.lit(0)
        df = df.withColumn(index, index_of(self._keys, cuts.hashes))
        if len(cuts.hashes):
            order = self._order if self._ties_together else self._by_row
            bounds = find_bounds(self._df, self._keys, cuts, order, self.planned.histogram)
            part = part_of(df, order, bounds, F.col(index))
        owner = part_worker(self._keys, routing, F.col(index), part, cuts.workers)
        return df.withColumn(worker, owner), cuts, index, worker

    # -- what comes of it -------------------------------------------------------------------------

    def plain(self) -> DataFrame:
        """Return the query as Spark computes it."""
        keys = self._keys.columns
        by_order = Window.partitionBy(*keys).orderBy(*[key.column for key in self._order])
        by_row = Window.partitionBy(*keys).orderBy(*[key.column for key in self._by_row])
        values = {name: one.plain(by_order, by_row) for name, one in self._functions.items()}
        return self._df.withColumns(values).drop(*self._temporary)

    def placed(self) -> tuple[DataFrame, str | None]:
        """Return the rows on their workers, and the column that marks copies, if there are any."""
        assert self.planned is not None  # noqa: S101 - asked for if there is a plan only
        df, cuts, index, worker = self.located
        copied = None
        reaches = [one.reach for one in self._functions.values()]
        reach = max(before for before, _ in reaches), max(after for _, after in reaches)
        if len(cuts.hashes) and reach != (0, 0):
            df, copied = with_neighbours(df, self._keys, self._by_row, cuts, index, worker, reach)
        return place_by(df, self.planned.routing.n_workers, worker), copied

    def frame(self) -> DataFrame:
        """Return the result."""
        plain = self.plain()
        expected = plain.schema  # analyses the query before any job
        if self.planned is None:
            return plain
        placed, copied = self.placed()
        _, cuts, index, worker = self.located
        part = [*self._keys.columns, F.col(worker)]
        own = Window.partitionBy(*part, *([F.col(copied)] if copied else []))
        by_order = [key.column for key in self._order]
        by_row = [key.column for key in self._by_row]
        specs = Specs(
            own.orderBy(*by_order),
            own.orderBy(*by_row),
            Window.partitionBy(*part).orderBy(*by_row),
            own.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing),
        )
        told: list[str] = []
        values: dict[str, Column] = {}
        if len(cuts.hashes) == 0:
            for name, one in self._functions.items():
                values[name] = one.plain(specs.by_order, specs.by_row)
        else:
            placed, before, total = self._with_carried(placed)
            told = [*before.values(), *total.values()]
            columns = [{k: F.col(v) for k, v in of.items()} for of in (before, total)]
            for name, one in self._functions.items():
                found = value(one, specs, self._df, *columns)
                kind = expected[name].dataType
                values[name] = found if one.shifts else found.cast(kind)
        dropped = [*self._temporary, *told, index, worker]

        def result(values: dict[str, Column]) -> DataFrame:
            rows = placed.withColumns(values)
            return (rows.where(~F.col(copied)).drop(copied) if copied else rows).drop(*dropped)

        return result(nullable_as(values, result(values).schema, expected))

    def _with_carried(self, placed: DataFrame) -> tuple[DataFrame, dict[str, str], dict[str, str]]:
        """Join what each part is told: of the parts before it, and of its whole key."""
        df, _, index, worker = self.located
        carried = carried_of(self._functions.values(), self._df, self._order)
        if all(one.shifts for one in self._functions.values()):
            return placed, {}, {}
        keys = {name: fresh_name(df, f"part_key_{i}") for i, name in enumerate(self._keys.names)}
        at = fresh_name(df, "part_worker")
        sums = [fresh_name(df, f"part_{i}") for i in range(len(carried))]
        parts = (
            df.where(F.col(index) >= 0)
            .groupBy(
                *[F.col(quoted(name)).alias(alias) for name, alias in keys.items()],
                F.col(worker).alias(at),
            )
            .agg(*[one.summary.alias(name) for one, name in zip(carried, sums, strict=True)])
        )
        of_key = Window.partitionBy(*keys.values())
        earlier = of_key.orderBy(at).rowsBetween(Window.unboundedPreceding, -1)
        before = {one.name: fresh_name(df, f"before_{i}") for i, one in enumerate(carried)}
        total = {one.name: fresh_name(df, f"total_{i}") for i, one in enumerate(carried)}
        merged: list[Column] = []
        for one, name in zip(carried, sums, strict=True):
            merge = AGGREGATES[one.merge](F.col(name))
            merged.append(merge.over(earlier).alias(before[one.name]))
            merged.append(merge.over(of_key).alias(total[one.name]))
        told = parts.select(*keys.values(), at, *merged)
        n_workers = self.planned.routing.n_workers if self.planned else 1
        same = F.col(worker) == as_placed(df, F.col(at), n_workers)
        for name, alias in keys.items():
            same &= F.col(quoted(name)).eqNullSafe(F.col(alias))
        joined = placed.join(F.broadcast(told), same, "left").drop(*keys.values(), at)
        return joined, before, total

    def explain(self) -> str:
        """Return which keys are cut, and why."""
        self.plain().schema  # noqa: B018 - analyses the query before any job
        names = [name for name in self._keys.names if name not in self._temporary]
        lines = [f"window({', '.join(names) or 'the whole frame'}): policy {self._policy!r}"]
        lines.append(f"  order: {', '.join(map(str, self._order))}.")
        if self.planned is None:
            asked = "asked for" if self._policy == SPARK else "hashing the keys is balanced"
            return "\n".join([*lines, f"  left to Spark: {asked}; no key is cut."])
        lines += [f"  kept whole: {reason}, so no key is cut." for reason in self.reasons]
        routing = self.planned.routing
        _, cuts, _, _ = self.located
        lines.append(f"  routing: {routing.n_workers} workers, {len(cuts.hashes)} keys cut.")
        lines += self._cut_lines(cuts, names)
        if len(cuts.hashes):
            kinds = [one for one in self._functions.values() if one.shifts]
            carried = [one for one in self._functions.values() if not one.shifts]
            if carried:
                lines.append(f"  carried from part to part: {', '.join(map(str, carried))}.")
            if kinds:
                lines.append(
                    f"  by copies of the rows next to a part: {', '.join(map(str, kinds))}."
                )
            if self._ties_together:
                lines.append("  rows of equal order are never parted, as their values are one.")
        return "\n".join(lines)

    def _cut_lines(self, cuts: Cuts, names: list[str]) -> list[str]:
        if len(cuts.hashes) == 0:
            return []
        assert self.planned is not None  # noqa: S101 - there are cuts
        total = self._df.count()
        fair = max(total / self.planned.routing.n_workers, 1)
        grouped = self._df.where(hash_in(self._keys, cuts.hashes)).groupBy(*self._keys.columns)
        counted = grouped.agg(F.count(F.lit(1)).alias(fresh_name(self._df, "rows")))
        hashed = counted.select(
            F.col(fresh_name(self._df, "rows")),
            self._keys.hash,
            *[F.col(quoted(name)) for name in names],
        )
        workers = dict(zip(cuts.hashes.astype("int64").tolist(), cuts.workers, strict=True))
        lines = []
        for row in sorted(hashed.collect(), key=lambda row: (-row[0], row[1])):
            key = ", ".join(f"{n}={v!r}" for n, v in zip(names, row[2:], strict=True)) or "all rows"
            lines.append(
                f"  {key}: {row[0]} rows ({100 * row[0] / total:.1f} %, {row[0] / fair:.1f} fair "
                f"shares), cut into {len(workers[row[1]])} ranges on workers "
                f"{', '.join(map(str, workers[row[1]]))}."
            )
        return lines
