"""Figures of Alternating Gradient Flows (Kunin et al. 2025)."""
