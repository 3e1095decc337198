"""The commands `scouter store copy` and `scouter store past`."""

import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from collector.settings.model import CollectorSettings
from scouter.errors import ConfigError, TransientError
from scouter.model.visible import visible

if TYPE_CHECKING:
    from typing import TypeAlias

    from collector.fleet.copy_database import DatabaseSource, DatabaseTarget
    from collector.fleet.copy_folder import FolderReads, FolderSource, FolderTarget
    from collector.fleet.copying import Plan
    from collector.fleet.store import FleetStore

    Source: TypeAlias = FolderSource | DatabaseSource
    Target: TypeAlias = DatabaseTarget | FolderTarget
    SheetReads: TypeAlias = FolderReads | FleetStore

DIFFERENT: Final = 1
"""Exit code where the two sides are not alike in the end; 2 is a wrong use."""
_PASSWORD: Final = "SCOUTER_COLLECTOR_POSTGRESQL_PASSWORD"  # noqa: S105 of a variable
_URLS: Final = ("postgresql://", "postgres://")
_PARTITIONS: Final[int] = CollectorSettings.model_fields["fleet_partitions"].default
_NEEDS: Final = "a copy needs {}: pip install 'scouter-agents[fleet]'"
_LATER: Final = "; this goes on by itself once it does"
"""What processes of a fleet say of PostgreSQL, and is not true of a command."""
_SHOWN: Final = 20
"""Differences that are printed at most."""
_SPACES: Final = """
    SELECT DISTINCT space FROM (
        SELECT space FROM records UNION SELECT space FROM spans
        UNION SELECT space FROM dead_letters UNION SELECT space FROM totals
    ) s WHERE space <> '' ORDER BY space
"""

store: Final = typer.Typer(
    name="store",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # panels cut the names of environment variables off at 80 columns
    help="Copy what a collector has stored: into a fleet's database, a data folder, or files.",
)


@store.command()
def copy(
    source: Annotated[
        str, typer.Option("--from", metavar="DIR|URL", help="The data folder or the database.")
    ],
    target: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="DIR|URL",
            help="The other one: an empty database as postgresql://USER@HOST:PORT/DATABASE, or an "
            "empty or new folder. The database's password is in the environment: "
            f"{_PASSWORD}.",
        ),
    ],
    partitions: Annotated[
        int,
        typer.Option(
            min=1,
            max=1024,
            metavar="N",
            envvar="SCOUTER_COLLECTOR_FLEET_PARTITIONS",
            help="Partitions of the fleet's topic, which stay as many; for a copy into a database.",
        ),
    ] = _PARTITIONS,
) -> None:
    """Copy a store from a data folder into a fleet's database, or back; the source stays as it is.

    Nobody may use either of them meanwhile. A collector has to have read its whole log before it is
    stopped; of a fleet first the gateways, then, once the lag is 0, the workers and apis. Rows keep
    the numbers of their commits, so that cursors of clients go on. Tokens and what judges have
    spent are copied, too; stored answers of judges are not.

    A copy that was ended at any moment goes on with the same command, and nothing is there twice.
    In the end rows, totals and sheets of both sides are compared: exit code 1 if they differ.

    \b
        scouter store copy --from /var/lib/scouter --to postgresql://scouter@db:5432/scouter
        scouter store copy --from postgresql://scouter@db:5432/scouter --to /var/lib/scouter-2
    """  # noqa: D301 the mark of lines that click leaves as they are
    into_database, from_database = (each.startswith(_URLS) for each in (target, source))
    if into_database == from_database:
        raise ConfigError(
            "--from and --to: one of them is a data folder, the other one a database"
            " (postgresql://…)"
        )
    old_mask = os.umask(0o077)  # what is written is for nobody else
    try:
        with ExitStack() as stack, _bar() as tell:
            if into_database:
                ends = _into_database(Path(source), target, partitions, stack)
            else:
                ends = _into_folder(source, Path(target), stack)
            text, found = _copy(*ends, tell)
    except ImportError as error:
        raise ConfigError(_NEEDS.format(error.name)) from error
    except TransientError as error:
        what = str(error).removesuffix(_LATER)
        raise TransientError(f"{what}: run this again, it goes on where it was") from error
    finally:
        os.umask(old_mask)
    for each in found[:_SHOWN]:
        typer.echo(visible(f"different: {each}"), err=True)
    if found:
        typer.echo(
            f"{len(found)} differences: the source is as it was; copy it into an empty place, and"
            " report this",
            err=True,
        )
        raise typer.Exit(DIFFERENT)
    typer.echo(visible(text))
    if into_database:
        typer.echo(
            f"start the fleet with {partitions} partitions (fleet_partitions) and a new topic"
            " (fleet_topic)",
            err=True,
        )
    else:
        typer.echo(f"start a collector on it: scouter collector --data {target}", err=True)


