"""Tools that find what got worse, and why."""

import re
from typing import Annotated, Final

from pydantic import Field

from scouter.cli.asking import moment
from scouter.cli.compare_live import comparison_of
from scouter.cli.mcp.checks import active_profiles
from scouter.cli.mcp.reply import Cursor, Profile, Reply, Since, Step, Task, shown
from scouter.client.client import ScouterClient
from scouter.client.models.comparison import Explanation
from scouter.errors import ConfigError

_SHOWN: Final = 3
"""Alerts, tasks and profiles that steps name."""
_SIDE: Final = re.compile(r"(version|run|last|before):")
_CANNOT_YET: Final = frozenset({"learning", "never_passed"})
_SERIES: Final = (
    "profile", "service", "version", "state", "rate", "lower", "upper", "units", "healthy",
    "healthy_lower", "summary", "against", "version_before",
)  # fmt: skip
_ASIDE: Final = ("space", "profile_name", "profile_version", "changed_at", "link")
"""Fields of alerts that say nothing about the fall."""


def what_got_worse(client: ScouterClient, profile: Profile = None, cursor: Cursor = None) -> Reply:
    """Find what got worse. Call this first.

    Gives the open alerts with their evidence, what keeps results from being made, and each watched
    check: its pass rate with a 95 % interval, the version before, and which fall would be seen. No
    alert about a check that is not watched means nothing.
    """
    series = client.drift_series(profile).items
    names = {profile, *(each.profile for each in series)}
    found = client.alerts()
    alerts = [
        each
        for each in found.drift
        if each.state != "resolved" and (profile is None or each.profile in names)
    ]
    watched = [each for each in series if each.kind == "pass" and not each.slice]
    cannot = sum(each.state in _CANNOT_YET for each in watched)
    says = [
        f"{len(alerts)} alerts are open ({sum(each.state == 'shadow' for each in alerts)} of them "
        f"on trial); {len(found.trouble)} things keep results from being made.",
        f"{len(watched) - cannot} of {len(watched)} series of checks are watched.",
    ]
    if cannot or not watched:
        says.append(
            f"cannot say of {cannot} series whether they fell; `against` names what each waits for."
            if watched
            else "cannot say anything: no active profile has results here."
        )
    alerts.sort(key=lambda each: each.state == "shadow")
    watched.sort(key=lambda each: (each.state != "fallen", each.state in _CANNOT_YET))
    steps = [
        *(
            Step("why", "what this fall comes from", {"alert_id": each.alert_id})
            for each in alerts[:_SHOWN]
        ),
        *(
            Step("compare_versions", "the last two versions", {"profile": each})
            for each in list(dict.fromkeys(each.profile for each in watched))[:_SHOWN]
        ),
        Step("list_checks", "every check with its pass rate", {}),
    ]
    data = {
        "trouble": found.trouble,
        "alerts": alerts,
        "series": [
            {"check": each.task or "the whole record"}
            | {name: getattr(each, name) for name in _SERIES}
            for each in watched
        ],
    }
    lines = shown(data, *_ASIDE, "opened", "together")
    return Reply(says=says, data=lines, steps=steps).part(cursor)


