"""Minds that come with the agent. Neither needs a model or a network."""
