"""Oneslot's command line and local run: embedded AWS, seeding, sending, watching, checking. Never deployed."""
