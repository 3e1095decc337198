"""Settings of a collector for its process, tried in one of its own."""

import subprocess
import sys

import pytest

from collector.process import untouched_code

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


CODE = """
import pathlib, duckdb
from collector.process import after_start

duckdb.sql("select sum(i) from range(9) t(i)").fetchall()

def code_kb():
    kb, is_code = 0, False
    for line in pathlib.Path("/proc/self/smaps").read_text().splitlines():
        if " r-xp " in line:
            is_code = True
        elif is_code and line.startswith("Rss:"):
            kb += int(line.split()[1])
            is_code = False
    return kb

before = code_kb()
with after_start():
    print(code_kb() < before / 2)
    print(duckdb.sql("select sum(i) from range(9) t(i)").fetchall())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep what they mapped")
def test_code_of_the_start_is_unmapped_and_runs_again() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True", "[(36,)]"]


SMAPS = """\
1000-3000 r-xp 00000000 08:01 7 /lib/a library.so
Rss:                   8 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
3000-4000 r--p 00002000 08:01 7 /lib/a library.so
Anonymous:             0 kB
Swap:                  0 kB
5000-6000 r-xp 00000000 08:01 8 /lib/patched.so
Anonymous:             4 kB
Swap:                  0 kB
6000-7000 r-xp 00000000 08:01 8 /lib/patched and swapped out.so
Anonymous:             0 kB
Swap:                  4 kB
7000-8000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
Swap:                  0 kB
9000-a000 r-xp 00000000 00:00 0
Anonymous:             0 kB
Swap:                  0 kB
b000-c000 r-xs 00000000 00:01 9 /memfd:code (deleted)
Anonymous:             0 kB
Swap:                  0 kB
ffff00-ffffff r-xp 00000000 08:01 9 /bin/python
Anonymous:             0 kB
Swap:                  0 kB
"""


def test_only_code_that_is_still_the_files_own_is_given_back() -> None:
    assert list(untouched_code(SMAPS)) == [(0x1000, 0x3000), (0xFFFF00, 0xFFFFFF)]


FILES = """
import resource
from collector.process import connections_that_fit

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
for files in (1024, 210, 2300):
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    print(connections_that_fit(1000, 1), connections_that_fit(1000, 2), connections_that_fit(20, 2))
"""


def test_connections_are_as_many_as_files_allow() -> None:
    """200 files are kept back: 824 are left of 1024, half of them for each of two doors."""
    done = subprocess.run([sys.executable, "-c", FILES], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["824 412 20", "16 16 16", "1000 1000 20"]
