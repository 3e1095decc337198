"""Ground-truth datasets: read from folders, and made of conversations that went well."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from glob import glob
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final, cast

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.files.read import Document, dotted, read_document
from scouter.evaluate.journey.case import Case, case_of
from scouter.evaluate.journey.case_faults import Fault, faults_of
from scouter.evaluate.journey.evaluate import SOUND, WXO, Compat
from scouter.evaluate.journey.message import TOOL_RESPONSE, as_text, open_content
from scouter.evaluate.operators.equality import identity
from scouter.formats.watsonx.result_files import file_stems
from scouter.model.agent_work import ToolCall

_NOT_CASES: Final = "agent.json"
"""Files whose name ends so define agents."""
_EXTENSIONS: Final = (".json", ".yaml", ".yml")


def find_datasets(
    paths: Iterable[str | Path], *, is_recursive: bool = False
) -> tuple[list[Path], list[str]]:
    """Find the files of datasets.

    Args:
        paths: Files, patterns, and folders, of which the `.json` files are taken.
        is_recursive: Look into the folders of folders, too.

    Returns:
        The files, and notes on what was left out: a path with nothing behind it, and a file whose
        name without the extension another has already.
    """
    found: dict[str, Path] = {}
    notes: list[str] = []
    for path in paths:
        files = _files(str(path), is_recursive=is_recursive)
        if not files:
            notes.append(f"{path}: there is no dataset")
        for file in files:
            known = found.setdefault(file.stem, file)
            if known != file:
                notes.append(f"{file}: left out, as {known} is called {file.stem!r}, too")
    return list(found.values()), notes


def _files(path: str, *, is_recursive: bool) -> list[Path]:
    if Path(path).is_file():  # whatever its name would mean as a pattern
        found = iter((Path(path),))
    elif Path(path).is_dir():
        found = Path(path).rglob("*.json") if is_recursive else Path(path).glob("*.json")
    else:
        found = map(Path, glob(path))
    return sorted(
        file
        for file in found
        if file.suffix.lower() in _EXTENSIONS and not file.name.endswith(_NOT_CASES)
    )


def read_dataset(path: str | Path) -> Case:
    """Read one ground-truth dataset.

    Args:
        path: A `.json`, `.yaml` or `.yml` file.

    Returns:
        The case; without `dataset_name` it is called as the file.

    Raises:
        FileFormatError: Names file, line and field of the first fault, and the number of others.
    """
    return case_of_document(read_document(path))


def case_of_document(document: Document) -> Case:
    """Make a case of a file that was parsed already; see `read_dataset`."""
    faults = faults_of(document.value)
    if faults:
        raise fault_error(document, faults)
    return case_of(cast("dict[str, Any]", document.value), Path(document.path).stem)


def fault_error(document: Document, faults: Sequence[Fault]) -> ConfigError:
    """The error for faults of a file: the first, with the places of the others."""
    first, *more = faults
    places = ", ".join(dotted(fault.loc) for fault in more[:5])
    others = f" (more faults at {places})" if more else ""
    return document.error(f"{first.problem}{others}", first.loc, first.expected)


def read_cases(files: Sequence[Path], tags: Iterable[str] = ()) -> list[Case]:
    """Read several datasets.

    Args:
        files: From `find_datasets`.
        tags: Keep cases that have one of these; without any, all.

    Raises:
        FileFormatError: A file is wrong.
        ConfigError: Two cases have one name, or none is left.
    """
    wanted = frozenset(tags)
    named: dict[str, Path] = {}
    cases: list[Case] = []
    for file in files:
        case = read_dataset(file)
        other = named.setdefault(case.name, file)
        if other != file:
            raise ConfigError(f"{file} and {other} are both called {case.name!r}; names are unique")
        if not wanted or wanted & {*case.tags}:
            cases.append(case)
    if not cases:
        why = f"no dataset has one of the tags {sorted(wanted)}" if files else "there is no dataset"
        raise ConfigError(f"{why}; expected a ground-truth file, or a folder of them")
    return cases


SUMMARY_GOAL: Final = "summarize"


def dataset_of(
    name: str,
    questions: Sequence[str],
    calls: Iterable[ToolCall],
    answer: str | None,
    *,
    compat: Compat = SOUND,
    summary: str | None = None,
) -> dict[str, JsonValue] | None:
    """Make a dataset that wants the calls and the answer of an agent, in their order.

    Calls that failed are left out, and of equal ones all but the last. The user's words are those
    of the record: the first message is `starting_sentence`, the others are `user_prompts`.

    Args:
        name: Name of the dataset.
        questions: The user's messages, at least one.
        calls: The calls of tools, in order.
        answer: The agent's last words.
        compat: `wxo-1.6.9` makes the dataset of that version of the original. A call without a
            result is left out; a call whose result is a mere text of an error is not. Of several
            calls of one tool in a row the last one is wanted, with any arguments. Where the agent
            said nothing, the last result counts as its answer. There are no name and no story.
        summary: The answer in short, for a dataset of `wxo-1.6.9`.

    Returns:
        The dataset; None where the agent did nothing that a goal could want.
    """
    is_original = compat == WXO
    named = [call for call in calls if call.name]
    retained = _without_repeats(
        call
        for call in named
        if not _says_failed(call) and (call.has_result if is_original else not call.error)
    )
    details = _in_rows(retained) if is_original else [_goal(call) for call in retained]
    names = _name(details)
    if is_original and answer is None and named and named[-1].has_result:
        answer = as_text(named[-1].result)
    if answer:
        names.append(_free(SUMMARY_GOAL, names))
        reported: dict[str, JsonValue] = {"response": answer, "keywords": []}
        reported |= {} if summary is None else {"summary": summary}
        details.append({"type": "text", "name": names[-1], **reported})
    if not names:
        return None
    if is_original:
        return {
            "agent": "",
            "goals": {goal: [after] for goal, after in pairwise(names)} or {names[0]: []},
            "goal_details": list[JsonValue](details),
            "story": "N/A",
            "starting_sentence": questions[0],
            "response_summary_version": "v1" if summary is None else "v2",
        }
    return {
        "dataset_name": name,
        "story": "You say, one after the other: " + " / ".join(questions),
        "starting_sentence": questions[0],
        "user_prompts": list[JsonValue](questions[1:]),
        "goals": {goal: list[JsonValue](names[at + 1 : at + 2]) for at, goal in enumerate(names)},
        "goal_details": list[JsonValue](details),
    }


def _says_failed(call: ToolCall) -> bool:
    """Tell whether a result has a field that says it failed; it may be wrapped like a content."""
    found = open_content(call.result)
    if found.get("type") == TOOL_RESPONSE:
        found = open_content(found.get("content"))
    return found.get("is_success") is False or "error_details" in found


def _without_repeats(calls: Iterable[ToolCall]) -> list[ToolCall]:
    retained: dict[object, ToolCall] = {}
    for call in calls:
        key = (call.name, identity(call.arguments))
        retained.pop(key, None)
        retained[key] = call
    return list(retained.values())


def _goal(call: ToolCall) -> dict[str, JsonValue]:
    args = call.arguments if isinstance(call.arguments, dict) else {}
    return {"type": "tool_call", "name": "", "tool_name": call.name, "args": args}


def _in_rows(calls: Sequence[ToolCall]) -> list[dict[str, JsonValue]]:
    """One goal for calls of one tool in a row: how the last one was called says nothing then."""
    goals: list[dict[str, JsonValue]] = []
    for _, group in groupby(calls, key=lambda call: call.name):
        row = list(group)
        goals.append(_goal(row[-1]))
        args = goals[-1]["args"]
        if len(row) > 1 and isinstance(args, dict):
            goals[-1]["arg_matching"] = dict.fromkeys(args, "ignore")
    return goals


def _name(goals: Sequence[dict[str, JsonValue]]) -> list[str]:
    """Name goals by their tools: `tool-1`, `tool-2` …."""
    counts: Counter[str] = Counter()
    names: list[str] = []
    for goal in goals:
        tool = str(goal["tool_name"])
        counts[tool] += 1
        names.append(f"{tool}-{counts[tool]}")
        goal["name"] = names[-1]
    return names


def _free(name: str, taken: Sequence[str]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


def write_datasets(
    folder: Path, datasets: Mapping[str, Mapping[str, JsonValue]], *, overwrite: bool
) -> list[Path]:
    """Write datasets into a folder, which is made: a file each, called as the dataset.

    Raises:
        ConfigError: A file is there and may not be replaced, or cannot be written.
    """
    stems = file_stems(datasets)
    files = {name: folder / f"{stem}.json" for name, stem in stems.items()}
    there = [str(file) for file in files.values() if file.exists()]
    if there and not overwrite:
        raise ConfigError(
            f"{there[0]} is there, and may hold what somebody corrected; give another folder, or "
            "--overwrite to replace it"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, file in files.items():
            text = json.dumps(datasets[name], ensure_ascii=False, indent=2, allow_nan=False)
            file.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write the datasets: {error}") from error
    return list(files.values())
