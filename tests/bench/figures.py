"""Figures of a bench: by name, some with a bound, kept with the machine that they belong to.

At its end a bench prints its figures as a table and appends them as one line of JSON to
`.cache/bench.jsonl`, or to the file that `SCOUTER_BENCH_LOG` names, with date, commit, Python,
processor and cores. The long form ends with 1 where a bound is missed. The short form, which the
tests run, is too short for figures of time: it never fails by a bound.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
LOG_VARIABLE: Final = "SCOUTER_BENCH_LOG"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number."""

    name: str
    value: float
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def is_missed(self) -> bool:
        """Whether it has a bound and is beyond it; no number (`nan`) is beyond any."""
        low = self.at_least is not None and not self.value >= self.at_least
        return low or (self.at_most is not None and not self.value <= self.at_most)

    @property
    def bound(self) -> str:
        """The bound in words; empty where there is none."""
        least = "" if self.at_least is None else f"at least {_number(self.at_least)}"
        most = "" if self.at_most is None else f"at most {_number(self.at_most)}"
        return ", ".join(filter(None, (least, most)))

    @property
    def verdict(self) -> str:
        """`met` or `missed`; empty where there is no bound."""
        return ("missed" if self.is_missed else "met") if self.bound else ""


class Figures:
    """Collects the figures of one run of a bench.

    Args:
        bench: Its name, with its arguments where they make it another one.
        is_short: Whether it is the short form.
    """

    def __init__(self, bench: str, *, is_short: bool = False) -> None:
        self._bench, self._is_short = bench, is_short
        self._found: list[Figure] = []

    def add(
        self,
        name: str,
        value: float,
        unit: str = "",
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        """Report a figure; the bounds are those of the issues."""
        self._found.append(
            Figure(name=name, value=value, unit=unit, at_least=at_least, at_most=at_most)
        )

    def end(self) -> int:
        """Print and keep everything.

        Returns:
            Exit code of the program: 1 if a bound is missed in the long form.
        """
        print("\n" + "\n".join(table(self._found)), flush=True)
        _append({
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "bench": self._bench,
            "is_short": self._is_short,
            **_circumstances(),
            "figures": [_written(each) for each in self._found],
        })  # fmt: skip
        return int(not self._is_short and any(each.is_missed for each in self._found))


def table(figures: Iterable[Figure]) -> list[str]:
    """A line for each figure: name, value and unit, bound, whether it is met."""
    return [
        f"{each.name:<52} {_number(each.value):>10} {each.unit:<9} "
        f"{each.bound:<16} {each.verdict}".rstrip()
        for each in figures
    ]


def log_path() -> Path:
    """Where the lines of JSON go."""
    return Path(os.environ.get(LOG_VARIABLE) or ROOT / ".cache" / "bench.jsonl")


def figures_of(line: str) -> tuple[str, list[Figure]]:
    """Read one line of the file: the bench and its figures."""
    told = json.loads(line)
    bench = told["bench"] + " --short" * told["is_short"]
    fields = ("name", "value", "unit", "at_least", "at_most")
    read = [{key: each[key] for key in fields if key in each} for each in told["figures"]]
    return bench, [Figure(**each) for each in read]


def _append(line: Mapping[str, Any]) -> None:
    path = log_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _written(figure: Figure) -> dict[str, Any]:
    bounds = {"at_least": figure.at_least, "at_most": figure.at_most}
    return {
        "name": figure.name,
        "value": figure.value,
        "unit": figure.unit,
        **{name: value for name, value in bounds.items() if value is not None},
        **({"verdict": figure.verdict} if figure.bound else {}),
    }


def _number(value: float) -> str:
    """Four digits, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _circumstances() -> dict[str, Any]:
    """Date, commit and machine of the figures."""
    return {
        "arguments": sys.argv[1:],
        "commit": _git("rev-parse", "HEAD"),
        "is_dirty": bool(_git("status", "--porcelain")),
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def _git(*arguments: str) -> str | None:
    """The output of git; None where there is none, as in an archive of the sources."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _processor() -> str:
    """The name of the model; of the kind only, where the system does not tell it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
