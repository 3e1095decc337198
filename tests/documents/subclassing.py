# Non-interactive: manage predefined turns yourself
class MyAgentEval(EvalOrchestrator):
    def execute_agent(self, scenario: EvalScenario) -> Any:
        history = []
        response = my_stateful_agent.run(scenario.initial_query, history=history)
        history.append({"role": "user", "content": scenario.initial_query})
        history.append({"role": "assistant", "content": response})

        for turn in scenario.predefined_turns:
            response = my_stateful_agent.run(turn, history=history)
            history.append({"role": "user", "content": turn})
            history.append({"role": "assistant", "content": response})

        return response


# Interactive: agent receives one message at a time, manages its own history
class MyInteractiveEval(EvalOrchestrator):
    def on_scenario_start(self, scenario: EvalScenario) -> None:
        self._session_id = self._session_service.create()

    def execute_agent_turn(self, scenario: EvalScenario, message: str) -> Any:
        return my_stateful_agent.run(message, session_id=self._session_id)

    def execute_simulated_user_turn(
        self,
        scenario: EvalScenario,
        initial_query: str,
        agent_response: Any,
        history: list[dict],
    ) -> str:
        return my_user_llm.respond(initial_query, agent_response, history)
