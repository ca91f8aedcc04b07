"""Messages that follow a commit: how a ledger's row holds them, and the relay that sends them."""
