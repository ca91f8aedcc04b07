"""The product's stack: queue → consumer → tables."""
