"""``skewless simulate``: several policies on one stream, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skewless.commands.progress import bar
from skewless.document import require_place
from skewless.errors import DataError, ParameterError, did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from skewless.costs import Costs
    from skewless.policy import Policy
    from skewless.simulator import Simulation, Summary

__all__ = ["simulate"]

#: What is compared if no policy is named: one of each kind.
COMPARED = ["hash", "shuffle", "pkg", "d_choices", "dalton", "wrap_around"]


def simulate(
    stream: Annotated[
        str,
        typer.Argument(
            help="Parquet, CSV, JSON lines or Arrow; or a generator such as zipf:1.5 or uniform."
        ),
    ],
    workers: Annotated[int, typer.Option(min=1, help="Number of workers.")],
    key: Annotated[
        list[str] | None,
        typer.Option(help="Key column of a file; give it again for a second one."),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help=f"Policy; again for the next. Left out: {', '.join(COMPARED)}."),
    ] = None,
    tuples: Annotated[
        int | None, typer.Option(min=1, help="Tuples; a million, or all of a file, if left out.")
    ] = None,
    window: Annotated[int, typer.Option(min=1, help="Window, in tuples.")] = 100_000,
    slide: Annotated[
        int | None, typer.Option(min=1, help="Step of the window; tumbling, if left out.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Micro-batch, in tuples; one at a time, if left out.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=1e-9, help="Tuples a second; as many as go, if left out.")
    ] = None,
    partitioners: Annotated[int, typer.Option(min=1, help="Partitioners in parallel.")] = 1,
    local: Annotated[
        bool, typer.Option("--local", help="Each partitioner has a policy of its own.")
    ] = False,
    reducers: Annotated[int, typer.Option(min=1, help="Workers that merge.")] = 1,
    route_us: Annotated[
        float | None,
        typer.Option(min=0, help="Cost of routing a tuple, in us; calibrated if left out."),
    ] = None,
    ship_us: Annotated[
        float | None, typer.Option(min=0, help="Cost of shipping a tuple, in us.")
    ] = None,
    update_us: Annotated[
        float | None, typer.Option(min=0, help="Cost of updating a state, in us.")
    ] = None,
    merge_us: Annotated[
        float | None, typer.Option(min=0, help="Cost of merging a state, in us.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of stream, policies and hashes.")] = 0,
    html: Annotated[Path | None, typer.Option(help="Page to write.")] = None,
    json_out: Annotated[Path | None, typer.Option("--json", help="JSON file to write.")] = None,
) -> None:
    """Run policies on a stream with as many workers as you like, and compare what they sustain."""
    for option, out in (("--html", html), ("--json", json_out)):
        if out is not None:
            require_place(f"simulate: {option}", out)
    if html is not None:
        from skewless.report import simulation_page
    from skewless import simulator
    from skewless.calibration import saved_costs
    from skewless.costs import Costs

    asked = {"route_us": route_us, "ship_us": ship_us, "update_us": update_us, "merge_us": merge_us}
    known = saved_costs() or Costs()
    costs = known._replace(**{name: cost for name, cost in asked.items() if cost is not None})
    slide = window if slide is None else slide
    made = [
        _policy(name, workers, partitioners, window, slide, seed) for name in policy or COMPARED
    ]
    with bar() as shown:
        keys = _keys(stream, key, tuples, seed, lambda part: shown(part, "reading"))
        found: list[Simulation] = []
        for one in made:
            done = [0]

            def advance(n: int, name: str = one.name, done: list[int] = done) -> None:
                done[0] += n
                shown(done[0] / max(len(keys), 1), name)

            found.append(
                simulator.simulate(
                    simulator.Source(keys, rate),
                    one,
                    window=window,
                    slide=slide,
                    batch=batch,
                    partitioners=partitioners,
                    local=local,
                    reducers=reducers,
                    costs=costs,
                    keep_workers=html is not None,
                    seed=seed,
                    progress=advance,
                )
            )
    _show([one.summary() for one in found], stream, with_latency=rate is not None)
    if html is not None:
        lead = _lead(found[0].summary(), stream, costs)
        advice = _advice(keys, workers, costs)
        simulation_page.write(html, lead, found, keys, advice, late=rate is not None)
    if json_out is not None:
        from skewless.document import write

        body = {"stream": stream, "seed": seed, "results": [one.to_dict() for one in found]}
        write(json_out, json.dumps(body, allow_nan=False) + "\n")


def _policy(
    name: str, workers: int, partitioners: int, window: int, slide: int, seed: int
) -> Policy:
    """Return a policy by name, with the window, slide, seed and sources that it has parameters for."""
    import inspect

    from skewless import partitioners as deciding
    from skewless import planners
    from skewless.policy import policy_name

    classes: dict[str, Any] = {policy_name(c): c for c in (*deciding.ALL, *planners.ALL)}
    if name not in classes:
        raise ParameterError(f"simulate: no policy {name!r}{did_you_mean(name, classes)}.")
    takes = inspect.signature(classes[name].__init__).parameters
    given: dict[str, Any] = {"window": window, "slide": slide, "seed": seed}
    if name == "cooperative_dalton":
        given["sources"] = partitioners
    made: Policy = classes[name](workers, **{k: v for k, v in given.items() if k in takes})
    return made


def _keys(
    stream: str,
    columns: list[str] | None,
    tuples: int | None,
    seed: int,
    progress: Callable[[float], None],
) -> NDArray[np.uint64]:
    from skewless.datasets.files import read_keys
    from skewless.datasets.specs import SPECS, from_spec, is_spec

    if is_spec(stream) and not Path(stream).exists():
        if columns:
            raise ParameterError(
                f"simulate: --key names a column of a file, but {stream!r} is a generator; leave it out."
            )
        return from_spec(stream, 1_000_000 if tuples is None else tuples, seed=seed)
    if not Path(stream).exists():
        raise DataError(
            f"simulate: {stream!r} is no file and no generator"
            f"{did_you_mean(stream.partition(':')[0], SPECS)}."
        )
    if not columns:
        raise ParameterError(f"simulate: --key must name the key column of {stream!r}, got none.")
    keys = read_keys(stream, columns, limit=tuples, progress=progress)
    if not len(keys):
        raise DataError(f"simulate: {stream!r} holds no row.")
    return keys


def _lead(one: Summary, stream: str, costs: Costs) -> str:
    return (
        f"{stream}: {one.tuples:,} tuples, {one.workers} workers, {one.windows} windows. Costs in us: "
        f"route {costs.route_us:g}, ship {costs.ship_us:g}, update {costs.update_us:g} a tuple, merge "
        f"{costs.merge_us:g} a state."
    )


def _advice(keys: NDArray[np.uint64], workers: int, costs: Costs) -> list[str]:
    """Say what the advisor would take for these keys as one batch."""
    from skewless.advisor import advise, outcomes
    from skewless.histogram import Histogram, bucket_count

    every = Histogram.of(keys)
    counts = every.top(max(2 * workers, 64), bucket_count(workers))
    found = outcomes(counts, workers, costs, distinct=len(every))
    advice = advise(found, int(counts.counts[0]) / counts.total, workers)
    return [f"For all tuples as one batch the advisor takes {advice.policy}: {advice.reason}."]


def _show(found: list[Summary], stream: str, *, with_latency: bool) -> None:
    """Print one row a policy."""
    from rich.console import Console
    from rich.table import Table

    from skewless.report.text import simulation_headings, simulation_row

    first = found[0]
    lead = f"{stream}: {first.tuples:,} tuples, {first.workers} workers, {first.windows} windows"
    table = Table(title=lead, title_justify="left", title_style="")
    for heading in simulation_headings(late=with_latency):
        table.add_column(heading, justify="left" if heading in ("policy", "bound by") else "right")
    for one in found:
        table.add_row(*simulation_row(one, late=with_latency))
    console = Console()
    (console if console.is_terminal else Console(width=160)).print(table)
