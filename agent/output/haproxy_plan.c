#include "agent/output/haproxy_plan.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/quote.h"

static const char prefix[] = RENDER_SERVER_PREFIX;
/* No path element begins so. */
static const char backup_mark[] = "backup:";

/* ---- the wanted servers ---- */

struct reading {
	struct haproxy_servers servers;
	const char *from;
	unsigned heaviest;
};

static const char *read_item(void *context, const struct render_item *item)
{
	struct reading *reading = context;
	struct haproxy_servers *servers = &reading->servers;
	const char *problem = render_server_problem(item);
	char name[RENDER_SERVER_NAME_BYTES];
	if (problem || !item->literal) {
		return problem ? problem : "is a name, and only addresses can be added to HAProxy";
	}
	servers->items = allocate_grow(servers->items, servers->count, sizeof(*servers->items));
	struct haproxy_server *server = &servers->items[servers->count++];
	server->port = item->target.port;
	server->weight = render_haproxy_weight(item->weight, reading->heaviest);
	server->tier = item->tier;
	server->backup = false;
	snprintf(server->host, sizeof(server->host), "%s", item->target.host);
	render_server_name(name, reading->from, item->path, item->index);
	server->name = allocate_text(name);
	return NULL;
}

static int by_name(const void *a, const void *b)
{
	const struct haproxy_server *left = a;
	const struct haproxy_server *right = b;
	return strcmp(left->name, right->name);
}

static void mark_backups(struct haproxy_servers *servers)
{
	unsigned nearest = UINT_MAX;
	for (size_t i = 0; i < servers->count; i++) {
		nearest = servers->items[i].tier < nearest ? servers->items[i].tier : nearest;
	}
	for (size_t i = 0; i < servers->count; i++) {
		struct haproxy_server *server = &servers->items[i];
		if (server->tier > nearest) {
			char *name = server->name;
			server->backup = true;
			server->name = allocate_format(
				"%s%s%s", prefix, backup_mark, name + strlen(prefix));
			free(name);
		}
	}
}

void haproxy_servers_read(struct haproxy_servers *ret_servers, const struct render_picture *picture,
	const struct render_filter *filter, struct render_result *ret_result)
{
	struct reading reading = { .from = picture->from, .heaviest = render_heaviest(picture) };
	render_each(picture, filter, read_item, &reading, ret_result);
	mark_backups(&reading.servers);
	if (reading.servers.count > 0) {
		qsort(reading.servers.items, reading.servers.count, sizeof(*reading.servers.items),
			by_name);
	}
	*ret_servers = reading.servers;
}

void haproxy_servers_finish(struct haproxy_servers *servers)
{
	for (size_t i = 0; i < servers->count; i++) {
		free(servers->items[i].name);
	}
	free(servers->items);
	*servers = (struct haproxy_servers){ NULL, 0 };
}

static const struct haproxy_server *find_server(const struct haproxy_servers *servers, char *name)
{
	const struct haproxy_server key = { .name = name };
	return servers->count == 0
		? NULL
		: bsearch(&key, servers->items, servers->count, sizeof(*servers->items), by_name);
}

/* ---- HAProxy's servers ---- */

/* Bits of srv_admin_state: forced, inherited, from the configuration, without an address. */
enum { ADMIN_MAINTENANCE = 0x01 | 0x02 | 0x04 | 0x20 };

struct present {
	struct haproxy_server server; /* the name points into the line */
	bool in_maintenance;
};

static bool read_number(unsigned *ret_number, const char *word)
{
	char *end;
	errno = 0;
	unsigned long number = strtoul(word, &end, 10);
	*ret_number = (unsigned)number;
	return *word >= '0' && *word <= '9' && !*end && !errno && number <= UINT_MAX;
}

/*
 * A line of `show servers state`, format 1, which it takes apart; false for its head, its end and
 * other backends.
 */
static bool read_line(struct present *ret_present, char *line, const char *backend)
{
	enum { BACKEND = 1, NAME = 3, HOST = 4, ADMIN_STATE = 6, WEIGHT = 7, PORT = 18, WORDS };
	char *words[WORDS];
	struct present present = { .in_maintenance = false };
	struct haproxy_server *server = &present.server;
	unsigned admin_state;
	for (size_t i = 0; i < WORDS; i++) {
		words[i] = strsep(&line, " ");
		if (!words[i]) {
			return false;
		}
	}
	if (strcmp(words[BACKEND], backend) != 0 ||
		!read_number(&admin_state, words[ADMIN_STATE]) ||
		!read_number(&server->weight, words[WEIGHT]) ||
		!read_number(&server->port, words[PORT]) ||
		strlen(words[HOST]) >= sizeof(server->host)) {
		return false;
	}
	server->name = words[NAME];
	strcpy(server->host, words[HOST]);
	present.in_maintenance = (admin_state & ADMIN_MAINTENANCE) != 0;
	*ret_present = present;
	return true;
}

/* ---- the steps ---- */