@store.command()
def past(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="URL",
            help="The fleet's database: postgresql://USER@HOST:PORT/DATABASE. Its password is in "
            f"the environment: {_PASSWORD}.",
        ),
    ],
    target: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="Gets a folder for each day.")
    ],
) -> None:
    """Write everything that a fleet has stored as Parquet files of days, as its --past does.

    For scouter reevaluate, and any reader of such files. The fleet may run meanwhile. The folder is
    a copy: erasures do not reach it. Days that have a folder there are not written again, so the
    same command goes on after whatever ended it.

    \b
        scouter store past --from postgresql://scouter@db:5432/scouter --to copy
        scouter reevaluate --profile desk.json --past copy
    """  # noqa: D301 as above
    if not source.startswith(_URLS):
        raise ConfigError("--from: expected a database (postgresql://…)")
    old_mask = os.umask(0o077)
    try:
        from collector.fleet.past import Past
        from collector.fleet.store import FleetStore

        url = _with_password(source)
        with closing(FleetStore(url)) as fleet, closing(Past(target, fleet, url, late_s=0)) as days:
            written = days.write_copy()
    except ImportError as error:
        raise ConfigError(_NEEDS.format(error.name)) from error
    finally:
        os.umask(old_mask)
    typer.echo(f"{visible(str(target))}: {written} days written")


def _into_database(
    folder: Path, address: str, partitions: int, stack: ExitStack
) -> "tuple[Source, Target]":
    from collector.fleet.copy_database import DatabaseTarget
    from collector.fleet.copy_folder import FolderSource
    from collector.fleet.copying import copy_to_fleet

    url = _with_password(address)
    source = stack.enter_context(closing(FolderSource(folder, partitions)))
    target = DatabaseTarget(url, partitions, lambda: copy_to_fleet(folder, url))
    return source, stack.enter_context(closing(target))


def _into_folder(address: str, folder: Path, stack: ExitStack) -> "tuple[Source, Target]":
    from collector.fleet.copy_database import DatabaseSource
    from collector.fleet.copy_folder import FolderTarget
    from collector.fleet.copying import copy_to_folder

    url = _with_password(address)
    source = stack.enter_context(closing(DatabaseSource(url)))
    target = FolderTarget(folder, lambda: copy_to_folder(url, folder))
    return source, stack.enter_context(closing(target))


def _with_password(address: str) -> str:
    from psycopg import ProgrammingError
    from psycopg.conninfo import make_conninfo

    password = os.environ.get(_PASSWORD)
    try:
        return make_conninfo(address, password=password) if password else address
    except ProgrammingError:  # its text may have the password
        raise ConfigError(
            "this is no address of a PostgreSQL database: give one such as"
            " postgresql://user@host:5432/database"
        ) from None


def _copy(
    source: "Source", target: "Target", tell: Callable[[str, int, int], None]
) -> tuple[str, list[str]]:
    """Copy and compare; what was done in words, and what is different."""
    began = time.monotonic()
    plan = copy_store(source, target, lambda done, total: tell("copying", done, total))
    took_s = time.monotonic() - began
    total = sum(plan.rows.values())
    tell("comparing", total, total)
    text = f"{target}: {_words(plan)}, in {took_s:.1f} s; both sides are alike"
    return text, differences(source, target, plan)


