"""One small Spark session for all tests that need the engine: classic, or with SKEWLESS_SPARK=connect."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

KIND = os.environ.get("SKEWLESS_SPARK", "classic")
ROOT = Path(__file__).resolve().parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out, on Connect, what looks at things that only a classic session shows."""
    if KIND == "connect":
        for item in items:
            if item.get_closest_marker("classic"):
                item.add_marker(pytest.mark.skip(reason="a classic session is needed"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Give a local session with two cores, on the loop-back address only, in UTC."""
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        environment.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        # The workers of a Connect server do not get the path of the process that started it.
        environment.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        environment.setenv("SPARK_LOCAL_DIRS", os.fspath(folder / "local"))
        builder = SparkSession.builder
        builder = builder.remote("local[2]") if KIND == "connect" else builder.master("local[2]")
        builder = (
            builder.appName("skewless tests")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.connect.grpc.binding.address", "127.0.0.1")
            .config("spark.driver.memory", "1g")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", os.fspath(folder / "warehouse"))
        )
        with warnings.catch_warnings():
            # Connect starts its server with all of them, and then warns that some cannot be set again.
            warnings.filterwarnings("ignore", "Failed to set")
            session = builder.getOrCreate()
        if KIND == "classic":
            session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
