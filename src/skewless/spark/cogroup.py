"""``cogroup``: the groups of two frames with the same key, handed to a function together."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skewless.errors import DataError, ParameterError
from skewless.histogram import Histogram
from skewless.planners import OffGreedy, WrapAround
from skewless.policy import Policy
from skewless.routing import Routing
from skewless.spark.batch import count, is_balanced, learned, place_by, worker_of
from skewless.spark.functions import PAIR_CALLS, GroupFunction, read_function
from skewless.spark.keys import KeyColumns, fresh_name, quoted
from skewless.spark.policies import LOCAL, SPARK
from skewless.spark.versions import arrow_schema, require_form
from skewless.spark.whole import schema_of

if TYPE_CHECKING:
    from skewless.spark.batch_groups import BatchGroups

__all__ = ["CoGroups"]

_SIDES = ("left", "right")


class CoGroups:
    """The groups of two batch frames, key by key; made by ``group_by(...).cogroup(...)``.

    Notes
    -----
    The policy of the left groups decides. A key that only one side has comes with an empty frame for
    the other, as in plain Spark.
    """

    def __init__(self, left: BatchGroups, right: BatchGroups) -> None:
        self._left, self._right = left, right
        mine, theirs = left._keys, right._keys
        if len(mine.names) != len(theirs.names):
            raise DataError(
                f"cogroup: both sides must have as many key columns, got {len(mine.names)} "
                f"({', '.join(mine.names)}) and {len(theirs.names)} ({', '.join(theirs.names)})."
            )
        for name, kind, other, other_kind in zip(*mine, *theirs, strict=True):
            if kind != other_kind:
                raise DataError(
                    f"cogroup: key {name!r} holds {kind.simpleString()} and {other!r} holds "
                    f"{other_kind.simpleString()}; cast one of them first."
                )

    def apply(
        self,
        function: Callable[..., Any],
        schema: StructType | str,
        *,
        form: str | None = None,
        rowwise: str | None = None,
    ) -> DataFrame:
        """Hand the rows of both sides to a function, key by key.

        Parameters
        ----------
        function
            Takes the left and the right rows of a key, or the key (a tuple) before them, and returns
            the rows of the result.
        schema
            Columns of the result.
        form
            ``"pandas"`` or ``"arrow"``; left out, the type hints decide.
        rowwise
            ``"left"`` or ``"right"``: the result for that side's rows is put together from the results
            for any parts of them, each with all rows of the other side. Then a heavy key of that side
            is split over several workers, and the other side's rows of that key are copied to each.

        Raises
        ------
        ParameterError
            ``rowwise`` is no side, or the policy splits keys and nothing may be split.
        DataError
            The function takes another number of arguments; while the query runs: it raises, or
            returns other columns. The key is named.

        Examples
        --------
        >>> both = skewless.group_by(views, "user").cogroup(  # doctest: +SKIP
        ...     skewless.group_by(users, "user")
        ... )
        >>> both.apply(pd.merge_asof, "user long, at long, plan string")  # doctest: +SKIP
        """
        found = read_function("cogroup", function, form, n_frames=2)
        if found.form not in PAIR_CALLS:
            raise DataError(
                f"cogroup: takes functions over whole frames, got the form {found.form!r}; use "
                f"{' or '.join(PAIR_CALLS)}."
            )
        if rowwise is not None and rowwise not in _SIDES:
            raise ParameterError(f"cogroup: rowwise must be 'left' or 'right', got {rowwise!r}.")
        require_form(self._left._df.sparkSession, "cogroup", found.form)
        result = schema_of(schema)
        if self._left._policy == SPARK:
            return self._plain(found, result)
        return self._routed(found, result, rowwise)

    def _plain(self, function: GroupFunction, schema: StructType) -> DataFrame:
        groups = [side._grouped(side._df) for side in (self._left, self._right)]
        pair = groups[0].cogroup(groups[1])
        arrow = function.form == "arrow"
        made: DataFrame = (pair.applyInArrow if arrow else pair.applyInPandas)(
            function.call, schema
        )
        return made

    def _routed(
        self, function: GroupFunction, schema: StructType, rowwise: str | None
    ) -> DataFrame:
        routing = self._plan(rowwise)
        groups = []
        for name, side in zip(_SIDES, (self._left, self._right), strict=True):
            copies = rowwise is not None and name != rowwise
            groups.append(_grouped(side._df, side._keys, routing, copies=copies))
        arrow = arrow_schema(schema)
        call = PAIR_CALLS[function.form](
            "cogroup", function, schema.fieldNames(), arrow.empty_table()
        )
        pair = groups[0].cogroup(groups[1])
        made: DataFrame = (pair.applyInArrow if function.form == "arrow" else pair.applyInPandas)(
            call, schema
        )
        return made

    def _plan(self, rowwise: str | None) -> Routing:
        policy, n_workers = self._left._policy, self._left._workers
        if policy == LOCAL:
            raise ParameterError(
                "cogroup: policy 'local' leaves rows where they are, and a function needs both sides "
                "of a key; use another policy."
            )
        rule = self._rule(policy, n_workers, rowwise)
        if isinstance(rule, Routing):
            return rule
        # Only what may be split is counted where something may: the other side is copied as it is.
        sides = (self._left, self._right)
        counted = sides if rowwise is None else (sides[_SIDES.index(rowwise)],)
        histograms = [
            count(s._df, s._keys, rule.n_workers, weight=s._weight, seed=rule.seed).histogram
            for s in counted
        ]
        total = histograms[0] if len(histograms) == 1 else histograms[0].plus(histograms[1])
        return self._routing_for(rule, total)

    def _rule(
        self, policy: Policy | Routing | str, n_workers: int, rowwise: str | None
    ) -> Policy | Routing:
        if isinstance(policy, str):
            return WrapAround(n_workers) if rowwise else OffGreedy(n_workers)
        splits = (
            len(policy.split_keys) > 0 or bool((policy.buckets < 0).any())
            if isinstance(policy, Routing)
            else policy.splits_keys
        )
        if splits and rowwise is None:
            raise ParameterError(
                f"cogroup: {policy!r} splits keys, and a function takes both sides whole; use "
                "OffGreedy or another policy that keeps keys whole, or say with rowwise= which side "
                "may be split."
            )
        return policy

    def _routing_for(self, rule: Policy, histogram: Histogram) -> Routing:
        if isinstance(self._left._policy, str):
            hashing = Routing.hashing(rule.n_workers)
            if is_balanced(hashing, histogram):
                return hashing
        return learned(rule, histogram)


def _grouped(df: DataFrame, keys: KeyColumns, routing: Routing, *, copies: bool) -> Any:
    """Return the rows on their workers, grouped by worker and key.

    Two columns follow the frame's own: whether the row is one of several copies, and its worker.
    """
    copied = fresh_name(df, "copied")
    worker = fresh_name(df, "worker")
    owner, _ = worker_of(df, keys, routing)
    if copies:
        workers = _workers_of_split(routing, keys)
        marked = df.select(
            "*",
            workers.isNotNull().alias(copied),
            F.explode(F.coalesce(workers, F.array(_one_owner(df, keys, routing)))).alias(worker),
        )
    else:
        marked = df.select("*", F.lit(False).alias(copied), owner.alias(worker))
    placed = place_by(marked, routing.n_workers, worker)
    return placed.groupBy(*keys.columns, F.col(quoted(worker)))


def _workers_of_split(routing: Routing, keys: KeyColumns) -> Column:
    """Return the workers of a split key as an array, null for all other keys."""
    split = {int(key) for key in routing.split_keys.tolist()}
    table = {
        str(key - 2**64 if key >= 2**63 else key): sorted(shares)
        for key, shares in routing.hot.items()
        if key in split
    }
    if (routing.buckets < 0).any():
        raise ParameterError(
            "cogroup: the routing deals whole buckets to every worker, so every row of the other side "
            "would be copied to each; use WrapAround, Dalton or another policy that splits hot keys "
            "only."
        )
    listed = F.from_json(F.lit(json.dumps(table)), "map<string,array<int>>")
    return F.try_element_at(listed, keys.hash.cast("string"))


def _one_owner(df: DataFrame, keys: KeyColumns, routing: Routing) -> Column:
    """Return the worker of the keys that are not split."""
    split = {int(key) for key in routing.split_keys.tolist()}
    whole = {key: shares for key, shares in routing.hot.items() if key not in split}
    kept = Routing(routing.n_workers, whole, routing.buckets, seed=routing.seed)
    return worker_of(df, keys, kept)[0]
