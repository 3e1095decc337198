"""AgentAssertionTask: check tool calls and the response of an agent."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Literal, Unpack

from pydantic import Field, field_validator

from scouter.evaluate.tasks.base import JsonInput, Names, Tagged, TaskBase, TaskOptions, is_none
from scouter.model.agent_work import CallsToldBy

if TYPE_CHECKING:
    from scouter.evaluate.operators.comparison import ComparisonOperator


class AgentAssertion(Tagged):
    """A fact to read from an agent's work; made with the functions that it has.

    Calls are in the order in which the model requested them; tools that the provider ran itself
    count too. Tokens have one meaning for all providers: input is all that the model read (from a
    cache too), output all that it wrote (its reasoning too). `response_field` reads the
    provider's own numbers.
    """

    ToolCalled: ClassVar[type["ToolCalledAssertion"]]
    tool_called: ClassVar[type["ToolCalledAssertion"]]
    ToolNotCalled: ClassVar[type["ToolNotCalledAssertion"]]
    tool_not_called: ClassVar[type["ToolNotCalledAssertion"]]
    ToolCalledWithArgs: ClassVar[type["ToolCalledWithArgsAssertion"]]
    ToolCallSequence: ClassVar[type["ToolCallSequenceAssertion"]]
    tool_call_sequence: ClassVar[type["ToolCallSequenceAssertion"]]
    ToolCallCount: ClassVar[type["ToolCallCountAssertion"]]
    tool_call_count: ClassVar[type["ToolCallCountAssertion"]]
    RepeatedToolCallCount: ClassVar[type["RepeatedToolCallCountAssertion"]]
    repeated_tool_call_count: ClassVar[type["RepeatedToolCallCountAssertion"]]
    ToolArgument: ClassVar[type["ToolArgumentAssertion"]]
    tool_argument: ClassVar[type["ToolArgumentAssertion"]]
    ToolResult: ClassVar[type["ToolResultAssertion"]]
    tool_result: ClassVar[type["ToolResultAssertion"]]
    ToolError: ClassVar[type["ToolErrorAssertion"]]
    tool_error: ClassVar[type["ToolErrorAssertion"]]
    ToolErrorCount: ClassVar[type["ToolErrorCountAssertion"]]
    tool_error_count: ClassVar[type["ToolErrorCountAssertion"]]
    UnrecoveredToolErrorCount: ClassVar[type["UnrecoveredToolErrorCountAssertion"]]
    unrecovered_tool_error_count: ClassVar[type["UnrecoveredToolErrorCountAssertion"]]
    EmptyResultCount: ClassVar[type["EmptyResultCountAssertion"]]
    empty_result_count: ClassVar[type["EmptyResultCountAssertion"]]
    UnsourcedArgumentCount: ClassVar[type["UnsourcedArgumentCountAssertion"]]
    unsourced_argument_count: ClassVar[type["UnsourcedArgumentCountAssertion"]]
    UnsourcedNumberCount: ClassVar[type["UnsourcedNumberCountAssertion"]]
    unsourced_number_count: ClassVar[type["UnsourcedNumberCountAssertion"]]
    GuardrailVerdict: ClassVar[type["GuardrailVerdictAssertion"]]
    guardrail_verdict: ClassVar[type["GuardrailVerdictAssertion"]]
    GuardrailAction: ClassVar[type["GuardrailActionAssertion"]]
    guardrail_action: ClassVar[type["GuardrailActionAssertion"]]
    GuardrailCount: ClassVar[type["GuardrailCountAssertion"]]
    guardrail_count: ClassVar[type["GuardrailCountAssertion"]]
    ResponseCitesResult: ClassVar[type["ResponseCitesResultAssertion"]]
    response_cites_result: ClassVar[type["ResponseCitesResultAssertion"]]
    ResponseContent: ClassVar[type["ResponseContentAssertion"]]
    response_content: ClassVar[type["ResponseContentAssertion"]]
    ResponseIsBlank: ClassVar[type["ResponseIsBlankAssertion"]]
    response_is_blank: ClassVar[type["ResponseIsBlankAssertion"]]
    ResponseModel: ClassVar[type["ResponseModelAssertion"]]
    response_model: ClassVar[type["ResponseModelAssertion"]]
    ResponseFinishReason: ClassVar[type["ResponseFinishReasonAssertion"]]
    response_finish_reason: ClassVar[type["ResponseFinishReasonAssertion"]]
    ResponseInputTokens: ClassVar[type["ResponseInputTokensAssertion"]]
    response_input_tokens: ClassVar[type["ResponseInputTokensAssertion"]]
    ResponseOutputTokens: ClassVar[type["ResponseOutputTokensAssertion"]]
    response_output_tokens: ClassVar[type["ResponseOutputTokensAssertion"]]
    ResponseTotalTokens: ClassVar[type["ResponseTotalTokensAssertion"]]
    response_total_tokens: ClassVar[type["ResponseTotalTokensAssertion"]]
    ResponseField: ClassVar[type["ResponseFieldAssertion"]]
    response_field: ClassVar[type["ResponseFieldAssertion"]]

    @staticmethod
    def tool_called_with_args(
        name: str, arguments: Mapping[str, object]
    ) -> "ToolCalledWithArgsAssertion":
        """True if one call of the tool has at least these arguments.

        Objects may have more keys than requested, at every level; everything else must be equal.
        """
        return ToolCalledWithArgsAssertion.model_validate({"name": name, "arguments": arguments})


class ToolCalledAssertion(AgentAssertion):
    """True if the tool was called at least once."""

    name: str


class ToolNotCalledAssertion(AgentAssertion):
    """True if the tool was never called."""

    name: str


class ToolCalledWithArgsAssertion(AgentAssertion):
    """True if one call of the tool has at least these arguments."""

    name: str
    arguments: JsonInput


class ToolCallSequenceAssertion(AgentAssertion):
    """True if the tools were called in this order, other calls between them allowed."""

    names: Names


class ToolCallCountAssertion(AgentAssertion):
    """The number of calls, of one tool or of all."""

    name: str | None = None


class RepeatedToolCallCountAssertion(AgentAssertion):
    """The number of calls whose tool was called before with equal arguments; of one or of all."""

    name: str | None = None


class ToolArgumentAssertion(AgentAssertion):
    """One argument of the tool's first call."""

    name: str
    argument_key: str


