#include "lib/berth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/client/handle.h"
#include "lib/base/limits.h"

enum { TARGET_BYTES = LIMIT_PATH_BYTES + 4 * 1024 };

typedef struct registry_request *registry_call(
	struct registry *registry, const char *path, registry_done *done, void *context);

/* Makes a registry's simple request and waits for it. */
static int ask(struct berth *berth, registry_call *call, const char *path, struct outcome *outcome,
	struct err *err)
{
	outcome_init(outcome, berth);
	return outcome_wait(outcome, call(berth->registry, path, outcome_done, outcome), err);
}

static int ask_agent(struct berth *berth, const char *verb, const char *path,
	struct berth_answer *ret, struct err *err)
{
	char target[TARGET_BYTES];
	int code = handle_target(target, sizeof(target), verb, path, "", err);
	return code ? code : handle_get(berth, target, ret, err);
}

/* ---- resolve, records ------------------------------------------------------------------------- */

static int take_data(struct outcome *outcome, struct berth_answer *ret, struct err *err)
{
	if (!outcome->data) {
		return err_set(err, BERTH_NO_RECORD, "the node holds no record");
	}
	*ret = (struct berth_answer){ .json = outcome->data, .len = outcome->data_len };
	outcome->data = NULL;
	return 0;
}

int berth_resolve(struct berth *berth, const char *path, struct berth_answer *ret_record,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	int code;
	if (berth->client) {
		code = ask_agent(berth, "resolve", path, ret_record, &err);
	} else {
		struct outcome outcome;
		code = ask(berth, registry_resolve, path, &outcome, &err);
		if (code == 0) {
			code = take_data(&outcome, ret_record, &err);
		}
		outcome_finish(&outcome);
	}
	return code ? handle_fail(failure, &err) : 0;
}

int berth_records(struct berth *berth, const char *path, struct berth_answer *ret_records,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	int code;
	if (berth->client) {
		code = ask_agent(berth, "records", path, ret_records, &err);
	} else {
		struct outcome outcome;
		outcome_init(&outcome, berth);
		code = outcome_wait(&outcome,
			registry_records(
				berth->registry, path, outcome_progress, outcome_done, &outcome),
			&err);
		if (code == 0) {
			code = answer_from_json(ret_records, outcome.records, &err);
		}
		outcome_finish(&outcome);
	}
	return code ? handle_fail(failure, &err) : 0;
}

/* ---- list ------------------------------------------------------------------------------------- */

static int paths_from_answer(
	const struct berth_answer *answer, struct berth_paths *ret, struct err *err)
{
	json_t *array = json_loadb(answer->json, answer->len, 0, NULL);
	size_t count = json_array_size(array);
	struct berth_paths paths = { .freshness = answer->freshness };
	bool good = json_is_array(array);
	if (good && count) {
		paths.items = calloc(count, sizeof(*paths.items));
		good = paths.items != NULL;
	}
	for (size_t i = 0; good && i < count; i++) {
		const char *path = json_string_value(json_array_get(array, i));
		paths.items[i] = path ? strdup(path) : NULL;
		good = paths.items[i] != NULL;
		paths.count += good;
	}
	json_decref(array);
	if (!good) {
		berth_paths_finish(&paths);
		return err_set(err, BERTH_FAILED, "the agent's list is malformed, or out of memory");
	}
	*ret = paths;
	return 0;
}

int berth_list(struct berth *berth, const char *path, struct berth_paths *ret_paths,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	int code;
	if (berth->client) {
		struct berth_answer answer;
		code = ask_agent(berth, "list", path, &answer, &err);
		if (code == 0) {
			code = paths_from_answer(&answer, ret_paths, &err);
			berth_answer_finish(&answer);
		}
	} else {
		struct outcome outcome;
		code = ask(berth, registry_list, path, &outcome, &err);
		if (code == 0) {
			outcome_take_paths(&outcome, ret_paths);
		}
		outcome_finish(&outcome);
	}
	return code ? handle_fail(failure, &err) : 0;
}

/* ---- stat, exists ----------------------------------------------------------------------------- */

