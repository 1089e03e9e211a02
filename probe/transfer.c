#include "probe/transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buffer.h"
#include "lib/base/list.h"
#include "lib/base/text.h"
#include "lib/program/memory.h"
#include "probe/blob.h"
#include "probe/health.h"
#include "probe/reason.h"

enum {
	HEAD_MAX_BYTES = 64 * 1024, /* header fields and trailers that are read at all */
	REST_MAX_BYTES = 64 * 1024, /* behind the verdict */
	RESTS_MAX = 64,             /* transfers that read on; the oldest gives way */
	READ_BYTES = 4 * 1024
};

struct transfer {
	struct list link; /* of those that read on */
	CURL *curl;
	uint64_t id;
	unsigned flags;
	long timeout_ms;
	struct blob *blobs[3]; /* authorities, certificate, key */
	char *name;
	char *service;
	struct curl_slist *addresses;
	struct curl_slist *fields;
	struct buffer sent; /* the request's body */
	struct buffer head; /* lines of the answer that the agent wants to see */
	struct buffer body;
	struct health health;
	size_t head_bytes;
	size_t rest_bytes;
	bool has_head;
	bool answered;
	bool endless_head;
	char error[CURL_ERROR_SIZE];
};

static struct wire *agent;
static CURLM *multi;
static struct list resting;
static size_t resting_count;

int transfer_init(struct wire *wire)
{
	agent = wire;
	list_init(&resting);
	multi = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_multi_init() : NULL;
	if (!multi) {
		return -1;
	}
	curl_multi_setopt(multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
	curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, 1L);
	return 0;
}

CURLM *transfer_multi(void)
{
	return multi;
}

const char *transfer_library(void)
{
	return curl_version();
}

static void rest_no_more(struct transfer *transfer)
{
	list_remove(&transfer->link);
	resting_count--;
	transfer->answered = false;
}

static void finish(struct transfer *transfer)
{
	if (transfer->curl) {
		curl_multi_remove_handle(multi, transfer->curl);
		curl_easy_cleanup(transfer->curl);
	}
	if (transfer->answered) {
		rest_no_more(transfer);
	}
	for (size_t i = 0; i < 3; i++) {
		blob_unref(transfer->blobs[i]);
	}
	curl_slist_free_all(transfer->addresses);
	curl_slist_free_all(transfer->fields);
	buffer_finish(&transfer->sent);
	buffer_finish(&transfer->head);
	buffer_finish(&transfer->body);
	free(transfer->name);
	free(transfer->service);
	free(transfer);
}

/* ---- the answer to the agent ---- */

static void answer(struct transfer *transfer, enum probe_outcome outcome, const char *reason)
{
	long status = 0;
	curl_off_t passed_us = 0;
	curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(transfer->curl, CURLINFO_TOTAL_TIME_T, &passed_us);
	wire_begin(agent, PROBE_ANSWER);
	wire_number(agent, transfer->id);
	wire_number(agent, outcome);
	wire_number(agent, (uint64_t)status);
	wire_number(agent, (uint64_t)passed_us / 1000);
	wire_text(agent, reason);
	wire_bytes(agent, buffer_text(&transfer->head), transfer->head.len);
	wire_bytes(agent, buffer_text(&transfer->body), transfer->body.len);
	wire_end(agent);
	transfer->answered = true;
	list_append(&resting, &transfer->link);
	resting_count++;
}

/* The oldest one that reads on goes, while there are too many; never from within libcurl. */
static void bound_resting(void)
{
	if (resting_count > RESTS_MAX) {
		struct transfer *oldest = LIST_ITEM(resting.next, struct transfer, link);
		rest_no_more(oldest);
		finish(oldest);
	}
}

static void answer_grpc(struct transfer *transfer)
{
	char words[HEALTH_WORDS_BYTES];
	long version = 0;
	long status = 0;
	curl_easy_getinfo(transfer->curl, CURLINFO_HTTP_VERSION, &version);
	curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
	if (version != CURL_HTTP_VERSION_2_0) {
		text_printf(words, sizeof(words),
			"the server does not offer HTTP/2: name the port of a gRPC server in "
			"`target`");
	} else if (status != 200) {
		text_printf(words, sizeof(words),
			"status %ld, not one of gRPC: name the port of a gRPC server in `target`",
			status);
	} else if (health_judge(&transfer->health, transfer->service, words)) {
		answer(transfer, PROBE_PASSING, words);
		return;
	}
	answer(transfer, PROBE_FAILING, words);
}

static bool is_late(const struct transfer *transfer, CURLcode code)
{
	return code == CURLE_OPERATION_TIMEDOUT && !transfer->answered;
}

