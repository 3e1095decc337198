"""Checks that are not what they were in the baseline, although their ids are the same."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import zip_longest
from shlex import quote
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.operators.show import show
from scouter.evaluate.results.provenance import Provenance, Wire
from scouter.evaluate.results.run import ScenarioInfo
from scouter.evaluate.tasks.task import Task, parse_task
from scouter.model.visible import some_of

Kind: TypeAlias = Literal["task", "scenario", "profile"]
Act: TypeAlias = Literal["changed", "removed", "added"]

JUDGE: Final = "judge"
"""Field of a task that names the judge which took the place of the prompt's provider."""
USER: Final = "simulated_user"
"""Field of an interactive scenario that names who played the user."""

AFTER_THE_ANSWER: Final = frozenset(
    {"context_path", "operator", "expected_value", "condition", "required", "depends_on"}
)
"""Fields of a task that do not change the question to its judge."""

_NO_MATTER: Final = frozenset({"description", "max_retries", "sample_rate"})
"""Fields that change no outcome."""
_READ_BY_TASKS: Final = frozenset({"expected_outcome", "expected_trajectory", "metadata"})
"""Fields of a scenario that its tasks read; all others are the question to the agent."""
_INTERACTIVE: Final = frozenset({"simulated_user_persona", "termination_signal"})
"""Fields of a scenario either of which makes it interactive."""
_NAMED: Final = 3
_LISTED: Final = 20
"""Ids that an error lists."""
_FIELDS: Final = 4
_BEFORE_IT: Final = 12
"""Characters that are shown before the first difference of two long texts."""
_VALUE: Final = 60
_NOTHING: Final = "nothing"
_FUNCTION: Final = "Function"
_NOT_KNOWN: Final = "not known"
"""Name of the judge of runs with several ones, put together."""


class Fate(StrEnum):
    """What became of a changed check in the comparison."""

    JUDGED_AGAIN = "judged again"
    """The baseline was judged by today's check, and compared as usual."""
    LEFT_OUT = "left out"
    """Nothing in the baseline can be compared with it, so that nobody knows."""
    ACCEPTED = "accepted"
    """The same, but a person looked."""
    NEW = "new"
    """It was added, and the baseline cannot be judged by it."""


class CheckChange(BaseModel, frozen=True, extra="ignore"):
    """A check, or several that changed alike, with its fate."""

    kind: Kind
    ids: tuple[str, ...]
    """The task, the alias of the profile, or all scenarios that changed alike."""
    alias: str | None = None
    """Alias of the profile that a task belongs to; None for tasks of scenarios."""
    scenarios: tuple[str, ...] = ()
    """Scenarios that a task belongs to."""
    act: Act
    fields: tuple[str, ...] = ()
    """The first differences, such as `expected_value: 5 → 3`."""
    fate: Fate
    why: str = ""
    """Why it is left out, in words."""

    @property
    def is_open(self) -> bool:
        """True if the comparison cannot clear it."""
        return self.fate is Fate.LEFT_OUT

    def accepted_by(self, names: Collection[str]) -> "CheckChange":
        """The same, accepted if it is left out and one of these ids is its own."""
        own = {*self.ids, self.alias, *self.scenarios}
        if self.fate is not Fate.LEFT_OUT or own.isdisjoint(names):
            return self
        return self.model_copy(update={"fate": Fate.ACCEPTED})

    def is_about(self, alias: str) -> bool:
        """Tell whether it belongs to the profile of an alias."""
        return self.alias == alias or (self.kind == "profile" and alias in self.ids)

    @property
    def name(self) -> str:
        """The check in words."""
        shown = some_of([*map(repr, self.ids)], _NAMED)
        nouns = {"scenario": "scenarios", "task": "tasks", "profile": "profiles"}
        noun = self.kind if len(self.ids) == 1 else nouns[self.kind]
        if self.alias:
            return f"{noun} {shown} of {self.alias!r}"
        if len(self.scenarios) == 1:
            return f"{noun} {shown} of scenario {self.scenarios[0]!r}"
        return f"{noun} {shown}" + (
            f" of {len(self.scenarios)} scenarios" if self.scenarios else ""
        )

    @property
    def text(self) -> str:
        """The change and its fate in one sentence."""
        return f"{self.cause}: {self._fate}"

    @property
    def cause(self) -> str:
        """The change in words."""
        if self.act != "changed":
            return f"{self.name} {self.done}"
        differences = some_of(self.fields, _FIELDS, "; ")
        return f"{self.name} changed" + (f" ({differences})" if differences else "")

    @property
    def done(self) -> str:
        """The act as a verb, such as `was removed`."""
        be = "was" if len(self.ids) == 1 else "were"
        return self.act if self.act == "changed" else f"{be} {self.act}"

    @property
    def _fate(self) -> str:
        if self.fate is Fate.JUDGED_AGAIN:
            return "the baseline was judged again by today's check"
        if self.fate is Fate.NEW:
            return f"not compared, as {self.why}"
        accepted = ", which was accepted" if self.fate is Fate.ACCEPTED else ""
        return f"left out of the comparison{accepted}, as {self.why}"

    @property
    def advice(self) -> str:
        """What to do about one that is left out."""
        option = " ".join(f"--accept-changed {quote(name)}" for name in self.ids)
        if len(self.ids) > _NAMED:
            option = "--accept-changed ID for each"
        return f"look at the results of the new run and pass {option}, or save a new baseline"


