"""The two Lambda functions: `issue` consumes the queue, `mail` consumes the outbox's stream."""
