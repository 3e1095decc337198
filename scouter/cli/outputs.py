"""The files that a command writes, checked before the work that leads to them."""

import os
import time
from dataclasses import dataclass, fields
from pathlib import Path

import typer

from scouter.errors import ConfigError
from scouter.replay.reports.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Files to which reports are written; None leaves a report out."""

    junit: Path | None = None
    markdown: Path | None = None
    html: Path | None = None
    json: Path | None = None
    save: Path | None = None
    save_baseline: Path | None = None

    def check(self) -> None:
        """Refuse what could not be written in the end.

        Raises:
            ConfigError: Names the option, the file and what is in the way.
        """
        used: dict[Path, str] = {}
        for item in fields(self):
            path: Path | None = getattr(self, item.name)
            if path is None:
                continue
            option = f"--{item.name.replace('_', '-')}"
            check_writable(option, path)
            other = used.setdefault(path.resolve(), option)
            if other != option:
                raise ConfigError(f"{option} {path}: {other} writes to this file, too")

    def write(self, report: Report) -> None:
        """Write the reports that were named.

        Raises:
            ConfigError: A file cannot be written; the others are.
        """
        from scouter.replay.reports import html, json_report, junit, markdown

        failed: list[str] = []
        for option, path, write in (
            ("--junit", self.junit, junit.write),
            ("--markdown", self.markdown, markdown.write),
            ("--html", self.html, html.write),
            ("--json", self.json, json_report.write),
        ):
            if path is not None:
                try:
                    write(path, report)
                except OSError as error:
                    failed.append(f"{option} {path}: {error.strerror or error}")
                else:
                    typer.echo(f"wrote {path}", err=True)
        if failed:
            raise ConfigError("cannot write " + "; ".join(failed))


def check_writable(option: str, path: Path) -> None:
    """Refuse a file that cannot be written.

    Raises:
        ConfigError: Names the option, the file and what is in the way.
    """
    folder = path.parent
    if path.is_dir():
        raise ConfigError(f"{option} {path}: this is a folder; expected a file")
    if not folder.is_dir():
        raise ConfigError(f"{option} {path}: there is no folder {folder}; make it first")
    target = path if path.exists() else folder
    if not os.access(target, os.W_OK):
        raise ConfigError(f"{option} {path}: no permission to write {target}")


def folder_by_time(parent: Path) -> Path:
    """Name a folder that is not there yet, after the time, for the files of one run."""
    first = parent / time.strftime("%Y-%m-%d_%H-%M-%S")
    found, number = first, 1
    while found.exists():  # another run began in the same second
        number += 1
        found = first.with_name(f"{first.name}-{number}")
    return found
