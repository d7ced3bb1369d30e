"""What happens in anybody's ACP traffic: sessions, turns, calls, evidence. Used by tap and check."""
