"""The whole system under a seed: this project's own code on a virtual clock, with faults at every call and statement.

Start with `scenarios/workers.py`, which reads as a story. Then see these rooms:

- `world/` is the simulated world: processes and their clocks (`kernel.py`), what their threads share (`threads.py`), a
  preemption before every statement of the modules in `run.POINTS` (`points.py`), the way to the services (`network.py`) and the
  faults (`faults.py`). The services are `oneslot/dynamodb_in_memory` and `sqs/`.
- `systems/` is what lives in it: the appointments application with the laws that it must keep, the Lambda function, operators,
  senders, a Valkey.
- `regressions/` keeps each fixed defect as a run that breaks a law without its fix. `lab/mutants/edits.txt` has the defects
  that the scenarios must find.

`run.py` runs a scenario under a seed, and `figures.py` many; it lists what a long simulation must reach. `counterexample.py`
makes a counterexample small, and tells its story.

A scenario is a function of a `Simulation`. It builds the services' contents, starts processes (`simulation.process`,
`keep_running`), lets time pass (`run_for`), stops the faults, lets the world recover, and checks the laws. It draws every
number that a smaller counterexample may lower with `simulation.number`. A process is a function of its `Process`; it makes
its clients with `simulation.network.client` and its surroundings with `simulation.surroundings`.
"""
