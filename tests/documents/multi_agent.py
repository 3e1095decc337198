from scouter.drift import AgentEvalProfile
from scouter.evaluate import (
    AssertionTask,
    ComparisonOperator,
    EvalOrchestrator,
    EvalRecord,
    EvalScenario,
    EvalScenarios,
    SpanFilter,
    TraceAssertion,
    TraceAssertionTask,
)
from scouter.transport import MockConfig
from scouter.queue import ScouterQueue
from scouter.tracing import ScouterInstrumentor, init_tracer

retriever_profile = AgentEvalProfile(
    alias="retriever",
    tasks=[
        AssertionTask(
            id="has_results",
            context_path="results.count",
            operator=ComparisonOperator.GreaterThanOrEqual,
            expected_value=1,
        ),
        TraceAssertionTask(
            id="retriever_span_emitted",
            assertion=TraceAssertion.span_count(SpanFilter.by_name("retriever_call")),
            operator=ComparisonOperator.GreaterThanOrEqual,
            expected_value=1,
        ),
    ],
)

synthesizer_profile = AgentEvalProfile(
    alias="synthesizer",
    tasks=[
        AssertionTask(
            id="quality_score",
            context_path="response.quality",
            operator=ComparisonOperator.GreaterThanOrEqual,
            expected_value=7,
        ),
    ],
)

queue = ScouterQueue.from_profile(
    profile=[retriever_profile, synthesizer_profile],
    transport_config=MockConfig(),
)

# ScouterInstrumentor is required when your profiles include TraceAssertionTask.
# For AssertionTask and LLMJudgeTask only, init_tracer alone is sufficient.
instrumentor = ScouterInstrumentor().instrument(scouter_queue=queue)

tracer = init_tracer(service_name="my-agent", scouter_queue=queue)


def retriever_callback(query: str) -> dict:
    with tracer.start_as_current_span("retriever_call") as span:
        results = {"count": 5, "source": "internal_db"}
        span.add_queue_item("retriever", EvalRecord(context={"results": results}))
    return results


def synthesizer_callback(query: str, context: dict) -> dict:
    with tracer.start_as_current_span("synthesizer_call") as span:
        output = {"quality": 9, "text": f"Answer for: {query}"}
        span.add_queue_item("synthesizer", EvalRecord(context={"response": output}))
    return output


def agent_fn(query: str) -> str:
    with tracer.start_as_current_span("orchestrator"):
        retrieval = retriever_callback(query)
        synthesis = synthesizer_callback(query, retrieval)
    return synthesis["text"]


scenarios = EvalScenarios(scenarios=[
    EvalScenario(id="rag_basics", initial_query="What is RAG?"),
    EvalScenario(id="attention", initial_query="How does attention work?"),
])

results = EvalOrchestrator(queue=queue, scenarios=scenarios, agent_fn=agent_fn).run()
results.as_table()

instrumentor.uninstrument()
