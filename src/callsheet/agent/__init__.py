"""The ACP agent on stdio: sessions, turns, permission, and the minds that say what is done."""
