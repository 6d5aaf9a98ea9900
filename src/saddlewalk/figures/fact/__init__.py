"""Figures and tables of FACT: the Features At Convergence Theorem (Boix-Adsera et al. 2025)."""
