"""Spark itself: the Java that it needs, a session of the right size, and the files that it reaches."""
