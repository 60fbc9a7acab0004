"""Functions over whole groups: which form they have, and how they are called on placed rows.

Where we place the groups, the worker is the last part of a group's key and the last column of its rows:
last, since Spark sorts the rows of a task by the key, and all of them have the same worker. What is
called here takes it off before the user's function sees the rows, and says which group failed when one
does.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from skewless.errors import DataError
from skewless.spark.python_workers import keep_loaded

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["CALLS", "FORMS", "PAIR_CALLS", "GroupFunction", "read_function"]

#: What a function is called with, and what it gives back.
FORMS = ("pandas", "arrow", "pandas_batches", "arrow_batches")


class GroupFunction(NamedTuple):
    """A function over whole groups, and how it wants to be called."""

    call: Callable[..., Any]
    form: str
    """One of `FORMS`."""
    keyed: bool
    """Whether the key comes first."""
    n_frames: int
    """Frames per group: one, or two when groups of two frames are taken together."""

    @property
    def name(self) -> str:
        """The function's own name."""
        return getattr(self.call, "__name__", type(self.call).__name__)

    def run(self, verb: str, key: tuple[Any, ...], *frames: Any) -> Any:
        """Call the function; name the key if it raises."""
        keep_loaded()
        try:
            return self.call(key, *frames) if self.keyed else self.call(*frames)
        except Exception as error:
            raise self._failed(verb, key, error) from error

    def batches(self, verb: str, key: tuple[Any, ...], frames: Iterator[Any]) -> Iterator[Any]:
        """Run the iterator form; an error may come with any batch."""
        keep_loaded()
        try:
            yield from self.call(key, frames) if self.keyed else self.call(frames)
        except Exception as error:
            raise self._failed(verb, key, error) from error

    def _failed(self, verb: str, key: tuple[Any, ...], error: Exception) -> DataError:
        return DataError(
            f"{verb}: {self.name} raised {type(error).__name__} for key {_shown(key)}: {error}"
        )

    def checked(self, verb: str, key: tuple[Any, ...], found: Any, names: list[str]) -> Any:
        """Return the frame that the function gave back, if it has the columns of the schema."""
        kind = "pandas.DataFrame" if self.form.startswith("pandas") else "pyarrow.Table"
        if not hasattr(found, "columns") or not hasattr(found, "shape"):
            raise DataError(
                f"{verb}: {self.name} must return a {kind}, got {type(found).__name__} for key "
                f"{_shown(key)}."
            )
        if self.form.startswith("pandas"):
            got = list(found.columns)
            by_name = all(isinstance(name, str) for name in got)
        else:
            got, by_name = list(found.column_names), True
        fits = sorted(got) == sorted(names) if by_name else len(got) == len(names)
        if not fits and not (self.form.startswith("pandas") and not got and len(found) == 0):
            raise DataError(
                f"{verb}: {self.name} returned the columns {got} for key {_shown(key)}; the schema "
                f"has {names}."
            )
        return found


