"""From a question to an answer in which every sentence is backed by a source; `flow.py` shows it on one screen."""
