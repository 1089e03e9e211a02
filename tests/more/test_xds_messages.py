"""The messages of berth-xds, decoded by protobuf's own library, field by field, against descriptors
made of the published field numbers of xDS version 3."""

import struct
import sys
import unittest

from berth import wait_until
from http2 import DATA, Client, frame, message
from xds import NAME, XdsTest

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
except ImportError:  # a Python that is not the system's
    sys.path.append("/usr/lib/python3/dist-packages")
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

TYPES = "type.googleapis.com/envoy."
ROUTER = f"{TYPES}extensions.filters.http.router.v3.Router"
MANAGER = (f"{TYPES}extensions.filters.network.http_connection_manager.v3."
    "HttpConnectionManager")

# message: {field: (number, type)}; [] makes a list, "one of" a field whose presence counts.
MESSAGES = {
    "Any": {"type_url": (1, "string"), "value": (2, "bytes")},
    "UInt32Value": {"value": (1, "uint32")},
    "Empty": {},
    "Node": {"id": (1, "string"), "cluster": (2, "string")},
    "Status": {"code": (1, "int32"), "message": (2, "string")},
    "DiscoveryRequest": {
        "version_info": (1, "string"), "node": (2, "Node"), "resource_names": (3, ["string"]),
        "type_url": (4, "string"), "response_nonce": (5, "string"), "error_detail": (6, "Status"),
    },
    "DiscoveryResponse": {
        "version_info": (1, "string"), "resources": (2, ["Any"]), "canary": (3, "bool"),
        "type_url": (4, "string"), "nonce": (5, "string"),
    },
    "DeltaDiscoveryRequest": {
        "node": (1, "Node"), "type_url": (2, "string"), "resource_names_subscribe": (3, ["string"]),
        "resource_names_unsubscribe": (4, ["string"]), "response_nonce": (6, "string"),
        "error_detail": (7, "Status"),
    },
    "Resource": {"version": (1, "string"), "resource": (2, "Any"), "name": (3, "string")},
    "DeltaDiscoveryResponse": {
        "system_version_info": (1, "string"), "resources": (2, ["Resource"]),
        "type_url": (4, "string"), "nonce": (5, "string"), "removed_resources": (6, ["string"]),
    },
    "RouteMatch": {"prefix": (1, "one of string")},
    "RouteAction": {"cluster": (1, "string")},
    "Route": {"match": (1, "RouteMatch"), "route": (2, "RouteAction")},
    "VirtualHost": {"name": (1, "string"), "domains": (2, ["string"]), "routes": (3, ["Route"])},
    "RouteConfiguration": {"name": (1, "string"), "virtual_hosts": (2, ["VirtualHost"])},
    "HttpFilter": {"name": (1, "string"), "typed_config": (4, "Any")},
    "HttpConnectionManager": {
        "stat_prefix": (2, "string"), "route_config": (4, "RouteConfiguration"),
        "http_filters": (5, ["HttpFilter"]),
    },
    "ApiListener": {"api_listener": (1, "Any")},
    "Listener": {"name": (1, "string"), "api_listener": (19, "ApiListener")},
    "ConfigSource": {"ads": (3, "Empty"), "resource_api_version": (6, "uint32")},
    "EdsClusterConfig": {"eds_config": (1, "ConfigSource"), "service_name": (2, "string")},
    "Cluster": {
        "name": (1, "string"), "type": (2, "uint32"), "eds_cluster_config": (3, "EdsClusterConfig"),
    },
    "Locality": {"region": (1, "string"), "zone": (2, "string"), "sub_zone": (3, "string")},
    "SocketAddress": {"address": (2, "string"), "port_value": (3, "uint32")},
    "Address": {"socket_address": (1, "SocketAddress")},
    "Endpoint": {"address": (1, "Address")},
    "LbEndpoint": {
        "endpoint": (1, "Endpoint"), "health_status": (2, "uint32"),
        "load_balancing_weight": (4, "UInt32Value"),
    },
    "LocalityLbEndpoints": {
        "locality": (1, "Locality"), "lb_endpoints": (2, ["LbEndpoint"]),
        "load_balancing_weight": (3, "UInt32Value"), "priority": (5, "uint32"),
    },
    "ClusterLoadAssignment": {
        "cluster_name": (1, "string"), "endpoints": (2, ["LocalityLbEndpoints"]),
    },
}

NAMES = {
    "Listener": f"{TYPES}config.listener.v3.Listener",
    "RouteConfiguration": f"{TYPES}config.route.v3.RouteConfiguration",
    "Cluster": f"{TYPES}config.cluster.v3.Cluster",
    "ClusterLoadAssignment": f"{TYPES}config.endpoint.v3.ClusterLoadAssignment",
}


