/*
 * An agent's answers to libberth, as the programs that link it read them: no bytes crash it, an
 * error has a code and a text, an answer holds what its struct says.
 * The first byte chooses the call; with its bit 4, the answer to the first of two requests ends at
 * a NUL, and the other's follows.
 */
#include <assert.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/berth.h"
#include "tests/support/scripted_agent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_failure(int code, const struct berth_failure *failure)
{
	assert(code < 0 && failure->code == code && failure->message[0]);
}

static void check_answer(int code, struct berth_answer *answer, const struct berth_failure *failure)
{
	if (code) {
		check_failure(code, failure);
		return;
	}
	assert(answer->json && strlen(answer->json) <= answer->len);
	assert(answer->json[answer->len] == '\0');
	berth_answer_finish(answer);
}

static void check_paths(struct berth *berth)
{
	struct berth_paths paths;
	struct berth_failure failure;
	int code = berth_list(berth, "/services", &paths, &failure);
	if (code) {
		check_failure(code, &failure);
		return;
	}
	for (size_t i = 0; i < paths.count; i++) {
		assert(paths.items[i]);
	}
	for (size_t i = 0; i < paths.foreign_count; i++) {
		assert(paths.foreign[i]);
	}
	berth_paths_finish(&paths);
}

static void check_endpoints(struct berth *berth, bool all, bool near)
{
	struct berth_endpoints endpoints;
	unsigned *tiers = NULL;
	struct berth_failure failure;
	const struct berth_endpoint_filter http = { .api = "http" };
	const struct berth_endpoint_filter *filter = all ? NULL : &http;
	int code = near ? berth_endpoints_near(berth, "/services/web", filter, "self", &endpoints,
				  &tiers, &failure)
			: berth_endpoints(berth, "/services/web", filter, &endpoints, &failure);
	if (code) {
		check_failure(code, &failure);
		return;
	}
	for (size_t i = 0; i < endpoints.count; i++) {
		const struct berth_endpoint *endpoint = &endpoints.items[i];
		assert(endpoint->path && endpoint->api && endpoint->address);
		json_t *address = json_loads(endpoint->address_json, JSON_DECODE_ANY, NULL);
		assert(address);
		json_decref(address);
	}
	berth_endpoints_finish(&endpoints);
	free(tiers);
}

static void check_stat(struct berth *berth)
{
	struct berth_stat stat;
	struct berth_failure failure;
	int code = berth_stat(berth, "/services/web", &stat, &failure);
	if (code) {
		check_failure(code, &failure);
	}
	code = berth_exists(berth, "/services/web", &failure);
	assert(code <= 1);
}

static void check_reload(struct berth *berth)
{
	struct berth_answer answer;
	struct berth_failure failure;
	int code = berth_reload(berth, &answer, &failure);
	assert(answer.json);
	berth_answer_finish(&answer);
	if (code) {
		check_failure(code, &failure);
	}
}

static void check_word(int code, const struct berth_failure *failure)
{
	if (code) {
		check_failure(code, failure);
	}
}

static void call(struct berth *berth, unsigned which)
{
	static const char *const addresses[] = { "http://h:1" };
	struct berth_answer answer;
	struct berth_failure failure;
	switch (which % 16) {
	case 0:
		check_answer(berth_resolve(berth, "/a", &answer, &failure), &answer, &failure);
		break;
	case 1:
		check_answer(berth_records(berth, "/a", &answer, &failure), &answer, &failure);
		break;
	case 2:
		check_answer(
			berth_find(berth, NULL, NULL, NULL, &answer, &failure), &answer, &failure);
		break;
	case 3:
		check_answer(
			berth_name(berth, "a.berth", "SRV", &answer, &failure), &answer, &failure);
		break;
	case 4:
		check_answer(berth_status(berth, &answer, &failure), &answer, &failure);
		break;
	case 5:
		check_answer(berth_await(berth, BERTH_HISTORY, "\"0-1\"", 0, &answer, &failure),
			&answer, &failure);
		break;
	case 6:
		check_answer(berth_run_check(berth, "alive", &answer, &failure), &answer, &failure);
		break;
	case 7:
		check_word(berth_ready(berth, false, &failure), &failure);
		break;
	case 8:
		check_word(berth_drain(berth, "why", 3, &failure), &failure);
		break;
	case 9:
		check_word(berth_supply(berth, "web", addresses, 1, &failure), &failure);
		break;
	case 10:
		check_reload(berth);
		break;
	case 11:
		check_stat(berth);
		break;
	case 12:
	case 13:
		check_paths(berth);
		break;
	default:
		check_endpoints(berth, which % 2, which & 32);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct berth *berth;
	struct berth_failure failure;
	const struct berth_options options = { .timeout_ms = 2000 };
	if (len == 0) {
		return 0;
	}
	const uint8_t *second = data[0] & 16 ? memchr(data + 1, '\0', len - 1) : NULL;
	if (second) {
		scripted_agent_set_two(data + 1, (size_t)(second - data - 1), second + 1,
			(size_t)(data + len - second - 1));
	} else {
		scripted_agent_set(data + 1, len - 1);
	}
	assert(berth_open(&berth, scripted_agent_path(), &options, &failure) == 0);
	call(berth, data[0]);
	berth_close(berth);
	return 0;
}
