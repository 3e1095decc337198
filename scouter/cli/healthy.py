"""Healthy results for a profile: those of a saved run, or of a past time of a collector."""

from pathlib import Path

from scouter.cli.asking import moment
from scouter.client.client import ScouterClient
from scouter.drift.config import SavedRun
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.api.saved import RECORDS, load_one


def of_run(profile: AgentEvalProfile, run: Path, margin: float) -> SavedRun:
    """Count the outcomes of a file of results.

    Raises:
        FileFormatError: It is none.
        ConfigError: It has no results of the profile's alias.
    """
    results = load_one(run)
    known = results.dataset_results
    alias = RECORDS if set(known) == {RECORDS} else profile.alias
    if alias not in known:
        raise ConfigError(
            f"{run} has no results of alias {alias!r}; there are: {', '.join(sorted(known))}"
        )
    return SavedRun.of(results, alias, run.name, margin)


def of_time(
    client: ScouterClient,
    profile: AgentEvalProfile,
    since: str | None,
    until: str | None,
    version: str | None,
) -> SavedRun:
    """Count the live outcomes of a time, by conversation.

    No margin: they are of the very traffic of the agent. Their own error is in the bound.

    Args:
        client: Asks the collector.
        profile: Results of exactly these tasks count.
        since: Begin, as a time or an age.
        until: End; None for now.
        version: Of the service; None for all.

    Raises:
        ConfigError: A time is none, or there is no such result.
    """
    begin, end = moment(since, "--since"), moment(until, "--until")
    found = client.drift_results(profile=profile.digest, since=begin, until=end)
    counted = [
        (each.session_id or each.evaluation_id, [(one.task, one.outcome) for one in each.outcomes])
        for each in found
        if version in (None, each.version)
    ]
    name = f"live results since {begin}" + (f" until {end}" if end else "")
    saved = SavedRun.of_units(counted, name, 0.0)
    if not saved.tasks:
        of_version = f" of version {version!r}" if version is not None else ""
        raise ConfigError(
            f"the collector has no results{of_version} of {profile.alias!r} with these tasks "
            f"(digest {profile.digest[:12]}) in that time; see `scouter profile list`"
        )
    return saved
