"""Answers to assertions about guardrails: their verdicts and the actions taken."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from scouter.evaluate.operators.show import KEYS_SHOWN, show_name
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.model.agent_work import GuardrailRun

_STRICTNESS: Final = {
    "": -1, "allow": 0, "warn": 2, "modify": 3, "escalate": 4, "deny": 5, "block": 5,
}  # fmt: skip
"""Strictness of the conventions' verdicts and actions; any other word ranks just above `allow`."""
_OWN: Final = 1
_STRICTEST: Final = 5


def strictest_verdict(runs: Sequence[GuardrailRun], name: str | None) -> str:
    """Find the strictest verdict of a guardrail, or of all.

    Raises:
        TaskFault: None ran, or one does not tell its verdict, which might be a stricter one.
    """
    found = _of(runs, name)
    strictest = _strictest(found).verdict
    if _rank(strictest) < _STRICTEST and (silent := sum(not run.verdict for run in found)):
        raise _untold(silent, len(found), "verdict")
    return strictest


def action_taken(runs: Sequence[GuardrailRun], name: str | None) -> str:
    """Find what was done upon the strictest verdict.

    Raises:
        TaskFault: None ran, or the action is not told.
    """
    found = _of(runs, name)
    action = _strictest(found).action
    if not action:
        raise _untold(sum(not run.action for run in found), len(found), "action")
    return action


def count_runs(
    runs: Sequence[GuardrailRun], name: str | None, verdict: str | None, action: str | None
) -> int:
    """Count the checks that had this verdict and this action; None stands for any.

    Raises:
        TaskFault: A verdict or an action is asked for, and none ran, or one that might count does
            not tell.
    """
    if verdict is None and action is None:
        return sum(name is None or run.name == name for run in runs)
    found = _of(runs, name)
    for asked, field in ((verdict, "verdict"), (action, "action")):
        if asked is not None:
            silent = [run for run in found if not getattr(run, field)]
            if any(_may_be(run, verdict, action) for run in silent):
                raise _untold(len(silent), len(found), field)
    return sum(_may_be(run, verdict, action) for run in found)


def _may_be(run: GuardrailRun, verdict: str | None, action: str | None) -> bool:
    return all(
        asked is None or told in ("", asked)
        for asked, told in ((verdict, run.verdict), (action, run.action))
    )


def _strictest(runs: Sequence[GuardrailRun]) -> GuardrailRun:
    """The first one with the strictest verdict; of those that tell none, the strictest action."""
    return max(runs, key=lambda run: (_rank(run.verdict), 0 if run.verdict else _rank(run.action)))


def _rank(word: str) -> int:
    return _STRICTNESS.get(word.lower(), _OWN)


def _of(runs: Sequence[GuardrailRun], name: str | None) -> list[GuardrailRun]:
    found = [run for run in runs if name is None or run.name == name]
    if not found:
        names = list(dict.fromkeys(run.name for run in runs))
        shown = ", ".join(map(show_name, islice(names, KEYS_SHOWN))) or "none"
        which = "no guardrail" if name is None else f"no guardrail {name!r}"
        raise TaskFault(
            Reason.MISSING_PATH, f"{which} has a span in the trace; those that have are {shown}"
        )
    return found


def _untold(silent: int, count: int, field: str) -> TaskFault:
    return TaskFault(
        Reason.MISSING_PATH, f"{silent} of {count} checks by guardrails do not tell their {field}"
    )
