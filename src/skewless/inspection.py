"""``inspect``: what is hot in a frame's keys, what each policy would do about it, what to take."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from skewless.advisor import (
    ADVISED,
    Advice,
    Outcome,
    Survey,
    advise,
    fitted_exponent,
    outcomes,
)
from skewless.calibration import known_costs
from skewless.costs import Costs
from skewless.errors import ParameterError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from skewless.join_inspection import JoinInspection

__all__ = ["HotKey", "Inspection", "inspect"]

#: 95 % of a normal distribution lie within this many standard deviations.
_TWO_SIDED_95 = 1.96


class HotKey(NamedTuple):
    """A heavy key."""

    value: tuple[Any, ...]
    """Values of the key columns."""
    share: float
    """Part of all rows, or of the weight."""
    low: float
    high: float
    """Ends of its 95 % interval; both equal to `share` where every row was counted."""


class Inspection:
    """What `inspect` found; prints as a table, and shows itself in a notebook.

    Attributes
    ----------
    columns
        Key columns.
    workers
        Number of workers that the outcomes are for.
    rows, distinct, null_share
        Rows counted, distinct keys among them, and the part of the rows with a null key.
    exponent
        Zipf exponent fitted to the heaviest keys; ``None`` if they tell nothing.
    top
        `HotKey` of the heaviest keys, heaviest first.
    outcomes
        What each policy would do (`skewless.advisor.Outcome`).
    spark
        What Spark does about it by itself.
    advice
        The recommendation and its reason.
    seconds
        Time that the counting query took.
    """

    #: The verb that the text begins with.
    verb = "inspect"

    def __init__(
        self,
        found: Survey,
        results: Sequence[Outcome],
        costs: Costs,
        spark: Sequence[str],
        seconds: float,
    ) -> None:
        histogram = found.histogram
        self.columns = found.columns
        self.workers = found.workers
        self.rows = found.rows
        self.distinct = found.distinct
        self.null_share = found.null_rows / found.rows if found.rows else 0.0
        self.exponent = fitted_exponent(histogram.counts, histogram.total)
        self.top = _hot_keys(found)
        self.outcomes = list(results)
        self.costs = costs
        self.spark = list(spark)
        self.sample = found.sample
        self.weighted = found.weighted
        self.seconds = seconds
        share = self.top[0].share if self.top else 0.0
        self.advice = advise(self.outcomes, share, self.workers) if found.rows else _NOTHING

    def lead(self) -> str:
        """Return what was counted, in a sentence."""
        part = "" if self.sample is None else f" (a sample of {self.sample:g})"
        skew = "" if self.exponent is None else f", Zipf exponent about {self.exponent:.2f}"
        return (
            f"{self.rows:,} rows{part}, {self.distinct:,} distinct keys, "
            f"{100 * self.null_share:.1f} % null{skew}; {self.workers} workers, so a fair share is "
            f"{100 / self.workers:.2f} %"
        )

    def recommendation(self) -> list[str]:
        """Return the advice by kind of work, as sentences."""
        whole = next((one for one in self.outcomes if one.policy == "off_greedy"), None)
        says = [
            (
                "Spark's own aggregates: leave them to Spark (policy 'auto' does); they are combined on "
                "the map side."
            ),
            f"Aggregators in Python: {self.advice.policy}: {self.advice.reason}.",
        ]
        if whole is not None:
            says.append(
                "Functions over whole groups, and states that take a key's rows in order: not "
                f"splittable; placed by weight the fullest worker has {whole.max_over_mean:.2f} times "
                "the mean (off_greedy; for stateful streams kip, which moves few keys)."
            )
        return says

    def hot_rows(self, limit: int = 20) -> list[list[str]]:
        """Return the heaviest keys as table cells: key, share, interval, fair shares."""
        exact = self.sample is None
        return [
            [
                ", ".join("null" if v is None else str(v) for v in key.value),
                f"{100 * key.share:.2f} %",
                "exact" if exact else f"{100 * key.low:.2f}-{100 * key.high:.2f} %",
                f"{key.share * self.workers:.2f}",
            ]
            for key in self.top[:limit]
        ]

    def outcome_rows(self) -> list[list[str]]:
        """Return the outcomes as table cells, the fastest first."""
        return [
            [
                one.policy,
                f"{one.max_over_mean:.2f}",
                "any" if one.split_keys < 0 else f"{one.split_keys}",
                f"{one.extra_fragments:,.0f}",
                f"{one.predicted_s:.3g}",
            ]
            for one in sorted(self.outcomes, key=lambda one: one.predicted_s)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON but for the key values themselves."""
        return {
            "columns": list(self.columns),
            "workers": self.workers,
            "rows": self.rows,
            "distinct": self.distinct,
            "null_share": self.null_share,
            "exponent": self.exponent,
            "sample": self.sample,
            "weighted": self.weighted,
            "seconds": self.seconds,
            "top": [key._asdict() for key in self.top],
            "outcomes": [one._asdict() for one in self.outcomes],
            "costs": self.costs._asdict(),
            "spark": self.spark,
            "advice": self.advice._asdict(),
        }

    def to_html(self, path: str | Path) -> Path:
        """Write one self-contained page and return its path."""
        from skewless.report import inspection_page

        inspection_page.write(Path(path), self)
        return Path(path)

    def _repr_html_(self) -> str:
        from skewless.report.text import fragment

        return fragment(self)

    def __repr__(self) -> str:
        from skewless.report.text import aligned

        unit = "weight" if self.weighted else "rows"
        parts = [
            f"{self.verb}({', '.join(self.columns)}): {self.lead()}.",
            "",
            *aligned(["key", f"share of {unit}", "95 %", "fair shares"], self.hot_rows(10)),
            "",
            *aligned(
                ["policy", "max/mean", "split keys", "extra fragments", "predicted s"],
                self.outcome_rows(),
            ),
            "",
            *[f"* {sentence}" for sentence in (*self.recommendation(), *self.spark)],
        ]
        return "\n".join(parts)


