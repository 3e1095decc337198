"""AgentAssertionTask: check tool calls and the response of an agent."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator

from scouter.evaluate.tasks.base import JsonInput, Scope, Tagged, TaskBase
from scouter.model.agent_work import CallsToldBy

if TYPE_CHECKING:
    from scouter.evaluate.operators.comparison import ComparisonOperator
    from scouter.evaluate.tasks.base import When


class AgentAssertion(Tagged):
    """A fact to read from an agent's work; made with the functions below.

    Calls are in the order in which the model asked for them; tools that the provider ran itself
    count too. Tokens have one meaning for all providers: input is all that the model read (from a
    cache too), output all that it wrote (its reasoning too). `response_field` reads the
    provider's own numbers.
    """

    ToolCalled: ClassVar[type["ToolCalledAssertion"]]
    ToolNotCalled: ClassVar[type["ToolNotCalledAssertion"]]
    ToolCalledWithArgs: ClassVar[type["ToolCalledWithArgsAssertion"]]
    ToolCallSequence: ClassVar[type["ToolCallSequenceAssertion"]]
    ToolCallCount: ClassVar[type["ToolCallCountAssertion"]]
    RepeatedToolCallCount: ClassVar[type["RepeatedToolCallCountAssertion"]]
    ToolArgument: ClassVar[type["ToolArgumentAssertion"]]
    ToolResult: ClassVar[type["ToolResultAssertion"]]
    ToolError: ClassVar[type["ToolErrorAssertion"]]
    ToolErrorCount: ClassVar[type["ToolErrorCountAssertion"]]
    GuardrailVerdict: ClassVar[type["GuardrailVerdictAssertion"]]
    GuardrailAction: ClassVar[type["GuardrailActionAssertion"]]
    GuardrailCount: ClassVar[type["GuardrailCountAssertion"]]
    ResponseCitesResult: ClassVar[type["ResponseCitesResultAssertion"]]
    ResponseContent: ClassVar[type["ResponseContentAssertion"]]
    ResponseIsBlank: ClassVar[type["ResponseIsBlankAssertion"]]
    ResponseModel: ClassVar[type["ResponseModelAssertion"]]
    ResponseFinishReason: ClassVar[type["ResponseFinishReasonAssertion"]]
    ResponseInputTokens: ClassVar[type["ResponseInputTokensAssertion"]]
    ResponseOutputTokens: ClassVar[type["ResponseOutputTokensAssertion"]]
    ResponseTotalTokens: ClassVar[type["ResponseTotalTokensAssertion"]]
    ResponseField: ClassVar[type["ResponseFieldAssertion"]]

    @staticmethod
    def tool_called(name: str) -> "ToolCalledAssertion":
        """True if the tool was called at least once."""
        return ToolCalledAssertion(name=name)

    @staticmethod
    def tool_not_called(name: str) -> "ToolNotCalledAssertion":
        """True if the tool was never called."""
        return ToolNotCalledAssertion(name=name)

    @staticmethod
    def tool_called_with_args(
        name: str, arguments: Mapping[str, object]
    ) -> "ToolCalledWithArgsAssertion":
        """True if one call of the tool has at least these arguments.

        Objects may have more keys than asked for, at every level; everything else must be equal.
        """
        return ToolCalledWithArgsAssertion.model_validate({"name": name, "arguments": arguments})

    @staticmethod
    def tool_call_sequence(names: Sequence[str]) -> "ToolCallSequenceAssertion":
        """True if the tools were called in this order, other calls between them allowed."""
        return ToolCallSequenceAssertion(names=list(names))

    @staticmethod
    def tool_call_count(name: str | None = None) -> "ToolCallCountAssertion":
        """The number of calls, of one tool or of all."""
        return ToolCallCountAssertion(name=name)

    @staticmethod
    def repeated_tool_call_count(name: str | None = None) -> "RepeatedToolCallCountAssertion":
        """The number of calls whose tool was called before with equal arguments."""
        return RepeatedToolCallCountAssertion(name=name)

    @staticmethod
    def tool_argument(name: str, argument_key: str) -> "ToolArgumentAssertion":
        """One argument of the tool's first call."""
        return ToolArgumentAssertion(name=name, argument_key=argument_key)

    @staticmethod
    def tool_result(name: str) -> "ToolResultAssertion":
        """The result of the tool's first call with a known result."""
        return ToolResultAssertion(name=name)

    @staticmethod
    def tool_error(name: str) -> "ToolErrorAssertion":
        """Type or message of the error of the tool's first call that failed; null if none did."""
        return ToolErrorAssertion(name=name)

    @staticmethod
    def tool_error_count(name: str | None = None) -> "ToolErrorCountAssertion":
        """The number of failed calls, of one tool or of all."""
        return ToolErrorCountAssertion(name=name)

    @staticmethod
    def guardrail_verdict(name: str | None = None) -> "GuardrailVerdictAssertion":
        """The strictest verdict of a guardrail, or of all: `deny`, `escalate`, `modify`, `warn`.

        Words of the sender's own are stricter than `allow`.
        """
        return GuardrailVerdictAssertion(name=name)

    @staticmethod
    def guardrail_action(name: str | None = None) -> "GuardrailActionAssertion":
        """The action upon the verdict that `guardrail_verdict` gives."""
        return GuardrailActionAssertion(name=name)

    @staticmethod
    def guardrail_count(
        name: str | None = None, verdict: str | None = None, action: str | None = None
    ) -> "GuardrailCountAssertion":
        """The number of checks by guardrails with this verdict and this action together."""
        return GuardrailCountAssertion(name=name, verdict=verdict, action=action)

    @staticmethod
    def response_cites_result(name: str | None = None) -> "ResponseCitesResultAssertion":
        """True if the last answer has a value of a result of the tool, or of any tool."""
        return ResponseCitesResultAssertion(name=name)

    @staticmethod
    def response_content() -> "ResponseContentAssertion":
        """Text of the last answer, or its refusal; null where it has neither."""
        return ResponseContentAssertion()

    @staticmethod
    def response_is_blank() -> "ResponseIsBlankAssertion":
        """True if the last answer has no text and asks for no tool.

        A run that ends by handing the user over to a person has no text, and is not blank.
        """
        return ResponseIsBlankAssertion()

    @staticmethod
    def response_model() -> "ResponseModelAssertion":
        """Model that answered."""
        return ResponseModelAssertion()

    @staticmethod
    def response_finish_reason() -> "ResponseFinishReasonAssertion":
        """The reason for the end of the last answer, in the provider's word."""
        return ResponseFinishReasonAssertion()

    @staticmethod
    def response_input_tokens() -> "ResponseInputTokensAssertion":
        """Tokens read by the model, those from its cache among them."""
        return ResponseInputTokensAssertion()

    @staticmethod
    def response_output_tokens() -> "ResponseOutputTokensAssertion":
        """Tokens written by the model, its reasoning among them."""
        return ResponseOutputTokensAssertion()

    @staticmethod
    def response_total_tokens() -> "ResponseTotalTokensAssertion":
        """Tokens read and written."""
        return ResponseTotalTokensAssertion()

    @staticmethod
    def response_field(path: str) -> "ResponseFieldAssertion":
        """A value of the response as the provider sent it."""
        return ResponseFieldAssertion(path=path)


