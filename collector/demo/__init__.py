"""`scouter demo`: a real agent gets worse, and everything that notices."""
