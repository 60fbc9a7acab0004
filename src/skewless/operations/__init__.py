"""What a running query does, as numbers: a record per batch, the file of them, and who reads it.

Knows nothing of Spark, so that another process can follow a query without it.
"""

from __future__ import annotations

from skewless.operations.batch_metrics import BatchMetrics, Timing
from skewless.operations.metrics_file import Found, MetricsFile, Tail
from skewless.operations.prometheus import exposition

__all__ = ["BatchMetrics", "Found", "MetricsFile", "Tail", "Timing", "exposition"]
