#include "tests/sim/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/path.h"
#include "lib/http/reader.h"
#include "tests/sim/addresses.h"
#include "tests/sim/answers.h"
#include "tests/sim/process.h"
#include "tests/sim/reader.h"
#include "tests/sim/sim.h"

enum {
	MOST_WAITING = 6,
	MOST_PAUSE_MS = 8000,
	MOST_CALM_PAUSE_MS = 120000,
	HEARING_PERCENT = 50,
	PATIENCE_MS = 2000, /* with a registry that does not answer */
	MOST_BODY = 1 << 20,
	PIECE = 16384
};

/* A connection to the agent. */
struct line {
	int fd; /* -1: none */
	struct http_reader reader;
	struct buffer body;
};

struct lookup {
	const char *path;
	enum answer_kind kind;
	int64_t asked_ms;
	bool calm; /* when it was asked */
};

struct client {
	int agent;
	const struct world *world;
	struct sim_random random;
	struct sockaddr_un address;
	bool calm;
	int64_t due_ms;
	struct line lookups;
	struct lookup waiting[MOST_WAITING]; /* in the order of their answers */
	size_t waiting_count;
	struct line stream;
	bool stream_ready;
	int64_t stale_ms; /* since then the stream is stale; 0: it is not */
	json_t *replayed; /* path -> record, or null */
	unsigned long long sequence;
	struct line order;
	int order_status; /* as client_order_status() says */
	struct answers answers;
	struct reader *reader; /* of the map; or NULL */
};

/* ---- connections ---- */

static void hang_up(struct line *line)
{
	if (line->fd >= 0) {
		close(line->fd);
		http_reader_finish(&line->reader);
		buffer_finish(&line->body);
		line->fd = -1;
	}
}

static bool dial(const struct client *client, struct line *line)
{
	line->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	http_reader_init(&line->reader, HTTP_ANSWER);
	buffer_init(&line->body, MOST_BODY);
	const struct sockaddr *address = (const struct sockaddr *)&client->address;
	if (connect(line->fd, address, sizeof(client->address))) {
		hang_up(line);
		return false;
	}
	return true;
}

