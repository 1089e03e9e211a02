/*
 * A handle on a registry: lookups are its requests, and a watch follows the tree by the registry's
 * own watches.
 */
#include "lib/client/handle.h"

#include <string.h>
#include <sys/epoll.h>

#include "lib/base/path.h"
#include "lib/client/endpoints.h"
#include "lib/client/tree.h"
#include "lib/record/record.h"

/* ---- lookups ---- */

typedef struct registry_request *registry_call(
	struct registry *registry, const char *path, registry_done *done, void *context);

/* Makes a registry's simple request and waits for it. */
static int ask(struct berth *berth, registry_call *call, const char *path, struct outcome *outcome,
	struct err *err)
{
	outcome_init(outcome, berth);
	return outcome_wait(outcome, call(berth->registry, path, outcome_done, outcome), err);
}

static int take_data(struct outcome *outcome, struct berth_answer *ret, struct err *err)
{
	if (!outcome->data) {
		return err_set(err, BERTH_NO_RECORD, "the node holds no record");
	}
	*ret = (struct berth_answer){ .json = outcome->data, .len = outcome->data_len };
	outcome->data = NULL;
	return 0;
}

static int resolve(struct berth *berth, const char *path, struct berth_answer *ret, struct err *err)
{
	struct outcome outcome;
	int code = ask(berth, registry_resolve, path, &outcome, err);
	if (code == 0) {
		code = take_data(&outcome, ret, err);
	}
	outcome_finish(&outcome);
	return code;
}

static int records(struct berth *berth, const char *path, struct berth_answer *ret, struct err *err)
{
	struct outcome outcome;
	outcome_init(&outcome, berth);
	int code = outcome_wait(&outcome,
		registry_records(berth->registry, path, outcome_progress, outcome_done, &outcome),
		err);
	if (code == 0) {
		code = answer_from_json(ret, outcome.records, err);
	}
	outcome_finish(&outcome);
	return code;
}

static int list(struct berth *berth, const char *path, struct berth_paths *ret, struct err *err)
{
	struct outcome outcome;
	int code = ask(berth, registry_list, path, &outcome, err);
	if (code == 0) {
		outcome_take_paths(&outcome, ret);
	}
	outcome_finish(&outcome);
	return code;
}

static int stat_node(struct berth *berth, const char *path, struct berth_stat *ret, struct err *err)
{
	struct outcome outcome;
	int code = ask(berth, registry_stat, path, &outcome, err);
	if (code == 0) {
		*ret = (struct berth_stat){ .time_ms = outcome.stat.created_ms,
			.size = outcome.stat.size,
			.children = outcome.stat.children,
			.foreign = outcome.stat.foreign };
	}
	outcome_finish(&outcome);
	return code;
}

/* Adds the addresses of a record that its reader takes; a malformed one adds none. */
static int add_record_take(struct endpoint_list *list, const char *path, struct record *record,
	const struct berth_endpoint_filter *filter, struct err *err)
{
	int code = endpoint_list_add_record(list, path, record, filter, err);
	record_free(record);
	return code;
}

/* The record at the path itself, if it holds one. */
static int add_own(struct berth *berth, struct endpoint_list *list, const char *path,
	const struct berth_endpoint_filter *filter, struct err *err)
{
	struct outcome outcome;
	struct err resolved = ERR_INIT;
	struct record *record = NULL;
	outcome_init(&outcome, berth);
	int code = outcome_wait(&outcome,
		registry_resolve(berth->registry, path, outcome_done, &outcome), &resolved);
	if (code == 0) {
		code = record_decode(&record, outcome.data, outcome.data_len, &resolved);
	}
	if (code == 0) {
		code = add_record_take(list, path, record, filter, err);
	} else if (code == BERTH_NO_RECORD) {
		code = 0;
	} else {
		err_set(err, code, "%s", resolved.msg);
	}
	outcome_finish(&outcome);
	return code;
}

static int add_children(struct berth *berth, struct endpoint_list *list, const char *path,
	const struct berth_endpoint_filter *filter, struct err *err)
{
	struct outcome outcome;
	const char *child;
	json_t *json;
	outcome_init(&outcome, berth);
	int code = outcome_wait(&outcome,
		registry_records(berth->registry, path, outcome_progress, outcome_done, &outcome),
		err);
	json_object_foreach (outcome.records, child, json) {
		struct record *record = NULL;
		struct err malformed = ERR_INIT;
		int read = code ? code : record_from_json(&record, json, &malformed);
		if (read == 0) {
			code = add_record_take(list, child, record, filter, err);
		} else if (read == BERTH_FAILED) {
			code = err_set(err, read, "%s", malformed.msg);
		}
	}
	outcome_finish(&outcome);
	return code;
}