class ToolCalledAssertion(AgentAssertion):
    """True if the tool was called at least once."""

    kind = "ToolCalled"
    name: str


class ToolNotCalledAssertion(AgentAssertion):
    """True if the tool was never called."""

    kind = "ToolNotCalled"
    name: str


class ToolCalledWithArgsAssertion(AgentAssertion):
    """True if one call of the tool has at least these arguments."""

    kind = "ToolCalledWithArgs"
    name: str
    arguments: JsonInput


class ToolCallSequenceAssertion(AgentAssertion):
    """True if the tools were called in this order, other calls between them allowed."""

    kind = "ToolCallSequence"
    names: list[str]


class ToolCallCountAssertion(AgentAssertion):
    """The number of calls, of one tool or of all."""

    kind = "ToolCallCount"
    name: str | None = None


class RepeatedToolCallCountAssertion(AgentAssertion):
    """The number of calls whose tool was called before with equal arguments; of one or of all."""

    kind = "RepeatedToolCallCount"
    name: str | None = None


class ToolArgumentAssertion(AgentAssertion):
    """One argument of the tool's first call."""

    kind = "ToolArgument"
    name: str
    argument_key: str


class ToolResultAssertion(AgentAssertion):
    """The result of the tool's first call with a known result."""

    kind = "ToolResult"
    name: str


class ToolErrorAssertion(AgentAssertion):
    """Type or message of the error of the tool's first call that failed; null if none did."""

    kind = "ToolError"
    name: str


class ToolErrorCountAssertion(AgentAssertion):
    """The number of failed calls, of one tool or of all."""

    kind = "ToolErrorCount"
    name: str | None = None


class GuardrailVerdictAssertion(AgentAssertion):
    """The strictest verdict of a guardrail, or of all."""

    kind = "GuardrailVerdict"
    name: str | None = None


class GuardrailActionAssertion(AgentAssertion):
    """Action upon the strictest verdict of a guardrail, or of all guardrails, such as `block`."""

    kind = "GuardrailAction"
    name: str | None = None


class GuardrailCountAssertion(AgentAssertion):
    """Number of checks with both this verdict and this action; null stands for any."""

    kind = "GuardrailCount"
    name: str | None = None
    verdict: str | None = None
    action: str | None = None


class ResponseCitesResultAssertion(AgentAssertion):
    """True if the last answer has a value that a call of the tool, or of any tool, gave back."""

    kind = "ResponseCitesResult"
    name: str | None = None


class ResponseContentAssertion(AgentAssertion):
    """Text of the last answer, or its refusal; null where it has neither."""

    kind = "ResponseContent"


class ResponseIsBlankAssertion(AgentAssertion):
    """True if the last answer has no text and asks for no tool."""

    kind = "ResponseIsBlank"


class ResponseModelAssertion(AgentAssertion):
    """Model that answered."""

    kind = "ResponseModel"


class ResponseFinishReasonAssertion(AgentAssertion):
    """The reason for the end of the last answer, in the provider's word."""

    kind = "ResponseFinishReason"


class ResponseInputTokensAssertion(AgentAssertion):
    """Tokens read by the model."""

    kind = "ResponseInputTokens"


class ResponseOutputTokensAssertion(AgentAssertion):
    """Tokens written by the model."""

    kind = "ResponseOutputTokens"


class ResponseTotalTokensAssertion(AgentAssertion):
    """Tokens read and written."""

    kind = "ResponseTotalTokens"


class ResponseFieldAssertion(AgentAssertion):
    """A value of the response as the provider sent it."""

    kind = "ResponseField"
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
    calls_told_by: CallsToldBy | None = Field(default=None, exclude_if=lambda value: value is None)

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
            scope: Scope = "record",
            when: When | Mapping[str, object] | None = None,
            required: bool = False,
            calls_told_by: CallsToldBy | Literal["spans", "messages", "nobody"] | None = None,
            task_type: Literal["AgentAssertion"] = "AgentAssertion",
        ) -> None: ...
