"""Five common handlers, each written as its authors describe it. The explorer must find the mistake of each.

The comparison is fair: each handler checks that a slot is free when it takes it, and reports failures record by record.
`peers.py` lists them with the origin of each pattern.
"""
