class MyEval(EvalOrchestrator):
    def on_scenario_start(self, scenario: EvalScenario) -> None:
        print(f"Starting: {scenario.id}")

    def on_scenario_complete(self, scenario: EvalScenario, response: Any) -> None:
        print(f"Done: {scenario.id}")

    def on_evaluation_complete(self, results: ScenarioEvalResults) -> ScenarioEvalResults:
        results.save("latest_run.json")
        return results
