import asyncio

from scouter.evaluate import AccuracyEvaluator, PerformanceEvaluator, ReliabilityEvaluator
from scouter.tracing import get_tracer


class Task:
    def __init__(self, description):
        self.description = description
        self.tool_calls = []


class Agent:
    """An agent as Upsonic calls one."""

    async def do_async(self, task):
        if not isinstance(task, Task):
            return "Tokyo is the capital of Japan."
        for tool, arguments in (("calculate_sum", {"a": 5, "b": 3}), ("calculate_product", {})):
            task.tool_calls.append({"tool_name": tool, "params": arguments, "tool_result": 8})
            with get_tracer("agent").start_as_current_span(f"execute_tool {tool}") as span:
                span.set_attribute("gen_ai.operation.name", "execute_tool")
                span.set_attribute("gen_ai.tool.name", tool)
        return "16"


def judge(request):
    return {"score": 9, "reasoning": "Tokyo is named", "is_met": True, "critique": "none"}


agent = Agent()
accuracy_evaluator = AccuracyEvaluator(
    judge_agent=judge,
    agent_under_test=agent,
    query="What is the capital of Japan?",
    expected_output="Tokyo is the capital of Japan.",
    additional_guidelines="Check if the answer correctly identifies Tokyo as the capital.",
    num_iterations=2,
)
accuracy = asyncio.run(accuracy_evaluator.run(print_results=True))
with_output = asyncio.run(
    accuracy_evaluator.run_with_output(output="Tokyo.", print_results=False)
)

task = Task("First calculate 5 + 3 using calculate_sum, then multiply the result by 2")
asyncio.run(agent.do_async(task))
reliability = ReliabilityEvaluator(
    expected_tool_calls=["calculate_sum", "calculate_product"],
    order_matters=True,
    exact_match=True,
).run(task, print_results=True)
missing = ReliabilityEvaluator(expected_tool_calls=["get_weather"]).run(task, print_results=False)

performance = asyncio.run(
    PerformanceEvaluator(
        agent_under_test=agent, task=Task("What is 5 + 5?"), num_iterations=2, warmup_runs=1
    ).run(print_results=False)
)
