"""
HTTP by the letter: the MUSTs and SHOULDs of RFC 9110 and RFC 9112 as a table of bytes in and
answers out.

Each row runs over the Unix socket, over TCP, and over the Unix socket one byte at a time. `expect`
names the status of every answer in order, and then whether the connection is "open" (it serves one
more request) or "closed". With every row, each answer is held against the rules for all answers:
its syntax, its framing, Date, and no body where none may be.
"""

import contextlib
import json
import pathlib
import re
import socket
import tempfile
import unittest

from berth import PATIENCE, Agent
from ports import claim_port

NODE = "/users/joe/a"
GET = "GET /live HTTP/1.1\r\nHost: berth\r\n"
HEAD = GET.replace("GET", "HEAD")
STREAMS = ("application/recordio", "application/x-ndjson", "text/event-stream")
LOOK = f"GET /v1/resolve{NODE} HTTP/1.1\r\nHost: berth\r\n"
POST = "POST /v1/agent/drain HTTP/1.1\r\nHost: berth\r\n"
CHUNKED = POST + "Transfer-Encoding: chunked\r\n\r\n"
END = "\r\n"
LIVE = "GET /live HTTP/1.1\r\nHost: berth\r\n\r\n"
LOCAL = "local"  # what changes something does not exist on TCP

DATE = re.compile(
    rb"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} "
    rb"\d\d:\d\d:\d\d GMT"
)


class Case:
    def __init__(self, name, sent, expect, only=None, has=None, lacks=(), body=None, end=False,
            then=None, method="GET"):
        self.name = name
        self.sent = sent.encode("latin-1") if isinstance(sent, str) else sent
        *self.statuses, self.state = expect.split()
        self.only = only  # LOCAL
        self.has = has or {}  # fields of the last answer, with their values
        self.lacks = lacks
        self.body = body  # of the last answer
        self.end = end  # the client ends its half
        self.then = then  # sent when the first answer has come
        self.method = method  # HEAD: no answer has a body


def cases(section, *rows):
    return [Case(f"{section} {name}", *rest[:2], **(rest[2] if len(rest) > 2 else {}))
        for name, *rest in rows]


def bad(section, *rows, status=400):
    return [Case(f"{section} {name}", sent, f"{status} closed") for name, sent in rows]


