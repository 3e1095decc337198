"""Tools about the checks themselves: profiles and their tasks."""

from typing import Annotated, Any, Final, cast

from pydantic import Field

from scouter.cli.mcp.reply import Cursor, Profile, Reply, Step, shown, written
from scouter.client.client import ScouterClient
from scouter.client.models.records import ProfileItem
from scouter.errors import ConfigError
from scouter.evaluate.show.definition import definition_of
from scouter.evaluate.show.words import plain

_SHOWN: Final = 3
_ASIDE: Final = ("line", "profile_name", "alias")


def active_profiles(client: ScouterClient, profile: str | None) -> list[ProfileItem]:
    """The active profiles that a name means; all of them without one.

    Raises:
        ConfigError: There is none of that name; lists those that there are.
    """
    known = [each for each in client.profiles() if each.is_active]
    found = [
        each
        for each in known
        if profile in (None, each.alias, each.name, each.uid, each.profile_version)
    ]
    if not found and profile is not None:
        names = ", ".join(sorted(each.alias for each in known)) or "none"
        raise ConfigError(f"no active profile is called {profile!r}; there are: {names}")
    return found


def list_checks(client: ScouterClient, profile: Profile = None, cursor: Cursor = None) -> Reply:
    """List the checks of the active profiles, each with its pass rate and 95 % interval."""
    active = active_profiles(client, profile)
    current = {each.profile_version for each in active}
    rates = client.tasks(profile=profile).items
    known = [each for each in rates if each.profile_version in current and each.total]
    seen = {(each.profile_version, each.task_id) for each in known}
    idle = {
        each.alias: names
        for each in active
        if (names := [task for task in each.tasks if (each.profile_version, task) not in seen])
    }
    known.sort(key=lambda each: each.upper)
    says = [f"{len(known)} checks of {len(active)} active profiles have results."]
    if idle:
        says.append(f"cannot say how {sum(map(len, idle.values()))} more do: they have none.")
    steps = [
        Step("explain_check", "passes least", {"profile": each.alias, "task": each.task_id})
        for each in known[:_SHOWN]
        if each.failed or each.errored
    ]
    data = shown({"without results": idle, "checks": known}, *_ASIDE)
    return Reply(says=says, data=data, steps=steps).part(cursor)


def explain_check(
    client: ScouterClient,
    profile: Annotated[str, Field(description="Alias, name, uid or digest.")],
    task: Annotated[str, Field(description="Id of the check.")],
    cursor: Cursor = None,
) -> Reply:
    """Explain a check: when it passes, what it reads, how it does, and how it is written."""
    item = active_profiles(client, profile)[0]
    tasks = cast("list[dict[str, Any]]", client.profile(item.uid).body["tasks"])
    wire = next((each for each in tasks if each["id"] == task), None)
    if wire is None:
        raise ConfigError(
            f"profile {item.alias!r} has no check {task!r}; there are: {', '.join(item.tasks)}"
        )
    rates = client.tasks(profile=item.profile_version).items
    rate = next((each for each in rates if each.task_id == task and each.total), None)
    says = ["One check, in words and as its profile has it."]
    if rate is None:
        says.append("cannot say how it does: it has no result in this version of the profile.")
    elif rate.judge is not None and rate.judge.pass_rate is None:
        says.append("cannot say what people would say: its judge is not calibrated for this.")
    check = definition_of(wire)
    data = {
        "description": check.description,
        "kind": check.kind,
        "passes where": plain(check.passes),
        "reads": plain(check.reads),
        "only where": plain(check.when),
        "rate": rate,
    }
    wrong = {"profile": item.alias, "task": task, "task_outcome": "not_passed"}
    steps = [
        Step("find_records", "records that do not pass it", wrong),
        Step("run_release_check", "after a change of the agent: may it be released?", {}),
        Step("try_profile", "after a change of the check: what does it say of stored traces?", {}),
        Step("mutate_profile", "which faults does it not see?", {"profile": item.alias}),
    ]
    lines = [*shown(data, *_ASIDE), "as the profile has it:", *written(wire)]
    return Reply(says=says, data=lines, steps=steps).part(cursor)