static void add_take(struct haproxy_plan *plan, char *command_taken)
{
	plan->commands = allocate_grow(plan->commands, plan->count, sizeof(*plan->commands));
	plan->commands[plan->count++] = command_taken;
}

/* One line, so that no server is left without its health check. */
static void add_server(
	struct haproxy_plan *plan, const char *backend, const struct haproxy_server *server)
{
	const char *name = server->name;
	bool is_ip6 = strchr(server->host, ':') != NULL;
	char address[HAPROXY_HOST_BYTES + 16];
	snprintf(address, sizeof(address), "%s%s%s:%u", is_ip6 ? "[" : "", server->host,
		is_ip6 ? "]" : "", server->port);
	add_take(plan,
		allocate_format("add server %s/%s %s weight %u%s check; enable health %s/%s; "
				"enable server %s/%s\n",
			backend, name, address, server->weight, server->backup ? " backup" : "",
			backend, name, backend, name));
}

static bool is_at_same_place(const struct haproxy_server *a, const struct haproxy_server *b)
{
	return strcmp(a->host, b->host) == 0 && a->port == b->port;
}

static void change_server(struct haproxy_plan *plan, const char *backend,
	const struct haproxy_server *wanted, const struct present *present)
{
	const struct haproxy_server *there = &present->server;
	const char *name = wanted->name;
	if (!is_at_same_place(wanted, there)) {
		add_take(plan,
			allocate_format("set server %s/%s addr %s port %u\n", backend, name,
				wanted->host, wanted->port));
	}
	if (wanted->weight != there->weight) {
		add_take(plan,
			allocate_format(
				"set server %s/%s weight %u\n", backend, name, wanted->weight));
	}
	if (present->in_maintenance) {
		add_take(plan, allocate_format("set server %s/%s state ready\n", backend, name));
	}
}

/*
 * Servers without the prefix are not touched. A server that looks like a wanted one is worth a
 * note: 0.1.0 gave such names.
 */
static void note_foreign(struct haproxy_plan *plan, const struct haproxy_servers *wanted,
	const struct haproxy_server *there)
{
	char *name = allocate_format("%s%s", prefix, there->name);
	const struct haproxy_server *match = find_server(wanted, name);
	free(name);
	if (match && is_at_same_place(match, there) && !plan->doubled) {
		plan->doubled = allocate_text(there->name);
	}
}

/* The two steps in which a server goes. */
struct removals {
	struct haproxy_plan stops;
	struct haproxy_plan deletions;
};

/* Compares HAProxy's servers with those that are wanted; `seen` notes which of these it has. */
static void compare(struct haproxy_plan *plan, struct removals *removals, const char *backend,
	const struct haproxy_servers *wanted, bool *seen, char *state)
{
	for (char *line; (line = strsep(&state, "\n"));) {
		struct present present;
		if (!read_line(&present, line, backend)) {
			continue;
		}
		char *name = present.server.name;
		if (strncmp(name, prefix, strlen(prefix)) != 0) {
			note_foreign(plan, wanted, &present.server);
			continue;
		}
		const struct haproxy_server *match = find_server(wanted, name);
		if (match) {
			seen[match - wanted->items] = true;
			change_server(plan, backend, match, &present);
			continue;
		}
		if (!present.in_maintenance) {
			add_take(&removals->stops,
				allocate_format("set server %s/%s state maint\n", backend, name));
		}
		add_take(
			&removals->deletions, allocate_format("del server %s/%s\n", backend, name));
	}
}

static void append_taken(struct haproxy_plan *plan, struct haproxy_plan *more_taken)
{
	for (size_t i = 0; i < more_taken->count; i++) {
		add_take(plan, more_taken->commands[i]);
	}
	free(more_taken->commands);
}

int haproxy_plan_make(struct haproxy_plan *ret_plan, const char *backend,
	const struct haproxy_servers *wanted, char *state, struct err *err)
{
	if (!strstr(state, "srv_name")) {
		state[strcspn(state, "\n")] = '\0';
		return err_set(err, BERTH_FAILED, "HAProxy says: %s",
			*state ? quote_text(state).text : "nothing");
	}
	struct haproxy_plan plan = { .count = 0 };
	struct removals removals = { .stops = { .count = 0 } };
	bool *seen = allocate_zeroed(wanted->count, sizeof(*seen));
	compare(&plan, &removals, backend, wanted, seen, state);
	for (size_t i = 0; i < wanted->count; i++) {
		if (!seen[i]) {
			add_server(&plan, backend, &wanted->items[i]);
		}
	}
	append_taken(&plan, &removals.stops);
	plan.change_count = plan.count;
	append_taken(&plan, &removals.deletions);
	free(seen);
	*ret_plan = plan;
	return 0;
}

void haproxy_plan_finish(struct haproxy_plan *plan)
{
	for (size_t i = 0; i < plan->count; i++) {
		free(plan->commands[i]);
	}
	free(plan->commands);
	free(plan->doubled);
	*plan = (struct haproxy_plan){ .count = 0 };
}
