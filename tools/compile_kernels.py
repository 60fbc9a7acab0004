"""Compile the kernels that the demo's policies learn with, so that no first run waits for it.

numba keeps what it compiled in the folder that ``NUMBA_CACHE_DIR`` names; with that folder filled this
does nothing.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["main"]

#: Left in the cache folder when they are compiled.
_STAMP = "compiled"


def main() -> int:
    """Compile, and say how long it took; return the exit code."""
    stamp = Path(os.environ["NUMBA_CACHE_DIR"], _STAMP)
    if stamp.exists():
        return 0
    import numpy as np
    import pyarrow as pa

    from skewless import partitioners, planners
    from skewless.histogram import Histogram, bucket_count
    from skewless.keys import hash64

    started = time.monotonic()
    print("setup: compiling kernels, once: about a minute.", flush=True)
    words = hash64(pa.array(["a", "the"]))
    demo: tuple[Any, ...] = (partitioners.PKG, partitioners.Dalton, planners.WrapAround)
    for policy in demo:
        few = Histogram(words, [3, 1], np.ones(bucket_count(16), np.int64))
        made = policy(16)
        made.learn(few, made.learn(few))
    stamp.touch()
    print(f"setup: kernels compiled in {time.monotonic() - started:.0f} s.", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
