scenarios = EvalScenarios.from_path("scenarios/qa_suite.jsonl")

results = EvalOrchestrator(queue=queue, scenarios=scenarios, agent_fn=my_agent).run()
results.as_table()
