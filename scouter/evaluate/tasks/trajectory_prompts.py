"""Questions about an agent's calls: what a judge is asked with and without expected ones."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.paths.path import Path

CALLS: Final = "agent_trajectory"
REFERENCE: Final = "reference"
TOOLS: Final = "tool_schemas"
HISTORY: Final = "conversation_history"
"""Variables that a task fills in itself; all others are paths in the record."""

WITH_REFERENCE: Final = """\
Judge the calls of tools that an AI agent made by those that were expected.

Question:
{question}

Expected calls:
{reference}

Calls that were made:
{agent_trajectory}

Final answer of the agent:
{answer}

Calls with one step number were made at once. Take off for tools that were not called, for others \
that were, for wrong parameters, and for a wrong order of steps. Parameters in free words have to \
mean the same; all others have to be the same. 1 means all as expected, 0 nothing as expected.
"""
WITHOUT_REFERENCE: Final = """\
Judge how well an AI agent chose and called its tools.

Conversation before:
{conversation_history}

Question:
{question}

Tools that it has, with their parameters:
{tool_schemas}

Its actions:
{agent_trajectory}

Its final answer:
{answer}

Ask yourself: Were these the right tools? Are the parameters right, and do they fit the schemas? \
Was any call needless, or missing? Does the answer follow from what the tools gave back? 1 means \
nothing to improve, 0 nothing right.
"""
NO_HISTORY: Final = "(no previous turns)"
NO_TOOLS: Final = "(not known: nothing tells of them; judge no parameter by a schema)"
_FORM: Final = """
Answer with a JSON object. "reasoning" are your steps; "score" is that number.
"""
_ANSWER: Final[Mapping[str, JsonValue]] = {
    "type": "object",
    "properties": {"reasoning": {"type": "string"}, "score": {"type": "number"}},
    "required": ["reasoning", "score"],
}
_BLANKS: Final = {name: f"${{{name}}}" for name in (CALLS, REFERENCE, TOOLS, HISTORY)}


def usual_prompt(form: str, model: str, provider: str, question: str, answer: str) -> Prompt:
    """Make the prompt that asks one of the usual questions.

    Args:
        form: `WITH_REFERENCE` or `WITHOUT_REFERENCE`.
        model: The judge's model.
        provider: The name of a provider entry.
        question: Path of the user's question in the record.
        answer: Path of the agent's answer.
    """
    paths = {"question": f"${{{question}}}", "answer": f"${{{answer}}}"}
    text = form.format(**_BLANKS, **paths) + _FORM
    return Prompt(text, model, provider, output_type=dict(_ANSWER))


def reads(prompt: Prompt, variable: str) -> bool:
    """Tell whether a prompt has a variable, or a part of what it stands for."""
    return any(Path(text).segments[:1] == (variable,) for text in prompt.parameters)