static int endpoints(struct berth *berth, const char *path,
	const struct berth_endpoint_filter *filter, bool no_cache, struct berth_endpoints *ret,
	struct err *err)
{
	struct endpoint_list list = { .count = 0 };
	(void)no_cache; /* there is none */
	int code = add_own(berth, &list, path, filter, err);
	if (code == 0) {
		code = add_children(berth, &list, path, filter, err);
	}
	if (code != 0) {
		endpoint_list_finish(&list);
		return code;
	}
	*ret = endpoint_list_take(&list);
	return 0;
}

static int find(struct berth *berth, const struct berth_criteria *criteria,
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

/* ---- watches ---- */

static int watch(struct berth *berth, const char *path, bool recursive,
	const char *const *attributes, client_emit_take *emit, struct berth_watch *context,
	void **ret_source, struct err *err)
{
	struct client_tree *tree;
	(void)attributes; /* for an agent only */
	int code = path_check(path, strlen(path), err);
	if (code == 0) {
		code = client_tree_create(
			&tree, berth->registry, path, recursive, emit, context, err);
	}
	if (code == 0) {
		*ret_source = tree;
	}
	return code;
}

static void source_free(void *source)
{
	client_tree_free(source);
}

static int64_t source_due_ms(const void *source)
{
	(void)source;
	return INT64_MAX; /* the registry's dispatch drives it */
}

static void source_dispatch(void *source, int64_t now_ms)
{
	(void)source;
	(void)now_ms;
}

static int source_trouble(const struct berth *berth, const void *source, struct err *err)
{
	enum registry_state state = registry_state(berth->registry);
	if (state == REGISTRY_CONNECTED) {
		return client_tree_trouble(source, err);
	}
	return state == REGISTRY_DENIED
		? err_set(err, BERTH_AUTHENTICATION_FAILED, "%s refused the credentials",
			  registry_url(berth->registry))
		: err_set(err, BERTH_REGISTRY_UNAVAILABLE, "%s cannot be reached",
			  registry_url(berth->registry));
}

/* ---- the handle ---- */

static int64_t due_ms(struct berth *berth)
{
	/*
	 * A registry may have replaced its descriptor; adding the same one again only fails.
	 */
	struct epoll_event event = { .events = EPOLLIN };
	epoll_ctl(berth->epoll_fd, EPOLL_CTL_ADD, registry_fd(berth->registry), &event);
	return registry_deadline_ms(berth->registry);
}

static void dispatch(struct berth *berth, int64_t now_ms)
{
	registry_dispatch(berth->registry, now_ms);
}

static void close_registry(struct berth *berth)
{
	registry_close(berth->registry);
}

const struct handle_ops handle_registry_ops = {
	.resolve = resolve,
	.records = records,
	.list = list,
	.stat = stat_node,
	.endpoints = endpoints,
	.find = find,
	.watch = watch,
	.source_free = source_free,
	.source_due_ms = source_due_ms,
	.source_dispatch = source_dispatch,
	.source_trouble = source_trouble,
	.due_ms = due_ms,
	.dispatch = dispatch,
	.close = close_registry,
};

static void tell_tree(void *source, void *context)
{
	client_tree_state(source, *(const enum registry_state *)context);
}

static void on_registry_state(void *context, enum registry_state state, const char *why)
{
	(void)why;
	handle_watches_each_source(context, tell_tree, &state);
}

int handle_open_registry(
	struct berth *berth, const char *url, const struct berth_options *options, struct err *err)
{
	struct registry_options registry_options = {
		.url = url,
		.session_timeout_ms = options->session_timeout_ms,
		.request_timeout_ms = berth->timeout_ms,
		.auth = options->auth_file ? "digest" : "none",
		.auth_file = options->auth_file,
		.secure = options->secure,
		.write_accessors = options->write_accessors,
		.system_accounts = options->system_accounts ? options->system_accounts
							    : REGISTRY_SYSTEM_ACCOUNTS,
		.realm = options->realm,
		.on_state = on_registry_state,
		.context = berth,
	};
	berth->ops = &handle_registry_ops;
	return registry_open(&berth->registry, &registry_options, err);
}