def copy_store(
    source: "Source", target: "Target", tell: Callable[[int, int], None] = lambda done, total: None
) -> "Plan":
    """Copy everything, or go on with what was started; a target that has all is left as it is.

    Args:
        source: Is not changed.
        target: Empty, or with a part of the same source.
        tell: Gets how many rows are there, and how many will be.

    Returns:
        What was to be copied.

    Raises:
        ConfigError: The target has other data, or the source has changed since the copy began.
        TransientError: One of the two does not answer; the same call goes on.

    Cost: linear; a part takes about 130 MB of memory, more where one commit does. 100,000 spans
        with 20,000 records and evaluations take 4 to 6 s.
    """
    from collector.fleet.copying import COPIED

    plan = source.plan()
    done = target.begin(plan)
    if done > plan.last_seq:
        return plan
    total = sum(plan.rows.values())
    parts = list(source.parts(done, plan.last_seq))
    there = total - sum(each.rows for each in parts)
    tell(there, total)
    for part in parts:
        rows = {
            table: source.rows(table, part.after, part.until)
            for table in (*COPIED, "offsets")
            if table in part.tables
        }
        target.add(part.after, part.until, rows)
        there += part.rows
        tell(there, total)
    target.finish(plan, source.ends())
    return plan


def differences(source: "Source", target: "Target", plan: "Plan") -> list[str]:
    """Differences of the two sides in words: rows, totals, and the sheets of all spaces.

    Cost: linear in the keys of all rows.
    """
    found: list[str] = []
    counts = target.counts()
    for table, n in plan.rows.items():
        if counts[table] != n:
            found.append(f"{table}: {n:,} rows in the source, {counts[table]:,} in the target")
    here, there = source.reads, target.reads()
    for name, one, other in _both(_totals(here), _totals(there)):
        found.append(f"total {name}: {one} in the source, {other} in the target")
    spaces = {
        space for reads in (here, there) for (space,) in reads.read_for_work(_SPACES)
    }  # fmt: skip
    for space in sorted(spaces):
        for part, one, other in _both(_sheet(here, space), _sheet(there, space)):
            found.append(f"sheet of space {space!r}, {part}: {one} and {other}")
    return found


def _totals(reads: "SheetReads") -> dict[str, object]:
    return {
        " ".join(str(each) for each in key if each): n
        for key, n in reads.stored_totals().items()
        if n
    }


def _sheet(reads: "SheetReads", space: str) -> dict[str, object]:
    sheet = reads.conservation(space)
    found: dict[str, object] = {
        f"{kind} {name}": n
        for kind, part in (
            ("records", sheet.records), ("spans", sheet.spans), ("events", sheet.events),
        )
        for name, n in part
    }  # fmt: skip
    letters = {f"letters {reason}": n for reason, n in sheet.dead_letters.items()}
    return {**found, **letters, "has_uncounted_losses": sheet.has_uncounted_losses}


def _both(
    one: Mapping[str, object], other: Mapping[str, object]
) -> Iterator[tuple[str, object, object]]:
    for name in sorted({*one, *other}):
        if one.get(name) != other.get(name):
            yield name, one.get(name), other.get(name)


def _words(plan: "Plan") -> str:
    rows = plan.rows
    return (
        f"{rows['spans']:,} spans, {rows['records']:,} records, {rows['evaluations']:,} evaluations"
        f" and {sum(rows.values()):,} rows in all"
    )


@contextmanager
def _bar() -> Generator[Callable[[str, int, int], None]]:
    """A bar of rows on standard error, for people who watch."""
    import sys

    if not sys.stderr.isatty():
        yield lambda text, done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bars:
        task = bars.add_task("reading", total=None)
        yield lambda text, done, total: bars.update(
            task, description=text, completed=done, total=total
        )
