"""The audit: reads what the system left behind and gives every request a verdict, in Spark."""
