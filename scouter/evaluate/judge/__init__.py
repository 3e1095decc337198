"""The port to a model that is called for a judgement, its prompts and its usage."""
