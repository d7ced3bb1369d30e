"""Looking at recordings and stored sessions: as one value, on a terminal, on a page."""
