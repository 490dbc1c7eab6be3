"""Refdesk: a reference desk for your documents."""
