"""Which sentence proves which claim? Markers, figures, wording, verdicts, second opinions."""
