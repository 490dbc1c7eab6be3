"""From a question to an answer in which every sentence is proved; `flow.py` shows it on one screen."""
