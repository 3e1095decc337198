from scouter.drift import AgentEvalProfile
from scouter.evaluate import (
    AssertionTask,
    ComparisonOperator,
    EvalOrchestrator,
    EvalRecord,
    EvalScenario,
    EvalScenarios,
)
from scouter.transport import MockConfig
from scouter.queue import ScouterQueue
from scouter.tracing import init_tracer

# 1. Define what to evaluate about your agent's outputs
profile = AgentEvalProfile(
    alias="my_agent",  # matches the alias in span.add_queue_item()
    tasks=[
        AssertionTask(
            id="quality_check",
            context_path="response.quality",
            operator=ComparisonOperator.GreaterThanOrEqual,
            expected_value=7,
        ),
    ],
)

# 2. Create a queue from your profile
queue = ScouterQueue.from_profile(
    profile=[profile],
    transport_config=MockConfig(),
)

# 3. Initialize a tracer — your agent emits EvalRecords inside traced spans
tracer = init_tracer(service_name="my-eval", scouter_queue=queue)


# 4. Your agent — emits an EvalRecord, returns a response string
def my_agent(query: str) -> str:
    with tracer.start_as_current_span("agent_call") as span:
        result = {"quality": 9, "text": "Paris is the capital of France."}
        span.add_queue_item("my_agent", EvalRecord(context={"response": result}))
    return result["text"]


# 5. Define test scenarios
scenarios = EvalScenarios(scenarios=[
    EvalScenario(
        id="capital_question",
        initial_query="What is the capital of France?",
    ),
])

# 6. Run
results = EvalOrchestrator(queue=queue, scenarios=scenarios, agent_fn=my_agent).run()
results.as_table()
