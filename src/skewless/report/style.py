"""How every page looks, in light and dark, on a laptop and a phone."""

__all__ = ["COLOURS", "STYLE"]

#: Of curves and bars, one after the other, on light and dark paper.
COLOURS = ("#2b6cb0", "#d9572b", "#3a9d6e", "#b0892b", "#8a5cc2", "#4aa3c7", "#c2528b", "#7a869a")

STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --paper: #fff; --line: #d5dae3; --soft: #5b6577; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8f0; --paper: #14171d; --line: #353c49; --soft: #9aa5b8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 68rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; }
p { margin: .4rem 0; max-width: 48rem; } .soft { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; vertical-align: top; }
th { font-weight: 600; white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
.words td { text-align: left; white-space: normal; }
"""
