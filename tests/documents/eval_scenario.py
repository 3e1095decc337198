EvalScenario(
    id="scenario_id",  # stable ID for regression tracking
    initial_query="Summarize this article.",
    expected_outcome="A 2-sentence summary.",  # available as ${expected_outcome} in tasks
    tasks=[  # evaluated against the agent's final response
        AssertionTask(
            id="response_not_empty",
            context_path="response",
            operator=ComparisonOperator.IsString,
            expected_value=True,
        ),
    ],
)