_NOTHING = Advice("spark", "the frame has no rows")


@overload
def inspect(
    df: DataFrame,
    *keys: str,
    workers: int | None = None,
    weight: str | Column | None = None,
    sample: float | None = None,
    policies: Sequence[str] = ADVISED,
    costs: Costs | None = None,
) -> Inspection: ...
@overload
def inspect(
    df: DataFrame,
    *keys: DataFrame,
    on: Any,
    how: str = "inner",
    workers: int | None = None,
    sample: float | None = None,
) -> JoinInspection: ...
def inspect(
    df: DataFrame,
    *keys: Any,
    workers: int | None = None,
    weight: str | Column | None = None,
    sample: float | None = None,
    policies: Sequence[str] = ADVISED,
    costs: Costs | None = None,
    on: Any = None,
    how: str = "inner",
) -> Inspection | JoinInspection:
    """Say which keys are hot, what each policy would do, which to take and why.

    With a second frame in the place of the keys, ``inspect(left, right, on="user")``, it predicts a join:
    the rows of the result per hot key, and what `skewless.join` would do.

    Parameters
    ----------
    df
        A batch frame. It is read once.
    *keys
        Names of the key columns.
    workers
        Number of workers; ``spark.sql.shuffle.partitions`` if left out.
    weight
        What is balanced instead of rows: a numeric column, an expression, or ``"bytes"``.
    sample
        Part of the rows to count, in (0, 1]; shares then come with a 95 % interval.
    policies
        Names of the policies to try.
    costs
        Costs of a row and a fragment; those of ``skewless calibrate``, or else measured in this process,
        if left out. Give your own ``update_us`` by ``skewless.calibration.known_costs(update_us)``.
    on, how
        Of a join: what ``DataFrame.join`` takes.

    Returns
    -------
    Inspection or JoinInspection
        Prints as a table; ``to_html`` writes a page, ``to_dict`` gives plain values.

    Raises
    ------
    ParameterError
        `workers` or `sample` is out of range, a policy is not known.
    DataError
        A column is missing or cannot be grouped by, the frame is streaming.

    Notes
    -----
    One query: rows are counted per key, combined on the map side, and the heaviest keys and the totals
    of the others by bucket come back. Predicted seconds are those of a stage of `workers` workers under
    the cost model (`skewless.costs`): compare them with each other.

    Examples
    --------
    >>> report = skewless.inspect(df, "user", workers=64)  # doctest: +SKIP
    >>> report.to_html("keys.html")  # doctest: +SKIP
    >>> print(skewless.inspect(orders, users, on="user", how="left"))  # doctest: +SKIP
    """
    if len(keys) == 1 and hasattr(keys[0], "isStreaming"):
        from skewless.join_inspection import inspect_join

        return inspect_join(df, keys[0], on, how, workers=workers, sample=sample)
    if on is not None:
        raise ParameterError(
            "inspect: on= belongs to a join, inspect(left, right, on=...); for the keys of one frame "
            "write inspect(df, 'column')."
        )
    from skewless.spark.policies import resolve_policy
    from skewless.spark.survey import spark_says, survey

    for name in policies:
        resolve_policy("inspect", name, workers, workers or 1)
    note = _Progress()
    note(f"counting the keys of {', '.join(map(str, keys))}")
    begun = time.perf_counter()
    found = survey(df, *keys, workers=workers, weight=weight, sample=sample)
    seconds = time.perf_counter() - begun
    note("measuring costs")
    measured = known_costs() if costs is None else costs
    named = [name for name in policies if name not in ("local", "spark", "auto")]
    results = outcomes(
        found.histogram,
        found.workers,
        measured,
        distinct=found.distinct,
        policies=named,
        progress=lambda name: note(f"trying {name}"),
    )
    note.done()
    return Inspection(found, results, measured, spark_says(df, found), seconds)


def _hot_keys(found: Survey) -> list[HotKey]:
    histogram = found.histogram
    keys = []
    for key, count in zip(histogram.keys.tolist(), histogram.counts.tolist(), strict=True):
        share = count / histogram.total if histogram.total else 0.0
        keys.append(HotKey(found.values[key], share, *_interval(share, found.rows, found.sample)))
    return keys


def _interval(share: float, n_rows: int, sample: float | None) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share among sampled rows, for the part that was not read."""
    if sample is None or sample >= 1 or n_rows == 0:
        return share, share
    n = n_rows / (1 - sample)
    z2 = _TWO_SIDED_95**2 / n
    centre = (share + z2 / 2) / (1 + z2)
    half = math.sqrt(z2 * (share * (1 - share) + z2 / 4)) / (1 + z2)
    return max(0.0, centre - half), min(1.0, centre + half)


class _Progress:
    """A line on a terminal that says what is being done; silent elsewhere."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def __call__(self, what: str) -> None:
        if self._shown:
            sys.stderr.write(f"\r\x1b[Kinspect: {what} ...")
            sys.stderr.flush()

    def done(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