def why(
    client: ScouterClient,
    alert_id: Annotated[str | None, Field(description="Of what_got_worse.")] = None,
    profile: Profile = None,
    task: Task = None,
    since: Since = None,
    cursor: Cursor = None,
) -> Reply:
    """Explain a fall: of an alert, or of a profile (or one check of it) since a moment.

    Splits it into traffic, route and behaviour with 95 % intervals, names what changed just before
    (prompt, tools, model, version), and groups the failures with their shares before and since.
    """
    look = None
    if alert_id is not None:
        look = client.alert(alert_id)
        profile, start = look.profile, look.opened.since.isoformat()
        tasks = [look.task] if look.task else [each.task for each in look.fell if each.task]
        explanation, now = look.explanation, look.now or look.opened
        says = [f"The alert is {look.state}: {now.failed:,} of {now.records:,} failed since."]
    elif profile is not None and since is not None:
        uid = active_profiles(client, profile)[0].uid
        start, tasks, says = moment(since, "since") or since, [task] if task else [], []
        explanation = client.drift_explanation(uid, start, task or "").explanation
    else:
        raise ConfigError("give alert_id, or profile and since; what_got_worse has both")
    for began in (start, None):  # a condition counts records from before it applied
        if not tasks:
            rates = client.tasks(profile=profile, since=began).items
            wrong = [each for each in rates if each.failed or each.errored]
            tasks = [each.task_id for each in sorted(wrong, key=lambda each: each.upper)]
    groups = {
        each: client.task_failures(profile, each, split=start).items for each in tasks[:_SHOWN]
    }
    data = {"alert": look, "explanation": None if look else explanation, "failures": groups}
    steps: list[Step] = []
    for each, found in groups.items():
        check = {"profile": profile, "task": each}
        steps += [_look(one.trace_id, one.uid) for group in found[:1] for one in group.examples[:1]]
        wanted = {**check, "task_outcome": "not_passed", "since": start}
        steps.append(Step("explain_check", "what the check wants", check))
        steps.append(Step("find_records", "more that does not pass it", wanted))
    steps.append(Step("compare_versions", "the last two versions", {"profile": profile}))
    lines = shown(data, *_ASIDE, "history", "deliveries")
    return Reply(says=[*says, _split(explanation)], data=lines, steps=steps).part(cursor)


def _split(why: Explanation | None) -> str:
    if why is None:
        return "cannot say whether traffic or behaviour changed: too little is known on a side."
    fell = [each.name for each in why.parts if each.fell]
    if not fell:
        return "cannot say which part fell: no interval of traffic, route or behaviour is below 0."
    return f"Fell by more than chance: {', '.join(fell)}."


def _look(trace_id: str | None, uid: str) -> Step:
    if trace_id:
        return Step("show_trace", "a failure, step by step", {"trace_id": trace_id})
    return Step("show_record", "a failure", {"record": uid})


def compare_versions(
    client: ScouterClient,
    profile: Annotated[str, Field(description="Alias of the profile.")],
    before: Annotated[
        str | None,
        Field(description="Version, run:ID, last:24h or before:24h; the one before by default."),
    ] = None,
    after: Annotated[
        str | None, Field(description="In the same forms; the newest version by default.")
    ] = None,
    cursor: Cursor = None,
) -> Reply:
    """Compare two versions, two periods, or a stored offline run with what is live.

    Gives the decision (regressed, no regression seen, inconclusive), every rate on both sides with
    the 95 % interval of the difference, and the part of it that is traffic, route and behaviour.
    """
    versions = [each.version for each in client.versions(profile).items if each.version]
    if before is None and after is None:
        after, before = versions[:2] if len(versions) > 1 else ("last:24h", "before:24h")
    if before is None or after is None:
        raise ConfigError("give both before and after, or neither for the last two versions")
    before, after = (each if _SIDE.match(each) else f"version:{each}" for each in (before, after))
    found = comparison_of(client, before, after, profile)
    says = [f"{found.word} (exit code {found.exit_code})."]
    if found.ruled_out is None:
        says.append("cannot say how large a fall is ruled out.")
    elif found.word != "regressed":
        says.append(f"A fall of more than {found.ruled_out:.1f} points is ruled out.")
    worse = [each.after for each in found.changes if each.is_worse and each.after.uid]
    wrong = {"profile": profile, "outcome": "not_passed"}
    if after.startswith("version:"):
        wrong["service_version"] = after.removeprefix("version:")
    steps = [
        *(_look(each.trace_id, each.uid) for each in worse[:1]),
        Step("find_records", "what does not pass now", wrong),
        *(
            Step("explain_check", "a check that fell", {"profile": profile, "task": each.task_id})
            for each in found.rates
            if each.word and each.task_id
        ),
    ]
    return Reply(
        says=says,
        data=shown({"versions": versions, "comparison": found}, "shown", "calls", "exit_code"),
        steps=steps,
    ).part(cursor)
