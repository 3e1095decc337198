def simulate_user(initial_query: str, agent_response: str, history: list[dict]) -> str:
    # Call your user-simulation LLM here.
    # Return a string containing "DONE" to stop.
    ...


scenarios = EvalScenarios(scenarios=[
    EvalScenario(
        id="dinner_planning_interactive",
        initial_query="Plan a dinner for 4 people.",
        termination_signal="DONE",
        max_turns=6,
    ),
])

results = EvalOrchestrator(
    queue=queue,
    scenarios=scenarios,
    agent_fn=my_agent,
    simulated_user_fn=simulate_user,
).run()
