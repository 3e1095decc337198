"""The service: takes spans and records, joins and judges them, and answers questions."""
