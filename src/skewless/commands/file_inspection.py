"""What `skewless advise` finds: an inspection of a file's keys, and the holistic paper's rule."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.advisor import ADVISED, Outcome, Survey, holistic_rule, outcomes
from skewless.calibration import known_costs
from skewless.commands.counting import KeyCounter, Part
from skewless.costs import Costs
from skewless.datasets.files import TupleFile, check_plain
from skewless.errors import DataError
from skewless.histogram import bucket_count
from skewless.inspection import Inspection
from skewless.keys import hash64
from skewless.parameters import Count, Range, check

__all__ = ["FileInspection", "advise_file", "plain"]

#: Distinct keys may grow by this part in the second half of the rows and still count as constant.
_CONSTANT = 0.05
#: Keys of each batch whose values are kept on the first way through the file.
_HARVESTED = 64
#: Whole weights are counted in 64 bits.
_MOST_WEIGHT = 2.0**62


class FileInspection(Inspection):
    """What `advise_file` found; prints as a table, writes a page, turns into plain values.

    Attributes
    ----------
    path
        The file.
    growth
        Part by which the number of distinct keys grew in the second half of the rows.
    rule
        What the selection rule of the holistic paper takes, and why.
    skipped
        Bad lines that were left out.
    count_error
        Listed keys may weigh more than was counted by at most this; 0 where every key was counted.
    """

    verb = "advise"

    def __init__(
        self,
        found: Survey,
        results: Sequence[Outcome],
        costs: Costs,
        seconds: float,
        *,
        path: Path,
        growth: float,
        window_rows: int | None,
        skipped: int,
        count_error: float,
    ) -> None:
        super().__init__(found, results, costs, [], seconds)
        self.path, self.growth = path, growth
        self.skipped, self.count_error = skipped, count_error
        self.rule = holistic_rule(
            max(1, found.distinct),
            window_rows or found.rows,
            found.workers,
            constant=growth <= _CONSTANT,
        )

    def recommendation(self) -> list[str]:
        """Return the advice by kind of work, and the rule beside it, as sentences."""
        agrees = ", as above" if self.rule.policy == self.advice.policy else ""
        says = [
            *super().recommendation(),
            (
                "The selection rule of the holistic paper, which weighs neither single keys nor costs, "
                f"takes {self.rule.policy}{agrees}: {self.rule.reason}."
            ),
        ]
        if self.null_share:
            says.append(
                f"Null keys: {100 * self.null_share:.1f} % of the rows; they form one group in a "
                "group-by, and match nothing in a join."
            )
        if self.count_error:
            says.append(
                f"There are too many keys to count each: a listed key may have up to "
                f"{self.count_error:,.0f} more than was counted, and distinct keys are estimated."
            )
        if self.skipped:
            says.append(f"{self.skipped:,} bad lines were left out.")
        return says

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON but for the key values themselves."""
        return {
            **super().to_dict(),
            "path": str(self.path),
            "growth": self.growth,
            "rule": self.rule._asdict(),
            "skipped": self.skipped,
            "count_error": self.count_error,
        }


def advise_file(
    path: str | Path,
    *keys: str,
    workers: Count,
    weight: str | None = None,
    window_rows: Count | None = None,
    update_us: Annotated[float, Range(0)] | None = None,
    costs: Costs | None = None,
    policies: Sequence[str] = ADVISED,
    format: str | None = None,  # noqa: A002 # as in TupleFile
    as_text: bool = False,
    bad_lines: str = "error",
    max_keys: Annotated[int, Range(2)] = 4_000_000,
    progress: Callable[[float, str], None] = lambda _part, _what: None,
) -> FileInspection:
    r"""Say which keys of a file are hot, what each policy would do about it, which to take and why.

    Parameters
    ----------
    path, format, bad_lines
        As in `skewless.datasets.files.TupleFile`.
    *keys
        Names of the key columns.
    workers : int of at least 1
        Number of workers.
    weight
        Numeric column that is balanced instead of rows; null counts 0.
    window_rows : int of at least 1
        Rows in a window of the stream, for the selection rule; left out, all rows are one.
    update_us : float of at least 0
        Microseconds of your own function per row; left out, that of adding a number in Python.
    costs
        All costs; measured on this machine if left out.
    policies
        Names of the policies to try.
    as_text
        Whether key columns of CSV are read as text even if they look like numbers.
    max_keys : int of at least 2
        Keys that are counted one by one; above, the lightest are counted by bucket.
    progress
        Called with the part of the work that was done, in [0, 1], and what is being done.

    Returns
    -------
    FileInspection
        Prints as a table; ``to_html`` writes a page, ``to_dict`` gives plain values.

    Raises
    ------
    ParameterError
        A number is out of its range.
    DataError
        The file cannot be read or has no rows, a column is missing, nested or no number, a weight is
        negative, or all together are 2**62 or more.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "clicks.csv"
    >>> _ = path.write_text("user\n" + "ann\n" * 900 + "bob\n" * 100)
    >>> found = advise_file(path, "user", workers=4, costs=Costs())
    >>> found.top[0].value, found.top[0].share, found.advice.policy
    (('ann',), 0.9, 'local')
    >>> folder.cleanup()
    """
    check(
        "advise",
        advise_file,
        workers=workers,
        window_rows=window_rows,
        update_us=update_us,
        max_keys=max_keys,
    )
    if not keys:
        raise DataError("advise: name at least one key column.")
    wanted = list(dict.fromkeys((*keys, *([] if weight is None else [weight]))))
    source = TupleFile(
        path,
        wanted,
        format=format,
        as_text=keys if as_text else (),
        bad_lines=bad_lines,
        where="advise",
    )
    check_plain("advise", source.files[0].name, source.schema, keys)
    begun = time.perf_counter()
    n_listed = max(2 * workers, 100)
    counter, values, nulls = _counted(
        source, keys, weight, KeyCounter(bucket_count(workers), max_keys=max_keys), progress
    )
    if counter.rows == 0:
        raise DataError(f"advise: {str(source.path)!r} has no rows; there is nothing to advise on.")
    histogram = counter.histogram().top(n_listed, bucket_count(workers))
    skipped = source.skipped
    _find_missing(source, keys, set(histogram.keys.tolist()) - values.keys(), values)
    found = Survey(
        tuple(keys),
        workers,
        histogram,
        {key: values[key] for key in histogram.keys.tolist()},
        counter.rows,
        counter.distinct,
        nulls,
        None,
        weight is not None,
    )
    seconds = time.perf_counter() - begun
    progress(1.0, "measuring costs")
    measured = known_costs(update_us) if costs is None else costs
    results = outcomes(
        histogram,
        workers,
        measured,
        distinct=found.distinct,
        policies=policies,
        progress=lambda name: progress(1.0, f"trying {name}"),
    )
    return FileInspection(
        found,
        results,
        measured,
        seconds,
        path=source.path,
        growth=counter.growth,
        window_rows=window_rows,
        skipped=skipped,
        count_error=counter.error,
    )


