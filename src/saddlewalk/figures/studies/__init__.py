"""Three studies beyond the paper; docs/studies.md says what was found.

Each is a question that the paper leaves open, asked of simulations, with the answer as claims that
can fail.
"""
