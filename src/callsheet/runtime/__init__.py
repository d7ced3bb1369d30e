"""Where clocks, randomness and asyncio enter."""
