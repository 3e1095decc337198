# Individual run results are aggregated into PerformanceEvaluationResult
run_results = [PerformanceRunResult(...), PerformanceRunResult(...)]
result = PerformanceEvaluationResult(
    all_runs=run_results,
    num_iterations=10,
    warmup_runs=2,
    latency_stats={"average": 1.5, "median": 1.4, "min": 1.2, "max": 1.8, "std_dev": 0.2},
    memory_increase_stats={"average": 1024, "median": 1000, "min": 800, "max": 1200, "std_dev": 100},
    memory_peak_stats={"average": 2048, "median": 2000, "min": 1800, "max": 2400, "std_dev": 150}
)
