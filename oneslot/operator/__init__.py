"""What a person on call runs: send, check, inspect, repair. Every command is here, and what it reads and changes."""
