"""Discrete-time hazard models with capped losses."""
