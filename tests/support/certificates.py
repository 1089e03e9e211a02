"""Certificates for tests, made by openssl; and servers that speak TLS with them."""

import contextlib
import socket
import ssl
import subprocess
import threading

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    """Signs certificates; files in `folder`: NAME.pem, NAME.key."""

    def __init__(self, folder, name="ca"):
        self.folder, self.name = folder, name
        folder.mkdir(parents=True, exist_ok=True)
        self.openssl("req", "-x509", *CURVE, "-keyout", f"{name}.key", "-out", f"{name}.pem",
            "-days", "30", "-subj", f"/CN=authority {name}")

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    @property
    def file(self):
        return self.folder / f"{self.name}.pem"

    def sign(self, name, names="DNS:localhost", days="10"):
        """The files of a certificate and its key; days "-1": it has expired."""
        (self.folder / f"{name}.names").write_text(f"subjectAltName={names}\n")
        self.openssl("req", *CURVE, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj",
            f"/CN={name}")
        self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{self.name}.pem", "-CAkey",
            f"{self.name}.key", "-CAcreateserial", "-days", days, "-extfile", f"{name}.names",
            "-out", f"{name}.pem")
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"


def answer_ok(connection):
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nUP\n")


class TlsServer:
    """Answers each connection by a function, which gets it behind the handshake; without a
    certificate, before it."""

    def __init__(self, certificate, answer=answer_ok):
        self.context = None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*certificate)
        self.answer = answer
        self.answered = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with contextlib.suppress(OSError), connection:
            connection.settimeout(60)
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            with connection:
                self.answer(connection)
                self.answered += 1

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