class ToolResultAssertion(AgentAssertion):
    """The result of the tool's first call with a known result."""

    name: str


class ToolErrorAssertion(AgentAssertion):
    """Type or message of the error of the tool's first call that failed; null if none did."""

    name: str


class ToolErrorCountAssertion(AgentAssertion):
    """The number of failed calls, of one tool or of all."""

    name: str | None = None


class UnrecoveredToolErrorCountAssertion(AgentAssertion):
    """The number of failed calls that no later call of the tool made good, of one or of all.

    A later call makes one good if it succeeds and has an argument in common with it.
    """

    name: str | None = None


class EmptyResultCountAssertion(AgentAssertion):
    """The number of calls that gave nothing back, of one tool or of all; failed ones left out."""

    name: str | None = None


class UnsourcedArgumentCountAssertion(AgentAssertion):
    """The number of values of arguments, of these names or of all, that have no source.

    Sources are what people and instructions said, the definitions of tools, and the results of
    earlier calls.
    """

    keys: Names | None = None


class UnsourcedNumberCountAssertion(AgentAssertion):
    """The number of numbers and dates in the last answer that have no source."""


class GuardrailVerdictAssertion(AgentAssertion):
    """The strictest verdict of a guardrail, or of all: `deny`, `escalate`, `modify`, `warn`.

    Words of the sender's own are stricter than `allow`.
    """

    name: str | None = None


class GuardrailActionAssertion(AgentAssertion):
    """Action upon the strictest verdict of a guardrail, or of all guardrails, such as `block`."""

    name: str | None = None


class GuardrailCountAssertion(AgentAssertion):
    """The number of checks by guardrails with this verdict and this action together."""

    name: str | None = None
    verdict: str | None = None
    action: str | None = None


class ResponseCitesResultAssertion(AgentAssertion):
    """True if the last answer has a value of a result of the tool, or of any tool."""

    name: str | None = None


class ResponseContentAssertion(AgentAssertion):
    """Text of the last answer, or its refusal; null where it has neither."""


class ResponseIsBlankAssertion(AgentAssertion):
    """True if the last answer has no text and asks for no tool.

    A run that ends by handing the user over to a person has no text, and is not blank.
    """


class ResponseModelAssertion(AgentAssertion):
    """Model that answered."""


class ResponseFinishReasonAssertion(AgentAssertion):
    """The reason for the end of the last answer, in the provider's word."""


class ResponseInputTokensAssertion(AgentAssertion):
    """Tokens read by the model, those from its cache among them."""


class ResponseOutputTokensAssertion(AgentAssertion):
    """Tokens written by the model, its reasoning among them."""


class ResponseTotalTokensAssertion(AgentAssertion):
    """Tokens read and written."""


class ResponseFieldAssertion(AgentAssertion):
    """A value of the response as the provider sent it."""

    path: str


class AgentAssertionTask(TaskBase):
    """Check an agent's calls of tools, their arguments, and its answer.

    Args:
        id: Unique inside one profile; lower-cased.
        assertion: The value to read.
        expected_value: The value to compare with; `${path}` inside texts is read from the record.
        operator: The comparison.
        description: For people.
        depends_on: Tasks that run before; their actual values can be read under their ids.
        condition: True makes the task a gate.
        required: True stops a release wherever the task does not pass.
        provider: Read the response in this provider's formats only (and lists of messages); by
            default the format is recognised. Known are `openai`, `anthropic`, `gemini`, `vertex`,
            `google`, `google_adk`, `bedrock`, `otel` and `messages`.
        context_path: Path of the response in the record; by default the whole context, or its
            field `response` where the whole is no provider's response.
        source: `context` reads the response from the record, `spans` reads tool calls, messages
            and tokens from the GenAI attributes of the record's trace.
        scope: `session` evaluates all records of a session together, once.
        calls_told_by: Source that tells of the agent's calls of tools, where the rule would choose
            another one: `spans`, `messages` or `nobody`. A profile says it for all its tasks.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = (
        "id", "assertion", "expected_value", "operator", "description", "depends_on", "condition",
        "provider", "context_path",
    )  # fmt: skip

    task_type: Literal["AgentAssertion"] = "AgentAssertion"
    assertion: AgentAssertion
    provider: str | None = None
    context_path: str | None = None
    source: Literal["context", "spans"] = "context"
    calls_told_by: CallsToldBy | None = Field(default=None, exclude_if=is_none)

    @field_validator("provider", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        """Take an enum's member by its value, or by its name where that is no text."""
        if not isinstance(value, Enum):
            return value
        return value.value if isinstance(value.value, str) else value.name

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            assertion: AgentAssertion,
            expected_value: object = None,
            operator: ComparisonOperator | str = ...,
            description: str | None = None,
            depends_on: Sequence[str] | None = None,
            condition: bool | None = None,
            provider: str | Enum | None = None,
            context_path: str | None = None,
            *,
            source: Literal["context", "spans"] = "context",
            calls_told_by: CallsToldBy | Literal["spans", "messages", "nobody"] | None = None,
            task_type: Literal["AgentAssertion"] = "AgentAssertion",
            **options: Unpack[TaskOptions],
        ) -> None: ...