def read_function(verb: str, function: Any, form: str | None, n_frames: int = 1) -> GroupFunction:
    """Return a function with its form, read from its type hints where `form` is not given.

    Raises
    ------
    DataError
        It cannot be called, takes another number of arguments, or the form is unknown.

    Examples
    --------
    >>> read_function("apply", lambda key, rows: rows, None)[1:]
    ('pandas', True, 1)
    """
    if not callable(function):
        raise DataError(f"{verb}: takes a function, got {type(function).__name__}.")
    if form is not None and form not in FORMS:
        raise DataError(f"{verb}: form must be one of {', '.join(FORMS)}, got {form!r}.")
    names = [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    if len(names) not in (n_frames, n_frames + 1):
        frames = "the rows" if n_frames == 1 else "the rows of both sides"
        raise DataError(
            f"{verb}: the function must take {frames}, or the key and {frames}; it takes "
            f"{len(names)} arguments."
        )
    found = form or _form_of(function, names[-1])
    return GroupFunction(function, found, len(names) == n_frames + 1, n_frames)


def _form_of(function: Callable[..., Any], parameter: str) -> str:
    try:
        hint = typing.get_type_hints(function).get(parameter)
    except Exception:  # noqa: BLE001 - hints that do not resolve say nothing; pandas is the default
        hint = getattr(function, "__annotations__", {}).get(parameter)
    words = hint if isinstance(hint, str) else repr(hint)
    library = "arrow" if "pyarrow" in words or "pa." in words else "pandas"
    return f"{library}_batches" if "Iterator" in words else library


def _shown(key: tuple[Any, ...]) -> str:
    values = [getattr(part, "as_py", lambda part=part: part)() for part in key]
    values = [value.item() if hasattr(value, "item") else value for value in values]
    return repr(values[0]) if len(values) == 1 else repr(tuple(values))


# -- what Spark calls: the worker comes last in the key and in the rows -------------------------------


def whole_call(
    verb: str, function: GroupFunction, names: list[str], ours: int
) -> Callable[..., Any]:
    """Return what Spark calls with a whole group, where so many columns of ours come last."""

    def call(key: tuple[Any, ...], rows: Any) -> Any:
        key = key[: len(key) - ours]
        found = function.run(verb, key, _without_last(rows, ours))
        return function.checked(verb, key, found, names)

    return _unannotated(call)


def batches_call(
    verb: str, function: GroupFunction, names: list[str], ours: int
) -> Callable[..., Any]:
    """Return the iterator form of `whole_call`; Spark knows it by its hints."""

    def call(key: tuple[Any, ...], batches: Iterator[Any]) -> Iterator[Any]:
        key = key[: len(key) - ours]
        rows = (_without_last(batch, ours) for batch in batches)
        for found in function.batches(verb, key, rows):
            yield function.checked(verb, key, found, names)

    frames = _frames(function.form)
    call.__annotations__ = {"key": tuple[Any, ...], "batches": frames, "return": frames}
    return call


def _frames(form: str) -> Any:
    """Return the type of the batches that a form takes and gives."""
    if form.startswith("pandas"):
        import pandas as pd

        return Iterator[pd.DataFrame]
    import pyarrow as pa

    return Iterator[pa.RecordBatch]


def pandas_pair(
    verb: str, function: GroupFunction, names: list[str], nothing: pa.Table
) -> Callable[..., Any]:
    """Return the function that the ``applyInPandas`` of a cogroup takes."""

    def call(key: tuple[Any, ...], left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        if _came_for_nothing(left, right, lambda rows: rows.iloc[0, -2]):
            return nothing.to_pandas()
        sides = (_without_last(rows, 2) for rows in (left, right))
        return function.checked(verb, key[:-1], function.run(verb, key[:-1], *sides), names)

    return _unannotated(call)


def arrow_pair(
    verb: str, function: GroupFunction, names: list[str], nothing: pa.Table
) -> Callable[..., Any]:
    """Return the function that the ``applyInArrow`` of a cogroup takes."""

    def call(key: tuple[Any, ...], left: pa.Table, right: pa.Table) -> pa.Table:
        if _came_for_nothing(left, right, lambda rows: rows.column(-2)[0].as_py()):
            return nothing
        sides = (_without_last(rows, 2) for rows in (left, right))
        return function.checked(verb, key[:-1], function.run(verb, key[:-1], *sides), names)

    return _unannotated(call)


def _came_for_nothing(left: Any, right: Any, copied: Callable[[Any], Any]) -> bool:
    """Say whether copied rows of one side met no row of the other: the key's rows are elsewhere."""
    if len(left) == 0:
        return len(right) > 0 and bool(copied(right))
    return len(right) == 0 and bool(copied(left))


def _without_last(rows: Any, n: int) -> Any:
    """Return a frame, pandas or Arrow, without its last `n` columns."""
    if n == 0:
        return rows
    if hasattr(rows, "iloc"):
        return rows.iloc[:, :-n]
    return rows.select(list(range(rows.num_columns - n)))


def _unannotated(call: Callable[..., Any]) -> Callable[..., Any]:
    """Drop the hints: Spark would resolve their names in the task."""
    call.__annotations__ = {}
    return call


#: What Spark calls, by form.
CALLS = {
    "pandas": whole_call,
    "pandas_batches": batches_call,
    "arrow": whole_call,
    "arrow_batches": batches_call,
}

#: The same for groups of two frames.
PAIR_CALLS = {"pandas": pandas_pair, "arrow": arrow_pair}
