"""`kill -9` between any two instructions of commits, erasures and copies."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Final

from collector.store.file_store import FileStore

ROUNDS: Final = 4
_PROGRAM: Final = """
import sys, threading
from pathlib import Path
from collector.store import database
from collector.store.commit import Commit
from collector.store.erase import EraseTarget
from collector.store.file_store import FileStore
from tests.contracts.store_data import record

database.CHECKPOINT_BYTES = 100_000
store = FileStore(Path(sys.argv[1]))

def copy():
    while True:
        store.erase(EraseTarget(space="a", record_uid=f"{store.offset}-1"))
        store.purge()

threading.Thread(target=copy, daemon=True).start()
while True:
    number = store.offset + 1
    rows = [record(f"{number}-{part}", space="a", context="x" * 5_000) for part in range(3)]
    store.commit(Commit(offset=number, low_seq=1, records=rows))
    print(number, flush=True)
"""


def test_what_was_committed_is_there_once(folder: Path) -> None:
    """Each commit whole or not at all, and none that was reported is lost; erased stays erased."""
    rng, erased = random.Random(5), set[str]()
    for _ in range(ROUNDS):
        with subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(folder)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            reported = [int(process.stdout.readline()) for _ in range(rng.randrange(1, 60))]
            process.kill()
            last = [*reported, *map(int, process.stdout.read().split())][-1]
        store = FileStore(folder)
        assert len(list(folder.glob("store-*.duckdb"))) == 1
        assert store.offset in (last, last + 1)
        rows = [uid for (uid,) in store.read("SELECT uid FROM records")]
        assert len(rows) == len(set(rows))
        expected = {f"{n}-{part}" for n in range(1, store.offset + 1) for part in range(3)}
        gone = expected - set(rows)
        assert set(rows) <= expected
        assert all(store.tombstones.has_record("a", uid) for uid in gone)
        assert gone >= erased
        erased |= gone
        store.close()
    assert erased
