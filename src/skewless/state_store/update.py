"""The user's update: called per key or over all keys at once, its answers checked and made Arrow."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.errors import DataError, ParameterError

__all__ = ["FORMS", "Answer", "Update", "read_update"]

#: How an update is called.
FORMS = ("per_key", "vectorised")


#: What Arrow and pandas raise for a value that is not of a type.
_MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError, KeyError)


class Answer(NamedTuple):
    """What an update gave back."""

    states: pa.Table
    """State columns, one row per key that was handed in."""
    kept: NDArray[np.bool_]
    """bool, (keys,): whether the key has a state from now on."""
    output: pa.Table
    """Output rows."""


class Update(NamedTuple):
    """A user's function, and how it wants to be called."""

    call: Callable[..., Any]
    form: str
    """One of `FORMS`."""
    library: str
    """``"pandas"`` or ``"arrow"``: what the rows of a key come as."""
    states: pa.Schema
    outputs: pa.Schema

    @property
    def name(self) -> str:
        """The function's own name."""
        return getattr(self.call, "__name__", type(self.call).__name__)

    def run(
        self, rows: pa.Table, slots: NDArray[np.int64], keys: pa.Table, states: pa.Table, known: int
    ) -> Answer:
        """Call the function for all keys of one worker.

        Parameters
        ----------
        rows
            Input rows, in the order in which a key shall see its own.
        slots
            int64, one per row: the row of `keys` that holds its key.
        keys, states
            The keys, in no particular order, and their states; those at `known` and above are new.
        known
            Number of keys that have a state.
        """
        if self.form == "vectorised":
            return self._run_vectorised(rows, slots, keys, states)
        return self._run_per_key(rows, slots, keys, states, known)

    # -- one key at a time -------------------------------------------------------------------------

    def _run_per_key(
        self, rows: pa.Table, slots: NDArray[np.int64], keys: pa.Table, states: pa.Table, known: int
    ) -> Answer:
        order = np.argsort(slots, kind="stable")
        grouped = rows.take(pa.array(order))
        edges = np.searchsorted(slots[order], np.arange(keys.num_rows + 1))
        frame = grouped.to_pandas() if self.library == "pandas" else grouped
        names = list(zip(*(column.to_pylist() for column in keys.columns), strict=True))
        olds = [_mutable(state, self.states) for state in states.slice(0, known).to_pylist()]
        news: list[dict[str, Any] | None] = []
        outputs: list[tuple[tuple[Any, ...], Any]] = []
        for i, key in enumerate(names):
            start, stop = int(edges[i]), int(edges[i + 1])
            part = (
                frame.iloc[start:stop]
                if self.library == "pandas"
                else frame.slice(start, stop - start)
            )
            state, output = self._one(key, part, olds[i] if i < known else None)
            news.append(state)
            if output is not None and len(output):
                outputs.append((key, output))
        kept = np.array([state is not None for state in news], np.bool_)
        columns = [self._column(names, news, field) for field in self.states]
        made = pa.Table.from_arrays(columns, schema=self.states)
        return Answer(made, kept, self._outputs(outputs))

    def _one(self, key: tuple[Any, ...], rows: Any, state: Any) -> tuple[Any, Any]:
        try:
            found = self.call(key, rows, state)
        except Exception as error:
            raise DataError(
                f"stateful: {self.name} raised {type(error).__name__} for key {shown(key)}: {error}"
            ) from error
        if not isinstance(found, tuple) or len(found) != 2:
            raise DataError(
                f"stateful: {self.name} must return (state or None, output rows or None), got "
                f"{type(found).__name__} for key {shown(key)}."
            )
        state, output = found
        names = self.states.names
        if isinstance(state, (tuple, list)):
            state = dict(zip(names, state, strict=False)) if len(state) == len(names) else {}
        if state is not None and not (isinstance(state, dict) and state.keys() == set(names)):
            got = sorted(map(str, state)) if isinstance(state, dict) else type(state).__name__
            raise DataError(
                f"stateful: {self.name} returned the state {got} for key {shown(key)}; state_schema "
                f"has {names}: return a dict of these, or None to forget the key."
            )
        return state, output

    def _column(
        self,
        keys: Sequence[tuple[Any, ...]],
        states: Sequence[dict[str, Any] | None],
        field: pa.Field,
    ) -> pa.Array:
        values = [
            None if state is None else _arrow_value(state[field.name], field.type)
            for state in states
        ]
        try:
            return pa.array(values, field.type)
        except _MISFITS as error:
            at, first = _first_misfit(lambda value: pa.array([value], field.type), values, error)
            raise DataError(
                f"stateful: {self.name} returned a state for key {shown(keys[at])} whose "
                f"{field.name!r} is {values[at]!r}, which is no {field.type} ({first})."
            ) from error

    def _outputs(self, outputs: list[tuple[tuple[Any, ...], Any]]) -> pa.Table:
        answers = [rows for _, rows in outputs]
        try:
            tables = [self._table(rows) for rows in answers]
        except _MISFITS as error:
            at, first = _first_misfit(self._table, answers, error)
            raise DataError(
                f"stateful: {self.name} returned rows for key {shown(outputs[at][0])} that do not fit "
                f"output_schema ({_listed(self.outputs)}): {first}"
            ) from error
        return pa.concat_tables([self.outputs.empty_table(), *tables])

    def _table(self, rows: Any) -> pa.Table:
        """Return one answer's rows with the columns of the output schema."""
        names = self.outputs.names
        if isinstance(rows, list):
            for row in rows:
                if not isinstance(row, dict) or row.keys() != set(names):
                    got = list(row) if isinstance(row, dict) else type(row).__name__
                    raise TypeError(f"a row has {got}, not {names}")
            columns = [
                pa.array([_arrow_value(row[f.name], f.type) for row in rows], f.type)
                for f in self.outputs
            ]
            return pa.Table.from_arrays(columns, schema=self.outputs)
        if not hasattr(rows, "columns") or not hasattr(rows, "shape"):
            raise TypeError(f"{type(rows).__name__} is no frame, table or list of dicts")
        got = list(getattr(rows, "column_names", rows.columns))
        if sorted(map(str, got)) != sorted(names):
            raise TypeError(f"the columns are {got}")
        if isinstance(rows, pa.Table):
            return rows.select(names).cast(self.outputs)
        return pa.Table.from_pandas(rows[names], schema=self.outputs, preserve_index=False)

    # -- all keys at once --------------------------------------------------------------------------

    def _run_vectorised(
        self, rows: pa.Table, slots: NDArray[np.int64], keys: pa.Table, states: pa.Table
    ) -> Answer:
        given = pa.Table.from_arrays(
            [*keys.columns, *states.columns], names=[*keys.column_names, *states.column_names]
        )
        try:
            found = self.call(rows, slots, given)
        except Exception as error:
            raise DataError(
                f"stateful: {self.name} raised {type(error).__name__} over {keys.num_rows} keys: "
                f"{error}"
            ) from error
        if not isinstance(found, tuple) or len(found) not in (2, 3):
            raise DataError(
                f"stateful: {self.name} must return (states, output) or (states, output, kept), got "
                f"{type(found).__name__}."
            )
        made = self._checked("states", found[0], self.states)
        if made.num_rows != keys.num_rows:
            raise DataError(
                f"stateful: {self.name} must return one state for each of the {keys.num_rows} keys, "
                f"in their order, got {made.num_rows}."
            )
        output = found[1]
        empty = self.outputs.empty_table()
        rows_out = empty if output is None else self._checked("output", output, self.outputs)
        kept = np.ones(keys.num_rows, np.bool_)
        if len(found) == 3:
            kept = np.asarray(found[2])
            if kept.dtype != np.bool_ or kept.shape != (keys.num_rows,):
                raise DataError(
                    f"stateful: {self.name} must return kept as {keys.num_rows} bools, got "
                    f"{kept.dtype} of shape {kept.shape}."
                )
        return Answer(made, kept, rows_out)

    def _checked(self, what: str, table: Any, schema: pa.Schema) -> pa.Table:
        if not isinstance(table, pa.Table):
            raise DataError(
                f"stateful: {self.name} must return {what} as a pyarrow.Table, got "
                f"{type(table).__name__}."
            )
        missing = [name for name in schema.names if name not in table.column_names]
        extra = [name for name in table.column_names if name not in schema.names]
        if missing or (extra and what == "output"):
            raise DataError(
                f"stateful: {self.name} returned {what} with the columns {table.column_names}; the "
                f"schema has {schema.names}."
            )
        try:
            return table.select(schema.names).cast(schema)
        except (pa.ArrowException, ValueError) as error:
            raise DataError(
                f"stateful: {self.name} returned {what} that do not fit {_listed(schema)}: {error}"
            ) from error


