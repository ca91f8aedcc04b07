"""The whole system under a seed: this project's own code on a virtual clock, with faults at every call and statement.

Start with `scenarios/workers.py`, which reads as a story. `simulation.py` is the world that a scenario gets: its processes
(`kernel.py`), what they share (`threads.py`), the way to the services (`network.py`, `oneslot/explorer/services`), and the
faults (`faults.py`). `application.py` is the appointments application in such a world, with the laws that it must keep.
`function.py` is Lambda: the deployed function, the configuration of its mapping, and its execution environments.
`points.py` puts a preemption before every statement of the modules in `run.POINTS`, and `run.py` runs a scenario under seeds.

A scenario is a function of a `Simulation`. It builds the services' contents, starts processes (`simulation.process`,
`keep_running`), lets time pass (`run_for`), stops the faults, lets the world recover, and checks the laws. It draws every
number that a smaller counterexample may lower with `simulation.number`. A process is a function of its `Process`; it makes
its clients with `simulation.client` and its surroundings with `simulation.surroundings`.
"""
