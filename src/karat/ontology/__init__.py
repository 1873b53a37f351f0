"""Ontologies: OBO files as arrays, the information content of terms, and how similar terms are."""

from karat.ontology.load import load_ontology
from karat.ontology.similarity import SIMILARITIES, similarities
from karat.ontology.terms import Ontology, Resolution

__all__ = ["SIMILARITIES", "Ontology", "Resolution", "load_ontology", "similarities"]
