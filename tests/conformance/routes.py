"""Prints a digest of what each policy does with one stream, to be compared across processes."""

from __future__ import annotations

import functools
import hashlib
import json

from skewless.chunk import Chunk
from skewless.datasets.generators import drifting
from tests.conformance.table import PARAMETERS, POLICIES, partitioner


@functools.cache
def digests() -> dict[str, list[str]]:
    chunk = Chunk(None, drifting(300, 40, 1.3, period=100, n_hot=3))
    return {
        name: [
            hashlib.sha256(partitioner(name, parameters).route(chunk).tobytes()).hexdigest()
            for parameters in PARAMETERS[name]
        ]
        for name in POLICIES
    }


if __name__ == "__main__":
    print(json.dumps(digests()))  # noqa: T201
