"""Another DNS server, which answers every question with one address, in a few lines of Python."""

import socket
import struct
import threading

import dns.message
import dns.rrset
from names import free_port


def read(connection, length):
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise ConnectionError("closed")
        data += part
    return data


class Upstream:
    def __init__(self):
        self.silent = False
        self.seen = []
        self.probes = 0  # questions by which agents look for loops
        self.port = free_port()
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.tcp = socket.create_server(("127.0.0.1", self.port))
        for serve in (self.serve_udp, self.serve_tcp):
            threading.Thread(target=serve, daemon=True).start()

    def close(self):
        self.udp.close()
        self.tcp.close()

    def answer(self, kind, port, wire):
        query = dns.message.from_wire(wire)
        reply = dns.message.make_response(query, recursion_available=True)
        if query.question[0].rdtype == dns.rdatatype.HINFO:
            self.probes += 1
            reply.set_rcode(dns.rcode.NXDOMAIN)
            return reply.to_wire()
        self.seen.append((kind, port, query.id))
        reply.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", "192.0.2.1"))
        return reply.to_wire()

    def serve_udp(self):
        while True:
            try:
                wire, address = self.udp.recvfrom(65535)
            except OSError:
                return
            if not self.silent:
                # A stranger's reply, then the true one.
                self.udp.sendto(b"\0\0" + self.answer("udp", address[1], wire)[2:], address)
                self.udp.sendto(self.answer("udp", address[1], wire), address)

    def serve_tcp(self):
        while True:
            try:
                connection, address = self.tcp.accept()
            except OSError:
                return
            with connection:
                (length,) = struct.unpack(">H", read(connection, 2))
                reply = self.answer("tcp", address[1], read(connection, length))
                connection.sendall(struct.pack(">H", len(reply)) + reply)
