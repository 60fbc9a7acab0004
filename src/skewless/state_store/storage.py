"""A folder on any filesystem that pyarrow reaches: whole files in, whole files out.

Data files have names that nobody else chooses and are never written twice. The one file that two
writers may want is a manifest, and `Storage.commit` lets the first of them have it.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from skewless.errors import DataError
from skewless.state_store.faults import reached

__all__ = ["Storage"]


class Storage:
    """A folder, by path or by URL (``file://``, ``s3://``, ``hdfs://``, ``gs://``).

    Parameters
    ----------
    folder
        Where the files are; it is made when the first of them is written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     storage = Storage(folder)
    ...     storage.write("a/b", b"x")
    ...     storage.names("a"), storage.read("a/b")
    (['b'], b'x')
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)
        if "://" in self.folder:
            try:
                self._fs, self._root = fs.FileSystem.from_uri(self.folder)
            except (pa.ArrowException, OSError) as error:
                raise DataError(
                    f"state: folder {self.folder!r} cannot be reached ({error}); give a path, or a "
                    "URL that pyarrow's filesystems know."
                ) from error
        else:
            self._fs, self._root = fs.LocalFileSystem(), str(Path(self.folder).absolute())
        self._local = isinstance(self._fs, fs.LocalFileSystem)
        self._unsettled: list[str] = []

    def __reduce__(self) -> tuple[type[Storage], tuple[str]]:
        return Storage, (self.folder,)

    def path(self, name: str) -> str:
        """Return the full path of a file, without the scheme."""
        return f"{self._root}/{name}" if name else self._root

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        chosen = fs.FileSelector(self.path(folder), allow_not_found=True)
        return sorted(info.base_name for info in self._fs.get_file_info(chosen))

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises
        ------
        OSError
            It is not there or cannot be read.
        """
        with self._fs.open_input_stream(self.path(name), compression=None) as stream:
            return bytes(stream.read())

    def write(self, name: str, content: bytes) -> None:
        """Write a file that nobody reads yet; `settle` makes it last."""
        path = self.path(name)
        parent = path.rpartition("/")[0]
        if not self._local:
            self._fs.create_dir(parent)
            with self._fs.open_output_stream(path, compression=None) as stream:
                stream.write(content)
            return
        Path(parent).mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)
        self._unsettled.append(path)

    def settle(self) -> None:
        """Let what was written outlast a power cut, where the filesystem is local.

        Once for all files of a batch: the first call of the system writes most of the others too.
        """
        for path in self._unsettled:
            _sync(path)
        self._unsettled.clear()

    def commit(self, name: str, content: bytes) -> None:
        """Give a file its final name at once: all of it is there, or nothing.

        Raises
        ------
        FileExistsError
            Another writer was first. Exact on local filesystems and wherever a rename does not
            replace (HDFS); an object store leaves a moment between the look and the rename.
        """
        folder, _, last = name.rpartition("/")
        hidden = f"{folder}/.{last}.{uuid.uuid4().hex}"
        self.write(hidden, content)
        self.settle()
        reached("between write and commit")
        try:
            if self._local:
                _link(self.path(hidden), self.path(name))
                _sync(self.path(name).rpartition("/")[0])
            elif self._fs.get_file_info(self.path(name)).type != fs.FileType.NotFound:
                raise FileExistsError(name)
            else:
                self._fs.move(self.path(hidden), self.path(name))
        finally:
            if self._local:
                self.delete(hidden)
        reached("after commit")

    def delete(self, name: str) -> None:
        """Remove a file; it may be gone already."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(self.path(name))

    def delete_folder(self, name: str) -> None:
        """Remove a folder with all that is in it; it may be gone already."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_dir(self.path(name))


def _link(hidden: str, final: str) -> None:
    """Give a file a second name: as a rename, but never over another file."""
    try:
        os.link(hidden, final)
    except FileExistsError:
        raise
    except OSError as error:  # a filesystem without links
        if Path(final).exists():
            raise FileExistsError(final) from error
        Path(hidden).replace(final)


def _sync(path: str) -> None:
    """Make the content of a file, or the entries of a folder, durable."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