def _first_misfit(
    convert: Callable[[Any], Any], values: Sequence[Any], error: Exception
) -> tuple[int, Exception]:
    """Return where the first value is that cannot be converted, and why."""
    for at, value in enumerate(values):
        try:
            convert(value)
        except _MISFITS as first:  # noqa: PERF203 - it ends the loop
            return at, first
    return 0, error


def read_update(function: Any, form: str, states: pa.Schema, outputs: pa.Schema) -> Update:
    """Return a user's function with the way in which it is called.

    Raises
    ------
    ParameterError
        The form is unknown.
    DataError
        The function cannot be called with three arguments.

    Examples
    --------
    >>> read_update(lambda key, rows, state: (None, None), "per_key", pa.schema([]), pa.schema([]))[2]
    'pandas'
    """
    if form not in FORMS:
        raise ParameterError(f"stateful: form must be one of {', '.join(FORMS)}, got {form!r}.")
    if not callable(function):
        raise DataError(f"stateful: update must be a function, got {type(function).__name__}.")
    wanted = "(key, rows, state)" if form == "per_key" else "(rows, slots, states)"
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError as error:
        raise DataError(f"stateful: a {form} update takes {wanted}: {error}.") from error
    except ValueError:  # a builtin without a signature
        return Update(function, form, "pandas", states, outputs)
    rows = list(inspect.signature(function).parameters)[1 if form == "per_key" else 0]
    try:
        hint = typing.get_type_hints(function).get(rows)
    except Exception:  # noqa: BLE001 - hints that do not resolve say nothing; pandas is the default
        hint = getattr(function, "__annotations__", {}).get(rows)
    words = hint if isinstance(hint, str) else repr(hint)
    arrow = form == "vectorised" or "pyarrow" in words or "pa." in words
    return Update(function, form, "arrow" if arrow else "pandas", states, outputs)


def shown(key: tuple[Any, ...]) -> str:
    """Return a key as an error shows it.

    Examples
    --------
    >>> shown(("a",)), shown(("a", 1))
    ("'a'", "('a', 1)")
    """
    return repr(key[0]) if len(key) == 1 else repr(key)


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _mutable(state: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """Return a state as its owner wrote it: Arrow gives the entries of a map as pairs."""
    for field in schema:
        value = state[field.name]
        if pa.types.is_map(field.type) and value is not None:
            state[field.name] = dict(value)
    return state


def _arrow_value(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_map(kind) and isinstance(value, dict):
        return list(value.items())
    return value.item() if isinstance(value, np.generic) else value
