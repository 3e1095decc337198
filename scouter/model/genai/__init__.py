"""Facts about agents in spans: the one place that knows the names of GenAI attributes."""
