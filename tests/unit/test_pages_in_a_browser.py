"""Pages in a real browser without a screen: they fit a laptop and a phone, light and dark, and draw."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skewless.cli import app

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on the path"),
]

#: Run in the page when it is drawn: what it looks like, as JSON in a last element.
PROBE = """<script>window.addEventListener("load", () => setTimeout(() => {
  const plots = [...document.querySelectorAll(".js-plotly-plot")];
  const found = {
    wide: document.documentElement.scrollWidth, window: window.innerWidth,
    plots: plots.length, drawn: plots.filter(plot => plot.querySelector(".ytick")).length,
    injected: document.querySelectorAll("b.injected").length,
    paper: getComputedStyle(document.body).backgroundColor,
    errors: window.failed || 0 };
  const out = document.createElement("pre"); out.id = "probe";
  out.textContent = JSON.stringify(found); document.body.appendChild(out);
}, 500)); window.addEventListener("error", () => { window.failed = (window.failed || 0) + 1; });
</script>"""
SCREENS = [(1280, "light"), (1280, "dark"), (500, "light"), (500, "dark")]
KEY = '<b class="injected">&amp;</b>'


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    rows = "\n".join(json.dumps({"k": KEY if i % 3 else f"key {i}"}) for i in range(900))
    (folder / "rows.jsonl").write_text(rows)
    made = {name: folder / f"{name}.html" for name in ("advise", "simulate")}
    advise = ["advise", folder / "rows.jsonl", "--key", "k", "--workers", 4]
    simulate = ["simulate", folder / "rows.jsonl", "--key", "k", "--workers", 4, "--window", 300]
    policies = ["--policy", "hash", "--policy", "wrap_around", "--rate", 1000]
    for name, arguments in (("advise", advise), ("simulate", [*simulate, *policies])):
        done = CliRunner().invoke(app, [*map(str, arguments), "--html", str(made[name])])
        assert done.exit_code == 0, done.output
    return made


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
@pytest.mark.parametrize(("name", "plots"), [("advise", 1), ("simulate", 5)])
def test_a_page_fits_draws_and_runs_nothing_that_was_data(
    pages, tmp_path, name, plots, width, scheme
) -> None:
    found = probed(pages[name], tmp_path, width, scheme)
    assert found["wide"] <= found["window"]
    assert found["plots"] == plots
    assert found["drawn"] == plots
    assert found["injected"] == 0
    assert found["errors"] == 0
    shade = sum(map(int, re.findall(r"\d+", found["paper"])[:3]))
    assert shade > 600 if scheme == "light" else shade < 150


def probed(page: Path, folder: Path, width: int, scheme: str) -> dict:
    copy = folder / "probed.html"
    copy.write_text(page.read_text().replace("</body>", f"{PROBE}</body>"))
    done = subprocess.run(
        [
            str(BROWSER),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={folder / 'profile'}",
            f"--window-size={width},900",
            f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
            "--virtual-time-budget=20000",
            "--dump-dom",
            copy.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    told = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout)
    assert told, done.stderr[-500:]
    return json.loads(told.group(1))
