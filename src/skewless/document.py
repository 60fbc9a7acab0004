"""JSON files that know what they are: a format, a version, a checksum, and a body.

Written whole or not at all; read with a clear error for a file that is truncated, altered, foreign or
newer. Imports nothing heavy, because every task of a streaming query reads one.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from skewless.errors import DataError

__all__ = ["ROUTING", "parse", "render", "require_place", "write"]

#: Format and version of routing files.
ROUTING = ("skewless.routing", 1)


def _canonical(body: Any) -> str:
    return json.dumps(body, separators=(",", ":"), sort_keys=True)


def render(kind: str, version: int, body: dict[str, Any]) -> str:
    """Return the text of a document.

    Examples
    --------
    >>> parse(render("demo", 1, {"x": 3}).encode(), "demo", 1, "a.json")
    {'x': 3}
    """
    text = _canonical(body)
    digest = hashlib.sha256(text.encode()).hexdigest()
    head = json.dumps({"format": kind, "version": version, "sha256": digest})
    return f'{head[:-1]}, "body": {text}}}\n'


def require_place(what: str, path: Path) -> None:
    """Raise `DataError`, which begins with `what`, unless a file can be put there: before any work.

    Examples
    --------
    >>> require_place("save:", Path("nowhere/a.json"))
    Traceback (most recent call last):
        ...
    skewless.errors.DataError: save: 'nowhere/a.json' must be a file in a folder that exists.
    """
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise DataError(f"{what} {str(path)!r} must be a file in a folder that exists.")


def write(path: Path, text: str) -> None:
    """Write a file under a temporary name, then rename it: a reader sees all of it or nothing."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def parse(content: bytes, kind: str, version: int, name: str) -> dict[str, Any]:
    """Return the body of a document.

    Raises
    ------
    DataError
        The content is truncated, altered, of another format, or of another version.
    """
    try:
        document = json.loads(content)
    except ValueError as error:
        raise DataError(
            f"{name} is truncated or no {kind} file ({error}); write it anew."
        ) from error
    if not isinstance(document, dict) or document.get("format") != kind:
        raise DataError(f"{name} is no {kind} file (its format is not {kind!r}).")
    if document.get("version") != version:
        raise DataError(
            f"{name} has format version {document.get('version')!r}, this release reads version "
            f"{version}; upgrade skewless or write the file anew."
        )
    body = document.get("body")
    digest = hashlib.sha256(_canonical(body).encode()).hexdigest()
    if not isinstance(body, dict) or digest != document.get("sha256"):
        raise DataError(f"{name} was altered or damaged (its checksum differs); write it anew.")
    return body
