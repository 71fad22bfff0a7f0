"""Rules for pods: `strategy.py` has the strategy, `spec.py` the rules of the specification in pods and templates.

`changes.py` has the rules for updates, `warnings.py` the warnings; each of the others has the rules of one part, such
as containers, volumes or security.
"""
