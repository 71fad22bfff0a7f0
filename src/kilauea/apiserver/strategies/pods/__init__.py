"""Rules for pods: `strategy.py` has those of the kind, `spec.py` those of the specification in pods and templates.

`changes.py` says what an update may change, `warnings.py` what clients are warned of; each of the others has the rules
of one part: containers, volumes, security and so on.
"""
