"""Quantising a model and measuring what that costs: gptqmodel and lm-eval in isolated children, paired statistics
here."""
