"""Planners of GOAT (Fang et al., 2024): its problem solved exactly; its algorithm KRGS, corrected and as printed."""
