"""The tables: which attribute of which convention means what.

`docs/conventions.md` shows them. Where several attributes tell the same, the convention that comes
first counts, and in it the attribute that comes first: what was made for the purpose before what is
used for it, `tool.parameters`, which usually is the tool's schema, last.
"""

from typing import Final

from scouter.model.genai.facts import Convention, Kind
from scouter.model.genai.facts import Field as F

_OTHER: Final = Kind.OTHER
_HELPER: Final = Kind.HELPER
_OPENLIT_TOTAL: Final = "gen_ai.client.token.usage"

OTEL: Final = Convention(
    name="OpenTelemetry GenAI",
    source="semantic conventions 1.36 and 1.41, and 0.1.0 of their own repository; what came "
    "before them; Semantic Kernel, Strands, pydantic-ai, AutoGen and Google's SDKs, which extend "
    "them",
    kinds={
        "gen_ai.operation.name": {
            "chat": Kind.MODEL, "text_completion": Kind.MODEL, "generate_content": Kind.MODEL,
            "completion": Kind.MODEL, "chat.completions": Kind.MODEL,
            "text.completions": Kind.MODEL, "chat.streaming_completions": Kind.MODEL,
            "text.streaming_completions": Kind.MODEL, "responses": Kind.MODEL,
            "messages": Kind.MODEL, "fetch_response": Kind.MODEL,
            "realtime_inference": Kind.MODEL, "embeddings": Kind.EMBEDDING,
            "embedding": Kind.EMBEDDING, "execute_tool": Kind.TOOL, "tool": Kind.TOOL,
            "invoke_agent": Kind.AGENT, "agent": Kind.AGENT,
            "handle_conversation_turn": Kind.WORKFLOW, "invoke_workflow": Kind.WORKFLOW,
            "workflow": Kind.WORKFLOW, "retrieval": Kind.RETRIEVAL,
            "search_memory": Kind.RETRIEVAL, "run_guardrail": Kind.GUARDRAIL,
            "apply_guardrail": Kind.GUARDRAIL, "guardrail_check": Kind.GUARDRAIL,
            "guardrail": Kind.GUARDRAIL, "create_agent": _OTHER, "plan": _OTHER,
            "create_memory": _HELPER, "update_memory": _HELPER, "upsert_memory": _HELPER,
            "delete_memory": _HELPER,
        },
        "mcp.method.name": {"tools/call": Kind.TOOL},
    },
    marks={
        "gen_ai.tool.name": Kind.TOOL, "gen_ai.tool.call.id": Kind.TOOL,
        "gen_ai.guardrail.name": Kind.GUARDRAIL, "gen_ai.workflow.name": Kind.WORKFLOW,
        "gen_ai.agent.name": Kind.AGENT, "gen_ai.request.model": Kind.MODEL,
        "gen_ai.response.model": Kind.MODEL,
    },
    fields={
        F.PROVIDER: ("gen_ai.provider.name", "gen_ai.system"),
        F.REQUEST_MODEL: ("gen_ai.request.model",),
        F.RESPONSE_MODEL: ("gen_ai.response.model",),
        F.RESPONSE_ID: ("gen_ai.response.id",),
        F.PROMPT: ("gen_ai.prompt.name",),
        F.PROMPT_VERSION: ("gen_ai.prompt.version",),
        F.PROMPT_TEXT: ("gen_ai.system_instructions",),
        F.FINGERPRINT: (
            "openai.response.system_fingerprint", "gen_ai.openai.response.system_fingerprint",
            "gen_ai.response.system_fingerprint",
        ),
        F.AGENT: ("gen_ai.agent.name",),
        F.CONVERSATION: ("gen_ai.conversation.id", "gcp.vertex.agent.session_id"),
        F.SESSION: ("session.id",),
        F.USER: ("user.id", "enduser.id"),
        F.TOOL: ("gen_ai.tool.name",),
        F.CALL_ID: ("gen_ai.tool.call.id",),
        F.ERROR: ("error.type", "exception.type"),
        F.FINISH: (
            "gen_ai.response.finish_reasons", "gen_ai.response.finish_reason",
            "anthropic.message.stop_reason",
        ),
        F.INPUT_TOKENS: (
            "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens",
            "gen_ai.response.prompt_tokens",
        ),
        F.OUTPUT_TOKENS: (
            "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens",
            "gen_ai.response.completion_tokens",
        ),
        F.TOTAL_TOKENS: ("gen_ai.usage.total_tokens", "gen_ai.response.total_tokens"),
        F.CACHED: (
            "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
            "gen_ai.usage.details.cache_read_tokens",
            "gen_ai.usage.details.cache_read_input_tokens", "gen_ai.usage.details.cached_tokens",
        ),
        F.CACHE_WRITTEN: (
            "gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_creation.input_tokens",
            "gen_ai.usage.cache_write_input_tokens", "gen_ai.usage.cache_creation_input_tokens",
            "gen_ai.usage.details.cache_write_tokens",
            "gen_ai.usage.details.cache_creation_input_tokens",
        ),
        F.REASONING: (
            "gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens",
            "gen_ai.usage.details.reasoning_tokens",
        ),
        F.AUDIO_INPUT: ("gen_ai.usage.details.input_audio_tokens",),
        F.AUDIO_OUTPUT: ("gen_ai.usage.details.output_audio_tokens",),
    },
    tools={
        F.ARGUMENTS: (
            "gen_ai.tool.call.arguments", "gen_ai.tool.arguments", "gen_ai.tool.input",
            "tool_arguments", "gcp.vertex.agent.tool_call_args",
        ),
        F.RESULT: (
            "gen_ai.tool.call.result", "gen_ai.tool.result", "gen_ai.tool.output",
            "tool_response", "code.function.return.value", "gcp.vertex.agent.tool_response",
        ),
    },
    models={
        F.INPUT: ("gen_ai.input.messages", "gcp.vertex.agent.llm_request"),
        F.OUTPUT: ("gen_ai.output.messages", "gcp.vertex.agent.llm_response"),
    },
    agents={
        F.AGENT: ("gen_ai.workflow.name", "agent_name"),
        F.OUTPUT: ("final_result", "pydantic_ai.all_messages"),
        F.INPUT: ("pydantic_ai.all_messages",),
        F.INPUT_TOKENS: ("gen_ai.aggregated_usage.input_tokens",),
        F.OUTPUT_TOKENS: ("gen_ai.aggregated_usage.output_tokens",),
    },
    parameters=("code.function.parameters.", "code.function.parameter."),
)  # fmt: skip