def _counted(
    source: TupleFile,
    keys: Sequence[str],
    weight: str | None,
    counter: KeyCounter,
    progress: Callable[[float, str], None],
) -> tuple[KeyCounter, dict[int, tuple[Any, ...]], int]:
    values: dict[int, tuple[Any, ...]] = {}
    nulls, total = 0, 0.0
    for batch in source:
        columns = [batch.column(name) for name in keys]
        missing = np.zeros(batch.num_rows, np.bool_)
        for column in columns:
            missing |= column.is_null().to_numpy(zero_copy_only=False)
        nulls += int(missing.sum())
        heavy = None if weight is None else _weights(batch.column(weight), weight, source)
        if heavy is not None:
            with np.errstate(over="ignore"):  # an infinite sum is refused below
                total += float(heavy.sum(dtype=np.float64))
            if not total < (_MOST_WEIGHT if heavy.dtype.kind == "i" else np.inf):
                raise _too_heavy(weight, source)
        part = counter.add(hash64(*columns), heavy)
        _harvest(part, columns, values)
        progress(source.progress, f"counting the keys of {', '.join(keys)}")
    return counter, values, nulls


def _weights(column: pa.Array, name: str, source: TupleFile) -> NDArray[Any]:
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64)
    whole = pa.types.is_integer(kind)
    if not (whole or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DataError(
            f"advise: weight column {name!r} of {source.path.name!r} must be a number, got {kind}."
        )
    try:
        filled = column.cast(pa.int64() if whole else pa.float64()).fill_null(0)
    except pa.ArrowInvalid as error:
        raise _too_heavy(name, source) from error
    weights: NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    bad = ~(weights >= 0) | ~np.isfinite(weights)
    if bad.any():
        raise DataError(
            f"advise: weight column {name!r} of {source.path.name!r} must hold numbers of at least 0, "
            f"got {weights[bad][0]}."
        )
    return weights


def _too_heavy(name: str | None, source: TupleFile) -> DataError:
    return DataError(
        f"advise: the weights in {name!r} of {source.path.name!r} add up to more than can be counted; "
        "divide them all by the same number."
    )


def _harvest(part: Part, columns: list[Any], values: dict[int, tuple[Any, ...]]) -> None:
    """Keep the values of the batch's heaviest keys, which are likely to be the file's."""
    heaviest = np.argsort(-part.weights, kind="stable")[:_HARVESTED]
    for place in heaviest.tolist():
        key = int(part.keys[place])
        if key not in values:
            row = int(part.first[place])
            values[key] = tuple(column[row].as_py() for column in columns)


def _find_missing(
    source: TupleFile, keys: Sequence[str], missing: set[int], values: dict[int, tuple[Any, ...]]
) -> None:
    """Read the file again, as far as needed, for the values of heavy keys that no batch was full of."""
    if not missing:
        return
    for batch in source:
        columns = [batch.column(name) for name in keys]
        hashes = hash64(*columns)
        for row in np.flatnonzero(np.isin(hashes, np.fromiter(missing, np.uint64))).tolist():
            key = int(hashes[row])
            if key in missing:
                missing.discard(key)
                values[key] = tuple(column[row].as_py() for column in columns)
        if not missing:
            return


def plain(value: Any) -> Any:
    """Return a value that JSON can hold: what it cannot is turned into text."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
