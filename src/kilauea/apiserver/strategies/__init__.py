"""What the server does with objects of each kind beyond what all kinds share: defaults, preparation and checks.

A module for each field that kinds come from; `table` says which kind has which strategy.
"""
