/*
 * HAProxy's answer to "show servers state", and servers from any record. Each command is one line
 * with the words that it needs; after the commands HAProxy has the wanted servers, so that nothing
 * is left to do.
 * The record ends at a NUL; the answer follows.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/output/haproxy_plan.h"
#include "lib/record/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const char HEAD[] = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state\n";

/* A command ends in its only line feed, and nothing but add has a second command behind it. */
static void check_commands(const struct haproxy_plan *plan)
{
	assert(plan->change_count <= plan->count);
	for (size_t i = 0; i < plan->count; i++) {
		const char *command = plan->commands[i];
		size_t len = strlen(command);
		assert(len > 0 && strchr(command, '\n') == command + len - 1);
		assert(strncmp(command, "add server web/", 15) == 0 ||
			strncmp(command, "set server web/", 15) == 0 ||
			strncmp(command, "del server web/", 15) == 0);
		assert((i >= plan->change_count) == (strncmp(command, "del", 3) == 0));
	}
}

static void check_servers(const struct haproxy_servers *servers)
{
	for (size_t i = 0; i < servers->count; i++) {
		const struct haproxy_server *server = &servers->items[i];
		assert(server->name[0] && !strpbrk(server->name, " \t\r\n;/\\#\"'"));
		assert(strspn(server->host, "0123456789abcdefABCDEF.:") == strlen(server->host));
		assert(server->port >= 1 && server->port <= 65535);
		assert(server->weight >= 1 && server->weight <= 256);
	}
}

static void plan_with(const struct haproxy_servers *wanted, char *state)
{
	struct haproxy_plan plan;
	struct err err = ERR_INIT;
	int code = haproxy_plan_make(&plan, "web", wanted, state, &err);
	assert(code == err.code);
	if (code) {
		assert(code == BERTH_FAILED && err.msg[0]);
		return;
	}
	check_commands(&plan);
	haproxy_plan_finish(&plan);
}

/* HAProxy's answer as soon as it has the wanted servers. */
static void plan_again(const struct haproxy_servers *wanted)
{
	char *state = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&state, &len);
	assert(stream);
	fputs(HEAD, stream);
	for (size_t i = 0; i < wanted->count; i++) {
		const struct haproxy_server *server = &wanted->items[i];
		fprintf(stream, "3 web %zu %s %s 2 0 %u 1 9 6 3 4 6 0 0 0 - %u - 0 0 - - 0\n",
			i + 1, server->name, server->host, server->weight, server->port);
	}
	fclose(stream);
	struct haproxy_plan plan;
	struct err err = ERR_INIT;
	assert(haproxy_plan_make(&plan, "web", wanted, state, &err) == 0);
	assert(plan.count == 0);
	haproxy_plan_finish(&plan);
	free(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *input = malloc(len + 1);
	assert(input);
	memcpy(input, data, len);
	input[len] = '\0';
	size_t record_len = strlen(input);
	char *state = input + (record_len < len ? record_len + 1 : record_len);
	struct record *record = NULL;
	struct haproxy_servers wanted = { NULL, 0 };
	if (record_decode(&record, input, record_len, NULL) == 0) {
		const struct render_member members[] = { { .path = "/services/web/a",
								 .record = record },
			{ .path = "/services/web/b.c/d", .record = record, .tier = len & 1 } };
		const struct render_picture picture = { "/services/web", members, 2 };
		const struct render_filter any = { .api = NULL };
		struct render_result ignored;
		haproxy_servers_read(&wanted, &picture, &any, &ignored);
	}
	check_servers(&wanted);
	plan_with(&wanted, state);
	plan_again(&wanted);
	haproxy_servers_finish(&wanted);
	record_free(record);
	free(input);
	return 0;
}
