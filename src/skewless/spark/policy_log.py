"""The policy log: numbered routing files in a folder that the driver writes and every task can read.

A version is one JSON file, written to a temporary name and then renamed, so that a reader sees all of
it or nothing. A file that is lost, damaged or of another kind is passed over with a warning: the
version before it counts, and plain hashing if there is none.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from skewless.errors import DataError
from skewless.routing import Routing
from skewless.spark import policy_history, policy_reader

__all__ = ["Entry", "PolicyLog"]

#: Versions kept on disk; older ones are summed up and removed when a new one is written.
_KEPT = 200


class Entry(NamedTuple):
    """One version of the policy."""

    version: int
    routing: Routing
    facts: dict[str, Any]
    """What was known when it was written: the policy, the batch learned from, its loads."""


class PolicyLog:
    """Numbered versions of a routing in one folder.

    Parameters
    ----------
    folder
        A folder on storage that the driver and all executors see under the same path.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = PolicyLog(folder)
    ...     log.write(Routing.hashing(4))
    ...     log.newest(4).version
    1
    1
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def prepare(self) -> None:
        """Make the folder and prove that it can be written.

        Raises
        ------
        DataError
            It cannot be made or written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(prefix=".probe-", dir=self.folder):
                pass
        except OSError as error:
            raise DataError(
                f"group_by: state={str(self.folder)!r} cannot be written ({error.strerror}); give a "
                "folder that the driver and all executors can reach."
            ) from error

    def versions(self) -> list[int]:
        """Return the version numbers on disk, ascending, damaged ones included."""
        return policy_reader.versions(str(self.folder))

    def path(self, version: int) -> Path:
        """Return the file of a version."""
        return Path(policy_reader.path(str(self.folder), version))

    def write(self, routing: Routing, **facts: Any) -> int:
        """Write the next version; return its number."""
        versions = self.versions()
        version = versions[-1] + 1 if versions else 1
        self.folder.mkdir(parents=True, exist_ok=True)
        tables = {name: array.tolist() for name, array in routing.tables._asdict().items()}
        routing.save(self.path(version), number=version, facts=facts, tables=tables)
        for left in self.folder.glob(f".{self.path(version - 1).name}.*"):
            left.unlink(missing_ok=True)  # of a writer that was killed
        if len(versions) >= _KEPT:
            policy_history.compact(self.folder, _KEPT)
        return version

    def read(self, version: int) -> Entry:
        """Read one version.

        Raises
        ------
        DataError
            The file is damaged or of another kind.
        OSError
            It cannot be read.
        """
        path = self.path(version)
        routing, extra = Routing.parse(path.read_bytes(), str(path))
        return Entry(version, routing, extra.get("facts", {}))

    def newest(self, n_workers: int, seed: int = 0) -> Entry | None:
        """Return the newest sound version for `n_workers`, or ``None``; warn of each one passed over."""
        found = policy_reader.newest(str(self.folder), n_workers, seed)
        return None if found is None else self.read(found[0])
