"""The core: a call's report, its lifecycle, its ids, and the ledger that keeps them. Sans-IO."""