static void on_end(struct transfer *transfer, CURLcode code)
{
	char words[REASON_BYTES] = "";
	bool grpc = transfer->flags & PROBE_GRPC;
	const struct reason_of of = { .curl = transfer->curl,
		.code = code,
		.error = *transfer->error ? transfer->error : curl_easy_strerror(code),
		.name = transfer->name,
		.tls = transfer->flags & PROBE_TLS,
		.grpc = grpc,
		.has_certificate = transfer->blobs[1],
		.timeout_ms = transfer->timeout_ms };
	if (transfer->answered) {
		return;
	}
	if (transfer->endless_head) {
		answer(transfer, PROBE_FAILING,
			"the answer's header fields are longer than 64 KiB: see the server");
	} else if (grpc && (code == CURLE_OK || transfer->health.wrong)) {
		answer_grpc(transfer);
	} else if (code == CURLE_OK || transfer->has_head) {
		/* The agent may need the head alone. */
		reason_write(&of, words);
		answer(transfer, PROBE_STATUS, code == CURLE_OK ? "" : words);
	} else {
		reason_write(&of, words);
		answer(transfer, is_late(transfer, code) ? PROBE_TIMED_OUT : PROBE_FAILING, words);
	}
}

void transfer_go_on(void)
{
	int running;
	int left;
	const CURLMsg *message;
	curl_multi_perform(multi, &running);
	while ((message = curl_multi_info_read(multi, &left)) != NULL) {
		if (message->msg == CURLMSG_DONE) {
			CURLcode code = message->data.result;
			struct transfer *transfer;
			curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
			on_end(transfer, code);
			finish(transfer);
		}
	}
	bound_resting();
}

/* ---- what the server sends ---- */

static void end_head(struct transfer *transfer)
{
	transfer->has_head = true;
	if (!(transfer->flags & (PROBE_GRPC | PROBE_WANTS_BODY))) {
		answer(transfer, PROBE_STATUS, "");
	}
}

/* Status lines, header fields, the empty line behind them, and trailers, one at a time. */
static size_t on_field(char *line, size_t size, size_t len, void *context)
{
	struct transfer *transfer = context;
	len *= size;
	transfer->head_bytes += len;
	transfer->endless_head = transfer->head_bytes > HEAD_MAX_BYTES;
	if (transfer->endless_head) {
		return 0;
	}
	if (transfer->flags & PROBE_GRPC) {
		health_take_field(&transfer->health, line, len);
		return len;
	}
	long status = 0;
	curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
	if (transfer->has_head || status < 200) { /* trailers, interim answers */
		return len;
	}
	if (len <= 2) {
		end_head(transfer);
	} else if (transfer->flags & PROBE_WANTS_FIELDS && strncmp(line, "HTTP/", 5) != 0) {
		buffer_append(&transfer->head, line, len);
	}
	return len;
}

static size_t on_body(char *bytes, size_t size, size_t len, void *context)
{
	struct transfer *transfer = context;
	len *= size;
	if (transfer->flags & PROBE_GRPC) {
		return health_take(&transfer->health, bytes, len) ? len : 0;
	}
	if (!transfer->answered) {
		size_t room = transfer->body.max - transfer->body.len;
		buffer_append(&transfer->body, bytes, len < room ? len : room);
		if (len < room) {
			return len;
		}
		answer(transfer, PROBE_STATUS, "");
	}
	transfer->rest_bytes += len;
	return transfer->rest_bytes > REST_MAX_BYTES ? 0 : len;
}

/* ---- the question ---- */

static struct curl_slist *append_line(struct curl_slist *lines, const char *line)
{
	return memory_must(curl_slist_append(lines, line));
}

/* The lines of the agent; what libcurl would add by itself is left out. */
static void set_fields(struct transfer *transfer, const char *lines)
{
	char *copy = memory_text(lines, strlen(lines));
	char *rest = copy;
	bool has_type = false;
	for (char *line; (line = strsep(&rest, "\r\n")) != NULL;) {
		if (*line) {
			transfer->fields = append_line(transfer->fields, line);
			has_type |= strncasecmp(line, "Content-Type:", 13) == 0;
		}
	}
	free(copy);
	transfer->fields = append_line(transfer->fields, "Expect:");
	if (!has_type) {
		transfer->fields = append_line(transfer->fields, "Content-Type:");
	}
	curl_easy_setopt(transfer->curl, CURLOPT_HTTPHEADER, transfer->fields);
}

static void set_blob(struct transfer *transfer, CURLoption option, const struct blob *blob)
{
	if (blob) {
		struct curl_blob pem = {
			.data = blob->text, .len = blob->len, .flags = CURL_BLOB_NOCOPY
		};
		curl_easy_setopt(transfer->curl, option, &pem);
	}
}

