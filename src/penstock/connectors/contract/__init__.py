"""The contract of connectors: a connector is a frozen model that is its configuration, documentation and behaviour.

A connector holds no connection and no state, and can be pickled. It imports pyspark and its client library inside
methods only, so that checking a project starts no JVM.
"""

from penstock.connectors.contract.common import Connector, Remark
from penstock.connectors.contract.sink import NO_SERVICE, KeepRows, Sink, SinkCapabilities, StreamSink, WriteResult
from penstock.connectors.contract.source import ReadRequest, RecordSource, Snapshot, Source, SourceCapabilities
from penstock.row_columns import ERROR, ORIGIN

__all__ = [
    "ERROR",
    "NO_SERVICE",
    "ORIGIN",
    "Connector",
    "KeepRows",
    "ReadRequest",
    "RecordSource",
    "Remark",
    "Sink",
    "SinkCapabilities",
    "Snapshot",
    "Source",
    "SourceCapabilities",
    "StreamSink",
    "WriteResult",
]
