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
#include "tests/sim/order.h"
#include "tests/sim/process.h"
#include "tests/sim/sim.h"

enum {
	MOST_WAITING = 6,
	MOST_PAUSE_MS = 8000,
	MOST_CALM_PAUSE_MS = 80000,
	HEARING_PERCENT = 30,
	MOST_BODY = 1 << 20,
	PIECE = 16384
};
enum { HITS, STALE, FAILED };

/*
 * An agent without a record claims to be registered no longer than that: it may not have noticed a
 * cut yet, and the registry may be slow.
 */
enum { CLAIM_MS = 25 * SIM_SECOND };

enum kind { RECORD, LIST, STATUS };
static const char *const words[] = { "record", "list", "status" };

static const char *const paths[] = {
	"/users/joe/web/prod/components",
	"/users/joe/web/prod/components/c0",
	"/users/joe/web/prod/components/c1",
	"/users/joe/web/prod/components/c2",
	"/services",
	"/services/leader",
	"/services/other",
	"/nowhere/at-all",
};

/* A connection to the agent. */
struct line {
	int fd; /* -1: none */
	struct http_reader reader;
	struct buffer body;
};

struct lookup {
	const char *path;
	enum kind kind;
};

enum { PATHS = sizeof(paths) / sizeof(paths[0]) };

/* A list that an agent answered with, and its names. */
struct names {
	char *body;
	char *text;
};

struct client {
	const struct world *world;
	int agent;
	struct sim_random random;
	struct sockaddr_un address;
	int64_t due_ms;
	struct line lookups;
	struct lookup waiting[MOST_WAITING]; /* in the order of their answers */
	size_t waiting_count;
	struct line stream;
	bool stream_ready;
	json_t *replayed; /* path -> record, or null */
	unsigned long long sequence;
	struct names names[PATHS]; /* of the last answer for each; it seldom changes */
	struct order order;
};

static uint64_t counts[3];

void client_counts(uint64_t ret_counts[3])
{
	memcpy(ret_counts, counts, sizeof(counts));
}

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

/* ---- what an answer says, as the history says it ---- */

static char *read_names(const char *body)
{
	json_t *list = json_loads(body, 0, NULL);
	char *text = calloc(1, strlen(body) + json_array_size(list) + 1);
	size_t index;
	json_t *item;
	json_array_foreach (list, index, item) {
		strcat(strcat(text, path_name(json_string_value(item))), "\n");
	}
	json_decref(list);
	return text;
}

static size_t index_of(const char *path)
{
	size_t i = 0;
	while (strcmp(paths[i], path) != 0) {
		i++;
	}
	return i;
}

static void forget_names(struct names *names)
{
	free(names->body);
	free(names->text);
}

/* Borrowed. */
static const char *names_of(struct client *client, const char *path, const char *body)
{
	struct names *names = &client->names[index_of(path)];
	if (!names->body || strcmp(names->body, body) != 0) {
		forget_names(names);
		*names = (struct names){ strdup(body), read_names(body) };
	}
	return names->text;
}

static int64_t later_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static struct claim claim_of(
	struct client *client, const struct lookup *lookup, int status, const char *body)
{
	struct claim claim = { .path = lookup->path,
		.aspect = lookup->kind == LIST ? WORLD_CHILDREN : WORLD_DATA };
	if (status == 404 && strstr(body, "PathNotFound")) {
		return claim;
	}
	if (status != 200) {
		claim.value = "";
		claim.other = SIM_GARBAGE;
	} else {
		claim.value = lookup->kind == RECORD ? body : names_of(client, lookup->path, body);
	}
	return claim;
}

static int64_t last_true_ms(const struct client *client, const struct claim *claim)
{
	const struct world *world = client->world;
	int64_t at_ms = world_last_true_ms(world, claim->path, claim->aspect, claim->value);
	return claim->other
		? later_of(at_ms,
			  world_last_true_ms(world, claim->path, claim->aspect, claim->other))
		: at_ms;
}

json_t *client_read_json(const char *body)
{
	return json_loads(body, 0, NULL);
}

json_t *client_read_components(const char *status)
{
	static const char name[] = "\"components\":";
	const char *list = strstr(status, name);
	return list ? json_loads(list + strlen(name), JSON_DISABLE_EOF_CHECK, NULL) : NULL;
}

/* An agent that says REGISTERED has, or had a while ago, a node of its own at the path. */
static void check_status(const struct client *client, const char *body)
{
	json_t *components = client_read_components(body);
	size_t index;
	json_t *component;
	json_array_foreach (components, index, component) {
		const char *state = json_string_value(json_object_get(component, "state"));
		const char *path = json_string_value(json_object_get(component, "path"));
		if (state && path && strcmp(state, "registered") == 0 &&
			world_last_owned_ms(client->world, path, client->agent) <
				sim_now_ms() - CLAIM_MS) {
			sim_fail("agent %d says that %s is registered, and it is not",
				client->agent, path);
		}
	}
	json_decref(components);
}

/*
 * An answer was true at the moment that its age says, or later, a hit within the bound; and it is
 * no older than one before.
 */
