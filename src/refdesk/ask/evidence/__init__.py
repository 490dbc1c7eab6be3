"""How well does each sentence answer? Weighing, quoting, knowing when the answer is not there, confidence."""