@dataclass(frozen=True, kw_only=True)
class Group:
    """The tasks of one alias, or of one scenario, in both runs.

    Args:
        alias: Name of the profile, or None for a scenario's own tasks.
        scenario_id: The scenario, for its own tasks.
        old: Tasks of the baseline by id.
        new: Tasks of the new run by id.
        content: The scenario's fields now, which its tasks read.
        moved: Differences of those fields.
    """

    alias: str | None
    scenario_id: str | None = None
    old: Mapping[str, Wire]
    new: Mapping[str, Wire]
    content: Wire = field(default_factory=dict[str, JsonValue])
    moved: tuple[str, ...] = ()

    @cached_property
    def changed(self) -> Mapping[str, tuple[str, ...]]:
        """Differences of each task that changed."""
        return {
            name: tuple(differences(_measured(wire), _measured(self.new[name])))
            for name, wire in self.old.items()
            if name in self.new and _digest(wire) != _digest(self.new[name])
        }

    @property
    def removed(self) -> Sequence[str]:
        """Tasks that only the baseline has."""
        return [name for name in self.old if name not in self.new]

    @property
    def added(self) -> Sequence[str]:
        """Tasks that only the new run has."""
        return [name for name in self.new if name not in self.old]

    @property
    def is_same(self) -> bool:
        """True if nothing is to be judged again."""
        return not (self.moved or self.changed or self.removed or self.added)

    @property
    def names(self) -> Sequence[str]:
        """Ids of all tasks whose comparison may suffer, and that of the alias or scenario."""
        tasks = self.new if self.moved else self.dependents([*self.changed, *self.added])
        owner = [name for name in (self.alias, self.scenario_id) if name]
        return [*owner, *sorted({*tasks, *self.removed})]

    def changes(self, why: Mapping[str, str]) -> Iterator[CheckChange]:
        """The tasks that are not what they were, with their fates.

        Args:
            why: By task of today, the reason why it cannot be compared.
        """
        scenarios = () if self.scenario_id is None else (self.scenario_id,)
        if self.moved:
            yield CheckChange(
                kind="scenario", ids=scenarios, act="changed", fields=self.moved,
                fate=Fate.JUDGED_AGAIN,
            )  # fmt: skip
        for name in dict.fromkeys([*self.changed, *why, *self.removed, *self.added]):
            act: Act = "changed" if name in self.old else "added"
            reason = why.get(name, "")
            if name not in self.new:
                act, reason = "removed", f"nothing runs it any more{self._twin(name)}"
            failed = Fate.NEW if act == "added" else Fate.LEFT_OUT
            yield CheckChange(
                kind="task", ids=(name,), alias=self.alias, scenarios=scenarios, act=act,
                fields=self.changed.get(name, ()), why=reason,
                fate=failed if reason else Fate.JUDGED_AGAIN,
            )  # fmt: skip

    def _twin(self, name: str) -> str:
        """Name the added task that is the same as a removed one, but for its name."""
        old = {**self.old[name], "id": ""}
        twin = next((new for new in self.added if {**self.new[new], "id": ""} == old), "")
        return f" (the added task {twin!r} is the same)" if twin else ""

    def dependents(self, names: Iterable[str]) -> Set[str]:
        """All tasks of today that depend on one of these, and these."""
        found = set(names)
        while more := {
            name
            for name, wire in self.new.items()
            if name not in found and not found.isdisjoint(_needs(wire))
        }:
            found |= more
        return found

    def needs_its_function(self, name: str) -> bool:
        """Tell whether today's function of a task never ran on the baseline's attempts."""
        old, new = self.old.get(name, {}), self.new[name]
        goes_by = ("function", "settings")
        return new.get("task_type") == _FUNCTION and any(
            old.get(each) != new.get(each) for each in goes_by
        )

    def needs_another_answer(self, name: str) -> bool:
        """Tell whether a task asks a judge today something that it did not ask in the baseline."""
        if not asks(self.new[name]):
            return False
        if name not in self.old or not asks(self.old[name]):
            return True
        old, new = _measured(self.old[name]), _measured(self.new[name])
        return any(
            _digest_of(old.get(key)) != _digest_of(new.get(key))
            for key in {*old, *new} - AFTER_THE_ANSWER
        )