OPENINFERENCE: Final = Convention(
    name="OpenInference",
    source="openinference-semantic-conventions 0.1.x and its instrumentations",
    kinds={
        name: {
            "llm": Kind.MODEL, "embedding": Kind.EMBEDDING, "tool": Kind.TOOL,
            "agent": Kind.AGENT, "retriever": Kind.RETRIEVAL, "guardrail": Kind.GUARDRAIL,
            "reranker": _HELPER, "evaluator": _HELPER, "prompt": _OTHER, "chain": None,
            "unknown": None,
        }
        for name in ("openinference.span.kind", "fi.span.kind", "gen_ai.span.kind")
    },
    marks={"tool.name": Kind.TOOL},
    fields={
        F.PROVIDER: ("llm.provider", "llm.system"),
        F.REQUEST_MODEL: ("llm.request.model_name",),
        F.RESPONSE_MODEL: (
            "llm.response.model_name", "llm.response.model", "llm.model_name",
            "embedding.model_name",
        ),
        F.RESPONSE_ID: ("llm.response.id",),
        F.PROMPT: ("prompt.id",),
        F.PROMPT_VERSION: ("llm.prompt_template.version",),
        F.PROMPT_TEXT: ("llm.prompt_template.template",),
        F.AGENT: ("agent.name",),
        F.TOOL: ("tool.name",),
        F.CALL_ID: ("tool_call.id", "tool.id"),
        F.FINISH: ("llm.finish_reason", "llm.output_messages.0.message.finish_reason"),
        F.INPUT_TOKENS: ("llm.token_count.prompt",),
        F.OUTPUT_TOKENS: ("llm.token_count.completion",),
        F.TOTAL_TOKENS: ("llm.token_count.total",),
        F.CACHED: ("llm.token_count.prompt_details.cache_read",),
        F.CACHE_WRITTEN: ("llm.token_count.prompt_details.cache_write",),
        F.REASONING: ("llm.token_count.completion_details.reasoning",),
        F.AUDIO_INPUT: ("llm.token_count.prompt_details.audio",),
        F.AUDIO_OUTPUT: ("llm.token_count.completion_details.audio",),
    },
    tools={
        F.ARGUMENTS: ("tool_call.function.arguments", "tool.arguments", "input.value"),
        F.RESULT: ("output.value",),
    },
    models={F.INPUT: ("input.value",), F.OUTPUT: ("output.value",)},
    agents={F.AGENT: ("graph.node.name", "graph.node.id")},
    numbered={"llm.input_messages": F.INPUT, "llm.output_messages": F.OUTPUT},
)  # fmt: skip

