# Save a baseline
results = orch.run()
results.save("baseline_v1.json")

# Later — compare a new run against it
baseline = ScenarioEvalResults.load("baseline_v1.json")
new_results = orch.run()

comparison = new_results.compare_to(baseline, regression_threshold=0.05)
comparison.as_table()

if comparison.regressed:
    print(f"Regressed: {comparison.regressed_aliases}")
    raise SystemExit(1)