static void check(struct client *client, const struct lookup *lookup,
	const struct http_reader *reader, const char *body)
{
	if (lookup->kind == STATUS) {
		check_status(client, body);
		return;
	}
	const char *source = http_reader_field(reader, HTTP_FIELD_X_CACHE);
	const char *age = http_reader_field(reader, HTTP_FIELD_AGE);
	if (!source || !age) {
		counts[FAILED]++;
		bool no_memory = reader->status == 500 && strstr(body, "no memory");
		if (reader->status != 503 && reader->status != 504 && !no_memory) {
			sim_fail("agent %d: %s answers %d: %s", client->agent, lookup->path,
				reader->status, body);
		}
		return;
	}
	bool stale = strcmp(source, "STALE") == 0;
	int64_t age_ms = stale ? atoll(age) * SIM_SECOND : CLIENT_CONFIRM_MS;
	int64_t now_ms = sim_now_ms();
	struct claim claim = claim_of(client, lookup, reader->status, body);
	int64_t true_ms = last_true_ms(client, &claim);
	counts[stale ? STALE : HITS]++;
	if (true_ms < now_ms - age_ms) {
		sim_fail("agent %d: the %s of %s was last true %lld ms ago, and the answer says "
			 "%lld (%s): %.*s",
			client->agent, words[lookup->kind], lookup->path,
			true_ms == INT64_MIN ? -1LL : (long long)(now_ms - true_ms),
			(long long)age_ms, source, 300, body);
	} else if (!order_take(&client->order, client->world, &claim)) {
		sim_fail("agent %d: the %s of %s is older than an earlier answer: %.*s",
			client->agent, words[lookup->kind], lookup->path, 300, body);
	}
}

/* ---- look-ups ---- */

static void take_answer(struct client *client)
{
	struct line *line = &client->lookups;
	if (client->waiting_count == 0) {
		sim_fail("agent %d answers without a request", client->agent);
		return;
	}
	check(client, &client->waiting[0], &line->reader, buffer_text(&line->body));
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
	counts[FAILED] += client->waiting_count;
	client->waiting_count = 0;
	hang_up(&client->lookups);
}

static void ask(struct client *client, const char *path, enum kind kind)
{
	char text[512];
	struct lookup *lookup = &client->waiting[client->waiting_count++];
	*lookup = (struct lookup){ path, kind };
	static const char *const targets[] = { "resolve", "list", "agent" };
	snprintf(text, sizeof(text), "GET /v1/%s%s HTTP/1.1\r\nHost: a\r\n%s\r\n",
		targets[lookup->kind], lookup->kind == STATUS ? "" : lookup->path,
		sim_chance(&client->random, 5) ? "Cache-Control: no-cache\r\n" : "");
	if (!send_text(&client->lookups, text)) {
		drop_lookups(client);
	}
}

static void ask_some(struct client *client)
{
	for (uint64_t more = 1 + sim_below(&client->random, 3);
		more > 0 && client->waiting_count < MOST_WAITING && client->lookups.fd >= 0;
		more--) {
		uint64_t kind = sim_below(&client->random, 49);
		ask(client, paths[sim_below(&client->random, PATHS)],
			kind < 24           ? RECORD
				: kind < 48 ? LIST
					    : STATUS);
	}
}

/* The agent is about to learn something of the path. */
static void ask_for(struct client *client, const char *path)
{
	for (size_t i = 0; i < PATHS; i++) {
		if (strcmp(path, paths[i]) == 0 && client->waiting_count < MOST_WAITING &&
			client->lookups.fd >= 0 && sim_chance(&client->random, HEARING_PERCENT)) {
			ask(client, paths[i], sim_chance(&client->random, 50) ? RECORD : LIST);
		}
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
	if (snapshot) {
		client->stream_ready = true;
		json_object_clear(client->replayed);
		json_object_foreach (snapshot, name, record) {
			json_object_set(client->replayed, name, record);
		}
	} else if (strcmp(type, "UPDATED") == 0) {
		json_object_set(client->replayed, path, json_object_get(event, "record"));
	} else if (strcmp(type, "DELETED") == 0) {
		json_object_del(client->replayed, path);
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

/* ---- both ---- */

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

void client_receive(struct client *client)
{
	if (!read_line(client, &client->lookups, take_answers)) {
		drop_lookups(client);
	}
	if (!read_line(client, &client->stream, take_events)) {
		end_stream(client);
	}
}

void client_step(struct client *client, struct process *agent, bool calm, const char *hears)
{
	if (agent && hears) {
		ask_for(client, hears);
	}
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

void client_disconnect(struct client *client)
{
	order_forget(&client->order); /* another process may have less behind it */
	drop_lookups(client);
	end_stream(client);
}

int64_t client_due_ms(const struct client *client)
{
	return client->due_ms;
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

struct client *client_create(const struct world *world, int agent, uint64_t seed, const char *path)
{
	struct client *client = calloc(1, sizeof(*client));
	client->world = world;
	client->agent = agent;
	client->lookups.fd = -1;
	client->stream.fd = -1;
	order_init(&client->order, paths, PATHS);
	client->address.sun_family = AF_UNIX;
	snprintf(client->address.sun_path, sizeof(client->address.sun_path), "%s", path);
	sim_random_init(&client->random, seed, 200 + (uint64_t)agent);
	return client;
}

void client_destroy(struct client *client)
{
	client_disconnect(client);
	for (size_t i = 0; i < PATHS; i++) {
		forget_names(&client->names[i]);
	}
	free(client);
}
