"""The ACP agent on stdio: sessions, turns, permission, and the handlers that decide what is done."""