OPENLLMETRY: Final = Convention(
    name="OpenLLMetry",
    source="opentelemetry-semantic-conventions-ai: 0.62 and later write OpenTelemetry's names, "
    "earlier ones numbered attributes",
    kinds={
        "llm.request.type": {
            "chat": Kind.MODEL, "completion": Kind.MODEL, "embedding": Kind.EMBEDDING,
            "rerank": _HELPER, "unknown": None,
        },
        "traceloop.span.kind": {
            "workflow": Kind.WORKFLOW, "agent": Kind.AGENT, "tool": Kind.TOOL, "task": None,
            "unknown": None,
        },
    },
    fields={
        F.CONVERSATION: (
            "traceloop.association.properties.thread_id",
            "traceloop.association.properties.conversation_id",
            "traceloop.association.properties.chat_id",
        ),
        F.SESSION: ("traceloop.association.properties.session_id",),
        F.USER: ("traceloop.association.properties.user_id",),
        F.PROMPT: ("traceloop.prompt.key",),
        F.PROMPT_VERSION: ("traceloop.prompt.version", "traceloop.prompt.version_name"),
        F.PROMPT_HASH: ("traceloop.prompt.version_hash",),
        F.PROMPT_TEXT: ("traceloop.prompt.template",),
        F.FINISH: (
            "llm.response.finish_reason", "llm.response.stop_reason",
            "gen_ai.completion.0.finish_reason",
        ),
        F.TOTAL_TOKENS: ("llm.usage.total_tokens",),
        F.REASONING: ("llm.usage.reasoning_tokens",),
    },
    tools={
        F.TOOL: ("traceloop.entity.name",),
        F.ARGUMENTS: ("traceloop.entity.input",),
        F.RESULT: ("traceloop.entity.output",),
    },
    agents={
        F.AGENT: ("traceloop.entity.name",),
        F.INPUT: ("traceloop.entity.input",),
        F.OUTPUT: ("traceloop.entity.output",),
        F.USAGE: ("crewai.crew.usage_metrics",),
    },
    numbered={"gen_ai.prompt": F.INPUT, "gen_ai.completion": F.OUTPUT},
)  # fmt: skip

