"""Speed of `scouter store copy`, from a data folder into a database and back.

`python -m tests.bench.store_copy` makes a store of 100,000 spans with texts of a kilobyte in
20,000 traces, each with a record and an evaluation, in commits as a worker makes them. It copies it
there and back on a PostgreSQL of its own. `--short` is for tests.
"""

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from collector.fleet.schema import DAY_NS
from collector.store.commit import Commit
from collector.store.file_store import FileStore
from tests.bench.figures import Figures
from tests.contracts.store_data import evaluation, record, span
from tests.support.postgresql_server import PostgresqlServer
from tests.support.store_commits import body_of, row_of

_SPANS_EACH: Final = 5
_TRACES_EACH: Final = 100
"""Traces of a commit."""
_WORDS: Final = 1_000
_SPACE: Final = "default"


def fill(folder: Path, records: int) -> None:
    """Make a store with a trace, a record and an evaluation for each of some numbers."""
    rng = random.Random(11)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(3, 9))) for _ in range(_WORDS)]
    store = FileStore(folder)
    for first in range(0, records, _TRACES_EACH):
        commit = Commit(offset=first + 1, low_seq=1)
        received_ns = first * DAY_NS // 10_000
        for number in range(first, min(first + _TRACES_EACH, records)):
            trace = rng.randbytes(16).hex()
            spans = [
                span(
                    each + 1,
                    trace_id=trace,
                    attributes={"gen_ai.prompt": " ".join(rng.choices(words, k=150))},
                )
                for each in range(_SPANS_EACH)
            ]
            text = " ".join(rng.choices(words, k=100))
            commit.spans += [row_of(_SPACE, each, received_ns) for each in spans]
            commit.bodies.append(body_of(_SPACE, spans))
            commit.records.append(
                record(f"u{number}", trace_id=trace, received_ns=received_ns, context={"a": text})
            )
            commit.evaluations.append(evaluation(f"u{number}", trace_id=trace))
        store.commit(commit)
    store.close()


def copy(source: object, target: object) -> tuple[float, float, float]:
    """Run the command; its seconds, those of its CPU, and its memory in MB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    program = "from collector.fleet.copy_command import store; store()"
    subprocess.run(
        [sys.executable, "-c", program, "copy", "--from", str(source), "--to", str(target)],
        check=True,
    )
    took_s = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took_s, used_s, after.ru_maxrss / 1000


def main(*, is_short: bool) -> int:
    """Measure; returns the exit code."""
    records = 500 if is_short else 20_000
    spans = records * _SPANS_EACH
    rows = spans + 4 * records  # with bodies, records, evaluations and their tasks
    figures = Figures("store_copy", is_short=is_short)
    server = PostgresqlServer()
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "data"
            fill(folder, records)
            size_mb = sum(each.stat().st_size for each in folder.rglob("*.duckdb*")) / 1e6
            figures.add(f"{spans:,} spans: size of the folder", size_mb, "MB")
            server.new_database("copied")
            url = f"postgresql://postgres@/copied?host={server.folder}"
            for words, source, target in (
                ("into the database", folder, url),
                ("into a folder", url, Path(name) / "back"),
            ):
                took_s, used_s, memory_mb = copy(source, target)
                figures.add(f"{words}: rows", rows / took_s, "/s")
                figures.add(f"{words}: bytes of the folder", size_mb / took_s, "MB/s")
                figures.add(f"{words}: CPU per 100,000 rows", 1e5 * used_s / rows, "s")
                figures.add(f"{words}: most memory so far", memory_mb, "MB")
            with server.connect() as connection:
                found = connection.execute("SELECT pg_database_size('copied')").fetchone()
            assert found is not None
            figures.add("size of the database", int(str(found[0])) / 1e6, "MB")
    finally:
        server.stop()
    return figures.end()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    sys.exit(main(is_short=parser.parse_args().short))
