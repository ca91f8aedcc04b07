"""The operations stack: alarms and a dashboard over a deployed stage."""