VERCEL: Final = Convention(
    name="Vercel AI SDK",
    source="ai 4 to 6; ai 7 writes OpenTelemetry's names",
    kinds={
        "ai.operationId": {
            "*.dogenerate": Kind.MODEL, "*.dostream": Kind.MODEL, "*.doembed": Kind.EMBEDDING,
            "ai.toolcall": Kind.TOOL, "ai.generatetext": Kind.AGENT, "ai.streamtext": Kind.AGENT,
            "ai.generateobject": Kind.AGENT, "ai.streamobject": Kind.AGENT,
        },
    },
    marks={"ai.toolCall.name": Kind.TOOL},
    has_span_per_call=True,
    fields={
        F.PROVIDER: ("ai.model.provider",),
        F.REQUEST_MODEL: ("ai.model.id",),
        F.RESPONSE_MODEL: ("ai.response.model",),
        F.RESPONSE_ID: ("ai.response.id",),
        F.AGENT: ("ai.telemetry.functionId", "resource.name"),
        F.CONVERSATION: (
            "ai.telemetry.metadata.conversationId", "ai.telemetry.metadata.threadId",
        ),
        F.SESSION: ("ai.telemetry.metadata.sessionId",),
        F.USER: ("ai.telemetry.metadata.userId",),
        F.TOOL: ("ai.toolCall.name",),
        F.CALL_ID: ("ai.toolCall.id",),
        F.FINISH: ("ai.response.finishReason", "ai.finishReason"),
        F.INPUT_TOKENS: ("ai.usage.inputTokens", "ai.usage.promptTokens"),
        F.OUTPUT_TOKENS: ("ai.usage.outputTokens", "ai.usage.completionTokens"),
        F.TOTAL_TOKENS: ("ai.usage.totalTokens",),
        F.CACHED: ("ai.usage.inputTokenDetails.cacheReadTokens", "ai.usage.cachedInputTokens"),
        F.CACHE_WRITTEN: ("ai.usage.inputTokenDetails.cacheWriteTokens",),
        F.REASONING: (
            "ai.usage.outputTokenDetails.reasoningTokens", "ai.usage.reasoningTokens",
        ),
    },
    tools={F.ARGUMENTS: ("ai.toolCall.args",), F.RESULT: ("ai.toolCall.result",)},
    models={
        F.INPUT: ("ai.prompt.messages", "ai.prompt"),
        F.OUTPUT: ("ai.response.text", "ai.result.text", "ai.response.object", "ai.result.object"),
        F.TOOL_CALLS: ("ai.response.toolCalls", "ai.result.toolCalls"),
    },
    only_with=("ai.operationId",),
)  # fmt: skip

LANGSMITH: Final = Convention(
    name="LangSmith",
    source="langsmith's OpenTelemetry exporter",
    kinds={
        "langsmith.span.kind": {
            "llm": Kind.MODEL, "tool": Kind.TOOL, "retriever": Kind.RETRIEVAL,
            "embedding": Kind.EMBEDDING, "prompt": _OTHER, "parser": _OTHER, "chain": None,
        },
    },
    fields={
        F.PROVIDER: ("langsmith.metadata.ls_provider",),
        F.REQUEST_MODEL: ("langsmith.metadata.ls_model_name",),
        F.PROMPT: ("langsmith.metadata.lc_hub_repo",),
        F.PROMPT_HASH: ("langsmith.metadata.lc_hub_commit_hash",),
        F.AGENT: ("langsmith.metadata.lc_agent_name",),
        F.CONVERSATION: (
            "langsmith.metadata.thread_id", "langsmith.metadata.conversation_id",
        ),
        F.SESSION: ("langsmith.metadata.session_id", "langsmith.trace.session_id"),
        F.USER: ("langsmith.metadata.user_id",),
        F.USAGE: ("langsmith.metadata.usage_metadata",),
    },
    tools={
        F.TOOL: ("langsmith.trace.name",),
        F.ARGUMENTS: ("gen_ai.prompt",),
        F.RESULT: ("gen_ai.completion",),
    },
    models={F.INPUT: ("gen_ai.prompt",), F.OUTPUT: ("gen_ai.completion",)},
)  # fmt: skip

LOGFIRE: Final = Convention(
    name="Logfire",
    source="logfire 3 and 4: its integrations of OpenAI, Anthropic and OpenAI Agents, and "
    "pydantic-ai's earlier versions",
    kinds={
        "logfire.msg_template": {
            "chat completion with {request_data[model]!r}": Kind.MODEL,
            "completion with {request_data[model]!r}": Kind.MODEL,
            "message with {request_data[model]!r}": Kind.MODEL,
            "responses api with {gen_ai.request.model!r}": Kind.MODEL,
            "streaming response from {request_data[model]!r} took {duration:.2f}s": Kind.MODEL,
            "embedding creation with {request_data[model]!r}": Kind.EMBEDDING,
            "function: {name}": Kind.TOOL, "agent run: {name!r}": Kind.AGENT,
        },
    },
    tools={F.TOOL: ("name",), F.ARGUMENTS: ("input",), F.RESULT: ("output",)},
    models={
        F.INPUT: ("events", "all_messages_events", "raw_input", "request_data"),
        F.OUTPUT: ("events", "all_messages_events", "response_data", "response"),
        F.USAGE: ("response_data",),
    },
    agents={F.AGENT: ("name",)},
    only_with=("logfire.msg_template", "logfire.msg", "events"),
)  # fmt: skip

