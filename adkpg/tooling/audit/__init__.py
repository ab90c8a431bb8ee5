"""Audit: what people changed by hand, who and when."""

from adkpg.tooling.audit.service import Audit, AuditEntry

__all__ = ["Audit", "AuditEntry"]
