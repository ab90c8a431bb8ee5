"""Moving in and out: from ADK's databases and services, and as a file or a database of ADK's."""

from adkpg.tooling.transfer.adk_schema.leaving import ExportReport, export_to_adk
from adkpg.tooling.transfer.exporting import export
from adkpg.tooling.transfer.importing import import_from
from adkpg.tooling.transfer.records import Progress, Unread
from adkpg.tooling.transfer.report import ImportReport, Listing

__all__ = [
    "ExportReport",
    "ImportReport",
    "Listing",
    "Progress",
    "Unread",
    "export",
    "export_to_adk",
    "import_from",
]
