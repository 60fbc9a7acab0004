"""Name the folder of numba's disk cache: a new one whenever a source file of the package changes.

numba keeps a compiled kernel until the kernel's own file changes. It does not notice that a kernel
imported from another file has changed, nor that bounds checks were switched on, and then runs stale
code. A folder named after all sources and the mode cannot be stale.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

__all__ = ["MODES", "cache_folder"]

#: How kernels run: compiled; as plain Python; compiled with bounds checks.
MODES = ("on", "off", "boundscheck")


def cache_folder(root: Path, mode: str = "on") -> Path:
    """Return the cache folder of the sources as they are; remove those of older ones.

    Parameters
    ----------
    root
        The repository's folder.
    mode
        One of `MODES`.
    """
    digest = hashlib.sha256()
    for source in sorted((root / "src" / "skewless").rglob("*.py")):
        digest.update(str(source.relative_to(root)).encode() + b"\0")
        digest.update(source.read_bytes() + b"\0")
    caches = root / ".cache" / "numba"
    current = digest.hexdigest()[:16]
    for old in caches.glob("*"):
        if old.name != current:
            shutil.rmtree(old, ignore_errors=True)
    folder = caches / current / mode
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    print(cache_folder(Path(__file__).resolve().parents[1]))
