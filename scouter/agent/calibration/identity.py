"""The identity of a question, so that a calibration is applied only to the same question."""

import hashlib
import json
from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, JsonValue

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.operators.show import show
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import Task, tasks_digest

_ENTRY: Final = "the provider entry"
_NO_MATTER: Final = {"description", "prompt", "id", "max_retries", "required", "sample_rate"}
"""Fields that say how often a task calls its judge, what its name is or what hangs on it, and
change no outcome."""
_OF_PROMPT: Final = {"fence", "max_value_characters"}
"""Fields of a prompt that change what the judge reads, beside its messages."""


class Identity(BaseModel):
    """One judge task, as far as it can change an outcome."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())

    alias: str
    """Alias of the profile, for readers; it is not compared."""
    profile_digest: str
    task_id: str
    task_digest: str
    """Over the task and those that it depends on; names the version of a calibration."""
    provider: str
    model: str
    settings: dict[str, JsonValue]
    settings_digest: str
    prompt_digest: str
    """Digest of all messages."""
    schema_digest: str
    """Digest of the wanted form of the answer."""
    others: dict[str, JsonValue]
    """The task's other fields, such as operator and expected value, and those of its prompt."""
    before_digest: str
    """Digest of the tasks that it depends on."""
    judge: str | None = None
    """`module:name` of the judge in place of the provider entry; empty if that was called, None
    where nobody knows."""

    def differences(self, other: "Identity") -> list[str]:
        """Say in what the outcomes of another task were requested otherwise; [] if in nothing."""
        found = [
            f"{name} is {show(theirs)}, calibrated was {show(own)}"
            for name, own, theirs in (
                ("task", self.task_id, other.task_id),
                ("provider", self.provider, other.provider),
                ("model", self.model, other.model),
            )
            if own != theirs
        ]
        if None not in (self.judge, other.judge) and self.judge != other.judge:
            found.append(
                f"{other.judge or _ENTRY} is called, calibrated was {self.judge or _ENTRY}"
            )
        for what, own, theirs in (
            ("setting", self.settings, other.settings),
            ("field", self.others, other.others),
        ):
            found += [
                f"{what} {name!r} is {show(theirs.get(name))}, calibrated was {show(own.get(name))}"
                for name in sorted({*own, *theirs})
                if own.get(name) != theirs.get(name)
            ]
        found += [
            f"{what} differs (digest {theirs[:12]}, calibrated was {own[:12]})"
            for what, own, theirs in (
                ("the prompt", self.prompt_digest, other.prompt_digest),
                ("the form of the answer", self.schema_digest, other.schema_digest),
                ("a task that it depends on", self.before_digest, other.before_digest),
            )
            if own != theirs
        ]
        return found


def needed(tasks: Sequence[Task], task_id: str) -> list[Task]:
    """A task and all that it depends on, in the order in which they stand."""
    by_id = {task.id: task for task in tasks}
    wanted = {task_id}
    waiting = [task_id]
    while waiting:
        new = set(by_id[waiting.pop()].depends_on) - wanted
        wanted |= new
        waiting += new
    return [task for task in tasks if task.id in wanted]


def judge_task(profile: AgentEvalProfile, task_id: str | None = None) -> LLMJudgeTask:
    """Find a judge task; without an id the only one.

    Raises:
        ConfigError: There is no such task, or there are several; names them.
    """
    judges = [task for task in profile.tasks if isinstance(task, LLMJudgeTask)]
    found = [task for task in judges if task_id is None or task.id == task_id.lower()]
    names = ", ".join(repr(task.id) for task in judges) or "none"
    if len(found) != 1:
        what = "which judge task?" if task_id is None else f"no judge task {task_id!r};"
        raise ConfigError(f"profile {profile.alias!r}: {what} it has {names}")
    if found[0].scope != "record":
        raise ConfigError(
            f"task {found[0].id!r} judges whole sessions; only tasks of records can be calibrated"
        )
    return found[0]


def identify(profile: AgentEvalProfile, task: LLMJudgeTask, judge: str | None = None) -> Identity:
    """Describe a judge task of a profile.

    Args:
        profile: It.
        task: One of its tasks.
        judge: `module:name` of the judge in place of the provider entry; empty if that is called,
            None where nobody knows.
    """
    return identify_among(
        profile.tasks, task, judge, alias=profile.alias, profile_digest=profile.digest
    )


def identify_among(
    tasks: Sequence[Task],
    task: LLMJudgeTask,
    judge: str | None = None,
    *,
    alias: str = "",
    profile_digest: str = "",
) -> Identity:
    """Describe a judge task of any list of tasks, such as a scenario's own."""
    wire = task.model_dump(mode="json", exclude=_NO_MATTER)
    prompt = task.prompt
    of_prompt = prompt.model_dump(mode="json", include=_OF_PROMPT)
    wire |= {f"prompt.{name}": value for name, value in of_prompt.items()}
    settings = prompt.model_settings or {}
    before = [_judged_part(each) for each in needed(tasks, task.id) if each.id != task.id]
    return Identity(
        alias=alias,
        profile_digest=profile_digest,
        task_id=task.id,
        task_digest=tasks_digest([*before, _judged_part(task)]),
        provider=str(prompt.provider),
        model=prompt.model,
        settings=settings,
        settings_digest=_digest(settings),
        prompt_digest=_digest([dict(message) for message in prompt.all_messages]),
        schema_digest=_digest(prompt.output_type),
        others={name: value for name, value in wire.items() if value is not None},
        before_digest=tasks_digest(before),
        judge=judge,
    )


def _judged_part(task: Task) -> Task:
    """A task without what hangs on its outcome, which changes no outcome."""
    return task.model_copy(update={"required": False}) if task.required else task


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
