import json

from scouter.tracing import get_tracer


def call(tool, arguments, result):
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        "gen_ai.tool.call.result": result,
    }
    with get_tracer("vss").start_as_current_span(f"execute_tool {tool}", attributes=attributes):
        return result


def answer(message):
    if "report" in message:
        return "Here: http://vss:8000/static/vss_report_warehouse_20260505_101500.md"
    if "available" in message:
        return "There is " + call("vst_video_list", {}, "warehouse")
    return call("video_understanding", {"sensor_id": "warehouse"}, "Yes, one box falls.")


def judge(request):
    question = request.messages[-1]["content"]
    if "Fields:" in question:
        return {"Dropped box": {"score": 0.8, "reference_field": "Box dropped"}}
    return "The same.\n0.9"


def strict_judge(request):
    return "Nothing is the same.\n0.0"
