def build_scenario_response(
    self,
    scenario: EvalScenario,
    response: Any,
    history: list[dict],
) -> Any:
    return response  # default: pass through unchanged
