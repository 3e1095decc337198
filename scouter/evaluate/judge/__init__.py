"""The port to a model that is asked for a judgement, its prompts and its usage."""
