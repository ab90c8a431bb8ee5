"""Audit: what was erased, and what people changed by hand: who and when."""

from adkpg.audit.actor import acting_as
from adkpg.audit.service import Audit, AuditEntry

__all__ = ["Audit", "AuditEntry", "acting_as"]
