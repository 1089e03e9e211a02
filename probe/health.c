#include "probe/health.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"

enum {
	FIELD_SERVICE = 1,
	FIELD_STATUS = 1,
	WIRE_VARINT = 0,
	WIRE_64 = 1,
	WIRE_LEN = 2,
	WIRE_32 = 5
};
enum { UNKNOWN, SERVING, NOT_SERVING, SERVICE_UNKNOWN };
enum { STATUS_NOT_FOUND = 5, STATUS_UNIMPLEMENTED = 12, STATUS_COUNT = 17 };

static const char *const status_names[STATUS_COUNT] = { "OK", "CANCELLED", "UNKNOWN",
	"INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
	"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED" };

static size_t put_varint(unsigned char *out, size_t value)
{
	size_t len = 0;
	for (; value >= 0x80; value >>= 7) {
		out[len++] = (unsigned char)(value | 0x80);
	}
	out[len++] = (unsigned char)value;
	return len;
}

void health_write(struct buffer *out, const char *service)
{
	size_t service_len = strlen(service);
	unsigned char head[16] = { FIELD_SERVICE << 3 | WIRE_LEN };
	size_t head_len = service_len > 0 ? 1 + put_varint(head + 1, service_len) : 0;
	size_t len = head_len + service_len;
	const unsigned char frame[HEALTH_FRAME_BYTES] = { 0, (unsigned char)(len >> 24),
		(unsigned char)(len >> 16), (unsigned char)(len >> 8), (unsigned char)len };
	buffer_append(out, frame, sizeof(frame));
	buffer_append(out, head, head_len);
	buffer_append(out, service, service_len);
}

static uint32_t message_len(const struct health *health)
{
	const unsigned char *at = health->bytes + 1;
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

bool health_take(struct health *health, const char *bytes, size_t len)
{
	size_t room = sizeof(health->bytes) - health->len;
	size_t taken = len < room ? len : room;
	memcpy(health->bytes + health->len, bytes, taken);
	health->len += taken;
	if (health->len >= HEALTH_FRAME_BYTES && message_len(health) > HEALTH_MESSAGE_BYTES) {
		health->wrong =
			"its message is longer than any of the health service: does `target` "
			"name the port of a gRPC server?";
	} else if (health->len > 0 && health->bytes[0] != 0) {
		health->wrong =
			"its message is compressed, which nobody asked for: turn that off for "
			"the health service";
	} else if (taken < len ||
		(health->len > HEALTH_FRAME_BYTES &&
			health->len - HEALTH_FRAME_BYTES > message_len(health))) {
		health->wrong = "it has more than one message: is the method of the health service "
				"Check, and not Watch?";
	}
	return !health->wrong;
}

/* The value in a line of this name; NULL: it has another one. */
static const char *value_of(const char *line, size_t *len, const char *name)
{
	size_t name_len = strlen(name);
	if (*len < name_len || strncasecmp(line, name, name_len) != 0) {
		return NULL;
	}
	const char *end = line + *len;
	for (line += name_len; line < end && *line == ' '; line++) {
	}
	while (line < end && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' ')) {
		end--;
	}
	*len = (size_t)(end - line);
	return line;
}

void health_take_field(struct health *health, const char *line, size_t len)
{
	enum { DIGITS = 4 };
	size_t status_len = len;
	const char *status = value_of(line, &status_len, "grpc-status:");
	const char *message = value_of(line, &len, "grpc-message:");
	if (status && status_len > 0 && status_len < DIGITS) {
		char digits[DIGITS] = "";
		memcpy(digits, status, status_len);
		health->has_status = true;
		health->status = atoi(digits);
	} else if (message) {
		text_printf(health->message, sizeof(health->message), "%.*s", (int)len, message);
	}
}

/* ---- judging ---- */

static bool get_varint(const unsigned char **at, const unsigned char *end, uint64_t *ret_value)
{
	uint64_t value = 0;
	for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
		unsigned char byte = *(*at)++;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret_value = value;
			return true;
		}
	}
	return false;
}

