"""The diagnoses of any network: what a landscape tells, where there are no units to look at."""