def make_classes():
    """{message: its class}."""
    file = descriptor_pb2.FileDescriptorProto(name="xds.proto", package="x", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, fields in MESSAGES.items():
        described = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            repeated = isinstance(kind, list)
            kind = kind[0] if repeated else kind
            alone = kind.removeprefix("one of ") != kind
            kind = kind.removeprefix("one of ")
            added = described.field.add(name=field, number=number,
                label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL)
            if alone:
                described.oneof_decl.add(name=f"of_{field}")
                added.oneof_index = len(described.oneof_decl) - 1
            if kind in MESSAGES:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".x.{kind}"
            else:
                added.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return {name: factory.GetPrototype(pool.FindMessageTypeByName(f"x.{name}"))
        for name in MESSAGES}


class Messages(XdsTest):
    def setUp(self):
        super().setUp()
        self.classes = make_classes()
        self.members.put("c1", 8001, **{"berth:zone": "eu/a/r1/x", "weight": 3})
        self.members.put("c2", 8002, **{"berth:zone": "us", "berth:health": "draining"})
        self.server = self.xds(self.agent().start(), "--zone", "eu").start()
        self.streams = 0

    def parse(self, name, data):
        """All of the bytes are fields that the descriptor has."""
        parsed = self.classes[name].FromString(data)
        self.assertEqual(parsed.SerializeToString(deterministic=True), self.known(name, data))
        return parsed

    def known(self, name, data):
        """The same without unknown fields, of which there are none when it is as long."""
        parsed = self.classes[name].FromString(data)
        parsed.DiscardUnknownFields()
        self.assertEqual(len(parsed.SerializeToString()), len(data))
        return parsed.SerializeToString(deterministic=True)

    def open(self, delta=False):
        client = Client(self.server.socket)
        self.addCleanup(client.close)
        kind = "Delta" if delta else "Stream"
        client.open(1, "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
            f"{kind}AggregatedResources")
        return client

    def next(self, client, name):
        data = client.wait(DATA, 1)
        length = struct.unpack(">BI", data[:5])[1]
        while len(data) < 5 + length:
            data += client.wait(DATA, 1)
        return self.parse(name, data[5:])

    def send(self, client, name, **fields):
        request = self.classes[name](**fields)
        client.send(frame(DATA, 0, 1, message(request.SerializeToString())))

    def ask(self, name):
        """The one resource of that type, decoded."""
        client = self.open()
        self.send(client, "DiscoveryRequest", type_url=NAMES[name], resource_names=[NAME],
            node=self.classes["Node"](id="test"))
        answer = self.next(client, "DiscoveryResponse")
        self.assertEqual((answer.type_url, answer.nonce, len(answer.version_info)),
            (NAMES[name], "1", 16))
        (resource,) = answer.resources
        self.assertEqual(resource.type_url, NAMES[name])
        return json_format.MessageToDict(self.parse(name, resource.value),
            preserving_proto_field_name=True), resource.value

    def route(self):
        return {"name": NAME, "virtual_hosts": [{"name": NAME, "domains": ["*"],
            "routes": [{"match": {"prefix": ""}, "route": {"cluster": NAME}}]}]}

    def test_a_listener_has_its_route_inline(self):
        listener, data = self.ask("Listener")
        self.assertEqual(listener["name"], NAME)
        inner = self.classes["Listener"].FromString(data).api_listener.api_listener
        self.assertEqual(inner.type_url, MANAGER)
        manager = json_format.MessageToDict(self.parse("HttpConnectionManager", inner.value),
            preserving_proto_field_name=True)
        self.assertEqual(manager, {"stat_prefix": NAME, "route_config": self.route(),
            "http_filters": [{"name": "router", "typed_config": {"type_url": ROUTER}}]})

    def test_a_route_leads_to_the_cluster(self):
        self.assertEqual(self.ask("RouteConfiguration")[0], self.route())

    def test_a_cluster_has_its_endpoints_from_the_same_stream(self):
        self.assertEqual(self.ask("Cluster")[0], {"name": NAME, "type": 3, "eds_cluster_config": {
            "eds_config": {"ads": {}, "resource_api_version": 2}, "service_name": NAME}})

    def test_endpoints_have_zones_weights_priorities_and_health(self):
        self.assertEqual(self.ask("ClusterLoadAssignment")[0], {"cluster_name": NAME, "endpoints": [
            {"locality": {"region": "eu", "zone": "a", "sub_zone": "r1/x"}, "lb_endpoints": [
                {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1",
                    "port_value": 8001}}}, "load_balancing_weight": {"value": 3}}],
                "load_balancing_weight": {"value": 3}},
            {"locality": {"region": "us"}, "lb_endpoints": [
                {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1",
                    "port_value": 8002}}}, "health_status": 3,
                    "load_balancing_weight": {"value": 1}}],
                "load_balancing_weight": {"value": 1}, "priority": 1},
        ]})

    def test_delta_names_its_resources_and_those_that_are_gone(self):
        client = self.open(delta=True)
        self.send(client, "DeltaDiscoveryRequest", type_url=NAMES["Cluster"])
        answer = self.next(client, "DeltaDiscoveryResponse")
        (resource,) = answer.resources
        self.assertEqual((resource.name, resource.resource.type_url, len(resource.version)),
            (NAME, NAMES["Cluster"], 16))
        self.assertEqual(self.parse("Cluster", resource.resource.value).name, NAME)
        self.members.remove("c1")
        self.members.remove("c2")
        answer = self.next(client, "DeltaDiscoveryResponse")
        self.assertEqual((list(answer.resources), list(answer.removed_resources)), ([], [NAME]))

    def test_a_refusal_is_logged_with_its_reason(self):
        client = self.open()
        self.send(client, "DiscoveryRequest", type_url=NAMES["Cluster"], resource_names=[NAME])
        self.next(client, "DiscoveryResponse")
        self.send(client, "DiscoveryRequest", type_url=NAMES["Cluster"], resource_names=[NAME],
            response_nonce="1", node=self.classes["Node"](id="web-1"),
            error_detail=self.classes["Status"](code=3, message="no such thing"))
        wait_until(lambda: 'client "web-1" refuses clusters: no such thing' in
            self.server.read_log(), "the reason is in the log")
