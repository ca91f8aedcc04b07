"""The protocol as one page of TLA+, its checker, and the bridge from the running code's states to the specification's."""
