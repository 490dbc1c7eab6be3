"""What is known already, and what is kept? Cache, conversation, memory."""
