"""Programs whose wall clock jumps when a test says so; their monotonic clock goes on.

`python -m tests.support.jumping_clock FILE MODULE [ARG…]` runs a module like `python -m`. Its date
is ahead by the seconds that FILE holds. A collector that is forked follows the file that the
variable `SCOUTER_TESTS_AHEAD` names.
"""

import runpy
import sys
import time
from pathlib import Path
from typing import Final

VARIABLE: Final = "SCOUTER_TESTS_AHEAD"


class JumpingClock:
    """The wall clock, ahead by the seconds in a file, once there is one."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self._real_ns = time.time_ns

    def install(self) -> None:
        """Take the place of the wall clock, before anything that reads it is imported."""
        time.time_ns = self._time_ns
        time.time = lambda: self._time_ns() / 1e9

    def _time_ns(self) -> int:
        return self._real_ns() + (0 if self.file is None else _ahead_ns(self.file))


def _ahead_ns(file: Path) -> int:
    try:
        return int(float(file.read_text() or 0) * 1e9)
    except OSError:
        return 0


if __name__ == "__main__":
    _, name, module, *rest = sys.argv
    JumpingClock(Path(name)).install()
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
