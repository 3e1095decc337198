"""What providers answer, read into one form."""
