"""Ontologies: OBO files as arrays, the information content of terms, and how similar terms are."""
