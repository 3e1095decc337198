"""Programs whose wall clock jumps when a test says so; their monotonic clock goes on.

`python -m tests.support.jumping_clock FILE MODULE [ARG…]` runs a module like `python -m`. Its date
is ahead by the seconds that FILE holds.
"""

import runpy
import sys
import time
from pathlib import Path


def install(file: Path) -> None:
    """Replace the wall clock, before anything else is imported."""
    real_ns = time.time_ns

    def ahead_s() -> float:
        try:
            return float(file.read_text() or 0)
        except OSError:
            return 0.0

    def time_ns() -> int:
        return real_ns() + int(ahead_s() * 1e9)

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9


if __name__ == "__main__":
    _, name, module, *rest = sys.argv
    install(Path(name))
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
