"""Documents: what an app knows from files, for all its users or for one."""

from adkpg.documents.service import Documents, Report, Source

__all__ = ["Documents", "Report", "Source"]
