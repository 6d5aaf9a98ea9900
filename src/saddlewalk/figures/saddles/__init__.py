"""Figures of Saddle-to-Saddle Dynamics (Zhang, Saxe and Latham 2025)."""
