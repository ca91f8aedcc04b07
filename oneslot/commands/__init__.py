"""The verbs: each reads its arguments, calls one of the modules beside this package, and shows what came of it."""
