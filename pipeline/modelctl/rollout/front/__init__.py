"""The gateway in front of a model, where an environment asks for one: LiteLLM's proxy with rules of our own."""