class Checks(NamedTuple):
    """Everything that a run is judged by, which is known before it."""

    provenance: Provenance
    """Has the tasks of profiles, and the names of the judge and of the simulated user."""
    scenarios: Sequence[ScenarioInfo] = ()


class Difference(NamedTuple):
    """Everything that is not the same in two runs' checks."""

    groups: Sequence[Group]
    """Tasks of aliases and scenarios that both runs have, where anything differs."""
    whole: Sequence[CheckChange]
    """Scenarios and profiles that cannot be compared as a whole."""

    def check_accepted(self, accepted: Iterable[str]) -> None:
        """Refuse ids of which nothing changed.

        Raises:
            ConfigError: Names the ids that there are.
        """
        known = dict.fromkeys(name for each in self.whole for name in each.ids)
        known |= dict.fromkeys(name for each in self.groups for name in each.names)
        for name in accepted:
            if name not in known:
                listed = some_of([*map(repr, known)], _LISTED)
                there = f"the ids of what did are {listed}" if known else "leave it out"
                raise ConfigError(
                    f"--accept-changed {name}: nothing of this id changed since the baseline; "
                    f"{there}"
                )


def difference_of(baseline: Checks, new: Checks) -> Difference:
    """Find what is not the same in the checks of two runs.

    Cost: linear in scenarios and tasks.
    """
    groups, whole = _of_profiles(baseline.provenance, new.provenance)
    judges = baseline.provenance.judge, new.provenance.judge
    now = {info.scenario_id: info for info in new.scenarios}
    for info in baseline.scenarios:
        name, today = info.scenario_id, now.get(info.scenario_id)
        if today is None:
            whole.append(_whole("scenario", name, "removed", "the new run does not have it"))
            continue
        old, content = _content(info, baseline.provenance), _content(today, new.provenance)
        asking = {*old, *content} - _READ_BY_TASKS
        if changed := differences(_but(old, _READ_BY_TASKS), _but(content, _READ_BY_TASKS)):
            why = "the baseline's attempts answer another question"
            whole.append(_whole("scenario", name, "changed", why, tuple(changed)))
            continue
        group = Group(
            alias=None,
            scenario_id=name,
            old=_by_id(info.tasks, judges[0]),
            new=_by_id(today.tasks, judges[1]),
            content=content,
            moved=tuple(differences(_but(old, asking), _but(content, asking))),
        )
        if not group.is_same:
            groups.append(group)
    return Difference(groups, whole)


def _of_profiles(baseline: Provenance, new: Provenance) -> tuple[list[Group], list[CheckChange]]:
    groups: list[Group] = []
    whole: list[CheckChange] = []
    old_tasks, new_tasks = baseline.profile_tasks, new.profile_tasks
    old_digests, new_digests = baseline.profile_digests, new.profile_digests
    for alias in dict.fromkeys([*old_digests, *old_tasks]):
        if alias in old_tasks and alias in new_tasks:
            group = Group(
                alias=alias,
                old=_by_id(old_tasks[alias], baseline.judge),
                new=_by_id(new_tasks[alias], new.judge),
            )
            if not group.is_same:
                groups.append(group)
        elif alias in new_digests and old_digests.get(alias) != new_digests[alias]:
            why = "the baseline does not store its tasks"
            whole.append(_whole("profile", alias or "tasks", "changed", why))
        elif alias in old_tasks and alias not in new_digests and _is_known(new):
            why = "nothing runs its tasks any more"
            whole.append(_whole("profile", alias, "removed", why))
    for alias in new_tasks if _is_known(baseline) else ():
        if alias not in {*old_tasks, *old_digests}:
            why = "the baseline has no records for it"
            whole.append(_whole("profile", alias, "added", why, fate=Fate.NEW))
    return groups, whole


def _whole(
    kind: Kind, name: str, act: Act, why: str, fields: tuple[str, ...] = (),
    fate: Fate = Fate.LEFT_OUT,
) -> CheckChange:  # fmt: skip
    return CheckChange(kind=kind, ids=(name,), act=act, fields=fields, fate=fate, why=why)


def _is_known(run: Provenance) -> bool:
    """Tell whether a run says what it was judged by."""
    return bool(run.profile_tasks or run.profile_digests or run.scenarios_digest)


def asks(wire: Wire) -> bool:
    """Tell whether a task asks a judge."""
    return _asks(json.dumps(_but(wire, {JUDGE})))


