"""What lives in the simulated world: the appointments application, its function, its operators, its senders, a Valkey."""
