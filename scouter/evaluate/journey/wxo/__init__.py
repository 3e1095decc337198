"""The rules of the original's version 1.6.9, with its defects, so that its numbers come out."""
