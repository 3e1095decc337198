import json


def call(name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "tool_calls": [{"id": name, "function": function}]}


def answer(message):
    if "nwaters" not in message:
        return "What is your username, and which period?"
    dates = {"start_date": "2025-01-01", "end_date": "2025-03-03"}
    return [
        call("get_assignment_id_hr_agent", username="nwaters"),
        call(
            "get_timeoff_schedule_hr_agent",
            assignment_id="15778303",
            reason="Time off schedule!",
            **dates,
        ),
        {"role": "assistant", "content": "You are off on 20250105."},
    ]


def logged_in(message, runtime_context):
    return [
        call("get_assignment_id_hr_agent", username=runtime_context["sap_username"]),
        {"role": "assistant", "content": "It is 15778303."},
    ]


class Employee:
    def reply(self, scenario, agent_response, history):
        return "END" if "1577" in str(agent_response) else scenario.simulated_user_persona


employee = Employee()
