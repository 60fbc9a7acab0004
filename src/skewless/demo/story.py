"""Tell the demo: run both acts, print the tables, write the page."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from skewless.demo.acts import Exact, exact, worth_it
from skewless.demo.adapting import HOT_BATCHES, drift, elasticity, reaction
from skewless.demo.runs import BALANCED, HEADINGS, TASK_HEADINGS, Run, session
from skewless.demo.words import WordStream, write_stream
from skewless.keys import hash64
from skewless.report import demo_page
from skewless.routing import Routing
from skewless.spark.policy_log import PolicyLog

__all__ = ["tell_story"]

_EXACT = ("hash", "pkg", "dalton", "wrap_around")
_SAME = {None: "-", True: "yes", False: "NO"}
#: The Python act takes the newest quarter of the words, so that waiting, not the cores, sets its pace.
_WORTH_SINCE = 1955
_WORTH = ("hash", "local", "dalton", "wrap_around")


def tell_story(
    *, until: int, workers: int, cost_us: float, page: Path, console: Console | None = None
) -> bool:
    """Run the demo; return whether every result was plain Spark's.

    Parameters
    ----------
    until
        Last year of the addresses in the exact act, which begins in 1790.
    workers
        Workers, and task slots of the local Spark.
    cost_us
        Emulated service time per row in the second act, microseconds.
    page
        HTML file to write.
    """
    if console is None:
        console = Console()
        if not console.is_terminal:
            console = Console(width=132)
    started = time.perf_counter()
    folder = Path(tempfile.mkdtemp(prefix="skewless-demo-"))
    spark: SparkSession | None = None
    try:
        console.print(f"starting Spark with {workers} task slots ...")
        spark = session(workers)
        counted = write_stream(folder / "exact-in", until=until, n_batches=4)
        linked = write_stream(
            folder / "worth-in", since=_WORTH_SINCE, n_batches=5, files_per_batch=workers
        )
        first = _act_one(console, spark, counted, workers, folder / "exact")
        second = _act_two(console, spark, linked, workers, cost_us, folder / "worth")
        hot = _hot_words(folder / "worth", workers, linked.vocabulary)
        lead = (
            f"Words of the State of the Union addresses, replayed in speaking order on a local Spark "
            f"with {workers} task slots; {workers} workers. One day of event time stands for a year."
        )
        same = [[_SAME[first.identical.get(run.policy)]] for run in first.runs]
        acts: list[demo_page.Act] = [
            (
                "Exact: words per window of 20 years, sliding by 1",
                _exact_text(counted, first),
                [*HEADINGS, "same rows"],
                first.runs,
                same,
            ),
            (
                "Worth it: the words that follow each word, a Python aggregator",
                _worth_text(linked, cost_us),
                [*HEADINGS, *TASK_HEADINGS],
                second,
                [run.task_cells() for run in second],
            ),
        ]
        stories = _act_three(console, workers, folder), _act_four(console, workers, folder)
        demo_page.write(page, lead, acts, hot, stories)
    finally:
        if spark is not None:
            spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.perf_counter() - started
    console.print(f"\n{page} shows the load of every worker through time ({seconds:.0f} s in all).")
    return all(first.identical.values())


def _exact_text(words: WordStream, done: Exact) -> str:
    answer = "yes" if all(done.identical.values()) else "NO"
    return (
        f"Identical to plain Spark: {answer} ({done.n_rows_out:,} rows each, from {words.n_rows:,} words "
        f"in {words.n_batches} micro-batches). Spark combines its own aggregates on the map side, so "
        "routing only costs here: this act shows the same answer and the balance, not a gain in time."
    )


def _worth_text(words: WordStream, cost_us: float) -> str:
    return (
        f"{words.n_rows:,} words in {words.n_batches} micro-batches; windows of 20 years; every row "
        f"costs an emulated {cost_us:g} us of service time, slept in the task. The stream waits for "
        "the slowest task of each batch. 'local' routes nothing: it is balanced, and ships a state "
        "per word and input task."
    )


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:>12}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("batches"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}"),
        console=console,
    )


class _Tell:
    """Shows one bar per policy."""

    def __init__(self, progress: Progress, n_batches: int) -> None:
        self.progress, self.n_batches = progress, n_batches
        self.bars: dict[str, object] = {}

    def __call__(self, policy: str, done: int, text: str) -> None:
        if policy not in self.bars:
            self.bars[policy] = self.progress.add_task(policy, total=self.n_batches, text="")
        bar = self.bars[policy]
        self.progress.update(bar, completed=done, text=text)  # type: ignore[arg-type]


def _act_one(
    console: Console, spark: SparkSession, words: WordStream, workers: int, folder: Path
) -> Exact:
    console.rule("1. exact: words per window of 20 years, sliding by 1")
    console.print(f"{words.n_rows:,} words in {words.n_batches} micro-batches")
    with _progress(console) as progress:
        done = exact(spark, words, _EXACT, workers, folder, _Tell(progress, words.n_batches))
    same = [[_SAME[done.identical.get(run.policy)]] for run in done.runs]
    console.print(_table([*HEADINGS, "same rows"], done.runs, same))
    console.print(_exact_text(words, done))
    return done


def _act_two(
    console: Console,
    spark: SparkSession,
    words: WordStream,
    workers: int,
    cost_us: float,
    folder: Path,
) -> list[Run]:
    console.rule("2. worth it: a Python aggregator, one task per worker")
    console.print(_worth_text(words, cost_us))
    with _progress(console) as progress:
        runs = worth_it(
            spark, words, _WORTH, workers, cost_us, folder, _Tell(progress, words.n_batches)
        )
    console.print(_table([*HEADINGS, *TASK_HEADINGS], runs, [run.task_cells() for run in runs]))
    return runs


def _act_three(console: Console, workers: int, folder: Path) -> demo_page.Story:
    console.rule("3. drift: a key turns hot and cools again")
    steps = drift(folder / "drift", workers)
    up, down = reaction(steps)
    text = (
        "Made-up batches through the loop that steers a query: one key takes 60 % of the rows in "
        f"batches {HOT_BATCHES.start} to {HOT_BATCHES.stop - 1} and none in the others. It was cut "
        f"{_after(up)} after it turned hot, and whole again {_after(down)} after it cooled. A policy "
        "learns from a batch when that batch is done."
    )
    console.print(text)
    return (
        "Drift: a key turns hot and cools again",
        text,
        [
            ("workers of the key", [("workers of the key", [s.workers_of_hot for s in steps])]),
            (
                "max/mean",
                [
                    ("hash", [s.hashed for s in steps]),
                    ("wrap_around", [s.max_over_mean for s in steps]),
                ],
            ),
        ],
    )


def _after(n_batches: int | None) -> str:
    if n_batches is None:
        return "never"
    return "one batch" if n_batches == 1 else f"{n_batches} batches"


def _act_four(console: Console, workers: int, folder: Path) -> demo_page.Story:
    console.rule("4. elasticity: the rate of a day on as many workers as it needs")
    steps = elasticity(folder / "elasticity", workers)
    active = [s.active for s in steps]
    late = sum(s.load > 1 for s in steps)
    text = (
        f"The rate goes from a third of what {workers} workers take to nine tenths of it, and back; one "
        f"key has a fifth of the rows. Algorithm 4 of Prompt kept {min(active)} to {max(active)} workers "
        f"active, {sum(active) / len(active):.1f} in the mean; {late} of {len(steps)} batches took "
        "longer than the trigger's interval. A batch takes as long as its fullest worker."
    )
    console.print(text)
    return (
        "Elasticity: as many workers as the rate needs",
        text,
        [
            ("k rows", [("rows of the batch, thousands", [s.rows / 1000 for s in steps])]),
            ("workers", [("active workers", active)]),
            ("load", [("processing time over interval", [s.load for s in steps])]),
        ],
    )


def _table(headings: Sequence[str], runs: Sequence[Run], more: Sequence[Sequence[str]]) -> Table:
    table = Table(show_edge=False, pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", no_wrap=not number)
    for done, extra in zip(runs, more, strict=True):
        table.add_row(*done.cells(), *extra)
    table.caption = f"balanced after so many batches: load max/mean then stays at most {BALANCED}"
    return table


def _hot_words(
    folder: Path, workers: int, vocabulary: pa.Array
) -> dict[str, list[tuple[str, dict[int, float]]]]:
    """Return, per policy, its hot words and the workers and shares of each, most workers first."""
    words = [*vocabulary.to_pylist(), None]
    hashes = hash64(pa.array(words, pa.string())).tolist()
    names = {
        key: "(none)" if word is None else word for key, word in zip(hashes, words, strict=True)
    }
    found: dict[str, list[tuple[str, dict[int, float]]]] = {}
    for policy in ("dalton", "wrap_around"):
        entry = PolicyLog(folder / f"policy-{policy}").newest(workers)
        routing = entry.routing if entry else Routing.hashing(workers)
        split = [(names.get(key, "?"), shares) for key, shares in routing.hot.items()]
        found[policy] = sorted(split, key=lambda item: (-len(item[1]), item[0]))[:12]
    return found
