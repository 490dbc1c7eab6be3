"""Who writes the answer, and what of it is shown? Drafts, trimming, the writers."""
