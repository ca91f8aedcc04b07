"""What the explorer has of SQS: what it refuses, and what was sent and deleted."""