static void set_tls(struct transfer *transfer)
{
	CURL *curl = transfer->curl;
	long verify = transfer->flags & PROBE_VERIFY ? 1 : 0;
	curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, verify);
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 2 * verify);
	/* A session of an earlier check would hide that the certificate has expired. */
	curl_easy_setopt(curl, CURLOPT_SSL_SESSIONID_CACHE, 0L);
	curl_easy_setopt(curl, CURLOPT_CAINFO, NULL);
	curl_easy_setopt(curl, CURLOPT_CAPATH, NULL);
	curl_easy_setopt(curl, CURLOPT_SSLCERTTYPE, "PEM");
	curl_easy_setopt(curl, CURLOPT_SSLKEYTYPE, "PEM");
	set_blob(transfer, CURLOPT_CAINFO_BLOB, transfer->blobs[0]);
	set_blob(transfer, CURLOPT_SSLCERT_BLOB, transfer->blobs[1]);
	set_blob(transfer, CURLOPT_SSLKEY_BLOB, transfer->blobs[2]);
}

static void set_target(
	struct transfer *transfer, const char *port, const char *addresses, const char *path)
{
	struct buffer text;
	bool ipv6 = strchr(transfer->name, ':') != NULL;
	buffer_init(&text, 16 * 1024);
	buffer_printf(&text, "%s:%s:%s", transfer->name, port, addresses);
	if (!ipv6) { /* an address is its own */
		transfer->addresses = append_line(NULL, buffer_text(&text));
		curl_easy_setopt(transfer->curl, CURLOPT_RESOLVE, transfer->addresses);
	}
	buffer_clear(&text);
	buffer_printf(&text, "http%s://%s%s%s:%s%s", transfer->flags & PROBE_TLS ? "s" : "",
		ipv6 ? "[" : "", transfer->name, ipv6 ? "]" : "", port, path);
	curl_easy_setopt(transfer->curl, CURLOPT_URL, buffer_text(&text));
	buffer_finish(&text);
}

static void set_request(struct transfer *transfer, const char *method)
{
	CURL *curl = transfer->curl;
	bool grpc = transfer->flags & PROBE_GRPC;
	bool tls = transfer->flags & PROBE_TLS;
	curl_easy_setopt(curl, CURLOPT_HTTP_VERSION,
		(long)(tls ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE));
	if (grpc || transfer->sent.len > 0) {
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)transfer->sent.len);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, buffer_text(&transfer->sent));
	}
	if (strcmp(method, "HEAD") == 0) {
		curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
	} else if (!grpc) {
		curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
	}
}

static void set_common(struct transfer *transfer)
{
	CURL *curl = transfer->curl;
	curl_easy_setopt(curl, CURLOPT_PRIVATE, transfer);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, transfer->error);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
	curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(curl, CURLOPT_HTTP09_ALLOWED, 0L);
	curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, (long)READ_BYTES);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, transfer->timeout_ms);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, transfer->timeout_ms);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_field);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, transfer);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
}

void transfer_start(struct wire_frame *frame)
{
	struct transfer *transfer = memory_zeroed(1, sizeof(*transfer));
	transfer->curl = memory_must(curl_easy_init());
	transfer->id = wire_get_number(frame);
	transfer->flags = (unsigned)wire_get_number(frame);
	transfer->timeout_ms = (long)wire_get_number(frame);
	for (size_t i = 0; i < 3; i++) {
		transfer->blobs[i] = blob_get(wire_get_number(frame));
	}
	const char *port = wire_get_text(frame);
	const char *addresses = wire_get_text(frame);
	const char *name = wire_get_text(frame);
	const char *method = wire_get_text(frame);
	const char *path = wire_get_text(frame);
	const char *fields = wire_get_text(frame);
	const char *body = wire_get_text(frame);
	buffer_init(&transfer->sent, PROBE_FIELDS_BYTES);
	buffer_init(&transfer->head, PROBE_FIELDS_BYTES);
	buffer_init(&transfer->body, PROBE_BODY_BYTES);
	transfer->name = memory_text(name, strlen(name));
	transfer->service = memory_text(body, strlen(body));
	if (transfer->flags & PROBE_GRPC) {
		path = HEALTH_PATH;
		health_write(&transfer->sent, body);
	} else {
		buffer_append_text(&transfer->sent, body);
	}
	set_common(transfer);
	set_target(transfer, port, addresses, path);
	set_request(transfer, method);
	set_fields(transfer, fields);
	if (transfer->flags & PROBE_TLS) {
		set_tls(transfer);
	}
	if (frame->bad || curl_multi_add_handle(multi, transfer->curl) != CURLM_OK) {
		answer(transfer, PROBE_COULD_NOT, "berth-probe cannot begin: restart the agent");
		finish(transfer);
	}
}
