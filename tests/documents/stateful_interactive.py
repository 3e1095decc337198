class MyInteractiveEval(EvalOrchestrator):
    def on_scenario_start(self, scenario: EvalScenario) -> None:
        # Create a fresh session per scenario so state doesn't bleed between runs.
        self._session_id = self._session_service.create()

    def execute_agent_turn(self, scenario: EvalScenario, message: str) -> str:
        # Called once per turn. The agent manages its own history internally.
        return self._agent_client.chat(message, session_id=self._session_id)

    def execute_simulated_user_turn(
        self,
        scenario: EvalScenario,
        initial_query: str,
        agent_response: str,
        history: list[dict],
    ) -> str:
        # Return a string containing termination_signal to stop.
        return self._user_llm.respond(initial_query, agent_response, history)
