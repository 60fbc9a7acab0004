"""``skewless watch``: the terminal, the page, the end."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from skewless import cli
from skewless.commands.watch import page_server, picture
from skewless.operations import BatchMetrics, MetricsFile, Tail, Timing
from skewless.operations.batch_metrics import HotKey
from tests.oracles.prometheus import parse

#: A name that would be markup, in the terminal's language and the page's, and steer a terminal.
NASTY = "<b onload=x>[red]clicks[/]\x1b[2J</script>"


def metrics(batch: int, loads: tuple[int, ...] = (30, 10, 20, 0), **more: object) -> BatchMetrics:
    timing = Timing("id", "run", NASTY, 1_000.0 + 10 * batch, 1.25, 101, 2.5)
    one = BatchMetrics(batch, 3, sum(loads), loads, f"Policy({NASTY})", 3, timing=timing)
    hot = (HotKey(-3, 25, 2), HotKey(5, 8, 1))
    return one._replace(hot=hot, hot_keys=12, split_keys=2, extra_fragments=3, **more)


@pytest.fixture
def file(tmp_path: Path) -> MetricsFile:
    made = MetricsFile(tmp_path)
    for batch in range(4):
        made.append(metrics(batch, interval_s=10.0))
    return made


def shown(file: MetricsFile, now_s: float = 1_060.0) -> str:
    tail = Tail(file)
    tail.update()
    written = io.StringIO()
    console = Console(file=written, width=160, force_terminal=True, color_system=None)
    console.print(picture(tail, now_s))
    return written.getvalue()


def test_the_terminal_shows_batches_loads_and_hot_keys(file: MetricsFile) -> None:
    text = shown(file)
    assert "<b onload=x>[red]clicks[/]?[2J</script>" in text
    assert "\x1b" not in text
    assert "batch 3; it began 30 s ago, and no end is noted." in text
    lines = [line.split() for line in text.splitlines()]
    told = [
        "3",
        "00:17:10",
        "60",
        "1.25",
        "10.00",
        "101",
        "2.5",
        "1.50",
        "3",
        "of",
        "4",
        "12",
        "2",
        "3",
    ]
    assert told in lines
    assert ["0", "1.50", "#" * 30] in lines
    assert ["3", "0.00"] in lines
    assert ["-3", "25", "41.7%", "2"] in lines


def test_many_workers_are_cut_to_the_fullest(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    file.append(metrics(0, tuple(range(100)))._replace(active=None))
    text = shown(file)
    assert "... and 68 more" in text
    bars = [line.split()[0] for line in text.splitlines() if line.endswith("#")]
    assert bars == [str(worker) for worker in range(99, 67, -1)]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (None, "the query has ended."),
        ("Job aborted\nat Scheduler", "the query has ended. It failed: Job aborted"),
        (" \n", "the query has ended."),
    ],
)
def test_the_end_is_told_with_its_error(file: MetricsFile, error: str | None, words: str) -> None:
    file.end("run", error)
    assert any(line.endswith(words) for line in shown(file).splitlines())


def test_what_is_not_known_is_left_open(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    assert "No batch with rows is noted in" in shown(file)
    file.append(BatchMetrics(0, 1, 3, (1, 2)))
    with file.path.open("a") as raw:
        raw.write("damaged\n")
    text = shown(file)
    assert "A policy, batch 0; no end is noted. 1 lines of the file are damaged." in text
    told = ["0", "-", "3", "-", "-", "-", "-", "1.33", "2", "-", "-", "1"]
    assert told in [line.split() for line in text.splitlines()]


def test_a_finished_query_is_shown_and_the_command_ends(file: MetricsFile) -> None:
    file.end("run")
    done = CliRunner().invoke(cli.app, ["watch", str(file.folder)])
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[0].split()[0] == "batch"
    assert [line.split()[0] for line in lines[1:5]] == ["0", "1", "2", "3"]
    assert lines[-1].endswith("the query has ended.")


def test_once_ends_though_the_query_runs(file: MetricsFile) -> None:
    done = CliRunner().invoke(cli.app, ["watch", str(file.folder), "--once"])
    assert done.exit_code == 0
    assert "no end is noted" in done.output


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli.app, ["watch", str(tmp_path / "nowhere")])
    assert isinstance(done.exception, ValueError)
    assert str(done.exception).startswith("watch: ")


class _Page(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.title = ""
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in = tag

    def handle_data(self, data: str) -> None:
        if self._in == "td":
            self.cells.append(data)
        if self._in in ("title", "h1"):
            self.title += data
        self._in = ""


def test_the_page_refreshes_itself_and_holds_nothing_but_text_from_the_data(
    file: MetricsFile,
) -> None:
    pytest.importorskip("plotly")
    with page_server(Tail(file), 2.0, 0) as server:
        page = _Page(_get(server.url))
        refresh = [a for tag, a in page.tags if tag == "meta" and "http-equiv" in a]
        assert refresh == [{"http-equiv": "refresh", "content": "2"}]
        assert {"b", "red"} & {tag for tag, _ in page.tags} == set()
        assert page.title.count("<b onload=x>[red]clicks[/]?[2J</script>") == 2
        assert [a["src"] for tag, a in page.tags if tag == "script" and "src" in a] == [
            "/plotly.js"
        ]
        assert "-3" in page.cells
        assert len(_get(server.url + "plotly.js")) > 1_000_000
        assert parse(_get(server.url + "metrics"))["skewless_batch_id"]
        file.append(metrics(4))
        assert "heaviest keys of batch 4" in _get(server.url)
        file.end("run")
        assert 'content="30"' in _get(server.url)


def test_a_page_without_batches_says_so(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    with page_server(Tail(MetricsFile(tmp_path)), 0.1, 0) as server:
        assert "No batch with rows is noted" in _get(server.url)
        assert 'content="1"' in _get(server.url)


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as reply:  # noqa: S310 - our own address
        return reply.read().decode()


def _started(*arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    # A shell's background job ignores Ctrl-C, and so would all that it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [
                sys.executable,
                "-u",
                "-c",
                "from skewless.cli import main; main()",
                "watch",
                *arguments,
            ],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm"},
        )
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_it_cleanly_in_the_terminal_and_as_a_page(file: MetricsFile) -> None:
    pytest.importorskip("plotly")
    folder = str(file.folder)
    for arguments in ([folder, "--every", "0.1"], [folder, "--web"]):
        process = _started(*arguments)
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            if "--web" in arguments:
                assert "keys of batch 4" in _get(first.split()[0])
            else:
                assert first.split()[0] == "batch"
                assert [process.stdout.readline().split()[0] for _ in range(4)] == list("0123")
                file.append(metrics(4))
                assert process.stdout.readline().split()[0] == "4"
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            assert (process.returncode, errors) == (0, "")
        finally:
            process.kill()
            process.communicate()


def test_ctrl_c_ends_the_live_picture_of_a_terminal(file: MetricsFile) -> None:
    screen, terminal = os.openpty()
    process = _started(str(file.folder), "--every", "0.1", stdout=terminal)
    os.close(terminal)
    try:
        seen = b""
        deadline = time.monotonic() + 120
        while b"xxhash64 of the key" not in seen:
            assert time.monotonic() < deadline, seen
            seen += os.read(screen, 10_000)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the terminal is gone when the process is
            while chunk := os.read(screen, 10_000):
                seen += chunk
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
        assert seen.endswith(b"\x1b[?25h")  # the cursor is back
    finally:
        process.kill()
        process.communicate()
        os.close(screen)
