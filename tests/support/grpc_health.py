"""grpc.health.v1.Health under gRPC's own server."""

import sys
from concurrent import futures

try:
    import grpc
except ImportError:  # a Python that is not the system's
    sys.path.append("/usr/lib/python3/dist-packages")
    import grpc

CHECK = "/grpc.health.v1.Health/Check"
SERVING, NOT_SERVING = 1, 2


class Health(grpc.GenericRpcHandler):
    """grpc.health.v1.Health, without its package: the messages are two bytes and a name."""

    def __init__(self):
        self.statuses = {"": SERVING, "app.Greeter": SERVING}

    def service(self, handler_call_details):
        if handler_call_details.method != CHECK:
            return None
        return grpc.unary_unary_rpc_method_handler(self.check)

    def check(self, request, context):
        name = request[2:].decode()
        if name not in self.statuses:
            context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return b"\x08" + bytes((self.statuses[name],))


def serve(test, *handlers, credentials=None):
    """The port of a server that ends with the test."""
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers(handlers)
    port = server.add_secure_port("localhost:0", credentials) if credentials \
        else server.add_insecure_port("localhost:0")
    server.start()
    test.addCleanup(server.stop, None)
    return port
