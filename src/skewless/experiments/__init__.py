"""The papers' experiments, and our own, by permanent names; each run again, judged and shown.

To add a row:

1. Write one file for its family below the paper's folder, for instance ``dalton/scaling.py``, with a
   module constant of type `Experiment`. Copy the shape of ``pkg/imbalance.py``.
2. ``cells(setting)`` returns cells, each a few seconds at most in the fast profile and all of them 20 s
   on one core. The name of a cell holds its settings, because a kept cell goes by it. A cell
   returns rows: dictionaries of names to numbers, words or short lists (a few hundred numbers at
   most, as they are committed). Everything random goes by ``setting.seed``. Measure policies
   on the simulator, or drive them as ``through_time.destinations`` does; or on a Spark of many slots
   on few cores (``on_spark.slots_asleep``), two minutes in all, with work that sleeps.
3. ``judge(result)`` returns ``judged([...])`` of `ordering` and `number` checks. Each has the numbers
   in its words, and the words are true whether or not the check held.
4. ``tabulate(result)`` returns a `Table` of at most some forty lines (``pivot`` helps), units in the
   headings; ``draw(result)`` a `Plot` of panels of lines, or ``None``.
5. Name stand-in data and deviations in ``stand_in``; what the paper says, in our words, in ``claim``.
6. Give its line in ``rows.ROWS`` its home, ``"dalton.scaling:FIG7"``.
7. ``skewless experiment run dalton.fig7 --out benchmarks/results/experiments``, then
   ``skewless experiment report --results benchmarks/results/experiments --out docs``; look at the plot,
   and commit JSON, ``docs/evidence.md`` and ``docs/plots/evidence``.

Raise ``revision`` when what is measured changes, so that old results are not taken for new ones.
"""

from skewless.experiments.description import Cell, Experiment, Result, Setting, Table, Verdict
from skewless.experiments.rows import PAPERS, ROWS, find, listed
from skewless.experiments.running import run
from skewless.experiments.store import Store

__all__ = [
    "PAPERS",
    "ROWS",
    "Cell",
    "Experiment",
    "Result",
    "Setting",
    "Store",
    "Table",
    "Verdict",
    "find",
    "listed",
    "run",
]
