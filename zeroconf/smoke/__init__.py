"""Runs a configuration for a few steps in the training environment and reads what it measured."""
