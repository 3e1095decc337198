"""Runs a module after having a collector's cache read its clock from a file.

`python -m tests.support.clocked_collector FILE MODULE ARGUMENT…`; the file holds seconds since the
epoch.
"""

import runpy
import sys
from functools import partial
from pathlib import Path

import collector.app
from collector.judging.answers import KeptAnswers


def main() -> None:
    """Set the clock, then be the module."""
    file = Path(sys.argv[1])

    def now() -> float:
        return float(file.read_text())

    collector.app.KeptAnswers = partial(KeptAnswers, clock=now)  # pyright: ignore[reportAttributeAccessIssue] - it is called only
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
