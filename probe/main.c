/*
 * berth-probe: asks servers over TLS and HTTP/2 whether they are well, for the agent's checks of
 * type grpc and of https:// targets. It has no descriptor but its socket and its connections, and
 * lives in a cage.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/forget_code.h"
#include "lib/looker/child.h"
#include "lib/looker/wire.h"
#include "lib/probe/protocol.h"
#include "lib/program/memory.h"
#include "lib/sandbox/sandbox.h"
#include "probe/blob.h"
#include "probe/transfer.h"

enum { MEMORY_MIB = 768, FOR_EVER_MS = 1000 * 1000, TRIM_MS = 200 };

static struct wire wire;

static void say_ready(const char *cage)
{
	wire_begin(&wire, PROBE_READY);
	wire_text(&wire, cage);
	wire_text(&wire, transfer_library());
	wire_end(&wire);
}

static bool take(struct wire_frame *frame)
{
	uint64_t id;
	size_t len;
	const char *text;
	switch (frame->type) {
	case PROBE_BLOB:
		id = wire_get_number(frame);
		text = wire_get_bytes(frame, &len);
		blob_add(id, text, len);
		break;
	case PROBE_FORGET:
		blob_forget();
		break;
	case PROBE_ASK:
		transfer_start(frame);
		break;
	case PROBE_PING:
		wire_begin(&wire, PROBE_PONG);
		wire_end(&wire);
		break;
	default:
		return false;
	}
	return !frame->bad;
}

static void take_all(void)
{
	struct wire_frame frame;
	size_t used = 0;
	int got;
	if (wire_receive(&wire) < 0) {
		_exit(0);
	}
	while ((got = wire_next(&wire, &used, &frame)) > 0) {
		if (!take(&frame)) {
			exit(EXIT_FAILURE);
		}
	}
	if (got < 0) {
		exit(EXIT_FAILURE);
	}
	wire_consume(&wire, used);
}

/* The end of the agent is ours. */
static void flush(void)
{
	wire_flush(&wire);
	if (wire_is_gone(&wire)) {
		_exit(0);
	}
}

/* Each connection has pages of its own, and a burst of them would stay for good. */
static void trim(void)
{
	static int64_t trimmed_ms;
	int64_t now = clock_monotonic_ms();
	if (now - trimmed_ms >= TRIM_MS) {
		trimmed_ms = now;
		memory_trim();
	}
}

static _Noreturn void serve(void)
{
	for (;;) {
		struct curl_waitfd fd = { .fd = LOOKER_CHILD_FD, .events = CURL_WAIT_POLLIN };
		if (curl_multi_poll(transfer_multi(), &fd, 1, FOR_EVER_MS, NULL) != CURLM_OK) {
			exit(EXIT_FAILURE);
		}
		if (fd.revents) {
			take_all();
		}
		transfer_go_on();
		flush();
		trim();
	}
}

int main(int argc, char **argv)
{
	static const struct sandbox_profile profile = {
		.rights = SANDBOX_CONNECT_TCP | SANDBOX_ANY_PORT, .memory_mib = MEMORY_MIB
	};
	char cage[SANDBOX_WORDS_BYTES];
	(void)argc;
	if (!looker_child_begin(PROBE_PROGRAM)) {
		fprintf(stderr, "%s: started by berthd, not by hand\n", argv[0]);
		return 2;
	}
	memory_init();
	wire_init(&wire, LOOKER_CHILD_FD);
	if (transfer_init(&wire) != 0) {
		return EXIT_FAILURE;
	}
	sandbox_enter(&profile, cage);
	forget_code();
	say_ready(cage);
	flush();
	serve();
}
