"""Losses of one linear predictor."""
