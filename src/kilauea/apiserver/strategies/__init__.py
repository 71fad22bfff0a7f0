"""Rules for the objects of each kind beyond the common ones: defaults, preparation and validation.

Modules group related kinds; `resources/strategies.py` maps kinds to their strategies.
"""
