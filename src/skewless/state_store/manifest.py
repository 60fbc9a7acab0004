"""The manifest: what the state is after one batch, in one file that is there whole or not at all."""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import pyarrow as pa

from skewless import document
from skewless.errors import DataError
from skewless.routing import Routing

__all__ = ["FORMAT", "NO_TIMER", "DataFile", "Fragment", "Manifest", "name_of", "version_of"]

#: Format and version of manifest files.
FORMAT = ("skewless.state", 1)
#: The timer of a key that has none, microseconds.
NO_TIMER = 2**63 - 1


class DataFile(NamedTuple):
    """One Parquet file of states or of output rows; never changed once it is written."""

    name: str
    """Path inside the folder."""
    kind: str
    """``"base"``: all states of a fragment before a batch; ``"delta"``: what a batch changed;
    ``"output"``: rows for the sink."""
    rows: int
    """Rows in the file."""
    size_bytes: int
    """Length of the file."""
    sha256: str
    """Checksum of the file."""
    version: int
    """Version of the manifest that it was written for."""


class Fragment(NamedTuple):
    """The states of one bucket that one worker owns: a base and the changes since, oldest first."""

    worker: int
    """The owner."""
    bucket: int
    """State bucket, in ``[0, n_buckets)``."""
    keys: int
    """Keys that have a state."""
    timer_us: int
    """Earliest timer, event time in microseconds; `NO_TIMER` if there is none."""
    files: tuple[DataFile, ...]
    """Later files win."""

    @classmethod
    def of(cls, fields: list[Any]) -> Fragment:
        """Return the fragment that a JSON list holds."""
        worker, bucket, keys, timer_us, files = fields
        return cls(worker, bucket, keys, timer_us, tuple(DataFile(*file) for file in files))

    @property
    def size_bytes(self) -> int:
        """Length of all files together."""
        return sum(file.size_bytes for file in self.files)


class Manifest(NamedTuple):
    """The state after one batch, and what is needed to go on from it."""

    version: int
    """1, 2, ...: one more with each commit."""
    parent: int
    """The version that the batch went on from; 0 if there was none."""
    query: str
    """The streaming query that the batch belongs to."""
    batch: int
    """Batch id within the query."""
    n_buckets: int
    """State buckets; they stay for the life of the folder."""
    seed: int
    """Seed of the bucket hash."""
    keys: pa.Schema
    """Key columns."""
    states: pa.Schema
    """State columns."""
    outputs: pa.Schema
    """Output columns."""
    routing: Routing
    """Who owned which key in the batch."""
    fragments: tuple[Fragment, ...]
    """All states, by worker and bucket."""
    output: tuple[DataFile, ...]
    """The batch's output rows, by worker."""
    watermark_us: int | None
    """Event time up to which the next batch takes rows as late and timers as due, microseconds."""
    past: dict[str, Any]
    """What is remembered of the histograms of past batches (`Past`)."""
    records: tuple[dict[str, Any], ...]
    """What the last batches did, this one last."""

    @property
    def n_keys(self) -> int:
        """Keys that have a state."""
        return sum(fragment.keys for fragment in self.fragments)

    @property
    def size_bytes(self) -> int:
        """Length of all state files together."""
        return sum(fragment.size_bytes for fragment in self.fragments)

    def files(self) -> set[str]:
        """Return the names of all files that the manifest speaks of."""
        states = {file.name for fragment in self.fragments for file in fragment.files}
        return states | {file.name for file in self.output}

    def render(self) -> bytes:
        """Return the content of the manifest's file."""
        body = self._asdict()
        for name in ("keys", "states", "outputs"):
            body[name] = base64.b64encode(body[name].serialize().to_pybytes()).decode()
        body["routing"] = self.routing.to_json()
        return document.render(*FORMAT, body).encode()

    @classmethod
    def parse(cls, content: bytes, name: str) -> Manifest:
        """Return the manifest in a file's content.

        Raises
        ------
        DataError
            The content is truncated, altered, of another format or of another version.
        """
        body = document.parse(content, *FORMAT, f"state: {name}")
        try:
            for part in ("keys", "states", "outputs"):
                body[part] = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(body[part])))
            body["routing"] = Routing.parse(body["routing"].encode(), name)[0]
            body["fragments"] = tuple(Fragment.of(fields) for fields in body["fragments"])
            body["output"] = tuple(DataFile(*file) for file in body["output"])
            body["records"] = tuple(body["records"])
            return cls(**body)
        except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
            raise DataError(
                f"state: {name} lacks a field or has an impossible one ({error}); restore it, or "
                "remove it to go back to the batch before."
            ) from error


def name_of(version: int) -> str:
    """Return the file of a version.

    Examples
    --------
    >>> name_of(7), version_of("000000000007.json"), version_of(".tmp")
    ('manifests/000000000007.json', 7, None)
    """
    return f"manifests/{version:012d}.json"


def version_of(name: str) -> int | None:
    """Return the version that a file's name says; ``None`` if it is not a manifest's name."""
    stem, dot, ending = name.partition(".")
    return int(stem) if dot and ending == "json" and stem.isdigit() else None
