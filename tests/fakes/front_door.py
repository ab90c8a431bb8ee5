"""The packages whose ``__all__`` is what users import."""

PACKAGES = (
    "adkpg",
    "adkpg.adk",
    "adkpg.artifacts",
    "adkpg.audit",
    "adkpg.console",
    "adkpg.documents",
    "adkpg.embedding",
    "adkpg.erasure",
    "adkpg.errors",
    "adkpg.evaluation",
    "adkpg.facts",
    "adkpg.models",
    "adkpg.operations",
    "adkpg.reranking",
    "adkpg.testing",
    "adkpg.tools",
    "adkpg.transfer",
)
