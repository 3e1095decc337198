"""What spans say about agents: the one place that knows the names of GenAI attributes."""
