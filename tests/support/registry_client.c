#include "tests/support/registry_client.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"

/*
 * A stall of any process must look like nothing but a stall: no timeout of the tested registry
 * comes before the tests' own.
 */
enum {
	MAX_CLIENTS = 16,
	PATIENCE_MS = 60000,
	REQUEST_TIMEOUT_MS = 50000,
	CLOSE_TIMEOUT_MS = 50000,
	SESSION_TIMEOUT_MS = 300000
};

static struct registry *clients[MAX_CLIENTS];
static size_t clients_count;

static void give_up(const char *what)
{
	fprintf(stderr, "registry client: %s\n", what);
	abort();
}

static void free_texts(char **texts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(texts[i]);
	}
	free(texts);
}

static char **copy_texts(char *const *texts, size_t count)
{
	char **copy = calloc(count + 1, sizeof(char *));
	for (size_t i = 0; i < count; i++) {
		copy[i] = strdup(texts[i]);
	}
	return copy;
}

void answer_clear(struct answer *answer)
{
	free(answer->data);
	free_texts(answer->children, answer->children_count);
	free_texts(answer->foreign, answer->foreign_count);
	json_decref(answer->records);
	*answer = (struct answer){ 0 };
}

void answer_take(void *context, const struct registry_result *result)
{
	struct answer *answer = context;
	size_t calls = answer->calls + 1;
	answer_clear(answer);
	answer->calls = calls;
	answer->err = result->err;
	answer->stat = result->stat;
	answer->count = result->count;
	answer->emptied = result->emptied;
	answer->changed = result->changed;
	answer->records = registry_found_json(result);
	if (result->data) {
		answer->data = malloc(result->data_len + 1);
		memcpy(answer->data, result->data, result->data_len + 1);
		answer->data_len = result->data_len;
	}
	char *const *paths = result->purged ? result->purged : result->children;
	answer->children_count = result->children_count + result->purged_count;
	answer->children = copy_texts(paths, answer->children_count);
	answer->foreign_count = result->foreign_count;
	answer->foreign = copy_texts(result->foreign, result->foreign_count);
}

const char *answer_name(const struct answer *answer)
{
	return berth_error_name(answer->err.code);
}

static const char *join(char *const *texts, size_t count)
{
	static char text[4096];
	text[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		size_t used = strlen(text);
		snprintf(text + used, sizeof(text) - used, "%s%s", i ? " " : "", texts[i]);
	}
	return text;
}

const char *answer_children(const struct answer *answer)
{
	return join(answer->children, answer->children_count);
}

const char *answer_foreign(const struct answer *answer)
{
	return join(answer->foreign, answer->foreign_count);
}

struct registry *client_open_with(const struct registry_options *options)
{
	struct registry *registry = NULL;
	struct registry_options patient = *options;
	struct err err = ERR_INIT;
	if (patient.close_timeout_ms == 0) {
		patient.close_timeout_ms = CLOSE_TIMEOUT_MS;
	}
	if (patient.request_timeout_ms == 0) {
		patient.request_timeout_ms = REQUEST_TIMEOUT_MS;
	}
	if (patient.session_timeout_ms == 0) {
		patient.session_timeout_ms = SESSION_TIMEOUT_MS;
	}
	if (registry_open(&registry, &patient, &err)) {
		give_up(err.msg);
	}
	client_add(registry);
	return registry;
}

struct registry *client_open(const char *url)
{
	const struct registry_options options = { .url = url };
	return client_open_with(&options);
}

void client_add(struct registry *registry)
{
	if (clients_count == MAX_CLIENTS) {
		give_up("too many registries");
	}
	clients[clients_count++] = registry;
}

void client_forget(struct registry *registry)
{
	for (size_t i = 0; i < clients_count; i++) {
		if (clients[i] == registry) {
			clients[i] = clients[--clients_count];
			return;
		}
	}
}

void client_close(struct registry *registry)
{
	client_forget(registry);
	registry_close(registry);
}

/* One turn of a loop over all registries. */
static void turn(int64_t until_ms)
{
	struct pollfd fds[MAX_CLIENTS];
	int64_t wake_ms = until_ms;
	for (size_t i = 0; i < clients_count; i++) {
		int64_t deadline_ms = registry_deadline_ms(clients[i]);
		wake_ms = deadline_ms < wake_ms ? deadline_ms : wake_ms;
		fds[i] = (struct pollfd){ .fd = registry_fd(clients[i]), .events = POLLIN };
	}
	int64_t wait_ms = wake_ms - clock_monotonic_ms();
	poll(fds, clients_count, wait_ms < 0 ? 0 : (int)wait_ms);
	for (size_t i = 0; i < clients_count; i++) {
		if (fds[i].revents || registry_deadline_ms(clients[i]) <= clock_monotonic_ms()) {
			registry_dispatch(clients[i], clock_monotonic_ms());
		}
	}
}

