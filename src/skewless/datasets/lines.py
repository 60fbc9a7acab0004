"""Text files with one record per line: read in batches, bad lines counted and told, never lost unseen."""

from __future__ import annotations

import gzip
import io
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

import pyarrow as pa

from skewless.errors import DataError, ParameterError
from skewless.parameters import Range, check

__all__ = ["LineFile", "LineFormat", "delimited", "load_lines"]

_BLOCK_BYTES = 4 << 20
#: A file, most of whose first lines are bad, is of another format.
_JUDGED = 100
#: More lines than this with a bad one among them are cut into many pieces at once, fewer into halves.
_HALVED, _PIECES = 4_096, 64


class LineFormat(NamedTuple):
    """How the lines of a format are read."""

    owner: str
    """The name that opens the sentences of errors."""
    parse: Callable[[list[bytes]], pa.Table]
    """Turns lines into rows; raises ValueError if one of them is bad."""
    comments: tuple[bytes, ...] = ()
    """What lines begin with that are no records."""
    header: Callable[[bytes], Callable[[list[bytes]], pa.Table]] | None = None
    """Takes the first line and returns how to parse the rest, instead of `parse`."""


class LineFile:
    """A file whose records are read block by block, for files that do not fit into memory.

    Parameters
    ----------
    path
        The file; gzip and zip (its first member) are unpacked while reading.
    format
        How its lines are read.
    bad_lines
        ``"skip"`` leaves bad lines out and counts them; ``"error"`` raises at the first.

    Attributes
    ----------
    bad
        Bad lines so far.
    first_bad
        Number of the first bad line, counted from 1, and what is wrong with it; ``None`` so far.

    Raises
    ------
    ParameterError
        `bad_lines` is not known.
    DataError
        The file does not exist or cannot be read; it holds no record; most of its first lines are
        bad; with ``"error"``, a line is bad.

    Notes
    -----
    A block of 4 MiB is parsed at once. If that fails it is parsed again in 64 pieces, and those that
    fail are halved until the bad lines are alone. Empty lines are no records. Bytes that are no UTF-8
    are read as Latin-1.
    """

    def __init__(
        self,
        path: str | Path,
        format: LineFormat,  # noqa: A002 # as in TupleFile
        *,
        bad_lines: str = "skip",
    ) -> None:
        if bad_lines not in ("skip", "error"):
            raise ParameterError(
                f"{format.owner}: bad_lines must be 'skip' or 'error', got {bad_lines!r}; choose one."
            )
        self.path, self._format, self._raises = Path(path), format, bad_lines == "error"
        self.bad = 0
        self.first_bad: tuple[int, str] | None = None
        if not self.path.is_file():
            raise DataError(f"{format.owner}: there is no file {str(path)!r}; check the path.")

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the records."""
        self.bad, self.first_bad = 0, None
        rows = 0
        try:
            with _opened(self.path) as text:
                for batch in self._batches(text):
                    rows += batch.num_rows
                    yield batch
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise DataError(
                f"{self._format.owner}: {str(self.path)!r} cannot be read ({error}); is it whole?"
            ) from error
        if not rows:
            told = "" if self.first_bad is None else f" {self._sentence()};"
            raise DataError(
                f"{self._format.owner}: {self.path.name!r} holds no record;{told} check that it is the "
                "right file."
            )

    def _batches(self, text: IO[bytes]) -> Iterator[pa.RecordBatch]:
        number, judged = 0, False
        parse = self._format.parse
        if self._format.header is not None:
            first = text.readline()
            if not first:
                return
            parse, number = self._format.header(first), 1
        while True:
            lines = text.readlines(_BLOCK_BYTES)
            if not lines:
                return
            kept = [
                (place, line)
                for place, line in enumerate((one.rstrip(b"\r\n") for one in lines), number + 1)
                if line.strip() and not line.startswith(self._format.comments)
            ]
            number += len(lines)
            if kept and not judged:
                judged = True
                head, kept = kept[:_JUDGED], kept[_JUDGED:]
                tables = list(self._parsed(head, parse))
                if 2 * self.bad > len(head):
                    raise DataError(
                        f"{self._format.owner}: {self.path.name!r} is not of this format, it seems: "
                        f"{self.bad} of its first {len(head)} records are bad; {self._sentence()}."
                    )
                yield from (batch for table in tables for batch in table.to_batches())
            for table in self._parsed(kept, parse):
                yield from table.to_batches()

    def _parsed(
        self, numbered: Sequence[tuple[int, bytes]], parse: Callable[[list[bytes]], pa.Table]
    ) -> Iterator[pa.Table]:
        if not numbered:
            return
        try:
            table = parse([line for _, line in numbered])
        except ValueError as error:
            if len(numbered) > 1:
                size = -(-len(numbered) // (2 if len(numbered) < _HALVED else _PIECES))
                for start in range(0, len(numbered), size):
                    yield from self._parsed(numbered[start : start + size], parse)
                return
            number, line = numbered[0]
            repaired = line.decode("latin-1").encode() if not _is_utf8(line) else line
            if repaired != line:
                yield from self._parsed([(number, repaired)], parse)
                return
            self._note(number, error)
            return
        yield table

    def _note(self, number: int, error: Exception) -> None:
        self.bad += 1
        if self.first_bad is None:
            reason = " ".join(str(error).split())
            self.first_bad = number, reason if len(reason) <= 200 else f"{reason[:197]}..."
        if self._raises:
            raise DataError(
                f"{self._format.owner}: {self.path.name!r}, {self._sentence()}; mend it, or leave bad "
                "lines out (bad_lines='skip')."
            ) from error

    def _sentence(self) -> str:
        number, reason = self.first_bad or (0, "")
        first = "" if self._raises else "the first is "
        return f"{first}line {number}: {reason}"

    def warn(self, stacklevel: int = 3) -> None:
        """Warn of the lines that were left out, if any were."""
        if self.bad:
            warnings.warn(
                f"{self._format.owner}: {self.bad} lines of {self.path.name!r} are bad and were left "
                f"out; {self._sentence()}.",
                stacklevel=stacklevel,
            )


def load_lines(
    path: str | Path,
    format: LineFormat,  # noqa: A002 # as in TupleFile
    *,
    limit: Annotated[int, Range(1)] | None = None,
    bad_lines: str = "skip",
) -> pa.Table:
    """Return the records of a file as one table; how many lines were bad is told by a warning.

    Parameters
    ----------
    path, format, bad_lines
        As in `LineFile`.
    limit : int of at least 1
        Records to read at most; all if left out.

    Returns
    -------
    pyarrow.Table
        The records. The metadata of its schema hold the number of bad lines under
        ``skewless.bad_lines`` and, if there is one, the first under ``skewless.first_bad``.

    Raises
    ------
    ParameterError, DataError
        As in `LineFile`; `limit` is out of range.
    """
    check(format.owner, load_lines, limit=limit)
    file = LineFile(path, format, bad_lines=bad_lines)
    batches: list[pa.RecordBatch] = []
    rows = 0
    for batch in file:
        batches.append(batch)
        rows += batch.num_rows
        if limit is not None and rows >= limit:
            break
    file.warn(stacklevel=4)
    told = {"skewless.bad_lines": str(file.bad)}
    if file.first_bad is not None:
        told["skewless.first_bad"] = f"line {file.first_bad[0]}: {file.first_bad[1]}"
    return pa.Table.from_batches(batches)[:limit].replace_schema_metadata(told)


def delimited(
    types: Mapping[str, Any],
    delimiter: str,
    *,
    quotes: bool = False,
    kept: Sequence[str] | None = None,
) -> Callable[[list[bytes]], pa.Table]:
    """Return how lines of delimited fields are parsed: empty fields are null.

    Parameters
    ----------
    types
        Name and Arrow type of every field, in order.
    delimiter
        One character.
    quotes
        Whether fields may be in double quotes.
    kept
        Names of the fields to keep; all if left out.
    """
    from pyarrow import csv

    names = list(types)
    read = csv.ReadOptions(column_names=names, use_threads=False, block_size=1 << 30)
    parse = csv.ParseOptions(delimiter=delimiter, quote_char='"' if quotes else False)
    convert = csv.ConvertOptions(
        column_types=types,
        null_values=[""],
        strings_can_be_null=True,
        include_columns=names if kept is None else list(kept),
    )

    def parsed(lines: list[bytes]) -> pa.Table:
        text = io.BytesIO(b"\n".join(lines) + b"\n")
        return csv.read_csv(text, read, parse, convert)

    return parsed


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic[:2] == b"\x1f\x8b":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    if magic == b"PK\x03\x04":
        archive = zipfile.ZipFile(path)
        return _Member(archive.open(archive.namelist()[0]), archive)
    return path.open("rb")


class _Member(io.BufferedReader):
    """A member of a zip file that closes its archive with itself."""

    def __init__(self, member: Any, archive: zipfile.ZipFile) -> None:
        super().__init__(member)
        self._archive = archive

    def close(self) -> None:
        super().close()
        self._archive.close()


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
