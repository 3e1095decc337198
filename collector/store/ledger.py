"""The file with what judges have spent: beside the database, and in every backup.

Not a table of the database: whether there is enough left has to be read and written in one step
before each question, and be on the disk before it is put. A commit of the database does that for
hundreds of rows together, behind whatever ingest has queued; here it takes 0.3 ms.
"""

import time
from pathlib import Path
from typing import Final

from scouter.agent.ledger import SqliteLedger

LEDGER_NAME: Final = "judge_budget.db"
"""Name of the file inside a data folder."""


def copy_ledger(source: Path, target: Path) -> None:
    """Copy the file as it is now into another data folder, where there is one.

    Args:
        source: A data folder, whose collector may be running, or a backup.
        target: The other one.

    Raises:
        LedgerError: It cannot be read or written now.
    """
    if (source / LEDGER_NAME).exists():
        ledger = SqliteLedger(source / LEDGER_NAME)
        try:
            ledger.copy_to(target / LEDGER_NAME)
        finally:
            ledger.close()


def put_ledger_aside(folder: Path) -> None:
    """Take a file that cannot be used, and those beside it, out of the way.

    Raises:
        OSError: They cannot be renamed.
    """
    stamp = time.time_ns()
    for each in (LEDGER_NAME, f"{LEDGER_NAME}-wal", f"{LEDGER_NAME}-shm"):
        if (folder / each).exists():
            (folder / each).replace(folder / f"{each}.damaged-{stamp}")