/* ServingStatus of the message, UNKNOWN when it is absent; -1: they are not a message. */
static int64_t serving_status(const unsigned char *at, const unsigned char *end)
{
	uint64_t status = UNKNOWN;
	while (at < end) {
		uint64_t key;
		uint64_t value = 0;
		if (!get_varint(&at, end, &key)) {
			return -1;
		}
		unsigned wire = key & 7;
		bool good = wire == WIRE_VARINT || wire == WIRE_LEN ? get_varint(&at, end, &value)
								    : true;
		size_t skip = wire == WIRE_64 ? 8
			: wire == WIRE_32     ? 4
			: wire == WIRE_LEN    ? (value < SIZE_MAX ? (size_t)value : SIZE_MAX)
					      : 0;
		good = good &&
			(wire == WIRE_VARINT || wire == WIRE_64 || wire == WIRE_LEN ||
				wire == WIRE_32);
		if (!good || skip > (size_t)(end - at)) {
			return -1;
		}
		at += skip;
		if (key == (FIELD_STATUS << 3 | WIRE_VARINT)) {
			status = value;
		}
	}
	return status <= INT32_MAX ? (int64_t)status : -1;
}

static void say_status(const struct health *health, const char *service, char *out)
{
	int status = health->status;
	if (status == STATUS_UNIMPLEMENTED) {
		text_printf(out, HEALTH_WORDS_BYTES,
			"the server has no health service: register grpc.health.v1.Health there, "
			"or use type = tcp");
	} else if (status == STATUS_NOT_FOUND) {
		text_printf(out, HEALTH_WORDS_BYTES,
			"the health service does not know \"%s\": register it there, or "
			"correct `service`",
			service);
	} else {
		text_printf(out, HEALTH_WORDS_BYTES, "the call ends with gRPC status %d%s%s%s%s",
			status, status > 0 && status < STATUS_COUNT ? " " : "",
			status > 0 && status < STATUS_COUNT ? status_names[status] : "",
			*health->message ? ": " : ", see the server's log", health->message);
	}
}

bool health_judge(const struct health *health, const char *service, char out[HEALTH_WORDS_BYTES])
{
	size_t len = health->len >= HEALTH_FRAME_BYTES ? message_len(health) : 0;
	const unsigned char *message = health->bytes + HEALTH_FRAME_BYTES;
	if (health->wrong) {
		text_printf(out, HEALTH_WORDS_BYTES, "the answer is refused, %s", health->wrong);
		return false;
	}
	if (!health->has_status) {
		text_printf(out, HEALTH_WORDS_BYTES,
			"the answer has no gRPC status: name a gRPC server's port in `target`");
		return false;
	}
	if (health->status != 0) {
		say_status(health, service, out);
		return false;
	}
	int64_t serving = health->len == HEALTH_FRAME_BYTES + len && health->len > 0
		? serving_status(message, message + len)
		: -1;
	switch (serving) {
	case SERVING:
		text_printf(out, HEALTH_WORDS_BYTES, "SERVING");
		return true;
	case NOT_SERVING:
		text_printf(out, HEALTH_WORDS_BYTES,
			"NOT_SERVING: so the application says of \"%s\"", service);
		return false;
	case UNKNOWN:
		text_printf(out, HEALTH_WORDS_BYTES,
			"UNKNOWN: the application has not set the status of \"%s\" yet", service);
		return false;
	case SERVICE_UNKNOWN:
		text_printf(out, HEALTH_WORDS_BYTES,
			"SERVICE_UNKNOWN: register \"%s\" with the health service, or correct "
			"`service`",
			service);
		return false;
	default:
		text_printf(out, HEALTH_WORDS_BYTES,
			"the answer is not a HealthCheckResponse: register "
			"grpc.health.v1.Health there, and no other under its name");
		return false;
	}
}
