"""Access: tokens, scopes and spaces."""
