"""Aggregates whose result depends on the order in which rows come."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

__all__ = ["order_sensitive"]

_NAMES = (
    "any_value|array_agg|collect_list|first|first_value|last|last_value|listagg|max_by|min_by|mode|"
    "string_agg"
)
_CALL = re.compile(rf"\b({_NAMES})\s*\(", re.IGNORECASE)


def order_sensitive(aggregates: Sequence[Any]) -> list[str]:
    """Return the functions among `aggregates` whose result depends on the order of rows.

    Parameters
    ----------
    aggregates
        Columns, or one dict ``{column: function}``, as ``GroupedData.agg`` takes them.

    Notes
    -----
    Read from the text of the columns, which is the same on Spark Connect. A column whose name reads
    like a call may be taken for one; then keys stay whole without need.

    Examples
    --------
    >>> order_sensitive([{"v": "sum", "w": "first"}])
    ['first']
    """
    found: list[str] = []
    for one in aggregates:
        texts = [f"{name}(" for name in one.values()] if isinstance(one, dict) else [str(one)]
        for text in texts:
            found += [name.lower() for name in _CALL.findall(text)]
    return list(dict.fromkeys(found))
