"""Names in filters that mean nothing: an empty list would hide a typing error."""

from typing import Final

from collector.problem import ProblemError
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from scouter.model.near import did_you_mean

_SHOWN: Final = 100


class KnownNames:
    """Tells a filter that found nothing from one that can find nothing.

    Args:
        registry: The registered profiles.
    """

    def __init__(self, registry: ProfileRegistry) -> None:
        self._registry = registry

    def check(self, space: str, profile: str | None, task_id: str | None = None) -> None:
        """Refuse names that no profile of a space has; asked where nothing was found.

        Args:
            space: Of the caller.
            profile: Alias, name, uid or digest of any version, active or not.
            task_id: Of a task of these versions.

        Raises:
            ProblemError: 404; says which names are near.

        Cost: linear in the versions of all profiles.
        """
        versions = self._registry.all(space)
        if profile is not None:
            named = [each for each in versions if profile in _names(each)]
            if not named:
                names = (name for each in versions for name in _names(each)[:2] if name)
                raise _unknown("profile", profile, dict.fromkeys(names), "is not registered")
            versions = named
        if task_id is None:
            return
        tasks = dict.fromkeys(task.id for each in versions for task in each.profile.tasks)
        if task_id not in tasks:
            where = "no profile" if profile is None else f"no version of {profile[:_SHOWN]!r}"
            raise _unknown("task_id", task_id, tasks, f"is a task of {where}")


def _names(each: RegisteredProfile) -> tuple[str, ...]:
    return each.profile.alias, each.profile.name, each.uid, each.profile.digest


def _unknown(parameter: str, name: str, known: dict[str, None], what: str) -> ProblemError:
    hint = did_you_mean(name, known) or "see GET /api/v1/profiles"
    return ProblemError(404, f"{parameter}: {name[:_SHOWN]!r} {what}; {hint}")
