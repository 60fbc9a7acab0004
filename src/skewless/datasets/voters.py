"""Loader for the register of voters of North Carolina."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from skewless.datasets.lines import LineFormat, delimited, load_lines
from skewless.errors import DataError, ParameterError, did_you_mean

__all__ = ["load_nc_voters"]


def load_nc_voters(
    path: str | Path,
    *,
    columns: Sequence[str] = ("county_id", "zip_code"),
    limit: int | None = None,
    bad_lines: str = "skip",
) -> pa.Table:
    r"""Return columns of the register of voters of North Carolina, without names unless asked for.

    Parameters
    ----------
    path
        A file such as ``ncvoter_Statewide.txt``: a header line, fields in double quotes, separated by
        tabulators, in Latin-1; perhaps zip, as it is published.
    columns
        Names of the columns to read, as in the header line, in small letters.
    limit : int of at least 1
        Records to read at most; all if left out.
    bad_lines
        ``"skip"`` or ``"error"``, as in `skewless.datasets.lines.LineFile`.

    Returns
    -------
    pyarrow.Table
        The columns as text without the blanks that fill them up; null where nothing is left.

    Raises
    ------
    DataError
        A column is missing; or as in `skewless.datasets.lines.LineFile`.
    ParameterError
        No column is asked for; or as in `skewless.datasets.lines.LineFile`.

    Notes
    -----
    The register is public, and holds names, addresses and ages of persons. What is not asked for is
    not kept.

    Examples
    --------
    >>> import tempfile
    >>> file = tempfile.NamedTemporaryFile()
    >>> _ = file.write(b'"county_id"\t"last_name"\t"zip_code"\n"1"\t"DOE"\t"27215  "\n'), file.flush()
    >>> load_nc_voters(file.name).to_pylist()
    [{'county_id': '1', 'zip_code': '27215'}]
    >>> file.close()
    """
    owner = "load_nc_voters"
    wanted = list(dict.fromkeys(columns))
    if isinstance(columns, str) or not wanted:
        raise ParameterError(f"{owner}: columns must be a list of names, got {columns!r}.")

    def header(line: bytes) -> Callable[[list[bytes]], pa.Table]:
        text = line.decode("latin-1").lstrip("\ufeff\u00ef\u00bb\u00bf")
        names = [re.sub(r'[\s"\x00]', "", name).lower() for name in text.split("\t")]
        for name in wanted:
            if name not in names:
                near = did_you_mean(name, names)
                raise DataError(
                    f"{owner}: column {name!r} is not in {Path(path).name!r}{near}; its first line "
                    "must name the columns."
                )
        fields = delimited(dict.fromkeys(names, pa.string()), "\t", quotes=True, kept=wanted)

        def parsed(lines: list[bytes]) -> pa.Table:
            table = fields([line.replace(b"\x00", b"") for line in lines])
            trimmed = [pc.utf8_trim_whitespace(column) for column in table.columns]
            return pa.table(
                [pc.if_else(pc.equal(column, ""), None, column) for column in trimmed], wanted
            )

        return parsed

    made = LineFormat(owner, delimited(dict.fromkeys(wanted, pa.string()), "\t"), header=header)
    return load_lines(path, made, limit=limit, bad_lines=bad_lines)
