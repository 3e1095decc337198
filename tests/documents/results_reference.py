results.as_table()
results.as_table(show_workflow=True)  # include the Workflow Summary table

detail = results.get_scenario_detail("rag_basics")
print(detail.pass_rate)
print(detail.passed)
