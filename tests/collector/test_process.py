"""Settings of a collector for its process, tried in one of its own."""

import subprocess
import sys

PROGRAM = """
import gc, sys
from collector.process import after_start, tune_process

tune_process()
with after_start():
    print(sys.getswitchinterval() < 0.005, gc.get_threshold()[0] > 700, gc.get_freeze_count() > 0)
    print(gc.isenabled())
print(gc.get_freeze_count())
"""


def test_threads_and_the_search_for_cycles_are_set_up() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True", "True", "True", "0"]


UNUSED = """
import importlib.util, sys
from collector.process import tune_process

names = "numpy", "pandas"
assert all(map(importlib.util.find_spec, names)), "these tests need them to be installed"
tune_process()
import duckdb, pyarrow
rows = pyarrow.table({"a": [1, 2]})
print(duckdb.sql("select sum(a) from rows").fetchall(), [name in sys.modules for name in names])
print(pyarrow.scalar(5000, pyarrow.timestamp("ns")).as_py())
print(pyarrow.default_memory_pool().backend_name)
"""


def test_arrow_does_without_numpy_pandas_and_memory_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNUSED], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "[(3,)] [False, False]",
        "1970-01-01 00:00:00.000005",
        "system",
    ]


FILES = """
import resource
from collector.process import connections_that_fit

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
for files in (1024, 210, 2300):
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    print(connections_that_fit(1000, 1), connections_that_fit(1000, 2), connections_that_fit(20, 2))
"""


def test_connections_are_as_many_as_files_allow() -> None:
    """200 files are reserved: 824 are left of 1024, half of them for each of two doors."""
    done = subprocess.run([sys.executable, "-c", FILES], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["824 412 20", "16 16 16", "1000 1000 20"]
