"""The packages whose ``__all__`` is what users import."""

PACKAGES = (
    "adkpg",
    "adkpg.a2a",
    "adkpg.adk",
    "adkpg.artifacts",
    "adkpg.audit",
    "adkpg.documents",
    "adkpg.embedding",
    "adkpg.erasure",
    "adkpg.errors",
    "adkpg.facts",
    "adkpg.reranking",
    "adkpg.tooling.console",
    "adkpg.tooling.evaluation",
    "adkpg.tooling.models",
    "adkpg.tooling.operations",
    "adkpg.tooling.testing",
    "adkpg.tooling.transfer",
    "adkpg.tools",
)
