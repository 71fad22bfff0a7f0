"""Rules for the objects of each kind beyond those that all kinds share: defaults, preparation and checks.

A module for each field that kinds come from; `table` says which kind has which strategy.
"""
