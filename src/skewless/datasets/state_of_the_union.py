"""Every word of the State of the Union addresses, 1790-2021: a real key stream that drifts."""

from __future__ import annotations

from importlib import resources

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["state_of_the_union"]


def state_of_the_union() -> pa.Table:
    """Return the words of all State of the Union addresses in speaking order.

    Use it to see skew and drift on real text without a download: one word in twelve is the same
    word, and over 230 years the vocabulary changes. It has no finer clock than the year.

    Returns
    -------
    pyarrow.Table
        One row per word: ``year`` (int16), ``address`` (int16, number of the address) and ``word``
        (large_string, lower case).

    Notes
    -----
    The file is part of the package: 2.8 MB on disk, 30 MB in memory. Licence (PDDL-1.0 AND
    CC0-1.0) and source are in ``LICENSES.md`` beside it.

    Examples
    --------
    >>> words = state_of_the_union()
    >>> words.num_rows, words.column_names
    (1788991, ['year', 'address', 'word'])
    >>> counts = words["word"].combine_chunks().value_counts()
    >>> len(counts)
    24095
    >>> top = max(counts.to_pylist(), key=lambda entry: entry["counts"])
    >>> top["values"], f"{top['counts'] / words.num_rows:.2%}"
    ('the', '8.46%')
    """
    source = resources.files("skewless") / "data" / "sotu_words.parquet"
    with resources.as_file(source) as path:
        return pq.read_table(path).replace_schema_metadata(None)
