"""watsonx Orchestrate: datasets and configurations read, journeys run, results written."""
