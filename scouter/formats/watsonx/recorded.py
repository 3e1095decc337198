"""Ground-truth datasets made of conversations that went well."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.operators.equality import identity
from scouter.formats.watsonx.result_files import file_stems
from scouter.model.tool_call import ToolCall

SUMMARY_GOAL: Final = "summarize"


def dataset_of(
    name: str, asked: Sequence[str], calls: Iterable[ToolCall], answer: str | None
) -> dict[str, JsonValue] | None:
    """Make a dataset that wants what an agent did, in the order in which it did it.

    Calls that failed are left out, and of equal ones all but the last. The user says what was
    said: the first message is `starting_sentence`, the others are `user_prompts`.

    Args:
        name: Of the dataset.
        asked: The user's messages, at least one.
        calls: Of tools, in order.
        answer: The agent's last words.

    Returns:
        None where the agent did nothing that a goal could want.
    """
    kept: dict[object, ToolCall] = {}
    for call in calls:
        if call.error or not call.name:
            continue
        key = (call.name, identity(call.arguments))
        kept.pop(key, None)
        kept[key] = call
    counts: Counter[str] = Counter()
    details: list[JsonValue] = []
    names: list[str] = []
    for call in kept.values():
        counts[call.name] += 1
        names.append(f"{call.name}-{counts[call.name]}")
        args = call.arguments if isinstance(call.arguments, dict) else {}
        details.append(
            {"type": "tool_call", "name": names[-1], "tool_name": call.name, "args": args}
        )
    if answer:
        names.append(_free(SUMMARY_GOAL, names))
        details.append({"type": "text", "name": names[-1], "response": answer, "keywords": []})
    if not names:
        return None
    order: dict[str, JsonValue] = {
        goal: list[JsonValue](names[at + 1 : at + 2]) for at, goal in enumerate(names)
    }
    return {
        "dataset_name": name,
        "story": "You say, one after the other: " + " / ".join(asked),
        "starting_sentence": asked[0],
        "user_prompts": list[JsonValue](asked[1:]),
        "goals": order,
        "goal_details": details,
    }


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
