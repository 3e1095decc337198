import json

from scouter.formats.vertex import (
    EvalTask,
    PointwiseMetric,
    PointwiseMetricPromptTemplate,
    TrajectorySingleToolUse,
)

EXPERIMENT_NAME = "evaluate-langgraph-agent"
DETAILS, PRICE = "get_product_details", "get_product_price"
PRICES = {"smartphone": 500, "headphones": 50, "usb charger": 10, "shoes": 100, "speaker": 80}


def call(tool_name, product_name):
    return {"tool_name": tool_name, "tool_input": {"product_name": product_name}}


def agent_parsed_outcome(input):
    product = next(name for name in PRICES if name in input)
    tool = DETAILS if "details" in input else PRICE
    return {
        "response": str(PRICES[product]),
        "predicted_trajectory": json.dumps([call(tool, product)]),
    }


eval_data = {
    "prompt": [
        "Get price for smartphone",
        "Get product details and price for headphones",
        "Get details for usb charger",
        "Get product details and price for shoes",
        "Get product details for speaker?",
    ],
    "reference_trajectory": [
        [call(PRICE, "smartphone")],
        [call(DETAILS, "headphones"), call(PRICE, "headphones")],
        [call(DETAILS, "usb charger")],
        [call(DETAILS, "shoes"), call(PRICE, "shoes")],
        [call(DETAILS, "speaker")],
    ],
}
trajectory_metrics = [
    "trajectory_exact_match",
    "trajectory_in_order_match",
    "trajectory_any_order_match",
    "trajectory_precision",
    "trajectory_recall",
]
template = PointwiseMetricPromptTemplate(
    criteria={"Follows trajectory": "Does the answer follow from the calls?"},
    rating_rubric={"1": "Follows trajectory", "0": "Does not follow trajectory"},
    input_variables=["prompt", "predicted_trajectory"],
)
print(template.prompt_data)
follows = PointwiseMetric(metric="response_follows_trajectory", metric_prompt_template=template)

single = EvalTask(
    dataset=eval_data,
    metrics=[TrajectorySingleToolUse(tool_name=PRICE)],
    experiment=EXPERIMENT_NAME,
    output_uri_prefix="bucket/single-metric-eval",
).evaluate(runnable=agent_parsed_outcome, experiment_run_name="single-1")

trajectory = EvalTask(
    dataset=eval_data, metrics=trajectory_metrics, experiment=EXPERIMENT_NAME
).evaluate(runnable=agent_parsed_outcome, experiment_run_name="trajectory-1")

own = dict(eval_data, response=["500", "50", "a charger", "100", "a speaker"])
for column in ("predicted_trajectory", "reference_trajectory"):
    own[column] = [json.dumps(calls) for calls in eval_data["reference_trajectory"]]
brought = EvalTask(
    dataset=own,
    metrics=["trajectory_exact_match", "safety", follows],
    experiment=EXPERIMENT_NAME,
).evaluate(experiment_run_name="byod-1", evaluation_service_qps=50, judge=judge)
