"""Secrets out of texts, values and streams. Pure, but for reading the rule table."""
