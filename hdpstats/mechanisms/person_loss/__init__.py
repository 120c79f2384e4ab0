"""One person's loss under a model, as mechanisms see it: scores, curvature, and proved bounds of both."""
