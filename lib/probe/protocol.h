/*
 * The frames (lib/looker/wire.h) between the agent and berth-probe, which asks servers over TLS and
 * HTTP/2 for it. The probe opens no file and looks up no name: it gets numeric addresses, and
 * certificates and keys as text, each of them once.
 *
 *   agent: BLOB*  ASK  ASK ...          PING
 *   probe: READY  ANSWER, in any order  PONG
 *
 * Each ASK has one ANSWER, within its time.
 */
#ifndef LIB_PROBE_PROTOCOL_H
#define LIB_PROBE_PROTOCOL_H

#define PROBE_PROGRAM "berth-probe"

#define PROBE_BODY_BYTES (64 * 1024)   /* of an answer: no more is read */
#define PROBE_FIELDS_BYTES (16 * 1024) /* likewise of its header fields */

enum probe_frame {
	/* to the probe */
	PROBE_BLOB = 1, /* id, PEM */
	PROBE_FORGET,   /* all blobs but those that are in use */
	/*
	 * id, flags, time in ms, ids of blobs: authorities, certificate, key (0: none), host, port,
	 * addresses (separated by commas), the name that the certificate must have, method, path,
	 * header fields (lines), body; of gRPC the service is the body
	 */
	PROBE_ASK,
	PROBE_PING,
	/* from the probe */
	PROBE_READY = 32, /* the cage, and the library, in words */
	/*
	 * id, enum probe_outcome, status, milliseconds, reason, lines of header fields, body
	 */
	PROBE_ANSWER,
	PROBE_PONG
};

/* Of PROBE_ASK. */
enum {
	PROBE_GRPC = 1,
	PROBE_TLS = 2,
	PROBE_VERIFY = 4,
	PROBE_WANTS_FIELDS = 8,
	PROBE_WANTS_BODY = 16
};

enum probe_outcome {
	PROBE_STATUS, /* http: the agent judges it */
	PROBE_PASSING,
	PROBE_FAILING,
	PROBE_TIMED_OUT,
	PROBE_COULD_NOT
};

#endif
