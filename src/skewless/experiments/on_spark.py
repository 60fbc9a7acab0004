"""The local Spark that experiments run on: task slots that sleep, kept from cell to cell."""

from __future__ import annotations

from typing import Any

from skewless.errors import DataError, MissingExtra

__all__ = ["slots_asleep"]

_KEPT: dict[int, Any] = {}


def slots_asleep(slots: int) -> Any:
    """Return a local Spark session with so many slots.

    The session stays for the next cell, and ends with the process or when other slots are asked for.

    Raises
    ------
    MissingExtra
        There is no pyspark.
    DataError
        The process has a session of its own.
    """
    if slots in _KEPT:
        return _KEPT[slots]
    try:
        from skewless.demo.runs import session
        from skewless.spark.emulated import running_master
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "pyspark":
            raise
        raise MissingExtra("skewless experiment run", "spark", str(error.name)) from error
    for other in list(_KEPT):
        _KEPT.pop(other).stop()
    running = running_master()
    if running is not None:
        raise DataError(
            f"experiment: needs a Spark of {slots} slots of its own, and this process has one on "
            f"{running}; stop that, or run the experiment by itself."
        )
    spark = session(slots)
    _KEPT[slots] = spark
    return spark
