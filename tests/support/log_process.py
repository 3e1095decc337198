"""A process with a log: threads append, one reads, stores and trims, until it is killed.

`python -m tests.support.log_process FOLDER FIRST` appends items with numbers from `FIRST` on, in
turn to its threads. It writes two files beside the log, each line at once: `acknowledged` with a
number and its offset, `stored` with an offset and the numbers that were read up to it.
"""

import os
import sys
import threading
from pathlib import Path
from typing import Final

from collector.log.file_log import FileLog
from collector.log.port import Item, Kind

THREADS: Final = 4
SEGMENT_BYTES: Final = 20_000


def stored(folder: Path) -> tuple[int, list[int]]:
    """The offset of the store, and the numbers of all items in it; of whole lines only."""
    file = folder / "stored"
    text = file.read_text(encoding="ascii") if file.exists() else ""
    lines = [list(map(int, line.split())) for line in text.split("\n")[:-1]]
    return (lines[-1][0] if lines else 0), [number for line in lines for number in line[1:]]


def acknowledged(folder: Path) -> dict[int, int]:
    """The offset behind each item that was acknowledged, by its number."""
    file = folder / "acknowledged"
    text = file.read_text(encoding="ascii") if file.exists() else ""
    lines = [line.split() for line in text.split("\n")[:-1]]
    return {int(number): int(offset) for number, offset in lines}


def number_of(item: Item) -> int:
    return int(bytes(item.body).partition(b" ")[0])


def _append(log: FileLog, first: int, file: int) -> None:
    for number in range(first, sys.maxsize, THREADS):
        body = (b"%d " % number).ljust(20 + number * 7919 % 3_000, b".")
        offset = log.append(Item(Kind.RECORDS, "default", number, body)).result()
        os.write(file, b"%d %d\n" % (number, offset))


def _store(log: FileLog, at: int, file: int) -> None:
    while True:
        if log.wait(at, 1):
            chunk = log.read(at, 10_000)
            assert not chunk.damaged
            at = chunk.next
            line = " ".join(map(str, [at, *(number_of(each.item) for each in chunk.entries)]))
            os.write(file, f"{line}\n".encode())
            log.trim(at)


def _main(folder: Path, first: int) -> None:
    offset, _ = stored(folder)
    log = FileLog(folder / "log", offset, segment_bytes=SEGMENT_BYTES)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    answers = os.open(folder / "acknowledged", flags, 0o600)
    rows = os.open(folder / "stored", flags, 0o600)
    for number in range(THREADS):
        threading.Thread(target=_append, args=(log, first + number, answers)).start()
    _store(log, offset, rows)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]))
