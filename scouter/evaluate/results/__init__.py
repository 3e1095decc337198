"""Results of tasks, records, scenarios and runs, and the file that keeps them."""
