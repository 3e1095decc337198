comparison.save("comparison.json")
loaded = ScenarioComparisonResults.load("comparison.json")
