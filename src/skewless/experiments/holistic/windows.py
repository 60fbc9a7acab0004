"""What a window costs under each partitioner: the fullest worker's tuples, then all partial results.

N. R. Katsipoulakis et al., A Holistic View of Stream Partitioning Costs, PVLDB 10(11), 2017, section 2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skewless.chunk import Chunk
from skewless.experiments.description import Row
from skewless.partitioners import AM, CAM, CM, LM, PKG, Hash, Partitioner, Shuffle

__all__ = ["MERGE_US", "ONE_CHOICE", "PARTITIONERS", "UPDATE_US", "latencies_us", "measure"]

#: Microseconds of a worker for a tuple, and of the one aggregator for a partial result: the paper's
#: model counts both alike.
UPDATE_US, MERGE_US = 1.0, 1.0

Make = Callable[[int, int, int], Partitioner]

#: The paper's names: (workers, window in tuples, seed) to a partitioner.
PARTITIONERS: dict[str, Make] = {
    "SH": lambda n, _w, _s: Shuffle(n),
    "FLD": lambda n, _w, s: Hash(n, seed=s),
    "PK-2": lambda n, _w, s: PKG(n, seed=s),
    "PK-5": lambda n, _w, s: PKG(n, d=5, seed=s),
    "CM-2": lambda n, w, s: CM(n, window=w, seed=s),
    "AM-2": lambda n, w, s: AM(n, window=w, seed=s),
    "AM-5": lambda n, w, s: AM(n, window=w, d=5, seed=s),
    "cAM-2": lambda n, w, s: CAM(n, window=w, seed=s),
    "cAM-5": lambda n, w, s: CAM(n, window=w, d=5, seed=s),
    "LM-2": lambda n, w, s: LM(n, window=w, seed=s),
    "CM-2-H": lambda n, w, s: CM(n, window=w, cardinality="hyper_log_log", seed=s),
    "AM-2-H": lambda n, w, s: AM(n, window=w, cardinality="hyper_log_log", seed=s),
    "cAM-2-H": lambda n, w, s: CAM(n, window=w, cardinality="hyper_log_log", seed=s),
    "LM-2-H": lambda n, w, s: LM(n, window=w, cardinality="hyper_log_log", seed=s),
}
#: What leaves a key's results on one worker, so that nothing has to be aggregated.
ONE_CHOICE = ("FLD", "AM-2", "AM-5", "cAM-2", "cAM-5")


def latencies_us(
    row: Row, *, update_us: float = UPDATE_US, merge_us: float = MERGE_US
) -> NDArray[np.float64]:
    """Return the time of each window: the fullest worker's tuples, then the partial results.

    Examples
    --------
    >>> row = {"policy": "PK-2", "most": [5.0, 4.0], "partial": [3.0, 3.0]}
    >>> latencies_us(row).tolist(), latencies_us({**row, "policy": "FLD"}).tolist()
    ([8.0, 7.0], [5.0, 4.0])
    """
    most = np.asarray(row["most"], np.float64) * update_us
    if row["policy"] in ONE_CHOICE:
        return most
    return most + np.asarray(row["partial"], np.float64) * merge_us


def measure(name: str, keys: NDArray[np.uint64], window: int, n_workers: int, seeds: range) -> Row:
    """Route a stream in tumbling windows; return what its windows hold, by window, over several seeds.

    A row has ``most``, the tuples of the fullest worker, and ``partial``, the pairs of key and worker.
    Both are lists, of the windows of all seeds, or of 400 quantiles of them if there are more.
    """
    number = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    at = np.arange(len(keys)) // window
    n_windows = int(at[-1]) + 1
    n_keys = int(number.max()) + 1
    most, partial = [], []
    for seed in seeds:
        workers = PARTITIONERS[name](n_workers, window, seed).route(Chunk(None, keys))
        loads = np.bincount(at * n_workers + workers, minlength=n_windows * n_workers)
        most.append(loads.reshape(n_windows, n_workers).max(axis=1))
        pair = (at * n_keys + number) * n_workers + workers
        if n_windows * n_keys * n_workers <= 1 << 24:
            there = np.bincount(pair, minlength=n_windows * n_keys * n_workers) > 0
            partial.append(there.reshape(n_windows, -1).sum(axis=1))
        else:
            held = np.unique(pair) // (n_workers * n_keys)
            partial.append(np.bincount(held, minlength=n_windows))
    full = len(keys) // window * window >= len(keys)
    keep = n_windows if full or n_windows == 1 else n_windows - 1
    each_most = np.concatenate([part[:keep] for part in most])
    each_partial = np.concatenate([part[:keep] for part in partial])
    if len(each_most) > 400:
        # By the time that they amount to, so that means and quantiles stay what they are.
        order = np.argsort(each_most + each_partial)
        take = order[np.linspace(0, len(order) - 1, 400).round().astype(np.int64)]
        each_most, each_partial = each_most[take], each_partial[take]
    return {
        "policy": name,
        "workers": n_workers,
        "window": min(window, len(keys)),
        "keys": n_keys,
        "most": each_most,
        "partial": each_partial,
    }
