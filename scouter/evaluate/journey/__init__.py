"""Journeys: a user's story, the goals of an agent in it and their order, compared with messages."""
