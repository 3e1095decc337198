# Individual tool checks are aggregated into ReliabilityEvaluationResult
checks = [ToolCallCheck(tool_name="search", was_called=True, times_called=2)]
result = ReliabilityEvaluationResult(
    passed=True,
    summary="All reliability checks passed.",
    expected_tool_calls=["search", "analyze"],
    actual_tool_calls=["search", "analyze"],
    checks=checks,
    missing_tool_calls=[],
    unexpected_tool_calls=[]
)

# Integration with testing frameworks
result.assert_passed()  # Raises AssertionError if failed
