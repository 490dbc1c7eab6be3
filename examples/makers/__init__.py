"""How each example document is made; `make_documents.py` calls these."""
