"""Answers of providers, read into one form."""