LANGFUSE: Final = Convention(
    name="Langfuse",
    source="langfuse 3 and 4, `LangfuseOtelSpanAttributes`",
    kinds={
        "langfuse.observation.type": {
            "generation": Kind.MODEL, "tool": Kind.TOOL, "agent": Kind.AGENT,
            "retriever": Kind.RETRIEVAL, "embedding": Kind.EMBEDDING,
            "guardrail": Kind.GUARDRAIL, "evaluator": _HELPER, "chain": None, "span": None,
            "event": None,
        },
    },
    fields={
        F.RESPONSE_MODEL: ("langfuse.observation.model.name",),
        F.PROMPT: ("langfuse.observation.prompt.name",),
        F.PROMPT_VERSION: ("langfuse.observation.prompt.version",),
        F.SESSION: ("langfuse.session.id",),
        F.USER: ("langfuse.user.id",),
        F.USAGE: ("langfuse.observation.usage_details",),
        F.ERROR: ("langfuse.observation.status_message",),
    },
    tools={
        F.ARGUMENTS: ("langfuse.observation.input",), F.RESULT: ("langfuse.observation.output",),
    },
    models={F.INPUT: ("langfuse.observation.input",), F.OUTPUT: ("langfuse.observation.output",)},
)  # fmt: skip

MLFLOW: Final = Convention(
    name="MLflow",
    source="mlflow 3, `SpanAttributeKey`",
    kinds={
        "mlflow.spanType": {
            "llm": Kind.MODEL, "chat_model": Kind.MODEL, "tool": Kind.TOOL, "agent": Kind.AGENT,
            "workflow": Kind.WORKFLOW, "retriever": Kind.RETRIEVAL, "embedding": Kind.EMBEDDING,
            "guardrail": Kind.GUARDRAIL, "reranker": _HELPER, "parser": _OTHER, "memory": _HELPER,
            "evaluator": _HELPER, "chain": None, "task": None, "unknown": None,
        },
    },
    fields={
        F.PROVIDER: ("mlflow.llm.provider",),
        F.REQUEST_MODEL: ("mlflow.llm.model",),
        F.SESSION: ("mlflow.trace.session",),
        F.USER: ("mlflow.trace.user",),
        F.USAGE: ("mlflow.chat.tokenUsage",),
    },
    tools={F.ARGUMENTS: ("mlflow.spanInputs",), F.RESULT: ("mlflow.spanOutputs",)},
    models={F.INPUT: ("mlflow.spanInputs",), F.OUTPUT: ("mlflow.spanOutputs",)},
)  # fmt: skip

HAYSTACK: Final = Convention(
    name="Haystack",
    source="haystack-ai 2 and 3, its own tags",
    kinds={
        "haystack.component.type": {
            "*generator": Kind.MODEL, "*embedder": Kind.EMBEDDING, "*retriever": Kind.RETRIEVAL,
            "agent": Kind.AGENT,
        },
    },
    span_names={
        "haystack.agent.step.llm": Kind.MODEL, "haystack.agent.step.tool": Kind.TOOL,
        "haystack.agent.run": Kind.AGENT, "haystack.pipeline.run": Kind.WORKFLOW,
        "haystack.async_pipeline.run": Kind.WORKFLOW,
    },
    fields={
        F.TOOL: ("haystack.tool.name",),
        F.CALL_ID: ("haystack.tool.call.id",),
    },
    tools={
        F.ARGUMENTS: ("haystack.agent.step.tool.input",),
        F.RESULT: ("haystack.agent.step.tool.output",),
    },
    models={
        F.INPUT: (
            "haystack.agent.step.llm.input", "haystack.agent.input", "haystack.component.input",
            "haystack.pipeline.input_data",
        ),
        F.OUTPUT: (
            "haystack.agent.step.llm.output", "haystack.agent.output",
            "haystack.component.output", "haystack.pipeline.output_data",
        ),
    },
)  # fmt: skip

