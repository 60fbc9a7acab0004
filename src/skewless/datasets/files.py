"""Files of tuples as batches and keys: Parquet, CSV, JSON lines and Arrow, one file or a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.datasets import readers
from skewless.errors import DataError, ParameterError, did_you_mean
from skewless.keys import hash64
from skewless.parameters import Range, check

__all__ = ["TupleFile", "check_plain", "read_keys"]

#: File-name endings, and the format of each; ``.gz`` may follow those of text.
FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_PLAIN = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
_OPENERS: dict[str, Callable[..., readers.Reader]] = {
    "parquet": readers.ParquetReader,
    "csv": readers.CsvReader,
    "tsv": readers.CsvReader,
    "jsonl": readers.JsonLinesReader,
    "arrow": readers.ArrowReader,
}


class TupleFile:
    r"""A file, or a folder of files, whose rows are read batch by batch.

    Parameters
    ----------
    path
        A file, or a folder as Spark writes it: its files are read in the order of their names, those
        that begin with ``_`` or ``.`` left out. Values kept in the names of subfolders
        (``day=3/``) are not read.
    columns
        Names of the columns to read; all if left out.
    format
        ``"parquet"``, ``"csv"``, ``"tsv"``, ``"jsonl"`` or ``"arrow"``; by the name's ending if left
        out.
    as_text
        Columns of CSV or TSV that are read as text, whatever they look like.
    bad_lines
        ``"error"``, or ``"skip"``: lines of CSV or TSV with too few or too many fields, and lines
        that are not JSON objects, are then counted in `skipped`.
    where
        The name that opens the sentences of errors.

    Attributes
    ----------
    skipped
        Bad lines that were left out so far.
    progress
        Part of the bytes or rows that were read so far, in [0, 1].

    Raises
    ------
    ParameterError
        `format` or `bad_lines` is not known.
    DataError
        The file does not exist or is empty, its format is not known, it cannot be read; a column is
        missing; while iterating: a line is bad.

    Notes
    -----
    Memory: a batch of at most 65,536 rows, or 4 MiB of text. The types of CSV and JSON columns are
    those of the first 4 MiB; a later value that does not fit is an error that names it. An empty field
    of CSV is null; ``NA`` and the like are text.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "clicks.csv"
    >>> _ = path.write_text("user,ms\nann,3\nbob,4\nann,9\n")
    >>> [batch.num_rows for batch in TupleFile(path, ["user"])]
    [3]
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | Path,
        columns: Sequence[str] | None = None,
        *,
        format: str | None = None,  # noqa: A002 # the word that every reader of files has for it
        as_text: Sequence[str] = (),
        bad_lines: str = "error",
        where: str = "read_keys",
    ) -> None:
        if bad_lines not in ("error", "skip"):
            raise ParameterError(
                f"{where}: bad_lines must be 'error' or 'skip', got {bad_lines!r}; choose one."
            )
        if format is not None and format not in _OPENERS:
            raise ParameterError(f"{where}: no format {format!r}{did_you_mean(format, _OPENERS)}.")
        self._where, self._columns, self._format = where, columns, format
        self._as_text, self._skips = tuple(as_text), bad_lines == "skip"
        self.path = Path(path)
        self.files = _files(self.path, where, format)
        self.skipped = 0
        self._done, self._current = 0, readers.FINISHED
        first = self._opened(self.files[0])
        self.schema: pa.Schema = first.schema
        first.close()

    def _opened(self, file: Path) -> readers.Reader:
        kind = self._format or _format_of(file, self._where)
        try:
            reader = _OPENERS[kind](
                file,
                where=self._where,
                tabs=kind == "tsv",
                as_text=self._as_text,
                skips=self._skips,
            )
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(self._where, file, error) from error
        try:
            for name in [] if self._columns is None else self._columns:
                _check_column(self._where, file, reader.schema, name)
        except DataError:
            reader.close()
            raise
        return reader

    @property
    def progress(self) -> float:
        """Return the part that was read so far."""
        return min(1.0, (self._done + self._current.progress) / len(self.files))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of all files, the wanted columns only, in the order asked for."""
        self.skipped = 0
        for done, file in enumerate(self.files):
            self._done, self._current = done, self._opened(file)
            try:
                names = self._current.schema.names if self._columns is None else self._columns
                for batch in self._current.batches(self._columns):
                    yield _without_views(batch.select(list(names)))
            except (OSError, pa.ArrowException) as error:
                raise _unreadable(self._where, file, error) from error
            finally:
                self.skipped += self._current.skipped
                self._current.close()
        self._done, self._current = len(self.files), readers.FINISHED


def read_keys(
    path: str | Path,
    columns: str | Sequence[str],
    *,
    limit: Annotated[int, Range(0)] | None = None,
    format: str | None = None,  # noqa: A002 # as in TupleFile
    as_text: bool = False,
    bad_lines: str = "error",
    progress: Callable[[float], None] = lambda _: None,
) -> NDArray[np.uint64]:
    r"""Return the hash of each row's key, in the order of the file.

    Parameters
    ----------
    path, format, bad_lines
        As in `TupleFile`.
    columns
        Name of the key column, or names of several that form the key together.
    limit : int of at least 0
        Rows to read; all if left out.
    as_text
        Whether key columns of CSV are read as text even if they look like numbers.
    progress
        Called with the part that was read, after every batch.

    Returns
    -------
    numpy.ndarray
        ``skewless.keys.hash64`` of the key columns, uint64, one per row.

    Raises
    ------
    DataError
        As in `TupleFile`; a key column is nested or cannot be hashed.
    ParameterError
        `limit` is out of range, or as in `TupleFile`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "clicks.csv"
    >>> _ = path.write_text("user,ms\nann,3\nbob,4\nann,9\n")
    >>> keys = read_keys(path, "user")
    >>> bool(keys[0] == keys[2]), bool(keys[0] == keys[1])
    (True, False)
    >>> folder.cleanup()
    """
    check("read_keys", read_keys, limit=limit)
    wanted = [columns] if isinstance(columns, str) else list(columns)
    if not wanted:
        raise DataError("read_keys: columns names no column; give at least one.")
    found = TupleFile(
        path,
        list(dict.fromkeys(wanted)),
        format=format,
        as_text=wanted if as_text else (),
        bad_lines=bad_lines,
    )
    check_plain("read_keys", found.files[0].name, found.schema, wanted)
    parts: list[NDArray[np.uint64]] = [np.empty(0, np.uint64)]
    rows = 0
    if limit != 0:
        for batch in found:
            parts.append(hash64(*[batch.column(name) for name in wanted]))
            rows += batch.num_rows
            progress(found.progress)
            if limit is not None and rows >= limit:
                break
    return np.concatenate(parts)[:limit]


def _files(path: Path, where: str, kind: str | None) -> list[Path]:
    if not path.exists():
        raise DataError(f"{where}: there is no file {str(path)!r}; check the path.")
    if not path.is_dir():
        found = [path]
    else:
        found = sorted(
            file
            for file in path.rglob("*")
            if file.is_file()
            and not any(part[0] in "_." for part in file.relative_to(path).parts)
            and (kind is not None or _ending(file) in FORMATS)
        )
        if not found:
            raise DataError(
                f"{where}: folder {str(path)!r} holds no file that can be read; there must be one "
                f"that ends in {', '.join(FORMATS)}."
            )
    kept = [file for file in found if file.stat().st_size]
    if not kept:
        raise DataError(f"{where}: {str(path)!r} is empty (0 bytes); give a file with rows.")
    return kept


def _ending(file: Path) -> str:
    plain = file.with_suffix("") if file.suffix.lower() == ".gz" else file
    return plain.suffix.lower()


def _format_of(file: Path, where: str) -> str:
    kind = FORMATS.get(_ending(file))
    if kind is None or (file.suffix.lower() == ".gz" and kind in ("parquet", "arrow")):
        raise DataError(
            f"{where}: the format of {file.name!r} is not supported; give a file that ends in "
            f"{', '.join(FORMATS)} (text also with .gz), or name its format."
        )
    return kind


def _check_column(where: str, file: Path, schema: pa.Schema, name: str) -> None:
    names = schema.names
    if names.count(name) > 1:
        raise DataError(f"{where}: {file.name!r} has two columns named {name!r}; rename one.")
    if name not in names:
        head = name.partition(".")[0]
        inside = (
            f" ({head!r} is nested: write its field to a column of its own first)"
            if head != name and head in names
            else did_you_mean(name, names)
        )
        raise DataError(f"{where}: column {name!r} is not in {file.name!r}{inside}.")


def check_plain(where: str, file: str, schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise `DataError` if a key column is nested."""
    for name in names:
        kind = schema.field(name).type
        if pa.types.is_nested(kind):
            raise DataError(
                f"{where}: key column {name!r} of {file!r} is nested ({kind}); write the field that "
                "is the key to a column of its own first."
            )


def _without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return strings and binaries of the newer layout in the usual one, which `hash64` reads."""
    for i, field in enumerate(batch.schema):
        plain = _PLAIN.get(field.type)
        if plain is not None:
            batch = batch.set_column(i, field.with_type(plain), batch.column(i).cast(plain))
    return batch


def _unreadable(where: str, file: Path, error: Exception) -> DataError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return DataError(f"{where}: {str(file)!r} cannot be read ({reason}); check its format.")
