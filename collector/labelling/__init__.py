"""What people say of records: which to ask about next, and how far they agree."""