CLAUDE_CODE: Final = Convention(
    name="Claude Code",
    source="Claude Code and the Claude Agent SDK with their own spans",
    kinds={
        "span.type": {
            "llm_request": Kind.MODEL, "tool": Kind.TOOL, "interaction": Kind.AGENT,
            "tool.execution": Kind.TOOL, "tool.blocked_on_user": _OTHER, "hook": _OTHER,
        },
    },
    span_names={
        "claude_code.llm_request": Kind.MODEL, "claude_code.tool": Kind.TOOL,
        "claude_code.interaction": Kind.AGENT, "claude_code.tool.execution": Kind.TOOL,
        "claude_code.tool.blocked_on_user": _OTHER,
    },
    fields={
        F.RESPONSE_MODEL: ("gen_ai.response.model", "model"),
        F.RESPONSE_ID: ("request_id",),
        F.TOOL: ("tool_name",),
        F.CALL_ID: ("tool_use_id",),
        F.FINISH: ("stop_reason",),
        F.INPUT_TOKENS: ("input_tokens",),
        F.OUTPUT_TOKENS: ("output_tokens",),
        F.CACHED: ("cache_read_tokens",),
        F.CACHE_WRITTEN: ("cache_creation_tokens",),
    },
    tools={F.ARGUMENTS: ("tool_input",), F.RESULT: ("tool_output",)},
    models={F.INPUT: ("user_prompt",), F.OUTPUT: ("response.model_output",)},
    only_with=("span.type",),
    leaves_out_cache=True,
    has_span_per_call=True,
)  # fmt: skip

MASTRA: Final = Convention(
    name="Mastra",
    source="@mastra/core 1, by its exporters, which write OpenTelemetry's or OpenInference's names",
    kinds={
        "mastra.span.type": {
            "tool_call": Kind.TOOL, "mcp_tool_call": Kind.TOOL, "agent_run": Kind.AGENT,
            "workflow_run": Kind.WORKFLOW, "model_step": _OTHER, "model_chunk": _OTHER,
            "model_generation": None, "model_inference": None,
        },
    },
    has_span_per_call=True,
)  # fmt: skip

NAT: Final = Convention(
    name="NeMo Agent Toolkit",
    source="nvidia-nat 1.3 to 1.9, the spans of its own exporters; a tool's function is a span of "
    "its own inside the tool's",
    kinds={
        "nat.span.kind": {
            "llm": Kind.MODEL, "tool": Kind.TOOL, "agent": Kind.AGENT, "workflow": Kind.WORKFLOW,
            "retriever": Kind.RETRIEVAL, "embedding": Kind.EMBEDDING, "embedder": Kind.EMBEDDING,
            "guardrail": Kind.GUARDRAIL, "reranker": _HELPER, "evaluator": _HELPER,
            "function": None, "task": None, "chain": None, "span": None, "custom": None,
            "unknown": None,
        },
    },
    tools={
        F.TOOL: ("nat.subspan.name",), F.ARGUMENTS: ("input.value",), F.RESULT: ("output.value",),
    },
    models={F.INPUT: ("input.value",), F.OUTPUT: ("output.value",)},
    agents={F.AGENT: ("nat.subspan.name",)},
)  # fmt: skip

OPENLIT: Final = Convention(
    name="OpenLIT",
    source="openlit 1.x: what it writes beside OpenTelemetry's names",
    fields={
        F.TOTAL_TOKENS: (_OPENLIT_TOTAL,),
        F.CACHED: ("gen_ai.usage.prompt_tokens_details.cache_read",),
        F.CACHE_WRITTEN: ("gen_ai.usage.prompt_tokens_details.cache_write",),
        F.REASONING: ("gen_ai.usage.completion_tokens_details.reasoning",),
        F.AUDIO_OUTPUT: ("gen_ai.usage.completion_tokens_details.audio",),
    },
)

LAST: Final = Convention(
    name="other attributes",
    source="attributes that tell something else as a rule",
    tools={F.ARGUMENTS: ("tool.parameters",)},
)

CONVENTIONS: Final = (
    CLAUDE_CODE, MASTRA, OTEL, VERCEL, OPENINFERENCE, OPENLLMETRY, LANGSMITH, LOGFIRE, LANGFUSE,
    MLFLOW, HAYSTACK, NAT, OPENLIT, LAST,
)  # fmt: skip
"""Conventions in the order in which they count."""

CACHE_APART: Final = {"bedrock": "", "anthropic": _OPENLIT_TOTAL}
"""Parts of the names of providers whose count of input leaves out the cache; by any convention, or
only on spans with an attribute, that of one."""
