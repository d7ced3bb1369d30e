"""Bytes ↔ events for ACP v1 and v2, and JSON-RPC framing. Sans-IO."""
