"""What a collector sets for its process, tried in one of its own."""

import subprocess
import sys

PROGRAM = """
import gc, sys
from collector.process import after_start, tune_process

tune_process()
with after_start():
    print(sys.getswitchinterval() < 0.005, gc.get_threshold()[0] > 700, gc.get_freeze_count() > 0)
print(gc.get_freeze_count())
"""


def test_threads_and_the_search_for_cycles_are_set_up() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True", "True", "0"]


NO_PANDAS = """
import importlib.util, sys
from collector.process import tune_process

assert importlib.util.find_spec("pandas"), "these tests need it to be installed"
tune_process()
import pyarrow
print(pyarrow.array(["a"]).to_pylist(), "pandas" in sys.modules)
print(pyarrow.default_memory_pool().backend_name)
"""


def test_arrow_does_without_pandas_and_memory_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_PANDAS], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["['a'] False", "system"]
