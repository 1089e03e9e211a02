/*
 * The frames (lib/looker/wire.h) between the agent and berth-runtime, which asks a container
 * runtime, Docker's or podman's, over sockets that the agent has connected.
 *
 *      agent                                    berth-runtime
 *        |---- HELLO which labels --------------->|  then: READY
 *        |<--- NEED kind, why --------------------|  a connection, the first one or a new one
 *        |---- CONNECTION kind, descriptor ------>|
 *        |<--- CONTAINER facts (, descriptor) ----|  whenever something about it is new
 *        |<--- SIGNAL id, signal -----------------|  somebody has sent one by the runtime
 *        |<--- ABSENT id -------------------------|
 *        |<--- LISTED -----------------------------|  the CONTAINER frames of a list have come
 *        |---- LOOK id -------------------------->|  CONTAINER or ABSENT follows
 *        |     end of file                        |  the program ends
 *
 * Every fact is the word of the runtime, and labels are that of the maker of an image: the agent
 * judges them.
 */
#ifndef LIB_RUNTIME_PROTOCOL_H
#define LIB_RUNTIME_PROTOCOL_H

enum runtime_frame {
	RUNTIME_HELLO = 1,  /* count of prefixes of labels and variables that matter, those */
	RUNTIME_CONNECTION, /* kind; with a descriptor */
	RUNTIME_LOOK,       /* id */

	RUNTIME_READY = 64, /* cage in words */
	RUNTIME_NEED,       /* kind, why the one before is of no use or "" */
	/*
	 * id, flags, error or "", name, image, host name, status, health or "", time of the start,
	 * process id, stop signal or "", stop timeout in s, network mode;
	 * count of ports; of each its number, protocol, address and port on the host ("", 0: none);
	 * count of networks; of each its name, IPv4 address or "", IPv6 address or "";
	 * count of labels and variables; of each its flag (1: a variable), name, value
	 */
	RUNTIME_CONTAINER,
	RUNTIME_SIGNAL, /* id, number */
	RUNTIME_ABSENT, /* id */
	RUNTIME_LISTED, /* error or "" */
};

enum runtime_kind { RUNTIME_EVENTS, RUNTIME_REQUESTS, RUNTIME_KINDS };

/* Of RUNTIME_CONTAINER. */
enum {
	RUNTIME_RUNS = 1, /* its first process does */
	RUNTIME_PAUSED = 2,
	RUNTIME_WATCHED = 4 /* the pidfd of its first process is next to the frame */
};

#define RUNTIME_ID_BYTES 80

enum {
	RUNTIME_PORTS_MAX = 256,
	RUNTIME_NETWORKS_MAX = 64,
	RUNTIME_LABELS_MAX = 256,
	RUNTIME_LABEL_BYTES = 64 * 1024,   /* of all together */
	RUNTIME_REPORT_BYTES = 128 * 1024, /* of a CONTAINER frame */
	RUNTIME_CONTAINERS_MAX = 1024
};

#endif
