"""Which chunks bear on it? Candidates, fusion, documents the question names, reranking, repeats and diversity."""