static int stat_from_answer(
	const struct berth_answer *answer, struct berth_stat *ret, struct err *err)
{
	json_t *object = json_loadb(answer->json, answer->len, 0, NULL);
	if (!json_is_object(object)) {
		json_decref(object);
		return err_set(err, BERTH_FAILED, "the agent's answer is no object");
	}
	*ret = (struct berth_stat){
		.time_ms = json_integer_value(json_object_get(object, "time")),
		.size = (size_t)json_integer_value(json_object_get(object, "size")),
		.children = (size_t)json_integer_value(json_object_get(object, "children")),
		.freshness = answer->freshness,
	};
	json_decref(object);
	return 0;
}

static int look_at(
	struct berth *berth, const char *path, struct berth_stat *ret_stat, struct err *err)
{
	if (berth->client) {
		struct berth_answer answer;
		int code = ask_agent(berth, "stat", path, &answer, err);
		if (code == 0) {
			code = stat_from_answer(&answer, ret_stat, err);
			berth_answer_finish(&answer);
		}
		return code;
	}
	struct outcome outcome;
	int code = ask(berth, registry_stat, path, &outcome, err);
	if (code == 0) {
		*ret_stat = (struct berth_stat){ .time_ms = outcome.stat.created_ms,
			.size = outcome.stat.size,
			.children = outcome.stat.children };
	}
	outcome_finish(&outcome);
	return code;
}

int berth_stat(struct berth *berth, const char *path, struct berth_stat *ret_stat,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	return look_at(berth, path, ret_stat, &err) ? handle_fail(failure, &err) : 0;
}

int berth_exists(struct berth *berth, const char *path, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	struct berth_stat stat;
	int code = look_at(berth, path, &stat, &err);
	if (code == BERTH_PATH_NOT_FOUND) {
		return 0;
	}
	return code ? handle_fail(failure, &err) : 1;
}

/* ---- find ------------------------------------------------------------------------------------- */

static int find_through_agent(struct berth *berth, const struct berth_criteria *criteria,
	struct berth_answer *ret, struct err *err)
{
	char target[TARGET_BYTES];
	struct buffer query;
	buffer_init(&query, sizeof(target));
	handle_query(&query, "under", criteria->under);
	handle_query(&query, "api", criteria->api);
	handle_query(&query, "protocol", criteria->protocol);
	handle_query(&query, "type", criteria->type);
	handle_query(&query, "id", criteria->id);
	handle_query(&query, "persistence", criteria->persistence);
	int code = query.failed ? err_set(err, BERTH_LIMIT_EXCEEDED, "the request is too long") : 0;
	if (code == 0) {
		snprintf(target, sizeof(target), "/v1/find%s", buffer_text(&query));
		code = handle_get(berth, target, ret, err);
	}
	buffer_finish(&query);
	return code;
}

static int find_in_registry(struct berth *berth, const struct berth_criteria *criteria,
	berth_on_progress *on_progress, void *context, struct berth_answer *ret, struct err *err)
{
	struct registry_criteria wanted = {
		.under = criteria->under,
		.api = criteria->api,
		.protocol = criteria->protocol,
		.type = criteria->type,
		.id = criteria->id,
		.persistence = criteria->persistence,
	};
	struct outcome outcome;
	outcome_init(&outcome, berth);
	outcome.on_progress = on_progress;
	outcome.progress_context = context;
	int code = outcome_wait(&outcome,
		registry_find(berth->registry, &wanted, outcome_progress, outcome_done, &outcome),
		err);
	if (code == 0) {
		code = answer_from_json(ret, outcome.records, err);
	}
	outcome_finish(&outcome);
	return code;
}

int berth_find(struct berth *berth, const struct berth_criteria *criteria,
	berth_on_progress *on_progress, void *context, struct berth_answer *ret_records,
	struct berth_failure *failure)
{
	static const struct berth_criteria any;
	struct err err = ERR_INIT;
	if (!criteria) {
		criteria = &any;
	}
	int code = berth->client
		? find_through_agent(berth, criteria, ret_records, &err)
		: find_in_registry(berth, criteria, on_progress, context, ret_records, &err);
	return code ? handle_fail(failure, &err) : 0;
}