static bool send_text(struct line *line, const char *text)
{
	return send(line->fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

/* ---- look-ups ---- */

static void take_answer(struct client *client)
{
	struct line *line = &client->lookups;
	if (client->waiting_count == 0) {
		sim_fail("agent %d answers without a request", client->agent);
		return;
	}
	const struct lookup *lookup = &client->waiting[0];
	answers_check(&client->answers, lookup->kind, lookup->path, lookup->asked_ms,
		lookup->calm && client->calm, &line->reader, buffer_text(&line->body));
	memmove(&client->waiting[0], &client->waiting[1],
		--client->waiting_count * sizeof(client->waiting[0]));
	http_reader_restart(&line->reader);
	buffer_clear(&line->body);
}

static void take_answers(struct client *client, const char *data, size_t len)
{
	struct line *line = &client->lookups;
	struct err err = ERR_INIT;
	size_t used;
	while (len > 0) {
		if (http_reader_feed(&line->reader, data, len, &line->body, &used, &err)) {
			sim_fail("agent %d: no answer: %s", client->agent, err.msg);
			return;
		}
		data += used;
		len -= used;
		if (line->reader.state == HTTP_READER_DONE) {
			take_answer(client);
		}
	}
}

static void drop_lookups(struct client *client)
{
	answers_count_failures(client->waiting_count);
	client->waiting_count = 0;
	hang_up(&client->lookups);
}

static void ask(struct client *client, const char *path, enum answer_kind kind)
{
	char text[512];
	client->waiting[client->waiting_count++] = (struct lookup){ path, kind, sim_now_ms(),
		client->calm };
	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: a\r\n%s%s\r\n",
		answers_target(kind, path),
		sim_chance(&client->random, 5) ? "Cache-Control: no-cache\r\n" : "",
		reader_wants(client->reader) ? "Prefer: shared\r\n" : "");
	if (!send_text(&client->lookups, text)) {
		drop_lookups(client);
	}
}

static bool may_ask(const struct client *client)
{
	return client->waiting_count < MOST_WAITING && client->lookups.fd >= 0;
}

/*
 * Of 75 look-ups 16 are for all records of a directory, one is for the status, four are for a name,
 * and six for sets.
 */
static void ask_some(struct client *client)
{
	struct sim_random *random = &client->random;
	for (uint64_t more = 1 + sim_below(random, 3); more > 0 && may_ask(client); more--) {
		uint64_t draw = sim_below(random, 75);
		if (draw >= 69) {
			ask(client, NULL, ANSWER_SET_OF_NAME + draw % 3);
		} else if (draw >= 64) {
			ask(client, NULL, draw == 64 ? ANSWER_STATUS : ANSWER_NAME);
		} else if (draw < 16) {
			ask(client, answers_directories[draw % ANSWER_DIRECTORIES], ANSWER_RECORDS);
		} else {
			ask(client, answers_paths[sim_below(random, ORDER_PATHS)],
				draw < 40 ? ANSWER_RECORD : ANSWER_LIST);
		}
	}
}

void client_hear(void *context, const char *path)
{
	struct client *client = context;
	const char *asked = answers_path(path);
	if (asked && may_ask(client) && sim_chance(&client->random, HEARING_PERCENT)) {
		enum answer_kind kind = sim_chance(&client->random, 50) ? ANSWER_RECORD
									: ANSWER_LIST;
		bool all = answers_is_directory(asked) && sim_chance(&client->random, 50);
		ask(client, asked, all ? ANSWER_RECORDS : kind);
	}
}

/* ---- the stream ---- */

/* The next one begins soon, however calm it was. */
static void end_stream(struct client *client)
{
	int64_t soon_ms = sim_now_ms() + MOST_PAUSE_MS;
	client->due_ms = client->due_ms < soon_ms ? client->due_ms : soon_ms;
	hang_up(&client->stream);
	json_decref(client->replayed);
	client->replayed = NULL;
	client->stream_ready = false;
	client->stale_ms = 0;
}

static void begin_stream(struct client *client)
{
	if (!dial(client, &client->stream)) {
		return;
	}
	client->replayed = json_object();
	client->sequence = 0;
	if (!send_text(&client->stream,
		    "GET /v1/watch/users?recursive=yes HTTP/1.1\r\nHost: a\r\n"
		    "Accept: application/x-ndjson\r\n\r\n")) {
		end_stream(client);
	}
}

/*
 * The changes of the meantime come before a stream is fresh again: each path that it has or lacks
 * is as it was at a time within `confirm`, or later than when the stream became stale. Before that
 * the agent may have waited for the registry.
 */
static void check_fresh(const struct client *client)
{
	int64_t not_before_ms = sim_now_ms() - ANSWERS_CONFIRM_MS;
	if (client->stale_ms - PATIENCE_MS < not_before_ms) {
		not_before_ms = client->stale_ms - PATIENCE_MS;
	}
	for (size_t i = 0; i < ORDER_PATHS; i++) {
		const char *path = answers_paths[i];
		const json_t *record = json_object_get(client->replayed, path);
		if (path_is_under(path, "/users") &&
			world_last_record_ms(client->world, path, record) < not_before_ms) {
			sim_fail("the stream of agent %d is fresh again, and %s %s", client->agent,
				record ? "not" : "lacks", path);
		}
	}
}

static void take_freshness(struct client *client, const char *type)
{
	bool stale = strcmp(type, "STALE") == 0;
	bool fresh = strcmp(type, "FRESH") == 0;
	if ((stale && client->stale_ms) || (fresh && !client->stale_ms)) {
		sim_fail("the stream of agent %d says %s twice", client->agent, type);
	} else if (fresh) {
		check_fresh(client);
	}
	client->stale_ms = stale ? sim_now_ms() : fresh ? 0 : client->stale_ms;
}

static void take_event(struct client *client, const char *line)
{
	json_t *event = json_loads(line, 0, NULL);
	const char *type = json_string_value(json_object_get(event, "type"));
	const char *path = json_string_value(json_object_get(event, "path"));
	json_t *snapshot = json_object_get(event, "snapshot");
	const char *name;
	json_t *record;
	if (!type ||
		(unsigned long long)json_integer_value(json_object_get(event, "sequence")) !=
			++client->sequence) {
		sim_fail("agent %d: an event out of order: %s", client->agent, line);
		json_decref(event);
		return;
	}
	sim_trace("agent %d: event: %s %s", client->agent, type, path ? path : "");
	take_freshness(client, type);
	if (snapshot) {
		client->stream_ready = true;
		json_object_clear(client->replayed);
		json_object_foreach (snapshot, name, record) {
			json_object_set(client->replayed, name, record);
			reader_hear(client->reader, name, record);
		}
	} else if (strcmp(type, "UPDATED") == 0) {
		json_object_set(client->replayed, path, json_object_get(event, "record"));
		reader_hear(client->reader, path, json_object_get(event, "record"));
	} else if (strcmp(type, "DELETED") == 0) {
		json_object_del(client->replayed, path);
		reader_hear(client->reader, path, NULL);
	}
	json_decref(event);
}

static void take_events(struct client *client, const char *data, size_t len)
{
	struct line *line = &client->stream;
	const char *end = data + len;
	enum http_event event;
	while ((event = http_reader_next(&line->reader, &data, end)) != HTTP_EVENT_MORE) {
		if (event == HTTP_EVENT_BODY) {
			buffer_append(&line->body, line->reader.body, line->reader.body_len);
		} else if (event == HTTP_EVENT_END || event == HTTP_EVENT_REFUSED) {
			end_stream(client); /* and tries again */
			return;
		}
	}
	if (line->reader.status != 200) {
		return;
	}
	const char *line_end;
	while (line->body.len > 0 && (line_end = memchr(line->body.data, '\n', line->body.len))) {
		char *text = strndup(line->body.data, (size_t)(line_end - line->body.data));
		buffer_consume(&line->body, strlen(text) + 1);
		if (*text) {
			take_event(client, text);
		}
		free(text);
	}
}

/* ---- orders ---- */

static void end_order(struct client *client, int status)
{
	client->order_status = status;
	hang_up(&client->order);
}

static void take_order_answer(struct client *client, const char *data, size_t len)
{
	struct line *line = &client->order;
	struct err err = ERR_INIT;
	size_t used;
	if (http_reader_feed(&line->reader, data, len, &line->body, &used, &err)) {
		sim_fail("agent %d: no answer to an order: %s", client->agent, err.msg);
	} else if (line->reader.state == HTTP_READER_DONE) {
		end_order(client, line->reader.status);
	}
}

bool client_order(struct client *client, const char *request)
{
	if (client->order.fd >= 0 || !dial(client, &client->order)) {
		return false;
	}
	client->order_status = 0;
	if (!send_text(&client->order, request)) {
		end_order(client, -1);
	}
	return true;
}

int client_order_status(struct client *client)
{
	int status = client->order_status;
	client->order_status = 0;
	return status;
}

/* ---- all of them ---- */

/* False when the agent has closed the connection. */
static bool read_line(struct client *client, struct line *line,
	void (*take)(struct client *client, const char *data, size_t len))
{
	static char piece[PIECE];
	while (line->fd >= 0) {
		ssize_t len = recv(line->fd, piece, sizeof(piece), 0);
		if (len < 0 && errno == EAGAIN) {
			return true;
		}
		if (len <= 0) {
			return false;
		}
		take(client, piece, (size_t)len);
		if ((size_t)len < sizeof(piece)) {
			return true;
		}
	}
	return true;
}

void client_hear_write(struct client *client, int fd)
{
	if (client->reader && client->stream.fd == fd &&
		!read_line(client, &client->stream, take_events)) {
		end_stream(client);
	}
}

void client_look(struct client *client)
{
	reader_look(client->reader);
}

void client_receive(struct client *client)
{
	reader_receive(client->reader);
	if (!read_line(client, &client->lookups, take_answers)) {
		drop_lookups(client);
	}
	if (!read_line(client, &client->stream, take_events)) {
		end_stream(client);
	}
	if (!read_line(client, &client->order, take_order_answer)) {
		end_order(client, -1);
	}
}

void client_step(struct client *client, struct process *agent, bool calm)
{
	client->calm = calm;
	reader_step(client->reader, agent, calm);
	if (!agent || sim_now_ms() < client->due_ms) {
		return;
	}
	client->due_ms = sim_now_ms() + 1 +
		(int64_t)sim_below(&client->random, calm ? MOST_CALM_PAUSE_MS : MOST_PAUSE_MS);
	if (client->lookups.fd < 0 && !dial(client, &client->lookups)) {
		return;
	}
	ask_some(client);
	if (client->stream.fd < 0) {
		begin_stream(client);
	}
	process_wake(agent);
}

void client_disconnect(struct client *client, bool retires)
{
	reader_lose(client->reader, retires);
	answers_forget(&client->answers);
	drop_lookups(client);
	end_stream(client);
	if (client->order.fd >= 0) {
		end_order(client, -1);
	}
}

int64_t client_due_ms(const struct client *client)
{
	int64_t reader_ms = reader_due_ms(client->reader);
	return client->due_ms < reader_ms ? client->due_ms : reader_ms;
}

bool client_waits(const struct client *client)
{
	return client->waiting_count > 0;
}

/* ---- for the oracle ---- */

json_t *client_ask(struct client *client, struct process *agent, const char *target,
	json_t *(*read)(const char *body))
{
	struct line line = { .fd = -1 };
	struct err err = ERR_INIT;
	char text[512];
	static char piece[PIECE];
	json_t *answer = NULL;
	if (!dial(client, &line)) {
		return NULL;
	}
	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", target);
	if (!send_text(&line, text)) {
		hang_up(&line);
	}
	bool done = false;
	for (int turns = 0; turns < 3 && line.fd >= 0 && !done; turns++) {
		size_t used;
		ssize_t len;
		process_wake(agent);
		process_run(agent);
		while ((len = recv(line.fd, piece, sizeof(piece), 0)) > 0 &&
			http_reader_feed(
				&line.reader, piece, (size_t)len, &line.body, &used, &err) == 0) {
		}
		done = line.reader.state == HTTP_READER_DONE;
	}
	if (done && read) {
		answer = read(buffer_text(&line.body));
	}
	hang_up(&line);
	process_wake(agent); /* the connection has ended */
	return answer;
}

struct answers *client_answers(struct client *client)
{
	return &client->answers;
}

bool client_stream_stale(const struct client *client)
{
	return client->stale_ms != 0;
}

bool client_stream_ready(const struct client *client)
{
	return client->stream_ready;
}

size_t client_stream_count(const struct client *client)
{
	return json_object_size(client->replayed);
}

const json_t *client_stream_record(const struct client *client, const char *path)
{
	return json_object_get(client->replayed, path);
}

/* ---- creation ---- */

struct client *client_begin(const struct world *world, int agent, uint64_t seed, const char *path)
{
	struct client *client = calloc(1, sizeof(*client));
	client->agent = agent;
	client->world = world;
	client->lookups.fd = -1;
	client->stream.fd = -1;
	client->order.fd = -1;
	answers_init(&client->answers, world, agent);
	client->address.sun_family = AF_UNIX;
	snprintf(client->address.sun_path, sizeof(client->address.sun_path), "%s", path);
	sim_random_init(&client->random, seed, 200 + (uint64_t)agent);
	client->reader = sim_has_readers() ? reader_create(&client->answers, seed, &client->address)
					   : NULL;
	return client;
}

void client_destroy(struct client *client)
{
	client_disconnect(client, false);
	reader_destroy(client->reader);
	answers_finish(&client->answers);
	free(client);
}
