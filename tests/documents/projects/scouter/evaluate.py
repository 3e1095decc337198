from scouter import trace
from scouter.evaluate import EvalOrchestrator, EvalRecord
from setup import get_shared_config

config = get_shared_config()
instructions = config.prompt.message.text


def run_agent(query, callback=None):
    response = "Paris is the capital of France." if "France" in query else "Water is H2O."
    tracer = trace.get_tracer("evaluate.non_interactive")
    with tracer.start_as_current_span("callback") as span:
        record = EvalRecord(id=query[:7], context={"query": query, "response": response})
        span.add_queue_item("support_agent", record)
    return response


def judge(request):
    return '<think>Is it right? It could be "score": 0.</think>{"score": 1, "reason": "right"}'


try:
    results = EvalOrchestrator(
        queue=config.queue, scenarios=config.scenarios, agent_fn=run_agent
    ).run(judge=judge)
finally:
    config.instrumentor.uninstrument()

results.as_table(show_workflow=True)
results.save("results.json")
