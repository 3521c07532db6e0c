"""Candidates, feasibility, the choice, and its reasons."""