@lru_cache(maxsize=1024)
def _asks(text: str) -> bool:
    """Many scenarios have the same tasks, and reading one takes long."""
    return task_of(json.loads(text)).judge_prompt is not None


def task_of(wire: Wire, scores: Mapping[str, JsonValue] = MappingProxyType({})) -> Task:
    """Read a stored task.

    Args:
        wire: The task.
        scores: Takes the place of a function, of which only its name is stored: by task, what it
            gave for the record that is judged next.
    """
    if wire.get("task_type") != _FUNCTION:
        return parse_task(_but(wire, {JUDGE}))
    task_id = str(wire["id"])

    def given(_: JsonValue) -> JsonValue:
        return scores[task_id]

    fields: dict[str, object] = {**_but(wire, {JUDGE}), "function": given}
    return parse_task(fields)


def _content(info: ScenarioInfo, origin: Provenance) -> Wire:
    """The question to the agent, its sender, and what tasks can read."""
    found = info.content or {}
    if origin.simulated_user is None or not found.keys() & _INTERACTIVE:
        return found
    return {**found, USER: origin.simulated_user}


def _by_id(tasks: Sequence[Wire] | None, judge: str | None) -> dict[str, Wire]:
    """The tasks by id; those that ask know their judge, if it is no provider of their prompts."""
    found = {str(wire["id"]): wire for wire in tasks or ()}
    if judge == "":
        return found
    named: Wire = {JUDGE: judge or _NOT_KNOWN}
    return {name: wire | named if asks(wire) else wire for name, wire in found.items()}


def _needs(wire: Wire) -> Iterable[str]:
    needs = wire.get("depends_on")
    return map(str, needs) if isinstance(needs, list) else ()


def _measured(wire: Wire) -> Wire:
    """The fields that can change an outcome."""
    needs: list[JsonValue] = [*sorted(_needs(wire))]
    return {**_but(wire, _NO_MATTER), "depends_on": needs}


def _digest(wire: Wire) -> str:
    return _digest_of(_measured(wire))


def _digest_of(value: JsonValue) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode("ascii")).hexdigest()


def _but(fields: Mapping[str, JsonValue], names: Set[str]) -> Wire:
    return {name: value for name, value in fields.items() if name not in names}


# --- differences in words ---------------------------------------------------------------------


def differences(before: JsonValue, now: JsonValue, name: str = "") -> list[str]:
    """Name every place in which two values differ, such as `prompt.model: "a" → "b"`."""
    return list(_differences(before, now, name))


def _differences(before: JsonValue, now: JsonValue, name: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*before, *now]):
            path = f"{name}.{key}" if name else key
            if key not in before:
                yield f"{path}: {_NOTHING} → {_short(now[key])}"
            elif key not in now:
                yield f"{path}: {_short(before[key])} → {_NOTHING}"
            else:
                yield from _differences(before[key], now[key], path)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for at, pair in enumerate(zip(before, now, strict=True)):
            yield from _differences(*pair, f"{name}[{at}]")
    elif _digest_of(before) != _digest_of(now):
        start = 0
        if isinstance(before, str) and isinstance(now, str):
            pairs = enumerate(zip_longest(before, now))
            start = max(next(at for at, (was, then) in pairs if was != then) - _BEFORE_IT, 0)
            start = start if max(len(before), len(now)) > _VALUE else 0
        yield f"{name}: {_short(before, start)} → {_short(now, start)}"


def _short(value: JsonValue, start: int = 0) -> str:
    if isinstance(value, str):
        text = value[start : start + _VALUE]
        rest = "…" if len(value) > start + _VALUE else ""
        return show(f"{'…' if start else ''}{text}{rest}")
    text = show(value)
    return text if len(text) <= _VALUE else f"{text[:_VALUE]}…"


def merged(changes: Iterable[CheckChange]) -> tuple[CheckChange, ...]:
    """Put checks together that changed alike: one task of many scenarios, or many scenarios."""
    found: dict[tuple[object, ...], CheckChange] = {}
    for each in changes:
        many, own = "scenarios", (each.ids, each.alias, each.fields, each.why)
        if each.kind == "scenario":
            many, own = "ids", tuple(text.split(":")[0] for text in each.fields)
        key = each.kind, each.act, each.fate, own
        known = found.setdefault(key, each)
        if known is not each:
            both = (*getattr(known, many), *getattr(each, many))
            found[key] = known.model_copy(update={many: both})
    order = [Fate.LEFT_OUT, Fate.ACCEPTED, Fate.JUDGED_AGAIN, Fate.NEW]
    return tuple(sorted(found.values(), key=lambda each: order.index(each.fate)))
