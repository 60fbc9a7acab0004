"""TPC-H tables for its Queries 1, 3 and 6, from a maintained generator, with skew if asked."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from skewless.datasets.drawing import by_weight, shuffled, units
from skewless.errors import DataError, MissingExtra
from skewless.parameters import Range, Seed, check

__all__ = ["Tpch", "tpch_tables"]

_COLUMNS = {
    "lineitem": (
        "l_orderkey",
        "l_quantity",
        "l_extendedprice",
        "l_discount",
        "l_tax",
        "l_returnflag",
        "l_linestatus",
        "l_shipdate",
    ),
    "orders": ("o_orderkey", "o_custkey", "o_orderdate", "o_shippriority"),
    "customer": ("c_custkey", "c_mktsegment"),
}
#: Lanes of the draws: two for each reference.
_CUSTOMERS, _ORDERS = 0, 2


class Tpch(NamedTuple):
    """The columns that Queries 1, 3 and 6 read."""

    lineitem: pa.Table
    orders: pa.Table
    customer: pa.Table


def tpch_tables(
    scale: Annotated[float, Range(0, 1_000, low_open=True)] = 0.01,
    *,
    skew: Annotated[float, Range(0, 20)] = 0.0,
    seed: Seed = 0,
) -> Tpch:
    """Return TPC-H's lineitem, orders and customer, the columns of Queries 1, 3 and 6.

    Parameters
    ----------
    scale : float in (0, 1000]
        Scale factor: 1 is about 6 million lines, 1.5 million orders and 150,000 customers, and takes
        about a gigabyte of memory.
    skew : float in [0, 20]
        0 leaves the tables as TPC-H defines them, uniform. Above, each order is given to a customer, and
        each line to an order, by Zipf's law with this exponent, in an order of the keys drawn by `seed`.
    seed : int in [0, 9223372036854775807]
        Seed of the skew; the generator itself has none.

    Returns
    -------
    Tpch
        Three tables, in the order of generation: keys int64, money and quantities decimal128(15, 2),
        dates date32.

    Raises
    ------
    MissingExtra
        The generator is not installed: ``pip install 'skewless[tpch]'``.
    DataError
        The generator failed.
    ParameterError
        `scale` or `skew` is out of its range.

    Notes
    -----
    The rows are those of dbgen, written by ``tpchgen-cli``. With skew, a line keeps its dates and amounts
    but moves to an order that it was not made for: ship dates are then independent of order dates, which
    changes how many rows pass Query 3, and an order may have any number of lines. Query 1 and Query 6
    read no key and give the same answer under every skew.

    References
    ----------
    TPC Benchmark H, standard specification, revision 3, sections 1.4, 2.4.1, 2.4.3 and 2.4.6. Skew by
    Zipf's law over the keys: S. Chaudhuri, V. Narasayya, Program for TPC-D data generation with skew,
    Microsoft Research, 1999.

    Examples
    --------
    >>> tables = tpch_tables(0.01, skew=1.0)  # doctest: +SKIP
    >>> tables.lineitem.num_rows  # doctest: +SKIP
    60175
    """
    check("tpch_tables", tpch_tables, scale=scale, skew=skew, seed=seed)
    program = _program()
    if program is None:
        raise MissingExtra("tpch_tables", "tpch", "tpchgen-cli")
    with tempfile.TemporaryDirectory(prefix="skewless-tpch-") as folder:
        command = [str(program), "parquet", "--scale-factor", repr(float(scale)), "--quiet"]
        command += ["--tables", ",".join(_COLUMNS), "--output-dir", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            reason = " ".join((done.stderr or done.stdout).split())[:300]
            raise DataError(
                f"tpch_tables: {program.name} failed ({reason}); is it of version 4 or newer?"
            )
        tables = Tpch(*[_read(Path(folder) / f"{name}.parquet", name) for name in _COLUMNS])
    return _with_skew(tables, skew, seed) if skew > 0 else tables


def _program() -> Path | None:
    """Return the generator, of this environment if it has one."""
    name = "tpchgen-cli"
    own = shutil.which(name, path=sysconfig.get_path("scripts"))
    found = own or shutil.which(name)
    return None if found is None else Path(found)


def _read(path: Path, name: str) -> pa.Table:
    try:
        table = pq.read_table(path, columns=list(_COLUMNS[name]))
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"tpch_tables: the generator's {name} cannot be read ({error}); is it of version 4 or newer?"
        ) from error
    plain = [
        pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type)
        for f in table.schema
    ]
    return table.cast(pa.schema(plain))


def _with_skew(tables: Tpch, skew: float, seed: int) -> Tpch:
    orders = _redirected(
        tables.orders, "o_custkey", tables.customer["c_custkey"], skew, seed, _CUSTOMERS
    )
    lines = _redirected(tables.lineitem, "l_orderkey", orders["o_orderkey"], skew, seed, _ORDERS)
    return Tpch(lines, orders, tables.customer)


def _redirected(
    table: pa.Table, column: str, keys: pa.ChunkedArray, skew: float, seed: int, lane: int
) -> pa.Table:
    """Return the table with a reference that is drawn anew, by Zipf's law over the keys."""
    known: NDArray[np.int64] = keys.to_numpy()
    weights = np.arange(1, len(known) + 1, dtype=np.float64) ** -skew
    rank = by_weight(units(table.num_rows, seed, lane), weights)
    drawn = known[shuffled(len(known), seed, lane + 1)[rank]]
    return table.set_column(table.column_names.index(column), column, pa.array(drawn, pa.int64()))
