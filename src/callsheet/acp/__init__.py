"""Bytes ↔ events for ACP v1 and v2, the bridge between them, and JSON-RPC framing. Sans-IO."""
