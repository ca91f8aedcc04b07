"""What runs on Lambda: `issue` consumes the queue, `mail` consumes the outbox's stream."""
