"""The simulated world: time, processes and their threads, the network, the faults."""
