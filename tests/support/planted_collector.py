"""`scouter collector` with a planted fault: a context with the key `bomb` ends the process.

As a bug in a library's C code would, or the system that ends a process for want of memory.
"""

import os
import signal
from collections.abc import Sequence
from typing import Any

from collector.worker import judge as judge_module
from collector.worker.ready import Ready
from scouter.cli.app import main
from tests.support.collector_process import CollectorProcess


class PlantedCollector(CollectorProcess):
    """The program with the fault."""

    module = __name__


def _plant() -> None:
    judge = judge_module.judge

    def fatal(items: Sequence[Ready], *args: Any, **more: Any) -> Any:
        for ready in items:
            if isinstance(ready.record.context, dict) and "bomb" in ready.record.context:
                os.kill(os.getpid(), signal.SIGKILL)
        return judge(items, *args, **more)

    judge_module.judge = fatal


if __name__ == "__main__":
    _plant()
    main()
