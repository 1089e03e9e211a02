"""Registrar's nodes of a domain, and what the running Binder (a43f1e2) answers from them over UDP.

A line of ANSWERS is a name, a type and a code, then a line for each record: its section, owner,
time to live, type and data; "@" is the domain. The order within a section is random in Binder.
"""

DOMAIN = "t1.example.org"

NODES = {
    "/org/example/t1": None,
    "/org/example/t1/web": {"type": "service", "service": {"type": "service",
        "service": {"srvce": "_http", "proto": "_tcp", "port": 80, "ttl": 45}}},
    "/org/example/t1/web/h1": {"type": "load_balancer", "address": "10.9.8.1", "ttl": 25,
        "load_balancer": {"address": "10.9.8.1", "ports": [8080, 8081]}},
    "/org/example/t1/web/h2": {"type": "load_balancer", "address": "10.9.8.2",
        "load_balancer": {"address": "10.9.8.2"}},
    "/org/example/t1/web/h3": {"type": "db_host", "address": "10.9.8.3",
        "db_host": {"address": "10.9.8.3"}},
    "/org/example/t1/web/h4": {"type": "host", "address": "10.9.8.4",
        "host": {"address": "10.9.8.4"}},
    "/org/example/t1/web/h5": {"type": "ops_host", "address": "10.9.8.5",
        "ops_host": {"address": "10.9.8.5", "ports": [9]}},
    "/org/example/t1/web/h6": {"type": "rr_host", "address": "10.9.8.6", "ttl": 10,
        "rr_host": {"address": "10.9.8.6", "ttl": 5}},
    "/org/example/t1/flat": {"type": "service", "service": {"srvce": "_redis", "proto": "_udp",
        "port": 6379}, "ttl": 7},
    "/org/example/t1/flat/r1": {"type": "redis_host", "address": "10.9.7.1",
        "redis_host": {"address": "10.9.7.1", "ports": [6380]}},
    "/org/example/t1/moray": {"type": "service", "service": {"type": "service",
        "service": {"srvce": "_moray", "proto": "_tcp", "port": 2020}}},
    "/org/example/t1/moray/m1": {"type": "moray_host", "address": "10.9.6.1",
        "moray_host": {"address": "10.9.6.1", "ports": [2021, 2022]}},
    "/org/example/t1/empty": {"type": "service", "service": {"type": "service",
        "service": {"srvce": "_http", "proto": "_tcp", "port": 80, "ttl": 60}}},
    "/org/example/t1/bare": None,
    "/org/example/t1/alias1": {"type": "load_balancer", "address": "10.9.8.1", "ttl": 25,
        "load_balancer": {"address": "10.9.8.1", "ports": [8080]}},
    "/org/example/t1/x": None,
    "/org/example/t1/x/y": {"type": "host", "address": "10.9.8.9", "host": {"address": "10.9.8.9"}},
    "/org/example/t1/database": {"type": "database",
        "database": {"primary": "tcp://postgres@10.9.5.5/moray", "ttl": 60}},
}

ANSWERS = """\
web A NOERROR
    answer web 5 A 10.9.8.6
    answer web 25 A 10.9.8.1
    answer web 45 A 10.9.8.2
    answer web 45 A 10.9.8.5
flat A NOERROR
    answer flat 7 A 10.9.7.1
moray A NOERROR
    answer moray 30 A 10.9.6.1
empty A NOERROR
bare A SERVFAIL
alias1 A NOERROR
    answer alias1 25 A 10.9.8.1
x A SERVFAIL
x.y A REFUSED
database A NOERROR
    answer database 60 A 10.9.5.5
nothing A REFUSED
h1.web A NOERROR
    answer h1.web 25 A 10.9.8.1
h2.web A NOERROR
    answer h2.web 30 A 10.9.8.2
h3.web A NOERROR
    answer h3.web 30 A 10.9.8.3
h4.web A NOERROR
    answer h4.web 30 A 10.9.8.4
h5.web A NOERROR
    answer h5.web 30 A 10.9.8.5
h6.web A NOERROR
    answer h6.web 5 A 10.9.8.6
nothing.web A REFUSED
r1.flat A NOERROR
    answer r1.flat 30 A 10.9.7.1
m1.moray A NOERROR
    answer m1.moray 30 A 10.9.6.1
WEB A NOERROR
    answer web 5 A 10.9.8.6
    answer web 25 A 10.9.8.1
    answer web 45 A 10.9.8.2
    answer web 45 A 10.9.8.5
H1.Web A NOERROR
    answer h1.web 25 A 10.9.8.1
web AAAA NOTIMP
web SRV REFUSED
web TXT NOTIMP
web MX NOTIMP
web ANY NOTIMP
web NS NOTIMP
web SOA NOTIMP
h1.web AAAA NOTIMP
h1.web SRV REFUSED
h1.web TXT NOTIMP
h1.web MX NOTIMP
h1.web ANY NOTIMP
h1.web NS NOTIMP
h1.web SOA NOTIMP
bare AAAA NOTIMP
bare SRV REFUSED
bare TXT NOTIMP
bare MX NOTIMP
bare ANY NOTIMP
bare NS NOTIMP
bare SOA NOTIMP
nothing AAAA NOTIMP
nothing SRV REFUSED
nothing TXT NOTIMP
nothing MX NOTIMP
nothing ANY NOTIMP
nothing NS NOTIMP
nothing SOA NOTIMP
_http._tcp.web SRV NOERROR
    answer _http._tcp.web 45 SRV 0 10 80 h2.web
    answer _http._tcp.web 45 SRV 0 10 80 h6.web
    answer _http._tcp.web 45 SRV 0 10 8080 h1.web
    answer _http._tcp.web 45 SRV 0 10 8081 h1.web
    answer _http._tcp.web 45 SRV 0 10 9 h5.web
    additional h1.web 25 A 10.9.8.1
    additional h2.web 45 A 10.9.8.2
    additional h5.web 45 A 10.9.8.5
    additional h6.web 5 A 10.9.8.6
_http._udp.web SRV NXDOMAIN
_no._tcp.web SRV NXDOMAIN
_redis._udp.flat SRV NOERROR
    answer _redis._udp.flat 7 SRV 0 10 6380 r1.flat
    additional r1.flat 7 A 10.9.7.1
_moray._tcp.moray SRV NOERROR
    answer _moray._tcp.moray 30 SRV 0 10 2021 m1.moray
    answer _moray._tcp.moray 30 SRV 0 10 2022 m1.moray
    additional m1.moray 30 A 10.9.6.1
_http._tcp.empty SRV NOERROR
_http._tcp.nothing SRV REFUSED
_http._tcp.h1.web SRV NOERROR
    authority h1.web 25 SOA @ hostmaster 0 86400 7200 1209600 25
_http._tcp.bare SRV SERVFAIL
_http._tcp.alias1 SRV NOERROR
    authority alias1 25 SOA @ hostmaster 0 86400 7200 1209600 25
_http._tcp.web A REFUSED
@ A REFUSED
@ SOA NOTIMP
example.org. A REFUSED
example.com. A REFUSED
1.8.9.10.in-addr.arpa. PTR NOERROR
    answer 1.8.9.10.in-addr.arpa. 25 PTR h1.web
9.8.9.10.in-addr.arpa. PTR NOERROR
    answer 9.8.9.10.in-addr.arpa. 30 PTR y.x
4.4.4.4.in-addr.arpa. PTR REFUSED
5.5.9.10.in-addr.arpa. PTR REFUSED
"""
