#include "agent/output/haproxy_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/quote.h"

static const char kept_prefix[] = "static";

/* ---- the wanted servers ---- */

struct reading {
	struct haproxy_servers servers;
	const char *from;
};

static void read_target(void *context, const struct render_member *member,
	const struct record_target *target, bool literal, size_t index)
{
	struct reading *reading = context;
	struct haproxy_servers *servers = &reading->servers;
	if (!literal || !target->port || strlen(target->host) >= HAPROXY_HOST_BYTES) {
		return;
	}
	servers->items = allocate_grow(servers->items, servers->count, sizeof(*servers->items));
	struct haproxy_server *server = &servers->items[servers->count++];
	server->port = target->port;
	server->weight = render_server_weight(member->record);
	snprintf(server->host, sizeof(server->host), "%s", target->host);
	render_server_name(server->name, sizeof(server->name), reading->from, member->path, index);
}

static int by_name(const void *a, const void *b)
{
	const struct haproxy_server *left = a;
	const struct haproxy_server *right = b;
	return strcmp(left->name, right->name);
}

void haproxy_servers_read(struct haproxy_servers *ret_servers, const struct render_picture *picture,
	const struct render_filter *filter)
{
	struct reading reading = { .from = picture->from };
	render_each_target(picture, filter, read_target, &reading);
	if (reading.servers.count > 0) {
		qsort(reading.servers.items, reading.servers.count, sizeof(*reading.servers.items),
			by_name);
	}
	*ret_servers = reading.servers;
}

void haproxy_servers_finish(struct haproxy_servers *servers)
{
	free(servers->items);
	*servers = (struct haproxy_servers){ NULL, 0 };
}

/* ---- HAProxy's servers ---- */

/* Bits of srv_admin_state: forced, inherited, from the configuration, without an address. */
enum { ADMIN_MAINTENANCE = 0x01 | 0x02 | 0x04 | 0x20 };

struct present {
	struct haproxy_server server;
	bool in_maintenance;
};

/* A line of `show servers state`, format 1; false for its head, its end and other backends. */
static bool read_line(struct present *ret_present, const char *line, const char *backend)
{
	struct present present = { .in_maintenance = false };
	struct haproxy_server *server = &present.server;
	char of_backend[256];
	unsigned admin_state;
	int found = sscanf(line,
		"%*u %255s %*u %299s %63s %*d %u %u %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %u",
		of_backend, server->name, server->host, &admin_state, &server->weight,
		&server->port);
	if (found != 6 || strcmp(of_backend, backend) != 0) {
		return false;
	}
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
		allocate_format("add server %s/%s %s weight %u check; enable health %s/%s; "
				"enable server %s/%s\n",
			backend, name, address, server->weight, backend, name, backend, name));
}

static void change_server(struct haproxy_plan *plan, const char *backend,
	const struct haproxy_server *wanted, const struct present *present)
{
	const struct haproxy_server *there = &present->server;
	const char *name = wanted->name;
	if (strcmp(wanted->host, there->host) != 0 || wanted->port != there->port) {
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

/* Compares HAProxy's servers with those that are wanted; `seen` notes which of these it has. */
static void compare(struct haproxy_plan *plan, struct haproxy_plan *deletions, const char *backend,
	const struct haproxy_servers *wanted, bool *seen, char *state)
{
	for (char *line; (line = strsep(&state, "\n"));) {
		struct present present;
		if (!read_line(&present, line, backend) ||
			strncmp(present.server.name, kept_prefix, strlen(kept_prefix)) == 0) {
			continue;
		}
		const char *name = present.server.name;
		const struct haproxy_server *match = wanted->count == 0
			? NULL
			: bsearch(&present.server, wanted->items, wanted->count,
				  sizeof(*wanted->items), by_name);
		if (match) {
			seen[match - wanted->items] = true;
			change_server(plan, backend, match, &present);
			continue;
		}
		if (!present.in_maintenance) {
			add_take(plan,
				allocate_format("set server %s/%s state maint\n", backend, name));
		}
		add_take(deletions, allocate_format("del server %s/%s\n", backend, name));
	}
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
	struct haproxy_plan deletions = { .count = 0 };
	bool *seen = allocate_zeroed(wanted->count + 1, sizeof(*seen));
	compare(&plan, &deletions, backend, wanted, seen, state);
	for (size_t i = 0; i < wanted->count; i++) {
		if (!seen[i]) {
			add_server(&plan, backend, &wanted->items[i]);
		}
	}
	plan.change_count = plan.count;
	for (size_t i = 0; i < deletions.count; i++) {
		add_take(&plan, deletions.commands[i]);
	}
	free(deletions.commands);
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
	*plan = (struct haproxy_plan){ .count = 0 };
}
