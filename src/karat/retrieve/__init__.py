"""Retrievers: what is built in, what connects to other systems, and the one protocol they share."""

from karat.retrieve.corpus import Corpus, read_corpus
from karat.retrieve.protocol import Answer, Base, Found, Query, Retriever
from karat.retrieve.registry import Kind, all_kinds, make_retriever, retriever

__all__ = [
    "Answer",
    "Base",
    "Corpus",
    "Found",
    "Kind",
    "Query",
    "Retriever",
    "all_kinds",
    "make_retriever",
    "read_corpus",
    "retriever",
]
