"""Figures of Get Rich Quick (Kunin et al. 2024)."""
