"""The state store: versions of a keyed state in one folder, one writer, exactly once by batch id."""

from __future__ import annotations

import logging
import os

from skewless.errors import DataError
from skewless.state_store.faults import reached
from skewless.state_store.manifest import Manifest, name_of, version_of
from skewless.state_store.storage import Storage

__all__ = ["StateStore"]

_log = logging.getLogger("skewless")


class StateStore:
    """Versions of a keyed state in one folder.

    Parameters
    ----------
    folder
        A path or URL that the driver and all executors reach.

    Notes
    -----
    ``manifests/`` holds one file per version, ``data/<version>/`` the Parquet files that a version
    added. A batch writes its files, which nobody reads yet, and then commits its manifest in one
    step: before it the state is that of the batch before, after it that of the batch. What a writer
    left behind that died before its commit is removed after a later commit.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(StateStore(folder).newest())
    None
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.storage = Storage(folder)
        self._files: dict[int, set[str]] = {}  # by version; a version never changes

    @property
    def folder(self) -> str:
        """The folder, as it was given."""
        return self.storage.folder

    def versions(self) -> list[int]:
        """Return the version numbers in the folder, ascending, damaged ones included."""
        found = map(version_of, self.storage.names("manifests"))
        return sorted(version for version in found if version is not None)

    def read(self, version: int) -> Manifest:
        """Read one version.

        Raises
        ------
        DataError
            It is not there, damaged, or of another kind.
        """
        name = name_of(version)
        try:
            content = self.storage.read(name)
        except OSError as error:
            raise DataError(
                f"state: {self.folder!r} has no version {version} ({error}); it has "
                f"{_listed(self.versions())}."
            ) from error
        return Manifest.parse(content, self.storage.path(name))

    def newest(self) -> Manifest | None:
        """Return the newest sound version, ``None`` if there is none; warn of each one passed over."""
        for version in reversed(self.versions()):
            try:
                return self.read(version)
            except DataError as error:  # noqa: PERF203 - a damaged one is rare
                _log.warning("skewless: state version %d is passed over: %s", version, error)
        return None

    def of_batch(self, batch: int | None = None, query: str | None = None) -> Manifest:
        """Return the newest version of a batch; of the newest batch if none is named.

        Raises
        ------
        DataError
            The folder holds no state, or no longer that of the batch.
        """
        self.refuse_foreign()
        found = self._find(batch, query)
        if found is None:
            held = [self.read(version).batch for version in self.versions()]
            what = "no state" if not held else f"the states after batches {_listed(held)} only"
            wanted = "" if batch is None else f", not batch {batch}"
            raise DataError(
                f"state: folder {self.folder!r} holds {what}{wanted}; give the folder that the query "
                "names as state=, and a batch among those kept (keep=)."
            )
        return found

    def committed(self, query: str, batch: int) -> Manifest | None:
        """Return the version that a batch of a query committed, if it did."""
        return self._find(batch, query)

    def _find(self, batch: int | None, query: str | None) -> Manifest | None:
        newest = self.newest()
        if newest is None or (batch is None and query is None):
            return newest
        for version in reversed(self.versions()):
            try:
                manifest = self.read(version)
            except DataError:
                continue
            if query not in (None, manifest.query):
                return None
            if manifest.batch == batch:
                return manifest
            if manifest.batch < (batch or 0):
                return None
        return None

    def refuse_foreign(self) -> None:
        """Raise `DataError` if the folder holds files that are not of a state store."""
        names = {name for name in self.storage.names() if not name.startswith(".")}
        strangers = sorted(names - {"manifests", "data"})
        if strangers:
            raise DataError(
                f"state: folder {self.folder!r} holds other files ({_listed(strangers)}); a state "
                "needs a folder of its own: name one that is new or empty."
            )

    def commit(self, manifest: Manifest) -> None:
        """Make a version the newest one, in one step.

        Raises
        ------
        DataError
            Another writer committed meanwhile.
        """
        reached("before commit")
        newest = self.versions()
        if newest and newest[-1] >= manifest.version:
            raise self._lost(manifest)
        try:
            self.storage.commit(name_of(manifest.version), manifest.render())
        except FileExistsError as error:
            raise self._lost(manifest) from error

    def _lost(self, manifest: Manifest) -> DataError:
        return DataError(
            f"state: folder {self.folder!r} has another writer: version {manifest.version} was "
            f"committed while batch {manifest.batch} ran; stop one of the two queries, or give each "
            "a folder of its own. Nothing of this batch was written."
        )

    def collect(self, keep: int) -> int:
        """Forget all but the last `keep` versions; return how many files went.

        A file goes if no version that stays speaks of it. Files of versions that are not committed
        yet stay: their writer may be at work.
        """
        reached("before collection")
        versions = self.versions()
        kept, old = versions[-keep:], versions[:-keep]
        try:
            self._files = {
                version: self._files.get(version) or self.read(version).files() for version in kept
            }
        except DataError as error:  # what it speaks of is not known: keep everything
            _log.warning("skewless: nothing was collected: %s", error)
            return 0
        needed = set().union(*self._files.values())
        for version in old:
            self.storage.delete(name_of(version))
            reached("in collection")
        for name in self.storage.names("manifests"):  # of writers that died before their commit
            wanted = version_of(".".join(name.split(".")[1:3])) if name.startswith(".") else None
            if wanted is not None and wanted <= versions[-1]:
                self.storage.delete(f"manifests/{name}")
        removed = 0
        for folder in self.storage.names("data"):
            if not folder.isdigit() or int(folder) > versions[-1]:
                continue
            names = [f"data/{folder}/{name}" for name in self.storage.names(f"data/{folder}")]
            gone = [name for name in names if name not in needed]
            for name in gone:
                self.storage.delete(name)
                reached("in collection")
            if len(gone) == len(names):
                self.storage.delete_folder(f"data/{folder}")
            removed += len(gone)
        return removed


def _listed(values: list[int] | list[str]) -> str:
    shown = ", ".join(str(value) for value in values[:6])
    return f"{shown}, ..." if len(values) > 6 else shown or "none"
