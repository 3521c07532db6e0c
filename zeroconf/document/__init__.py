"""A file as values with their places in its text, and edits that touch nothing else."""
