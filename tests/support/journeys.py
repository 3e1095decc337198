"""The example dataset of the document on watsonx Orchestrate, and conversations that follow it."""

import copy
import json
from typing import Any, Final

HR: Final[dict[str, Any]] = {
    "agent": "hr_agent",
    "goals": {
        "get_assignment_id_hr_agent-1": ["get_timeoff_schedule_hr_agent-1"],
        "get_timeoff_schedule_hr_agent-1": ["summarize"],
    },
    "goal_details": [
        {
            "type": "tool_call",
            "name": "get_assignment_id_hr_agent-1",
            "tool_name": "get_assignment_id_hr_agent",
            "args": {"username": "nwaters"},
        },
        {
            "type": "tool_call",
            "name": "get_timeoff_schedule_hr_agent-1",
            "tool_name": "get_timeoff_schedule_hr_agent",
            "args": {
                "assignment_id": "15778303",
                "end_date": "2025-01-30",
                "start_date": "2025-01-01",
            },
        },
        {
            "name": "summarize",
            "type": "text",
            "response": "Your time off schedule is on January 5, 2025.",
            "keywords": ["January 5, 2025"],
        },
    ],
    "story": "You want to know your time off schedule. Your username is nwaters. The start date is "
    "2025-01-01. The end date is 2025-01-30.",
    "starting_sentence": "I want to know my time off schedule",
}

ANSWER: Final = "Your time off schedule is on January 5, 2025."


def hr(**changes: Any) -> dict[str, Any]:
    """A copy of the dataset with other fields."""
    return {**copy.deepcopy(HR), **changes}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "type": "text", "content": text}


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "type": "text", "content": text}


def calls(*asked: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """One message with these calls."""
    return {
        "role": "assistant",
        "type": "tool_call",
        "content": "",
        "tool_calls": [
            {"id": f"c{at}", "function": {"name": name, "arguments": json.dumps(args)}}
            for at, (name, args) in enumerate(asked)
        ],
    }


ASSIGNMENT: Final = ("get_assignment_id_hr_agent", {"username": "nwaters"})
SCHEDULE: Final = (
    "get_timeoff_schedule_hr_agent",
    {"assignment_id": "15778303", "start_date": "2025-01-01", "end_date": "2025-01-30"},
)
GOOD: Final = [
    user("I want to know my time off schedule"),
    calls(ASSIGNMENT),
    calls(SCHEDULE),
    says(ANSWER),
]
"""A conversation that follows the dataset."""


def one_tool(args: Any, strategies: dict[str, str] | None = None) -> dict[str, Any]:
    """A dataset with one call of the tool `t`."""
    goal = {"type": "tool_call", "name": "g", "tool_name": "t", "args": args}
    if strategies:
        goal["arg_matching"] = strategies
    return {"story": "s", "goals": {"g": []}, "goal_details": [goal]}