void client_wait(bool (*condition)(void *context), void *context)
{
	int64_t until_ms = clock_monotonic_ms() + PATIENCE_MS;
	while (!condition(context)) {
		if (clock_monotonic_ms() >= until_ms) {
			give_up("nothing came");
		}
		turn(until_ms);
	}
}

struct told_wait {
	struct answer *answer;
	size_t times;
};

static bool is_told(void *context)
{
	const struct told_wait *wait = context;
	return wait->answer->calls >= wait->times;
}

void client_wait_calls(struct answer *answer, size_t times)
{
	struct told_wait wait = { answer, times };
	client_wait(is_told, &wait);
}

struct state_wait {
	struct registry *registry;
	enum registry_state state;
};

static bool is_state(void *context)
{
	const struct state_wait *wait = context;
	return registry_state(wait->registry) == wait->state;
}

void client_wait_state(struct registry *registry, enum registry_state state)
{
	struct state_wait wait = { registry, state };
	client_wait(is_state, &wait);
}

static int wait_for(const struct registry_request *request, struct answer *answer)
{
	if (!request) {
		give_up("no memory for a request");
	}
	client_wait_calls(answer, 1);
	return answer->err.code;
}

int client_get(struct registry *registry, const char *path, struct answer *answer)
{
	answer_clear(answer);
	return wait_for(registry_get(registry, path, answer_take, answer), answer);
}

int client_resolve(struct registry *registry, const char *path, struct answer *answer)
{
	answer_clear(answer);
	return wait_for(registry_resolve(registry, path, answer_take, answer), answer);
}

int client_stat(struct registry *registry, const char *path, struct answer *answer)
{
	answer_clear(answer);
	return wait_for(registry_stat(registry, path, answer_take, answer), answer);
}

int client_list(struct registry *registry, const char *path, struct answer *answer)
{
	answer_clear(answer);
	return wait_for(registry_list(registry, path, answer_take, answer), answer);
}

int client_confirm(struct registry *registry, struct answer *answer)
{
	answer_clear(answer);
	return wait_for(
		registry_confirm(registry, clock_monotonic_ms(), answer_take, answer), answer);
}

int client_records(struct registry *registry, const char *path, struct answer *answer)
{
	answer_clear(answer);
	return wait_for(registry_records(registry, path, NULL, answer_take, answer), answer);
}

int client_mknode(struct registry *registry, const char *path, bool parents, struct answer *answer)
{
	answer_clear(answer);
	return wait_for(
		registry_mknode(registry, path, NULL, parents, answer_take, answer), answer);
}

int client_bind(struct registry *registry, const char *path, const struct registry_bind *bind,
	struct answer *answer)
{
	answer_clear(answer);
	return wait_for(registry_bind(registry, path, bind, answer_take, answer), answer);
}

int client_put(struct registry *registry, const char *path, const char *data,
	enum registry_bind_mode mode, bool ephemeral, struct answer *answer)
{
	const struct registry_bind bind = { .data = data,
		.len = strlen(data),
		.mode = mode,
		.ephemeral = ephemeral,
		.parents = true };
	return client_bind(registry, path, &bind, answer);
}

int client_delete(struct registry *registry, const char *path, enum registry_delete_mode mode,
	const struct registry_stat *expected, struct answer *answer)
{
	answer_clear(answer);
	return wait_for(
		registry_delete(registry, path, mode, expected, NULL, answer_take, answer), answer);
}

int client_withdraw(struct registry *registry, const char *path,
	const struct registry_stat *expected, struct answer *answer)
{
	answer_clear(answer);
	return wait_for(registry_withdraw(registry, path, expected, answer_take, answer), answer);
}

int client_find(
	struct registry *registry, const struct registry_criteria *criteria, struct answer *answer)
{
	answer_clear(answer);
	return wait_for(registry_find(registry, criteria, NULL, answer_take, answer), answer);
}

int client_purge(struct registry *registry, const struct registry_criteria *criteria,
	enum registry_purge_policy policy, struct answer *answer)
{
	answer_clear(answer);
	return wait_for(
		registry_purge(registry, criteria, policy, false, NULL, answer_take, answer),
		answer);
}
