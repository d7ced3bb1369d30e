"""Makes values safe to show and to keep: valid JSON, secrets gone, size bounded. Pure."""
