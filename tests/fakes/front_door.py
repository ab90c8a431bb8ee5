"""The packages whose ``__all__`` is what users import."""

PACKAGES = (
    "adkpg",
    "adkpg.adk",
    "adkpg.artifacts",
    "adkpg.documents",
    "adkpg.embedding",
    "adkpg.erasure",
    "adkpg.errors",
    "adkpg.facts",
    "adkpg.reranking",
    "adkpg.tooling.audit",
    "adkpg.tooling.console",
    "adkpg.tooling.evaluation",
    "adkpg.tooling.models",
    "adkpg.tooling.operations",
    "adkpg.tooling.testing",
    "adkpg.tooling.transfer",
    "adkpg.tools",
)
