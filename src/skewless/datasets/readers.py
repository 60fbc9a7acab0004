"""One reader per file format, all with the same three members: what `TupleFile` opens."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from skewless.errors import DataError

__all__ = ["FINISHED", "ArrowReader", "CsvReader", "JsonLinesReader", "ParquetReader", "Reader"]

_BATCH_ROWS = 65_536
_BLOCK_BYTES = 4 << 20


class Reader:
    """A file that is open: its schema, its batches, how far it was read.

    Parameters
    ----------
    file
        The file.
    where
        The name that opens the sentences of errors.
    tabs, as_text, skips
        What only formats of text look at: whether fields are separated by tabulators, columns that
        are text whatever they look like, and whether bad lines are skipped.
    """

    def __init__(
        self, file: Path, *, where: str, tabs: bool, as_text: Sequence[str], skips: bool
    ) -> None:
        self._file, self._where = file, where
        self._tabs, self._as_text, self._skips = tabs, as_text, skips
        self.skipped = 0
        self.progress = 0.0
        self._size = max(1, file.stat().st_size)
        self._raw: IO[bytes] = file.open("rb")
        try:
            self.schema: pa.Schema = self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> pa.Schema:
        raise NotImplementedError

    def batches(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, at least the columns named, and keep `progress` up to date."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    def _bytes(self) -> Any:
        """Return the content as a stream of bytes, unpacked if it is gzip."""
        magic = self._raw.read(2)
        self._raw.seek(0)
        return gzip.open(self._raw, "rb") if magic == b"\x1f\x8b" else self._raw

    def _noted(self, part: float) -> None:
        self.progress = min(1.0, part)


class _Finished:
    """What stands in for a reader when nothing is left to read."""

    progress = 0.0
    skipped = 0


FINISHED: Any = _Finished()


class ParquetReader(Reader):
    """Row groups, in batches."""

    def _open(self) -> pa.Schema:
        import pyarrow.parquet as pq

        self._parquet = pq.ParquetFile(self._raw)
        return self._parquet.schema_arrow

    def batches(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Yield batches of the wanted columns only."""
        total, rows = max(1, self._parquet.metadata.num_rows), 0
        wanted = None if columns is None else list(columns)
        for batch in self._parquet.iter_batches(_BATCH_ROWS, columns=wanted):
            rows += batch.num_rows
            self._noted(rows / total)
            yield batch


class ArrowReader(Reader):
    """Arrow IPC: a file (Feather), or a stream."""

    def _open(self) -> pa.Schema:
        magic = self._raw.read(6)
        self._raw.seek(0)
        self._random = magic == b"ARROW1"
        self._ipc = pa.ipc.open_file(self._raw) if self._random else pa.ipc.open_stream(self._raw)
        return self._ipc.schema

    def batches(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Yield the batches as they were written."""
        if self._random:
            for i in range(self._ipc.num_record_batches):
                self._noted((i + 1) / self._ipc.num_record_batches)
                yield self._ipc.get_batch(i)
        else:
            for batch in self._ipc:
                self._noted(self._raw.tell() / self._size)
                yield batch


class CsvReader(Reader):
    """Text with a header line, fields separated by commas or tabulators, perhaps gzip."""

    def _open(self) -> pa.Schema:
        from pyarrow import csv

        self._bad: Any = None
        try:
            self._csv = csv.open_csv(
                self._bytes(),
                read_options=csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
                parse_options=csv.ParseOptions(
                    delimiter="\t" if self._tabs else ",",
                    newlines_in_values=True,
                    invalid_row_handler=self._on_bad,
                ),
                convert_options=csv.ConvertOptions(
                    column_types={name: pa.string() for name in self._as_text},
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            raise DataError(self._sentence(error)) from error
        return self._csv.schema

    def batches(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Yield the blocks of the text."""
        try:
            for batch in self._csv:
                self._noted(self._raw.tell() / self._size)
                yield batch
        except pa.ArrowInvalid as error:
            raise DataError(self._sentence(error)) from error

    def _on_bad(self, row: Any) -> str:
        if self._skips:
            self.skipped += 1
            return "skip"
        self._bad = row
        return "error"

    def _sentence(self, error: Exception) -> str:
        start = f"{self._where}: {self._file.name!r}"
        if self._bad is None:
            return (
                f"{start}: {_one_line(error)}; mend the file, or read the column as text (as_text)."
            )
        line = "a line" if self._bad.number is None else f"line {self._bad.number}"
        return (
            f"{start}, {line} has {self._bad.actual_columns} fields instead of "
            f"{self._bad.expected_columns}; mend it, or skip bad lines (bad_lines='skip')."
        )


class JsonLinesReader(Reader):
    """One JSON object on each line, perhaps gzip."""

    def _open(self) -> pa.Schema:
        self._lines = 0
        self._text = self._bytes()
        self._first = self._table(self._block(), pa.schema([]))
        return self._first.schema

    def _block(self) -> list[bytes]:
        return self._text.readlines(_BLOCK_BYTES)

    def batches(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Yield the blocks of lines, with the types of the first where it told them."""
        table = self._first
        while True:
            self._noted(self._raw.tell() / self._size)
            yield from table.to_batches()
            lines = self._block()
            if not lines:
                return
            table = self._table(lines, self.schema)

    def _table(self, lines: list[bytes], schema: pa.Schema) -> pa.Table:
        from pyarrow import json as arrow_json

        told = pa.schema([field for field in schema if not pa.types.is_null(field.type)])
        start, self._lines = self._lines, self._lines + len(lines)
        kept = [line for line in lines if line.strip()]
        if self._skips:
            kept = [line for line in kept if self._fits(line)]
        if not kept:
            return schema.empty_table()
        try:
            table = arrow_json.read_json(
                BytesIO(b"".join(kept)),
                read_options=arrow_json.ReadOptions(use_threads=False, block_size=1 << 30),
                parse_options=arrow_json.ParseOptions(explicit_schema=told),
            )
        except pa.ArrowInvalid as error:
            raise DataError(self._sentence(lines, start, error)) from error
        for name in schema.names:
            if name not in table.column_names:
                table = table.append_column(name, pa.nulls(table.num_rows))
        return table

    def _fits(self, line: bytes) -> bool:
        good = _is_object(line)
        self.skipped += not good
        return good

    def _sentence(self, lines: list[bytes], start: int, error: Exception) -> str:
        name = f"{self._where}: {self._file.name!r}"
        for number, line in enumerate(lines, start + 1):
            if line.strip() and not _is_object(line):
                array = (
                    " (the file is one JSON array, it seems)" if line.lstrip()[:1] == b"[" else ""
                )
                return f"{name}, line {number} is no JSON object{array}; write one object per line."
        return (
            f"{name}, lines {start + 1} to {start + len(lines)}: {_one_line(error)}; give every line "
            "values of the same types."
        )


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _one_line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error)).strip()
