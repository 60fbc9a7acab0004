"""The simulator: any policy on any number of workers, in one process.

Sources, partitioners, combiners and reducers with windows, bounded queues, stragglers and a cost
model; policies are driven as they are, tuple by tuple or batch by batch.
"""

from skewless.simulator.rates import Constant, Rate, Sinusoidal, Stepped
from skewless.simulator.result import Panes, Simulation, Summary, Windows
from skewless.simulator.run import simulate
from skewless.simulator.sources import Source
from skewless.simulator.stragglers import Straggler

__all__ = [
    "Constant",
    "Panes",
    "Rate",
    "Simulation",
    "Sinusoidal",
    "Source",
    "Stepped",
    "Straggler",
    "Summary",
    "Windows",
    "simulate",
]
