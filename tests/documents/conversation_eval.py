class ConversationEval(EvalOrchestrator):
    def execute_agent_turn(self, scenario: EvalScenario, message: str) -> str:
        return my_agent.chat(message)

    def execute_simulated_user_turn(self, scenario, initial_query, agent_response, history) -> str:
        return my_user_llm.respond(initial_query, agent_response, history)

    def build_scenario_response(self, scenario, response, history) -> dict:
        return {
            "final_response": response,
            "turn_count": len(history) + 1,
            "all_turns": history + [{"user": "...", "agent": response}],
        }
