"""The audit: judges every request by what the system left behind, in Spark."""
