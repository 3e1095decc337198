"""Templates of a judge's question, put together from its parts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_INSTRUCTION: Final = (
    "You are an expert evaluator. Judge what an agent did by the criteria below, and give it one "
    "of the scores of the rubric."
)
_STEPS: Final = {
    "1": "Hold what was done against each of the criteria.",
    "2": "Explain what speaks for it and what against it.",
    "3": "Choose the score of the rubric that fits best.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseMetricPromptTemplate:
    """A judge's question in sections; `str` of it is the template.

    Args:
        criteria: The criteria, by name.
        rating_rubric: Meaning of each score.
        input_variables: Columns that the judge sees, such as `prompt` and `predicted_trajectory`.
        instruction: Role of the judge; a usual one by default.
        metric_definition: The metric in a sentence.
        evaluation_steps: Steps of the judge, by name; usual ones by default.
        few_shot_examples: Examples with their scores.
    """

    criteria: Mapping[str, str]
    rating_rubric: Mapping[str, str]
    input_variables: Sequence[str] = ("prompt",)
    instruction: str = _INSTRUCTION
    metric_definition: str | None = None
    evaluation_steps: Mapping[str, str] | None = None
    few_shot_examples: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n\n".join(self._parts())

    @property
    def prompt_data(self) -> str:
        """The template."""
        return str(self)

    def _parts(self) -> Iterator[str]:
        yield f"# Instruction\n{self.instruction}"
        yield "# Evaluation"
        if self.metric_definition is not None:
            yield f"## Metric Definition\n{self.metric_definition}"
        yield f"## Criteria\n{_lines(self.criteria)}"
        yield f"## Rating Rubric\n{_lines(self.rating_rubric)}"
        steps = _STEPS if self.evaluation_steps is None else self.evaluation_steps
        yield f"## Evaluation Steps\n{_lines(steps)}"
        if self.few_shot_examples:
            examples = "\n\n".join(self.few_shot_examples)
            yield f"## Evaluation Examples\n{examples}"
        yield "# Inputs"
        for name in self.input_variables:
            yield f"## {name}\n{{{name}}}"


def _lines(parts: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {text}" for name, text in parts.items())
