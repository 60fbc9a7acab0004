"""The rows of a join on the workers of its plan: dealt to their cells, copied, and joined there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.join_plan import JoinPlan
from skewless.spark.batch import place_by, places_by_id
from skewless.spark.expressions import routing_column, sql_array
from skewless.spark.join_keys import JoinKeys, On, unmatchable, with_keys
from skewless.spark.keys import quoted
from skewless.spark.salt import salt_column

__all__ = ["Dealt"]


class Dealt:
    """Both sides on the workers of a plan, joined there."""

    def __init__(
        self,
        left: DataFrame,
        right: DataFrame,
        on: On,
        how: str,
        keys: JoinKeys,
        plan: JoinPlan,
    ) -> None:
        if how in ("semi", "anti") and not keys.residual:
            # Whether a key is there is all that matters, so a key comes once.
            found, names = with_keys(right, keys.right)
            right = found.select(*[F.col(quoted(name)) for name in names]).distinct()
            keys = keys._replace(right=[F.col(quoted(name)) for name in names])
        self._plan, self._how, self._keys, self._on = plan, how, keys, on
        self._left, self._right = left, right
        self._names = {
            name: self._fresh(name)
            for name in ("worker", "cell", "code", "salt", "left_copied", "right_copied")
        }

    def _fresh(self, wanted: str) -> str:
        taken = {name.lower() for df in (self._left, self._right) for name in df.columns}
        name = f"__skewless_{wanted}"
        while name.lower() in taken or name.lower() + _THEIRS in taken:
            name += "_"
        return name

    def frame(self) -> DataFrame:
        """Return the joined rows, in the columns of Spark's own join."""
        keys, names = self._keys, self._names
        by_name = keys.names is not None and self._how not in ("semi", "anti")
        left = self._side(self._left, keys.left, is_left=True)
        right = self._side(
            self._right, keys.right, is_left=False, suffix="" if by_name else _THEIRS
        )
        extra = [names["worker"], *([names["cell"]] if self._cells_meet() else [])]
        # Ours come last: Spark sorts by the first, and all rows of a partition have one worker.
        if by_name:
            joined = left.join(right, [*(keys.names or []), *extra], _SPARK_HOW[self._how])
        else:
            condition = self._condition()
            for mine in extra:
                condition = condition & (F.col(quoted(mine)) == F.col(quoted(mine + _THEIRS)))
            joined = left.join(right, condition, _SPARK_HOW[self._how])
        if any(self._doubles()):
            joined = joined.where(~self._doubled())
        placed = [name + end for name in (names["worker"], names["cell"]) for end in ("", _THEIRS)]
        joined = joined.drop(*placed, names["left_copied"], names["right_copied"])
        if keys.names is not None and not by_name:
            # By name, Spark lists the keys first.
            listed = {name.lower() for name in keys.names}
            rest = [c for c in self._left.columns if c.lower() not in listed]
            joined = joined.select(*[F.col(quoted(c)) for c in (*keys.names, *rest)])
        return joined

    def _cells_meet(self) -> bool:
        """Say whether a worker has two cells of one key, which then have to be told apart."""
        plan = self._plan
        key = np.repeat(np.arange(len(plan.keys)), plan.rows * plan.columns)
        pairs = key.astype(np.int64) * plan.n_workers + plan.cells
        return self._left.isStreaming or len(np.unique(pairs)) < len(pairs)

    def _condition(self) -> Column:
        keys = self._keys
        if self._how in ("semi", "anti") and not keys.residual:
            condition = F.lit(True)
            for mine, theirs, safe in zip(keys.left, keys.right, keys.null_safe, strict=True):
                condition = condition & (mine.eqNullSafe(theirs) if safe else mine == theirs)
            return condition
        several: Any = [self._on] if isinstance(self._on, Column) else self._on
        condition = several[0]
        for one in several[1:]:
            condition = condition & one
        return condition

    def _doubles(self) -> tuple[bool, bool]:
        """Say whether rows of the left and of the right side are copied and kept without a match."""
        return (
            self._how in ("left", "full") and bool((self._plan.columns > 1).any()),
            self._how in ("right", "full") and bool((self._plan.rows > 1).any()),
        )

    def _doubled(self) -> Column:
        """Say whether a row is the null row of a copy: its key is on the other side, in another cell."""
        mine, theirs = (F.col(quoted(self._names[n])) for n in ("left_copied", "right_copied"))
        found = F.lit(False)
        of_left, of_right = self._doubles()
        if of_left:
            found = found | (mine & theirs.isNull())
        if of_right:
            found = found | (theirs & mine.isNull())
        return F.coalesce(found, F.lit(False))

    def _side(
        self, df: DataFrame, columns: list[Column], *, is_left: bool, suffix: str = ""
    ) -> DataFrame:
        """Return the rows of a side, copied to their cells, on their workers."""
        plan, names, n = self._plan, self._names, self._plan.n_workers
        salt, _ = salt_column(df, 0 if is_left else 1)
        rows, keys = with_keys(df, columns)
        hashed = f"xxhash64({', '.join(map(quoted, keys))})"
        nothing = unmatchable(keys, self._keys.null_safe)
        code = routing_column(plan.codes, hashed, None)
        rows = rows.withColumns(
            {names["salt"]: salt, names["code"]: F.when(nothing, F.lit(-1)).otherwise(code)}
        )
        code, dealt = F.col(quoted(names["code"])), F.col(quoted(names["salt"]))
        listed = code >= n
        key = F.when(listed, code - n).otherwise(F.lit(0))
        mine, theirs = (plan.rows, plan.columns) if is_left else (plan.columns, plan.rows)
        cell = F.lit(0)
        copied = F.lit(False)
        if len(plan.keys):
            part = F.pmod(dealt, _entry(mine, key)).cast("int")
            copies = _entry(theirs, key)
            copied = listed & (copies > 1)
            if int(theirs.max()) > 1:
                # No list for a row that stays alone: most do, and a list of one costs as much as a row.
                copy = F.explode_outer(F.when(copied, F.sequence(F.lit(0), copies - 1)))
                rows = rows.withColumn(names["cell"], copy)
                copy = F.coalesce(F.col(quoted(names["cell"])), F.lit(0))
            else:
                copy = F.lit(0)
            width = _entry(plan.columns, key)
            cell = part * width + copy if is_left else copy * width + part
            cell = F.when(listed, cell).otherwise(F.lit(0))
        owner = F.when(code < 0, F.pmod(dealt, F.lit(n)).cast("int")).otherwise(code)
        worker = owner
        if len(plan.keys):
            worker = F.when(listed, F.get(_array(plan.cells), _entry(plan.start, key) + cell))
            worker = worker.otherwise(owner)
        # Known not to be null: else Spark works both out once more, to filter by it before the join.
        worker, cell = (F.coalesce(one.cast("int"), F.lit(0)) for one in (worker, cell))
        marker = names["left_copied" if is_left else "right_copied"]
        at, place = names["worker"] + suffix, names["cell"] + suffix
        rows = rows.withColumns({at: worker, place: cell, marker: copied})
        gone = [names["salt"], names["code"], *keys, *([names["cell"]] if suffix else [])]
        placed = rows.drop(*gone)
        # Spark places the state of a join of streams, and before 4.1 all joins, by key, worker and cell.
        by_hash = placed.isStreaming or not places_by_id(placed)
        return placed if by_hash else place_by(placed, n, at)


#: Ends the names of the right side's worker and cell where both are in the result.
_THEIRS = "_right"
#: Our names of join types -> Spark's.
_SPARK_HOW = {
    "inner": "inner",
    "left": "left_outer",
    "right": "right_outer",
    "full": "full_outer",
    "semi": "left_semi",
    "anti": "left_anti",
}


def _array(values: NDArray[np.int32]) -> Column:
    return F.expr(sql_array(values, "int"))


def _entry(values: NDArray[np.int32], place: Column) -> Column:
    """Return the entry of an array; the number itself where all are equal."""
    return F.lit(int(values[0])) if (values == values[0]).all() else F.get(_array(values), place)
