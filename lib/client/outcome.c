/* Waits for a registry's requests, and keeps a copy of their results. */
#include "lib/client/handle.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"

void outcome_init(struct outcome *outcome, struct berth *berth)
{
	*outcome = (struct outcome){ .berth = berth, .heard_ms = clock_monotonic_ms() };
}

void outcome_finish(struct outcome *outcome)
{
	free(outcome->data);
	berth_paths_finish(&outcome->paths);
	json_decref(outcome->records);
}

void outcome_take_paths(struct outcome *outcome, struct berth_paths *ret)
{
	*ret = outcome->paths;
	outcome->paths = (struct berth_paths){ .items = NULL };
}

static bool copy_paths(char ***ret_copy, size_t *ret_count, char *const *paths, size_t count)
{
	if (count == 0) {
		return true;
	}
	*ret_copy = calloc(count, sizeof(**ret_copy));
	while (*ret_copy && *ret_count < count) {
		(*ret_copy)[*ret_count] = strdup(paths[*ret_count]);
		if (!(*ret_copy)[*ret_count]) {
			return false;
		}
		(*ret_count)++;
	}
	return *ret_copy != NULL;
}

/* A request gives what was purged, or children. */
static bool copy_result_paths(struct berth_paths *paths, const struct registry_result *result)
{
	char *const *items = result->purged ? result->purged : result->children;
	return copy_paths(&paths->items, &paths->count, items,
		       result->purged_count + result->children_count) &&
		copy_paths(&paths->foreign, &paths->foreign_count, result->foreign,
			result->foreign_count);
}

static bool copy_data(struct outcome *outcome, const struct registry_result *result)
{
	if (!result->data) {
		return true;
	}
	outcome->data = malloc(result->data_len + 1);
	if (!outcome->data) {
		return false;
	}
	memcpy(outcome->data, result->data, result->data_len);
	outcome->data[result->data_len] = '\0';
	outcome->data_len = result->data_len;
	return true;
}

void outcome_done(void *context, const struct registry_result *result)
{
	struct outcome *outcome = context;
	outcome->done = true;
	outcome->err = result->err;
	outcome->stat = result->stat;
	outcome->count = result->count;
	outcome->records = registry_found_json(result);
	if (!outcome->records || !copy_data(outcome, result) ||
		!copy_result_paths(&outcome->paths, result)) {
		err_set(&outcome->err, BERTH_FAILED, "out of memory");
	}
}

void outcome_progress(void *context, size_t visited, size_t matches)
{
	struct outcome *outcome = context;
	outcome->heard_ms = clock_monotonic_ms();
	if (outcome->on_progress) {
		outcome->on_progress(outcome->progress_context, visited, matches);
	}
}

static int give_up(struct outcome *outcome, struct registry_request *request, struct err *err)
{
	struct registry *registry = outcome->berth->registry;
	bool connected = registry_state(registry) == REGISTRY_CONNECTED;
	registry_cancel(registry, request);
	return err_set(err, connected ? BERTH_TIMEOUT : BERTH_REGISTRY_UNAVAILABLE,
		connected ? "%s did not answer in time" : "%s cannot be reached",
		registry_url(registry));
}

int outcome_wait(struct outcome *outcome, struct registry_request *request, struct err *err)
{
	struct registry *registry = outcome->berth->registry;
	if (!request) {
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	while (!outcome->done) {
		int64_t now_ms = clock_monotonic_ms();
		int64_t give_up_ms = outcome->heard_ms + outcome->berth->timeout_ms;
		if (now_ms >= give_up_ms) {
			return give_up(outcome, request, err);
		}
		int64_t due_ms = registry_deadline_ms(registry);
		int64_t until_ms = due_ms < give_up_ms ? due_ms : give_up_ms;
		struct pollfd poller = { .fd = registry_fd(registry), .events = POLLIN };
		int64_t wait_ms = until_ms > now_ms ? until_ms - now_ms : 0;
		if (poll(&poller, 1, (int)wait_ms) < 0 && errno != EINTR) {
			registry_cancel(registry, request);
			return err_set_errno(
				err, BERTH_FAILED, errno, "cannot wait for the registry");
		}
		registry_dispatch(registry, clock_monotonic_ms());
	}
	handle_arm(outcome->berth);
	if (outcome->err.code) {
		return err_set(err, outcome->err.code, "%s", outcome->err.msg);
	}
	return 0;
}
