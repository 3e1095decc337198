"""The state of the detectors as rows of the store."""

import json
from collections.abc import Iterable
from typing import Final

from collector.store.alerts import DriftState
from scouter.drift.series.series_set import GroupKey, SeriesSet

_WHOLE: Final = ""
"""Name of the state of all together."""
HEALTH: Final = "health"
"""Name of the state of `HealthWatch`; a group's name is JSON, so that none has this one."""


def kept_states(series: SeriesSet) -> list[DriftState]:
    """Changes since the state was kept last; empty where there are none."""
    if not series.changed:
        return []
    states = [DriftState(name=_name(key), body=_body(series, key)) for key in series.changed]
    return [DriftState(name=_WHOLE, body=json.dumps(series.to_json())), *states]


def restored(series: SeriesSet, states: Iterable[DriftState]) -> None:
    """Let series go on from what was kept; from the beginning where nothing was."""
    bodies = {state.name: json.loads(state.body) for state in states if state.name != HEALTH}
    whole = bodies.pop(_WHOLE, None)
    if whole is not None:
        series.restore(whole, bodies.values())


def _name(key: GroupKey) -> str:
    return json.dumps(key)


def _body(series: SeriesSet, key: GroupKey) -> str:
    group = series.groups.get(key)
    return "" if group is None else json.dumps(group.to_json())
