"""Live sides of `scouter compare`: versions, periods and stored runs that a collector compares."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from scouter.cli.asking import connect, for_output, moment, print_table
from scouter.errors import ConfigError

if TYPE_CHECKING:
    from scouter.client.client import ScouterClient
    from scouter.client.models.comparison import Comparison

_SIDE: Final = re.compile(r"(version|run|last|before):(.+)")
_PERIOD: Final = re.compile(r"([0-9]+)([smhdw])")
_FORMS: Final = "version:1.4, run:ID, last:24h or before:24h"
_PARTS: Final = {"route": "tools, models, lengths"}


def is_live(side: str) -> bool:
    """Tell whether a side is one that a collector has, and no file."""
    return _SIDE.fullmatch(side) is not None and not Path(side).exists()


def compare_live(
    before: str,
    after: str,
    *,
    profile: str | None,
    environment: str | None,
    require_ruled_out: float | None,
    json: Path | None,
    quiet: bool,
    url: str | None,
    token_file: Path | None,
) -> int:
    """Have a collector compare two sides, and print what it says.

    Args:
        before: The baseline: `version:1.4`, `run:ID`, `last:24h`, or `before:24h`, which is the
            24 hours before the last 24.
        after: The side in question, in the same forms.
        profile: Alias; needed where a side is no run.
        environment: Of the records; None for any.
        require_ruled_out: Inconclusive where a fall of more points than this is not ruled out.
        json: File for the answer of the API.
        quiet: Print the decision alone.
        url: The collector's address; see `connect`.
        token_file: See `connect`.

    Returns:
        The exit code: 0 no regression seen, 1 regressed, 3 inconclusive.

    Raises:
        ConfigError: A side is in none of the forms.
    """
    with connect(url, token_file) as client:
        found = comparison_of(client, before, after, profile, environment, require_ruled_out)
    if json is not None:
        json.write_text(found.model_dump_json(indent=2), encoding="utf-8")
    for line in _decision(found) if quiet else _lines(found):
        typer.echo(for_output(line))
    if not quiet:
        _print_rates(found)
    return found.exit_code


def comparison_of(
    client: "ScouterClient",
    before: str,
    after: str,
    profile: str | None,
    environment: str | None = None,
    require_ruled_out: float | None = None,
) -> "Comparison":
    """Have a collector compare two sides; the arguments are those of `compare_live`.

    Raises:
        ConfigError: A side is in none of the forms.
    """
    old, new = _parameters(before, "A"), _parameters(after, "B")
    return client.comparison(
        profile,
        before_version=old.get("version"),
        before_run=old.get("run"),
        before_since=old.get("since"),
        before_until=old.get("until"),
        version=new.get("version"),
        run=new.get("run"),
        since=new.get("since"),
        until=new.get("until"),
        environment=environment,
        require_ruled_out=require_ruled_out,
    )


def _parameters(side: str, name: str) -> dict[str, str | None]:
    """A side as parameters of the API."""
    match = _SIDE.fullmatch(side)
    if match is None:
        raise ConfigError(f"{name}: {side!r} is no live side; expected {_FORMS}, for both sides")
    kind, text = match.groups()
    if kind in ("version", "run"):
        return {kind: text}
    period = _PERIOD.fullmatch(text)
    if period is None:
        raise ConfigError(f"{name}: {side!r} is no period; expected last:30m, last:24h or last:7d")
    if kind == "last":
        return {"since": moment(text, name)}
    twice = f"{2 * int(period[1])}{period[2]}"
    return {"since": moment(twice, name), "until": moment(text, name)}


def _decision(found: "Comparison") -> Iterator[str]:
    yield f"{found.word}: {found.headline}"
    yield from (f"  - {reason}" for reason in found.reasons)
    if found.advice:
        yield f"Next: {'; '.join(found.advice)}."


def _lines(found: "Comparison") -> Iterator[str]:
    sides = ((found.before, "before"), (found.after, "now"))
    yield ", ".join(f"{each.label} ({each.records:,} records) {when}" for each, when in sides)
    yield ""
    yield from _decision(found)
    if found.state:
        yield found.state
    why = found.explanation
    if why is not None:
        yield why.sentence
        if named := [each.name for each in why.traits if each.is_named]:
            yield f"Fell further than the rest of the same traffic: {', '.join(named)}."
        if other := [f"{each.name} {each.before:.0%} → {each.after:.0%}" for each in why.setup]:
            yield f"Other shares of the records ran with: {', '.join(other)}."
    yield from found.notes
    yield ""


def _print_rates(found: "Comparison") -> None:
    print_table(
        ("Rate", "Before", "Now", "Difference", "95 %", "Decision"),
        [
            (
                each.label,
                f"{each.before_rate:.1%} ({each.before_passed}/{each.before_count})",
                f"{each.after_rate:.1%} ({each.after_passed}/{each.after_count})",
                _points(each.difference),
                _interval(each.lower, each.upper),
                each.word,
            )
            for each in found.rates
        ],
    )
    if found.explanation is not None:
        typer.echo("")
        print_table(
            ("Part of the difference", "Points", "95 %", ""),
            [
                (
                    _PARTS.get(each.name, each.name),
                    _points(each.difference),
                    _interval(each.lower, each.upper),
                    "fell" if each.fell else "",
                )
                for each in found.explanation.parts
            ],
        )


def _interval(lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None:
        return "too few"
    return f"{_points(lower)} to {_points(upper)}"


def _points(share: float) -> str:
    text = f"{share * 100:+.1f}"
    return "0" if text in {"+0.0", "-0.0"} else text.replace("-", "\u2212")
