"""Recorded conversations: files `<case>.messages.json`, as the original and Scouter write them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, DataError
from scouter.evaluate.files.read import read_document
from scouter.evaluate.journey.case import Case
from scouter.evaluate.journey.message import read_messages, to_documented
from scouter.evaluate.outcome import Reason
from scouter.evaluate.results.attempt import Exchange
from scouter.formats.watsonx.cases import END
from scouter.formats.watsonx.result_files import (
    CUT_SHORT,
    ENDED_EARLY,
    IN_WORDS,
    MESSAGES,
    file_stems,
)
from scouter.replay.runner import EvalRunner

_END: Final = ".messages.json"
_RUN: Final = r"(?:\.run(\d+))?" + re.escape(_END)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A recorded conversation."""

    turns: tuple[Exchange, ...]
    error: str | None = None
    """Fault that ended it early, or why its end was not seen, of `<case>.errors.json`."""
    error_reason: Reason = Reason.AGENT
    has_end: bool = False
    """True if the user said all that it had to say, or the run that recorded it saw the end."""

    def cut_after(self, max_turns: int) -> str | None:
        """Reason why the end was not seen, of a conversation with so many turns; else None."""
        if self.has_end or sum(bool(turn["user"]) for turn in self.turns) < max_turns:
            return None
        return (
            f"the conversation has all {max_turns} turns that max_user_turns allows, and nothing "
            "says that the user ended it, so its end was not seen; record it with more turns"
        )


def read_conversations(folder: Path, cases: Sequence[Case]) -> Mapping[str, Sequence[Conversation]]:
    """Read the recorded conversations of cases, those of several runs in the runs' order.

    Args:
        folder: Has `<case>.messages.json`, or `<case>.run1.messages.json` and so on, in it or in
            its folder `messages`.
        cases: Each has at least one conversation, and all the same number.

    Raises:
        ConfigError: A case has none, or another number than the others.
        FileFormatError: A file is no list of messages.
    """
    inner = folder / MESSAGES
    place = inner if inner.is_dir() else folder
    if not place.is_dir():
        raise ConfigError(f"--recorded {folder}: no such folder; expected one with recorded files")
    stems = file_stems(case.name for case in cases)
    found = {case.name: _files(place, stems[case.name]) for case in cases}
    for name, files in found.items():
        if not files:
            raise ConfigError(
                f"--recorded {folder}: no conversation of case {name!r}; expected "
                f"{place / stems[name]}.messages.json"
            )
    counts = {len(files): name for name, files in found.items()}
    if len(counts) > 1:
        (few, one), *_, (many, other) = sorted(counts.items())
        raise ConfigError(
            f"--recorded {folder}: {few} of case {one!r}, and {many} of case {other!r}; expected "
            "as many conversations of each case"
        )
    scripts = {case.name: case.user_prompts for case in cases}
    return {name: [_read(file, scripts[name]) for file in found[name]] for name in found}


def _files(place: Path, stem: str) -> list[Path]:
    pattern = re.compile(re.escape(stem) + _RUN)
    found = {
        int(match[1] or 0): file
        for file in place.iterdir()
        if (match := pattern.fullmatch(file.name))
    }
    return [found[number] for number in sorted(found)]


def _read(file: Path, script: Sequence[str] | None) -> Conversation:
    document = read_document(file)
    if not isinstance(document.value, list):
        raise document.error("no list of messages", (), "messages, each with a role")
    try:
        turns = turns_of(cast("list[Any]", document.value))
    except DataError as error:
        raise document.error(str(error)) from error
    stem = file.with_name(file.name.removesuffix(_END))
    said = [str(turn["user"]) for turn in turns if turn["user"]]
    measures = _beside(stem, "metrics")
    has_end = isinstance(measures, dict) and IN_WORDS in measures
    if script is not None:
        has_end = has_end or len(said) > len(script)
    elif said:
        has_end = has_end or END.search(said[-1]) is not None
    errors = _beside(stem, "errors")
    for text in map(str, errors if isinstance(errors, list) else ()):
        for words, reason in ((ENDED_EARLY, Reason.AGENT), (CUT_SHORT, Reason.INCOMPLETE)):
            if text.startswith(words):
                error = text.removeprefix(words)
                return Conversation(turns=turns, error=error, error_reason=reason)
    return Conversation(turns=turns, has_end=has_end)


def _beside(stem: Path, kind: str) -> JsonValue:
    """The result file of this kind, of the run that recorded the conversation; else None."""
    path = stem.with_name(f"{stem.name}.{kind}.json")
    return read_document(path).value if path.is_file() else None


def turns_of(messages: Sequence[Mapping[str, Any]]) -> tuple[Exchange, ...]:
    """Divide messages into turns, each with all that the agent did before the user spoke again.

    Raises:
        DataError: One of them is no message.
    """
    turns: list[tuple[str, list[JsonValue]]] = []
    for message in read_messages(messages):
        if message.role == "user":
            turns.append((message.text, []))
            continue
        if not turns:
            turns.append(("", []))  # the agent spoke first
        turns[-1][1].append(to_documented(message))
    return tuple({"user": said, "agent": {"messages": did}} for said, did in turns)


def collect_recorded(
    runner: EvalRunner, conversations: Mapping[str, Sequence[Conversation]]
) -> None:
    """Give a runner recorded conversations as attempts at its scenarios.

    Args:
        runner: Its scenarios are those of the cases.
        conversations: By case, from `read_conversations`.
    """
    for scenario in runner.scenarios:
        for attempt, each in enumerate(conversations[scenario.id]):
            response = each.turns[-1]["agent"] if each.turns else None
            cut = None if each.error else each.cut_after(scenario.max_turns)
            runner.collect_scenario_data(
                {},
                response,
                scenario,
                attempt=attempt,
                turns=each.turns,
                error=each.error or cut,
                error_reason=Reason.INCOMPLETE if cut else each.error_reason,
            )