CASES = [
    # ---- RFC 9112, 2: messages ----
    *cases(
        "9112-2.2",
        ("an empty line before the request", "\r\n" + LIVE, "200 open"),
        ("empty lines between requests", LIVE + "\r\n\r\n" + LIVE, "200 200 open"),
        ("a request with every kind of line end right", GET + "X: y\r\n\r\n", "200 open"),
    ),
    *bad(
        "9112-2.2",
        ("nothing but empty lines", "\r\n" * 20),
        ("LF alone behind the request line", "GET /live HTTP/1.1\nHost: berth\r\n\r\n"),
        ("LF alone behind a field", "GET /live HTTP/1.1\r\nHost: berth\n\r\n"),
        ("LF alone as the empty line", GET + "\n"),
        ("CR alone behind a field", GET + "X: y\rZ: z\r\n\r\n"),
        ("CR CR LF", GET + "X: y\r\r\n\r\n"),
        ("CR in the request line", "GET /live\r HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("a blank before the first field", "GET /live HTTP/1.1\r\n Host: berth\r\n\r\n"),
        ("a tab before the first field", "GET /live HTTP/1.1\r\n\tX: y\r\nHost: berth\r\n\r\n"),
        ("NUL in the method", "G\0T /live HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("NUL in the target", "GET /live\0 HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("NUL in the version", "GET /live HTTP/1.\0\r\nHost: berth\r\n\r\n"),
        ("NUL in a field's name", GET + "X\0: y\r\n\r\n"),
        ("NUL in a field's value", GET + "X: \0\r\n\r\n"),
        ("no HTTP at all", "hello\r\n\r\n"),
        ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
        ("only NULs and a line end", "\0" * 50 + "\r\n\r\n"),
    ),
    # ---- RFC 9112, 3: the request line ----
    *bad(
        "9112-3",
        ("two blanks behind the method", "GET  /live HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("two blanks before the version", "GET /live  HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("a tab behind the method", "GET\t/live HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("a blank at the beginning", " GET /live HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("a blank at the end", "GET /live HTTP/1.1 \r\nHost: berth\r\n\r\n"),
        ("a blank in the target", "GET /live /x HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("no method", " /live HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("no target", "GET HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("an empty target", "GET  HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("no version (HTTP/0.9)", "GET /live\r\n\r\n"),
        ("the method alone", "GET\r\n\r\n"),
        ("a method with a bracket", "GE(T /live HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("a method with a colon", "GET: /live HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("a method beyond ASCII", b"G\xc3\x89T /live HTTP/1.1\r\nHost: berth\r\n\r\n"),
    ),
    *cases(
        "9110-9.1",
        ("a method that nobody knows", "BREW /live HTTP/1.1\r\nHost: berth\r\n\r\n", "501 closed"),
        ("methods mind the case", "get /live HTTP/1.1\r\nHost: berth\r\n\r\n", "501 closed"),
        ("a very long method", "X" * 300 + " /live HTTP/1.1\r\nHost: berth\r\n\r\n", "501 closed"),
    ),
    *bad(
        "9112-2.3",
        ("the protocol's name in lower case", "GET /live http/1.1\r\nHost: berth\r\n\r\n"),
        ("another protocol", "GET /live HTTQ/1.1\r\nHost: berth\r\n\r\n"),
        ("two digits in the minor version", "GET /live HTTP/1.10\r\nHost: berth\r\n\r\n"),
        ("two digits in the major version", "GET /live HTTP/11.1\r\nHost: berth\r\n\r\n"),
        ("no minor version", "GET /live HTTP/1.\r\nHost: berth\r\n\r\n"),
        ("no point", "GET /live HTTP/11\r\nHost: berth\r\n\r\n"),
        ("a sign", "GET /live HTTP/+1.1\r\nHost: berth\r\n\r\n"),
        ("something behind the version", "GET /live HTTP/1.1x\r\nHost: berth\r\n\r\n"),
        ("a blank in the version", "GET /live HTTP/ 1.1\r\nHost: berth\r\n\r\n"),
    ),
    *bad(
        "9110-15.6.6",
        ("HTTP/2.0", "GET /live HTTP/2.0\r\nHost: berth\r\n\r\n"),
        ("HTTP/3.0", "GET /live HTTP/3.0\r\nHost: berth\r\n\r\n"),
        ("HTTP/0.9 by name", "GET /live HTTP/0.9\r\nHost: berth\r\n\r\n"),
        ("HTTP/9.9", "GET /live HTTP/9.9\r\nHost: berth\r\n\r\n"),
        ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        status=505,
    ),
    *cases(
        "9110-2.5",
        ("HTTP/1.2 is as good as 1.1", "GET /live HTTP/1.2\r\nHost: berth\r\n\r\n", "200 open"),
        ("HTTP/1.9 too", "GET /live HTTP/1.9\r\nHost: berth\r\n\r\n", "200 open"),
    ),
    # ---- RFC 9112, 3.2: the target ----
    *cases(
        "9112-3.2.1",
        ("origin form with a query", "GET /live?x=y HTTP/1.1\r\nHost: berth\r\n\r\n", "200 open"),
        ("an empty query", "GET /live? HTTP/1.1\r\nHost: berth\r\n\r\n", "200 open"),
        ("a question mark in the query", "GET /live?a?b HTTP/1.1\r\nHost: berth\r\n\r\n",
            "200 open"),
        ("an escape is another path", "GET /l%69ve HTTP/1.1\r\nHost: berth\r\n\r\n", "404 open"),
        ("an invalid path", "GET /v1/resolve/a//b HTTP/1.1\r\nHost: berth\r\n\r\n", "400 open"),
        ("dots are not followed", "GET /v1/../live HTTP/1.1\r\nHost: berth\r\n\r\n", "404 open"),
        ("a parameter that is badly escaped",
            "GET /v1/find?api=%zz HTTP/1.1\r\nHost: berth\r\n\r\n", "400 open"),
    ),
    *bad(
        "9112-3.2",
        ("a relative path", "GET live HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("a fragment", "GET /live#x HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("a byte beyond ASCII", b"GET /v1/resolve/\xc3\xbc HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("a control character", "GET /live\x01 HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("DEL", "GET /live\x7f HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("a tab", "GET /li\tve HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("an asterisk for GET", "GET * HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("the authority for GET", "GET berth:80 HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("a path for CONNECT", "CONNECT /live HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("CONNECT without a port", "CONNECT berth HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("no host in an absolute target", "GET http:///live HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("a user in an absolute target",
            "GET http://joe@berth/live HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("a bad port in an absolute target",
            "GET http://berth:x/live HTTP/1.1\r\nHost: berth\r\n\r\n"),
        ("no scheme", "GET ://berth/live HTTP/1.1\r\nHost: berth\r\n\r\n"),
    ),
    *cases(
        "9112-3.2.2",
        ("absolute form", "GET http://berth/live HTTP/1.1\r\nHost: berth\r\n\r\n", "200 open"),
        ("schemes do not mind the case", "GET HTTP://berth/live HTTP/1.1\r\nHost: berth\r\n\r\n",
            "200 open"),
        ("with a port", "GET http://berth:8080/live HTTP/1.1\r\nHost: berth\r\n\r\n", "200 open"),
        ("an IPv6 host", "GET http://[::1]:80/live HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "200 open"),
        ("without a path", "GET http://berth HTTP/1.1\r\nHost: berth\r\n\r\n", "200 open"),
        ("with a query alone", "GET http://berth?x HTTP/1.1\r\nHost: berth\r\n\r\n", "200 open"),
        ("Host says something else and is ignored",
            "GET http://berth/live HTTP/1.1\r\nHost: other\r\n\r\n", "200 open"),
        ("without Host all the same 400", "GET http://berth/live HTTP/1.1\r\n\r\n", "400 closed"),
        ("another scheme", "GET ftp://berth/live HTTP/1.1\r\nHost: berth\r\n\r\n", "404 open"),
    ),
    *cases(
        "9112-3.2.4",
        ("OPTIONS of the server", "OPTIONS * HTTP/1.1\r\nHost: berth\r\n\r\n", "204 open", {
            "only": LOCAL, "has": {"Allow": "GET, HEAD, POST, PUT, DELETE, OPTIONS"},
            "lacks": ("Content-Length", "Content-Type")}),
        ("OPTIONS of the server again", "OPTIONS * HTTP/1.1\r\nHost: berth\r\n\r\n", "204 open",
            {"lacks": ("Transfer-Encoding",)}),
        ("CONNECT is not for us", "CONNECT berth:80 HTTP/1.1\r\nHost: berth\r\n\r\n", "501 closed"),
    ),
    *cases(
        "9110-15.5.15",
        ("the longest target", f"GET /{'x' * 4095} HTTP/1.1\r\nHost: berth\r\n\r\n", "404 open"),
        ("a longer one", f"GET /{'x' * 4096} HTTP/1.1\r\nHost: berth\r\n\r\n", "414 closed"),
        ("one without an end", "GET /" + "x" * 9000, "414 closed"),
    ),
    # ---- RFC 9112, 3.2: Host ----
    *cases(
        "9112-3.2 Host",
        ("empty", "GET /live HTTP/1.1\r\nHost:\r\n\r\n", "200 open"),
        ("with a port", "GET /live HTTP/1.1\r\nHost: berth:80\r\n\r\n", "200 open"),
        ("with an empty port", "GET /live HTTP/1.1\r\nHost: berth:\r\n\r\n", "200 open"),
        ("IPv6", "GET /live HTTP/1.1\r\nHost: [2001:db8::1]\r\n\r\n", "200 open"),
        ("as the last field", "GET /live HTTP/1.1\r\nX: y\r\nhOST: berth\r\n\r\n", "200 open"),
        ("absent in HTTP/1.0", "GET /live HTTP/1.0\r\n\r\n", "200 closed"),
    ),
    *bad(
        "9112-3.2 Host",
        ("absent", "GET /live HTTP/1.1\r\n\r\n"),
        ("absent among others", "GET /live HTTP/1.1\r\nX: y\r\n\r\n"),
        ("twice", GET + "Host: other\r\n\r\n"),
        ("twice the same", GET + "Host: berth\r\n\r\n"),
        ("twice in HTTP/1.0", "GET /live HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"),
        ("a list", "GET /live HTTP/1.1\r\nHost: a, b\r\n\r\n"),
        ("with a blank", "GET /live HTTP/1.1\r\nHost: a b\r\n\r\n"),
        ("with a user", "GET /live HTTP/1.1\r\nHost: joe@a\r\n\r\n"),
        ("with a path", "GET /live HTTP/1.1\r\nHost: a/b\r\n\r\n"),
        ("with a bad port", "GET /live HTTP/1.1\r\nHost: a:b\r\n\r\n"),
        ("with an open bracket", "GET /live HTTP/1.1\r\nHost: [::1\r\n\r\n"),
        ("empty brackets", "GET /live HTTP/1.1\r\nHost: []\r\n\r\n"),
    ),
    # ---- RFC 9112, 5: fields ----
    *cases(
        "9112-5",
        ("no blank behind the colon", GET + "Accept:*/*\r\n\r\n", "200 open"),
        ("blanks around the value", GET + "X: \t y \t \r\n\r\n", "200 open"),
        ("an empty value", GET + "X:\r\n\r\n", "200 open"),
        ("a tab in the value", GET + "X: a\tb\r\n\r\n", "200 open"),
        ("bytes beyond ASCII in the value", GET.encode() + b"X: \xc3\xbc\xff\r\n\r\n", "200 open"),
        ("all characters of a token in the name", GET + "!#$%&'*+-.^_`|~09aZ: y\r\n\r\n",
            "200 open"),
        ("many fields", GET + "X: y\r\n" * 500 + END, "200 open"),
        ("names do not mind the case", GET + "cONNECTION: cLOSE\r\n\r\n", "200 closed"),
    ),
    *bad(
        "9112-5.1",
        ("a blank before the colon", GET + "X : y\r\n\r\n"),
        ("a tab before the colon", GET + "X\t: y\r\n\r\n"),
        ("a blank in the name", GET + "X Y: z\r\n\r\n"),
        ("no name", GET + ": y\r\n\r\n"),
        ("no colon", GET + "X\r\n\r\n"),
        ("a bracket in the name", GET + "X(: y\r\n\r\n"),
        ("a slash in the name", GET + "X/Y: z\r\n\r\n"),
        ("a quote in the name", GET + 'X": y\r\n\r\n'),
        ("a byte beyond ASCII in the name", GET.encode() + b"X\xfc: y\r\n\r\n"),
        ("a control character in the value", GET + "X: \x01\r\n\r\n"),
        ("DEL in the value", GET + "X: \x7f\r\n\r\n"),
        ("an escape sequence in the value", GET + "X: \x1b[31m\r\n\r\n"),
    ),
    *bad(
        "9112-5.2",
        ("folded by a blank", GET + "X: y\r\n z\r\n\r\n"),
        ("folded by a tab", GET + "X: y\r\n\tz\r\n\r\n"),
        ("folded to nothing", GET + "X: y\r\n \r\n\r\n"),
    ),
    *cases(
        "6585-5",
        ("8 KiB of fields", GET + "X: " + "x" * (8192 - 14 - 6) + "\r\n\r\n", "200 open"),
        ("one byte more", GET + "X: " + "x" * (8192 - 14 - 2) + "\r\n\r\n", "431 closed"),
        ("a field without an end", GET + "X: " + "x" * 9000, "431 closed"),
        ("too many small fields", GET + "X: y\r\n" * 2000 + END, "431 closed"),
    ),
    # ---- RFC 9112, 6: bodies ----
    *cases(
        "9112-6.2",
        ("a body", POST + "Content-Length: 2\r\n\r\n{}", "204 open",
            {"only": LOCAL, "lacks": ("Content-Length", "Content-Type")}),
        ("a body and the next request", POST + "Content-Length: 2\r\n\r\n{}" + LIVE, "204 200 open",
            {"only": LOCAL}),
        ("a body of no bytes", POST + "Content-Length: 0\r\n\r\n", "204 open", {"only": LOCAL}),
        ("leading zeros", POST + "Content-Length: 002\r\n\r\n{}", "204 open", {"only": LOCAL}),
        ("no body", POST + END, "204 open", {"only": LOCAL}),
        ("DELETE without a body", POST.replace("POST", "DELETE") + END, "204 open",
            {"only": LOCAL}),
        ("DELETE with a body", POST.replace("POST", "DELETE") + "Content-Length: 2\r\n\r\n{}",
            "204 open", {"only": LOCAL}),
        ("the body of a GET is thrown away", GET + "Content-Length: 5\r\n\r\nGET /" + LIVE,
            "200 200 open"),
        ("the chunks of a GET are thrown away",
            GET + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + LIVE, "200 200 open"),
        ("a body that looks like a request", GET + f"Content-Length: {len(LIVE)}\r\n\r\n" + LIVE,
            "200 open"),
        ("a body for what is not there",
            "POST /nothing HTTP/1.1\r\nHost: berth\r\nContent-Length: 2\r\n\r\n{}" + LIVE,
            "404 200 open"),
        ("a body for what takes none",
            "POST /live HTTP/1.1\r\nHost: berth\r\nContent-Length: 2\r\n\r\n{}" + LIVE,
            "405 200 open"),
        ("the largest body", POST + "Content-Length: 65536\r\n\r\n{}" + " " * 65534, "204 open",
            {"only": LOCAL}),
        ("a larger body", POST + "Content-Length: 65537\r\n\r\n{}" + " " * 65535, "413 closed"),
        ("a body beyond all bounds", POST + "Content-Length: 99999999999\r\n\r\n", "413 closed"),
        ("a length beyond 64 bits", POST + "Content-Length: 99999999999999999999999\r\n\r\n",
            "413 closed"),
        ("a length of 2^64", POST + "Content-Length: 18446744073709551616\r\n\r\n", "413 closed"),
    ),
    *bad(
        "9112-6.3 Content-Length",
        ("with a plus", POST + "Content-Length: +2\r\n\r\n{}"),
        ("negative", POST + "Content-Length: -2\r\n\r\n{}"),
        ("hexadecimal", POST + "Content-Length: 0x2\r\n\r\n{}"),
        ("with a fraction", POST + "Content-Length: 2.0\r\n\r\n{}"),
        ("empty", POST + "Content-Length:\r\n\r\n{}"),
        ("two numbers", POST + "Content-Length: 2 2\r\n\r\n{}"),
        ("a list of equal numbers", POST + "Content-Length: 2, 2\r\n\r\n{}"),
        ("a list of different numbers", POST + "Content-Length: 2, 3\r\n\r\n{}"),
        ("a word", POST + "Content-Length: two\r\n\r\n{}"),
        ("behind a comma", POST + "Content-Length: ,2\r\n\r\n{}"),
        ("twice the same", POST + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"),
        ("twice different", POST + "Content-Length: 2\r\nContent-Length: 0\r\n\r\n{}"),
        ("twice, once with a blank before the colon",
            POST + "Content-Length: 2\r\nContent-Length : 0\r\n\r\n{}"),
        ("bad for a GET too", GET + "Content-Length: x\r\n\r\n"),
    ),
    *bad(
        "9112-6.1 Transfer-Encoding",
        ("with a length",
            POST + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("before a length",
            POST + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"),
        ("with a length of 0",
            POST + "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n"),
        ("twice",
            POST + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("twice, one of them another",
            POST + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
        ("a blank before the colon", POST + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
        ("folded", POST + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
        ("a vertical tab before it", POST + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
        ("empty", POST + "Transfer-Encoding:\r\n\r\n0\r\n\r\n"),
        ("in HTTP/1.0", "POST /live HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ),
    *bad(
        "9112-6.1 codings",
        ("gzip", POST + "Transfer-Encoding: gzip\r\n\r\nx"),
        ("gzip and chunked", POST + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        ("chunked and gzip", POST + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n"),
        ("chunked twice", POST + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
        ("identity", POST + "Transfer-Encoding: identity\r\n\r\n"),
        ("an unknown one", POST + "Transfer-Encoding: x\r\n\r\n"),
        ("chunked with a parameter", POST + "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"),
        ("quoted", POST + 'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n'),
        status=501,
    ),
    # ---- RFC 9112, 7: chunks ----
    *cases(
        "9112-7.1",
        ("one chunk", CHUNKED + "2\r\n{}\r\n0\r\n\r\n", "204 open", {"only": LOCAL}),
        ("several chunks", CHUNKED + "1\r\n{\r\n1\r\n}\r\n0\r\n\r\n" + LIVE, "204 200 open",
            {"only": LOCAL}),
        ("no chunk but the last", CHUNKED + "0\r\n\r\n", "204 open", {"only": LOCAL}),
        ("upper case", CHUNKED + "A\r\n{        }\r\n0\r\n\r\n", "204 open", {"only": LOCAL}),
        ("lower case", CHUNKED + "a\r\n{        }\r\n0\r\n\r\n", "204 open", {"only": LOCAL}),
        ("leading zeros", CHUNKED + "0002\r\n{}\r\n000\r\n\r\n", "204 open", {"only": LOCAL}),
        ("the coding does not mind the case", POST + "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n",
            "204 open", {"only": LOCAL}),
        ("line ends in the data", CHUNKED + "4\r\n\r\n{}\r\n0\r\n\r\n", "204 open",
            {"only": LOCAL}),
        ("chunks of more than the largest body", CHUNKED + "8000\r\n" + " " * 0x8000
            + "\r\n8001\r\n" + " " * 0x8001 + "\r\n0\r\n\r\n",
            "413 closed", {"only": LOCAL}),
        ("chunks of more than is thrown away", GET + "Transfer-Encoding: chunked\r\n\r\n10001\r\n"
            + " " * 0x10001 + "\r\n0\r\n\r\n",
            "413 closed"),
    ),
    *cases(
        "9112-7.1.1",
        ("an extension", CHUNKED + "2;x\r\n{}\r\n0\r\n\r\n", "204 open", {"only": LOCAL}),
        ("an extension with a value", CHUNKED + "2;x=y;z\r\n{}\r\n0;a=b\r\n\r\n", "204 open",
            {"only": LOCAL}),
        ("a quoted value", CHUNKED + '2;x="a;b"\r\n{}\r\n0\r\n\r\n', "204 open", {"only": LOCAL}),
        ("blanks around an extension", CHUNKED + "2 ; x = y\r\n{}\r\n0\r\n\r\n", "204 open",
            {"only": LOCAL}),
    ),
    *cases(
        "9112-7.1.2",
        ("trailers are read", CHUNKED + "0\r\nX: y\r\nZ: z\r\n\r\n" + LIVE, "204 200 open",
            {"only": LOCAL}),
        ("a length in the trailers means nothing", CHUNKED + "0\r\nContent-Length: 99\r\n\r\n"
            + LIVE, "204 200 open", {"only": LOCAL}),
        ("a coding in the trailers means nothing", CHUNKED + "0\r\nTransfer-Encoding: gzip\r\n\r\n"
            + LIVE, "204 200 open", {"only": LOCAL}),
        ("trailers are bounded", CHUNKED + "0\r\nX: " + "y" * 5000 + "\r\n\r\n", "431 closed"),
    ),
    *bad(
        "9112-7.1",
        ("no size", CHUNKED + "\r\n{}\r\n0\r\n\r\n"),
        ("no digit", CHUNKED + "g\r\n{}\r\n0\r\n\r\n"),
        ("a prefix", CHUNKED + "0x2\r\n{}\r\n0\r\n\r\n"),
        ("a sign", CHUNKED + "+2\r\n{}\r\n0\r\n\r\n"),
        ("a minus", CHUNKED + "-2\r\n{}\r\n0\r\n\r\n"),
        ("a blank before the size", CHUNKED + " 2\r\n{}\r\n0\r\n\r\n"),
        ("a blank behind the size", CHUNKED + "2 \r\n{}\r\n0\r\n\r\n"),
        ("a word behind the size", CHUNKED + "2 x\r\n{}\r\n0\r\n\r\n"),
        ("an underscore", CHUNKED + "0_2\r\n{}\r\n0\r\n\r\n"),
        ("a size beyond 64 bits", CHUNKED + "10000000000000002\r\n{}\r\n0\r\n\r\n"),
        ("LF alone behind the size", CHUNKED + "2\n{}\r\n0\r\n\r\n"),
        ("CR alone behind the size", CHUNKED + "2\r{}\r\n0\r\n\r\n"),
        ("LF alone behind the data", CHUNKED + "2\r\n{}\n0\r\n\r\n"),
        ("more data than the size", CHUNKED + "2\r\n{}}\r\n0\r\n\r\n"),
        ("nothing behind the data", CHUNKED + "2\r\n{}0\r\n\r\n"),
        ("LF alone in an extension", CHUNKED + "2;x\n{}\r\n0\r\n\r\n"),
        ("CR alone in an extension", CHUNKED + "2;\rx\r\n{}\r\n0\r\n\r\n"),
        ("NUL in an extension", CHUNKED + "2;\0\r\n{}\r\n0\r\n\r\n"),
        ("an extension without an end", CHUNKED + "2;" + "x" * 5000),
        ("a trailer without a colon", CHUNKED + "0\r\nX\r\n\r\n"),
        ("a folded trailer", CHUNKED + "0\r\nX: y\r\n z\r\n\r\n"),
        ("a blank before a trailer's colon", CHUNKED + "0\r\nX : y\r\n\r\n"),
        ("LF alone behind the last chunk", CHUNKED + "0\r\n\n"),
    ),
    # ---- RFC 9112, 9: connections ----
    *cases(
        "9112-9.3",
        ("goes on by default", LIVE, "200 open", {"lacks": ("Connection",)}),
        ("requests in a row", LIVE * 20, "200 " * 20 + "open"),
        ("close", GET + "Connection: close\r\n\r\n", "200 closed",
            {"has": {"Connection": "close"}}),
        ("close in a list", GET + "Connection: x , close\r\n\r\n", "200 closed",
            {"has": {"Connection": "close"}}),
        ("close in a second field", GET + "Connection: x\r\nConnection: close\r\n\r\n",
            "200 closed", {"has": {"Connection": "close"}}),
        ("a word that only begins so", GET + "Connection: closer\r\n\r\n", "200 open"),
        ("nothing behind close is answered", GET + "Connection: close\r\n\r\n" + LIVE,
            "200 closed"),
        ("HTTP/1.0 ends", "GET /live HTTP/1.0\r\n\r\n" + LIVE, "200 closed",
            {"has": {"Connection": "close"}}),
        ("HTTP/1.0 can go on", "GET /live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + LIVE,
            "200 200 open"),
        ("an HTTP/1.0 client sees it in the answer",
            "GET /live HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "200 open",
            {"has": {"Connection": "keep-alive"}}),
        ("errors of the application keep it", "GET /nothing HTTP/1.1\r\nHost: berth\r\n\r\n" + LIVE,
            "404 200 open"),
        ("good ones before a bad one are answered", LIVE + "GET /live HTTP/1.1\r\n\r\n" + LIVE,
            "200 400 closed"),
        ("Keep-Alive means nothing", GET + "Keep-Alive: timeout=0\r\n\r\n", "200 open"),
    ),
    *cases(
        "9112-9.6",
        ("a client that ends its half gets its answer and an end", LIVE, "200 closed",
            {"end": True}),
        ("and all of its answers", LIVE * 5, "200 200 200 200 200 closed", {"end": True}),
        ("and that of a look-up", LOOK + END, "200 closed", {"end": True}),
        ("half a request gets nothing", "GET /live HT", "closed", {"end": True}),
        ("half a body gets nothing", GET + "Content-Length: 5\r\n\r\nab", "closed", {"end": True}),
        ("no request gets nothing", "", "closed", {"end": True}),
        ("half a request behind a whole one", LIVE + "GET /li", "200 closed", {"end": True}),
    ),
    *cases(
        "9112-9.3.2",
        ("answers come in order", "".join(f"GET {target} HTTP/1.1\r\nHost: berth\r\n\r\n"
            for target in
            ("/live", "/nothing", f"/v1/resolve{NODE}", "/v1/resolve/a//b", "/live")),
            "200 404 200 400 200 open"),
        ("a slow one holds those behind it",
            "GET /v1/find?under=/users HTTP/1.1\r\nHost: berth\r\n\r\n" + LIVE +
            "GET /v1/resolve/not/there HTTP/1.1\r\nHost: berth\r\n\r\n" + LIVE,
            "200 200 404 200 open"),
    ),
    # ---- RFC 9110, 9: methods ----
    *cases(
        "9110-9.3.2",
        ("HEAD has no body", HEAD + END, "200 open",
            {"method": "HEAD", "has": {"Content-Length": "5", "Content-Type": "text/plain"}}),
        ("HEAD in a row", (HEAD + END) * 3, "200 200 200 open", {"method": "HEAD"}),
        ("HEAD of a look-up", LOOK.replace("GET", "HEAD") + END, "200 open",
            {"method": "HEAD", "has": {"ETag": "{etag}"}}),
        ("HEAD of what is not there", "HEAD /nothing HTTP/1.1\r\nHost: berth\r\n\r\n", "404 open",
            {"method": "HEAD"}),
        ("HEAD of a stream", f"HEAD /v1/watch{NODE} HTTP/1.1\r\nHost: berth\r\n\r\n", "200 open",
            {"method": "HEAD", "has": {"Content-Type": "application/recordio"}}),
    ),
    *cases(
        "9110-9.3.7",
        ("OPTIONS of a look-up", LOOK.replace("GET", "OPTIONS") + END, "204 open",
            {"has": {"Allow": "GET, HEAD, OPTIONS"}}),
        ("OPTIONS of an order", POST.replace("POST", "OPTIONS") + END, "204 open",
            {"only": LOCAL, "has": {"Allow": "POST, DELETE, OPTIONS"}}),
        ("OPTIONS with a body", LOOK.replace("GET", "OPTIONS") + "Content-Length: 2\r\n\r\n{}",
            "204 open"),
        ("OPTIONS of what is not there", "OPTIONS /nothing HTTP/1.1\r\nHost: berth\r\n\r\n",
            "404 open"),
    ),
    *cases(
        "9110-15.5.6",
        *[(f"{method} is not allowed", LOOK.replace("GET", method) + END, "405 open",
            {"has": {"Allow": "GET, HEAD, OPTIONS"}})
            for method in ("POST", "PUT", "DELETE", "PATCH", "TRACE")],
        ("GET of an order", POST.replace("POST", "GET") + END, "405 open",
            {"only": LOCAL, "has": {"Allow": "POST, DELETE, OPTIONS"}}),
        ("HEAD of an order", POST.replace("POST", "HEAD") + END, "405 open",
            {"only": LOCAL, "method": "HEAD"}),
    ),
    # ---- RFC 9110, 10: context ----
    *cases(
        "9110-10.1.1",
        ("100-continue is answered, and then the request",
            POST + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n", "100 204 open",
            {"only": LOCAL, "then": "{}"}),
        ("whatever its case", POST + "Expect: 100-CONTINUE\r\nContent-Length: 2\r\n\r\n",
            "100 204 open", {"only": LOCAL, "then": "{}"}),
        ("for chunks too", POST + "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n",
            "100 204 open",
            {"only": LOCAL, "then": "2\r\n{}\r\n0\r\n\r\n"}),
        ("not without a body", GET + "Expect: 100-continue\r\n\r\n", "200 open"),
        ("not in HTTP/1.0",
            "POST /nothing HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
            "404 closed"),
        ("not when the answer is no",
            "POST /nothing HTTP/1.1\r\nHost: berth\r\nExpect: 100-continue\r\nContent-Length: "
            "2\r\n\r\n", "404 closed"),
        ("not for a method that is not allowed", LOOK.replace("GET", "PUT")
            + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n", "405 closed"),
        ("not for a body that is too long",
            POST + "Expect: 100-continue\r\nContent-Length: 70000\r\n\r\n", "413 closed"),
        ("another expectation", POST + "Expect: coffee\r\nContent-Length: 2\r\n\r\n{}",
            "417 closed"),
        ("another expectation of a GET", GET + "Expect: 200-ok\r\n\r\n", "417 closed"),
    ),
    # ---- RFC 9110, 12 and 8: content ----
    *cases(
        "9110-12.5.1",
        ("any type", LOOK + "Accept: */*\r\n\r\n", "200 open",
            {"has": {"Content-Type": "application/json", "Vary": "Accept"}}),
        ("no type that we have", LOOK + "Accept: image/png\r\n\r\n", "406 open",
            {"has": {"Content-Type": "application/problem+json"}}),
        ("a type in a second field", LOOK + "Accept: image/png\r\nAccept: application/json\r\n\r\n",
            "200 open"),
        ("q=0 excludes", LOOK + "Accept: application/json;q=0\r\n\r\n", "406 open"),
        ("q=0.000 excludes", LOOK + "Accept: application/json; q=0.000\r\n\r\n", "406 open"),
        ("a range", LOOK + "Accept: application/*;q=0.1\r\n\r\n", "200 open"),
        ("a comma in quotes", LOOK + 'Accept: text/x;a=", application/json"\r\n\r\n', "406 open"),
    ),
    *cases(
        "9110-15.5.16",
        ("an encoded body", POST + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
            "415 closed"),
        ("a body that is encoded twice",
            POST + "Content-Encoding: gzip, br\r\nContent-Length: 2\r\n\r\n{}", "415 closed"),
        ("encoded chunks",
            POST + "Content-Encoding: deflate\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "415 closed"),
        ("identity", POST + "Content-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}", "204 open",
            {"only": LOCAL}),
        ("without a body", GET + "Content-Encoding: gzip\r\n\r\n", "200 open"),
    ),
    # ---- RFC 9110, 13: conditions ----
    *cases(
        "9110-13.1.2 If-None-Match",
        *[(name, LOOK + f"If-None-Match: {value}\r\n\r\n", "304 open",
            {"has": {"ETag": "{etag}", "Vary": "Accept", "Cache-Control": "no-cache"},
                "lacks": ("Content-Length", "Content-Type"), "body": b""})
            for name, value in [
                ("the tag", "{etag}"), ("weakly", "W/{etag}"), ("in a list", '"x", {etag} , "y"'),
                ("any", "*"),
                ("behind a tag with a comma", '"x, y", {etag}'), ("without blanks", '"x",{etag}'),
            ]],
        *[(name, LOOK + f"If-None-Match: {value}\r\n\r\n", "200 open")
            for name, value in [
                ("another tag", '"x"'), ("a part of it", '"0"'), ("not quoted", "x"), ("empty", ""),
                ("a quoted asterisk", '"*"'),
                ("the tag inside another", '"x{etag}"'),
            ]],
        ("in two fields", LOOK + 'If-None-Match: "x"\r\nIf-None-Match: {etag}\r\n\r\n', "304 open"),
        ("for HEAD", LOOK.replace("GET", "HEAD") + "If-None-Match: {etag}\r\n\r\n", "304 open",
            {"method": "HEAD"}),
        ("304 and the next request", LOOK + "If-None-Match: {etag}\r\n\r\n" + LIVE, "304 200 open"),
        ("of what is not there", "GET /nothing HTTP/1.1\r\nHost: berth\r\nIf-None-Match: *\r\n\r\n",
            "404 open"),
        ("of what has no tag", GET + "If-None-Match: *\r\n\r\n", "200 open"),
        ("for an order", POST + "If-None-Match: *\r\n\r\n", "412 open", {"only": LOCAL}),
    ),
    *cases(
        "9110-13.1.1 If-Match",
        ("the tag", LOOK + "If-Match: {etag}\r\n\r\n", "200 open"),
        ("in a list", LOOK + 'If-Match: "x", {etag}\r\n\r\n', "200 open"),
        ("any", LOOK + "If-Match: *\r\n\r\n", "200 open"),
        ("another tag", LOOK + 'If-Match: "x"\r\n\r\n', "412 open",
            {"has": {"Content-Type": "application/problem+json"}}),
        ("weak tags never match", LOOK + "If-Match: W/{etag}\r\n\r\n", "412 open"),
        ("before If-None-Match", LOOK + 'If-Match: "x"\r\nIf-None-Match: {etag}\r\n\r\n',
            "412 open"),
        ("and If-None-Match", LOOK + "If-Match: {etag}\r\nIf-None-Match: {etag}\r\n\r\n",
            "304 open"),
        ("for HEAD", LOOK.replace("GET", "HEAD") + 'If-Match: "x"\r\n\r\n', "412 open",
            {"method": "HEAD"}),
        ("of what is not there", 'GET /nothing HTTP/1.1\r\nHost: berth\r\nIf-Match: "x"\r\n\r\n',
            "404 open"),
        ("for an order", POST + 'If-Match: "x"\r\n\r\n', "412 open", {"only": LOCAL}),
        ("for an order, any", POST + "If-Match: *\r\n\r\n", "204 open", {"only": LOCAL}),
    ),
    # ---- what is to be ignored ----
    *cases(
        "9110",
        ("If-Modified-Since without Last-Modified",
            LOOK + "If-Modified-Since: Sat, 01 Jan 2050 00:00:00 GMT\r\n\r\n", "200 open"),
        ("Range", LOOK + "Range: bytes=0-1\r\n\r\n", "200 open", {"lacks": ("Content-Range",)}),
        ("If-Range", LOOK + "Range: bytes=0-1\r\nIf-Range: {etag}\r\n\r\n", "200 open"),
        ("Upgrade to WebSocket", GET + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            "200 open", {"lacks": ("Upgrade",)}),
        ("Upgrade to h2c",
            GET + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: "
                  "AAA\r\n\r\n", "200 open"),
        ("TE", GET + "TE: trailers\r\nConnection: TE\r\n\r\n", "200 open"),
        ("Via and Max-Forwards", GET + "Via: 1.1 x\r\nMax-Forwards: 0\r\n\r\n", "200 open"),
        ("Authorization and Cookie", GET + "Authorization: Basic eA==\r\nCookie: a=b\r\n\r\n",
            "200 open"),
        ("Accept-Encoding", LOOK + "Accept-Encoding: gzip, br\r\n\r\n", "200 open",
            {"lacks": ("Content-Encoding",)}),
    ),
    *cases(
        "9110-8.8.3",
        ("a look-up has a tag", LOOK + END, "200 open",
            {"has": {"ETag": "{etag}", "Cache-Control": "no-cache", "Vary": "Accept",
                "X-Cache": "HIT"}}),
    ),
    *cases(
        "9110-15.6.4",
        ("503 says when to try again", "GET /ready HTTP/1.1\r\nHost: berth\r\n\r\n", "503 open",
            {"has": {"Retry-After": "1"}}),
    ),
]


class Answer:
    def __init__(self, status, fields, body):
        self.status = status
        self.fields = fields
        self.body = body


class Client:
    """Reads answers as strictly as the server reads requests."""

    def __init__(self, test, connection, bytewise):
        self.test = test
        self.connection = connection
        self.connection.settimeout(PATIENCE)
        self.bytewise = bytewise
        self.received = b""

    def send(self, data):
        step = 1 if self.bytewise and len(data) < 2000 else len(data) or 1
        # A server that refuses early closes; its answer is there all the same.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for at in range(0, len(data), step):
                self.connection.sendall(data[at : at + step])

    def more(self):
        try:
            data = self.connection.recv(65536)
        except ConnectionResetError:
            data = b""
        self.received += data
        return bool(data)

    def until(self, condition):
        while not condition():
            self.test.assertTrue(self.more(), f"the server closed behind {self.received[-300:]!r}")

    def take(self, count):
        self.until(lambda: len(self.received) >= count)
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def answer(self, method):
        self.until(lambda: b"\r\n\r\n" in self.received)
        head = self.take(self.received.index(b"\r\n\r\n") + 4)
        first, *lines = head[:-4].split(b"\r\n")
        self.test.assertRegex(first, rb"^HTTP/1\.1 [1-5]\d\d [ -~]+$")
        self.test.assertNotRegex(head.replace(b"\r\n", b""), rb"[\r\n\0]")
        fields = {}
        for line in lines:
            self.test.assertRegex(line, rb"^[A-Za-z-]+: [ -~]+$")
            name, _, value = line.partition(b": ")
            self.test.assertNotIn(name.lower().decode(), fields, "a field twice")
            fields[name.lower().decode()] = value.decode()
        answer = Answer(int(first.split()[1]), fields, b"")
        self.check_fields(answer, method)
        answer.body = self.body(answer, method)
        return answer

    def check_fields(self, answer, method):
        fields = answer.fields
        if answer.status == 100:
            self.test.assertEqual(fields, {})
            return
        self.test.assertRegex(fields.get("date", "").encode(), DATE)
        if answer.status in (204, 304):
            self.test.assertNotIn("content-length", fields)
            self.test.assertNotIn("transfer-encoding", fields)
        elif method == "HEAD" and fields["content-type"] in STREAMS:
            # Nobody knows how long the answer to GET would get.
            self.test.assertNotIn("content-length", fields)
            self.test.assertNotIn("transfer-encoding", fields)
        else:
            self.test.assertNotEqual("content-length" in fields, "transfer-encoding" in fields,
                fields)
        if answer.status >= 400:
            self.test.assertEqual(fields["content-type"], "application/problem+json")
        if answer.status == 405:
            self.test.assertIn("allow", fields)

    def body(self, answer, method):
        if method == "HEAD" or answer.status in (100, 204, 304):
            return b""
        body = self.take(int(answer.fields["content-length"]))
        if answer.status >= 400:
            problem = json.loads(body)
            self.test.assertEqual(problem["status"], answer.status)
            self.test.assertTrue(problem["title"] and problem["detail"])
        return body

    def assert_open(self):
        self.test.assertEqual(self.received, b"")
        self.send(LIVE.encode())
        self.test.assertEqual(self.answer("GET").status, 200)

    def assert_closed(self):
        while self.more():
            pass
        self.test.assertEqual(self.received, b"")


class Conformance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="berth-")))
        port = claim_port()
        cls.addClassCleanup(port.close)
        cls.port = port.getsockname()[1]
        place = folder / "registry" / NODE[1:]
        place.mkdir(parents=True)
        (place / "_record").write_text('{"type": "JSONServiceRecord", "description": "a"}')
        cls.agent = Agent(folder, f"dir:{folder}/registry",
            {"agent": {"listen": f"127.0.0.1:{cls.port}", "log_level": "info"}})
        # A component that is never registered, for 503.
        cls.agent.write_config({**cls.agent.component(check="false"), "agent": {
            "socket": cls.agent.socket, "state_dir": folder / "state",
            "listen": f"127.0.0.1:{cls.port}", "listen_hosts": "*"}})
        cls.agent.start()
        cls.addClassCleanup(cls.agent.end)
        for _ in range(2):
            cls.etag = cls.agent.get(f"/v1/resolve{NODE}").headers["ETag"]

    def connect(self, tcp):
        if tcp:
            connection = socket.create_connection(("127.0.0.1", self.port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(str(self.agent.socket))
        self.addCleanup(connection.close)
        return connection

    def fill(self, text):
        return text.replace(b"{etag}", self.etag.encode()) if isinstance(text,
            bytes) else text.replace("{etag}", self.etag)

    def check(self, case, tcp, bytewise):
        client = Client(self, self.connect(tcp), bytewise)
        client.send(self.fill(case.sent))
        if case.end:
            with contextlib.suppress(OSError):
                client.connection.shutdown(socket.SHUT_WR)
        answer = None
        for number, status in enumerate(case.statuses):
            if number == 1 and case.then:
                client.send(case.then.encode())
            answer = client.answer(case.method)
            self.assertEqual(str(answer.status), status, f"answer {number + 1}: {answer.body!r}")
        self.check_last(case, answer)
        if case.state == "open":
            client.assert_open()
        else:
            client.assert_closed()

    def check_last(self, case, answer):
        for name, value in case.has.items():
            self.assertEqual(answer.fields.get(name.lower()), self.fill(value), name)
        for name in case.lacks:
            self.assertNotIn(name.lower(), answer.fields)
        if case.body is not None:
            self.assertEqual(answer.body, case.body)
        if answer and answer.status < 500 and case.state == "closed" and not case.end:
            self.assertEqual(answer.fields.get("connection"), "close")


def add_tests():
    for number, case in enumerate(CASES, 1):
        name = re.sub(r"[^a-z0-9]+", "_", case.name.lower()).strip("_")
        for way, tcp, bytewise in (("unix", False, False), ("tcp", True, False),
                ("bytewise", False, True)):
            if tcp and case.only == LOCAL:
                continue

            def test(self, case=case, tcp=tcp, bytewise=bytewise):
                self.check(case, tcp, bytewise)

            test.__doc__ = f"{case.name}, {way}"
            setattr(Conformance, f"test_{number:03}_{name}_{way}", test)


add_tests()

if __name__ == "__main__":
    unittest.main()
