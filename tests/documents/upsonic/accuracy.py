# Individual evaluation scores are aggregated into AccuracyEvaluationResult
evaluation_scores = [EvaluationScore(...), EvaluationScore(...)]
result = AccuracyEvaluationResult(
    evaluation_scores=evaluation_scores,
    average_score=8.5,
    user_query="What is the capital of France?",
    expected_output="Paris",
    generated_output="The capital of France is Paris."
)
