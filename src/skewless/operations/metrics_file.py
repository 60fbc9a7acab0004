"""The metrics of a query as JSON lines beside its policy log: one writer, any number of readers.

A line is written at once and ends with a line feed. A reader takes whole lines only; what is no line
of metrics is counted and passed over. A full file becomes the one old file, and a new one is begun.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

from skewless.errors import DataError
from skewless.operations.batch_metrics import BatchMetrics
from skewless.parameters import Count, Range, check

__all__ = ["Ended", "Found", "MetricsFile", "Tail"]

#: Name of the file in the state folder, and of the one before it.
_NAME, _OLD = "batches.jsonl", "batches.old.jsonl"

Bytes = Annotated[int, Range(1)]


class Ended(NamedTuple):
    """The end of one run of a query."""

    run: str
    """Id of the run."""
    error: str | None
    """What ended it, if it was no stop."""


class Found(NamedTuple):
    """What a metrics file says."""

    batches: list[BatchMetrics]
    """Batches in the order in which they were written; a batch that ran twice is there twice."""
    ended: Ended | None
    """The end of the last run; ``None`` while it runs, or if its driver was lost."""
    damaged: int
    """Lines that are no metrics."""


class MetricsFile:
    """The batches of a query, in the folder of its policy log.

    Parameters
    ----------
    folder
        The folder that the query names as ``state=``.
    max_bytes : int of at least 1
        Size after which a new file is begun; two files are kept.

    Examples
    --------
    >>> import tempfile
    >>> from skewless.operations import BatchMetrics, MetricsFile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = MetricsFile(folder)
    ...     file.append(BatchMetrics(0, 1, 30, (10, 20)))
    ...     [(b.batch, round(b.max_over_mean, 2)) for b in file.read().batches]
    [(0, 1.33)]
    """

    def __init__(self, folder: str | Path, *, max_bytes: Bytes = 10_000_000) -> None:
        check("MetricsFile", type(self).__init__, max_bytes=max_bytes)
        self.folder, self.max_bytes = Path(folder), max_bytes

    @property
    def path(self) -> Path:
        """The file that is written."""
        return self.folder / _NAME

    @property
    def old_path(self) -> Path:
        """The full file before it, if there is one."""
        return self.folder / _OLD

    def append(self, metrics: BatchMetrics) -> None:
        """Write one batch.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        self._append(metrics.to_line())

    def end(self, run: str, error: str | None = None) -> None:
        """Write that a run of the query has ended, and the error that ended it."""
        self._append(json.dumps({"ended": run, "error": error}, separators=(",", ":")))

    def _append(self, line: str) -> None:
        size = self.path.stat().st_size if self.path.exists() else 0
        if size > self.max_bytes:
            self.path.replace(self.old_path)
        with self.path.open("ab") as file:
            # A writer that was killed may have left half a line: ours must not be the rest of it.
            torn = file.tell() > 0 and not _ends_a_line(self.path)
            file.write((("\n" if torn else "") + line + "\n").encode())

    def read(self, last: Count | None = None) -> Found:
        """Return what was written, or only the `last` batches of it.

        Raises
        ------
        DataError
            There is no metrics file in the folder.
        """
        check("MetricsFile", type(self).read, last=last)
        if not self.path.exists() and not self.old_path.exists():
            raise DataError(
                f"metrics: folder {str(self.folder)!r} holds no {_NAME}; give the folder that a running "
                "or finished query names as state=, after its first batch."
            )
        return _read(Tail(self).lines() or _rest_of(self.old_path, None, 0), last)


class Tail:
    """Follows a metrics file: each call returns what was written since the one before.

    Parameters
    ----------
    file
        The file; it may come into being later.
    keep : int of at least 1
        Batches that `batches` remembers.
    """

    def __init__(self, file: MetricsFile, *, keep: Count = 1000) -> None:
        check("Tail", type(self).__init__, keep=keep)
        self.file = file
        self.batches: deque[BatchMetrics] = deque(maxlen=keep)
        self.ended: Ended | None = None
        self.damaged = 0
        self._inode: int | None = None
        self._at = 0

    def update(self) -> list[BatchMetrics]:
        """Read on; return the new batches."""
        fresh = _read(self.lines(), None)
        self.batches.extend(fresh.batches)
        self.damaged += fresh.damaged
        if fresh.ended is not None or fresh.batches:
            self.ended = fresh.ended
        return fresh.batches

    def lines(self) -> list[bytes]:
        """Return the whole lines that were written since the last call."""
        try:
            file = self.file.path.open("rb")
        except OSError:
            return []  # yet to come, or a full one was renamed just now: the next call finds it
        with file:
            inode = os.fstat(file.fileno()).st_ino
            lines: list[bytes] = []
            if inode != self._inode:
                lines = _rest_of(self.file.old_path, self._inode, self._at, but_not=inode)
                self._inode, self._at = inode, 0
            more, self._at = _whole_lines(file, self._at)
        return lines + more


def _rest_of(path: Path, known: int | None, start: int, but_not: int | None = None) -> list[bytes]:
    """Return the lines of the old file: from `start` on if it is the `known` one, else all of them."""
    try:
        with path.open("rb") as file:
            inode = os.fstat(file.fileno()).st_ino
            if inode == but_not:
                return []
            return _whole_lines(file, start if inode == known else 0)[0]
    except OSError:
        return []


def _whole_lines(file: BinaryIO, start: int) -> tuple[list[bytes], int]:
    """Return the whole lines from a position on, and where the next one begins."""
    if file.seek(0, os.SEEK_END) < start:  # it was cut short
        start = 0
    file.seek(start)
    content = file.read()
    end = content.rfind(b"\n") + 1
    return content[:end].split(b"\n"), start + end


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"


def _read(lines: Iterable[bytes], last: int | None) -> Found:
    batches: deque[BatchMetrics] = deque(maxlen=last)
    ended, damaged = None, 0
    for line in lines:
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
            if isinstance(row, dict) and "ended" in row:
                ended = Ended(str(row["ended"]), _error(row.get("error")))
            else:
                batches.append(BatchMetrics.of(row))
                ended = None
        except (DataError, ValueError, RecursionError):
            damaged += 1
    return Found(list(batches), ended, damaged)


def _error(value: Any) -> str | None:
    return None if value is None else str(value)
