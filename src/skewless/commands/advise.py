"""``skewless advise``: what is hot in a file's keys, and which policy to take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from skewless.commands.progress import bar
from skewless.document import require_place

__all__ = ["advise"]


def advise(
    file: Annotated[
        Path, typer.Argument(help="Parquet, CSV, JSON lines or Arrow; or a folder of such files.")
    ],
    key: Annotated[list[str], typer.Option(help="Key column; give it again for a second one.")],
    workers: Annotated[int, typer.Option(min=1, help="Number of workers.")],
    weight: Annotated[
        str | None, typer.Option(help="Numeric column that is balanced instead of rows.")
    ] = None,
    update_us: Annotated[
        float | None, typer.Option(min=0, help="Cost of your function per row, in us.")
    ] = None,
    window_rows: Annotated[
        int | None, typer.Option(min=1, help="Rows in a window; all, if left out.")
    ] = None,
    format: Annotated[  # noqa: A002 # as every other tool calls it
        str | None, typer.Option(help="parquet, csv, tsv, jsonl or arrow; else by the name.")
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Read keys of CSV as text, also numbers.")
    ] = False,
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Count bad lines and go on.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Page to write.")] = None,
    json_out: Annotated[Path | None, typer.Option("--json", help="JSON file to write.")] = None,
) -> None:
    """Count the keys of a file, and say what each policy would do about them."""
    for option, out in (("--html", html), ("--json", json_out)):
        if out is not None:
            require_place(f"advise: {option}", out)
    from skewless.commands.file_inspection import advise_file, plain
    from skewless.document import write

    with bar() as progress:
        found = advise_file(
            file,
            *key,
            workers=workers,
            weight=weight,
            window_rows=window_rows,
            update_us=update_us,
            format=format,
            as_text=text,
            bad_lines="skip" if skip_bad_lines else "error",
            progress=progress,
        )
    typer.echo(str(found))
    if json_out is not None:
        write(json_out, json.dumps(plain(found.to_dict()), indent=1, allow_nan=False) + "\n")
    if html is not None:
        found.to_html(html)
