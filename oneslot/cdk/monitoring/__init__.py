"""The metrics of a deployed consumer, and the alarms over them."""
