/*
 * Writes, on a registry.
 */
#include "lib/berth.h"

#include <stdlib.h>
#include <string.h>

#include "lib/client/handle.h"
#include "lib/record/record.h"

/* Checks a record as strictly as a write needs and gives its canonical form. */
static int canonical(const char *text, char **ret_text, size_t *ret_len, struct err *err)
{
	struct record *record = NULL;
	int code = record_decode_strictly(&record, text, strlen(text), err);
	if (code == 0) {
		code = record_encode(record, ret_text, ret_len, err);
	}
	record_free(record);
	return code;
}

int berth_bind(struct berth *berth, const char *path, const char *record, unsigned flags,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	char *text = NULL;
	struct registry_bind bind = {
		.ephemeral = (flags & BERTH_BIND_EPHEMERAL) != 0,
		.parents = (flags & BERTH_BIND_PARENTS) != 0,
		.mode = flags & BERTH_BIND_OVERWRITE ? REGISTRY_BIND_OVERWRITE
						     : REGISTRY_BIND_CREATE,
	};
	int code = handle_need_registry(berth, "bind", &err);
	if (code == 0) {
		code = canonical(record, &text, &bind.len, &err);
	}
	if (code == 0) {
		struct outcome outcome;
		outcome_init(&outcome, berth);
		bind.data = text;
		code = outcome_wait(&outcome,
			registry_bind(berth->registry, path, &bind, outcome_done, &outcome), &err);
		outcome_finish(&outcome);
	}
	free(text);
	return code ? handle_fail(failure, &err) : 0;
}

static int make_node(struct berth *berth, const char *path, const char *owner, bool parents,
	bool *ret_made, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	int code = handle_need_registry(berth, "mknode", &err);
	if (code == 0) {
		struct outcome outcome;
		outcome_init(&outcome, berth);
		code = outcome_wait(&outcome,
			registry_mknode(
				berth->registry, path, owner, parents, outcome_done, &outcome),
			&err);
		if (code == 0 && ret_made) {
			*ret_made = outcome.count > 0;
		}
		outcome_finish(&outcome);
	}
	return code ? handle_fail(failure, &err) : 0;
}

int berth_mknode(struct berth *berth, const char *path, bool parents, bool *ret_made,
	struct berth_failure *failure)
{
	return make_node(berth, path, NULL, parents, ret_made, failure);
}

int berth_make_home(struct berth *berth, const char *path, const char *owner, bool parents,
	bool *ret_made, struct berth_failure *failure)
{
	return make_node(berth, path, owner, parents, ret_made, failure);
}

int berth_delete(
	struct berth *berth, const char *path, unsigned flags, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	enum registry_delete_mode mode = !(flags & BERTH_DELETE_RECURSIVE) ? REGISTRY_DELETE_NODE
		: flags & BERTH_DELETE_FOREIGN                             ? REGISTRY_DELETE_ALL
									   : REGISTRY_DELETE_TREE;
	int code = handle_need_registry(berth, "delete", &err);
	if (code == 0) {
		struct outcome outcome;
		outcome_init(&outcome, berth);
		code = outcome_wait(&outcome,
			registry_delete(berth->registry, path, mode, NULL, outcome_progress,
				outcome_done, &outcome),
			&err);
		outcome_finish(&outcome);
	}
	return code ? handle_fail(failure, &err) : 0;
}

static int run_purge(struct berth *berth, const struct berth_purge *purge,
	struct berth_answer *ret_matches, struct berth_paths *ret_purged, struct err *err)
{
	static const enum registry_purge_policy policies[] = {
		[BERTH_PURGE_ALL] = REGISTRY_PURGE_ALL,
		[BERTH_PURGE_SKIP_ON_CHILDREN] = REGISTRY_PURGE_SKIP_ON_CHILDREN,
		[BERTH_PURGE_FAIL_ON_CHILDREN] = REGISTRY_PURGE_FAIL_ON_CHILDREN,
	};
	struct registry_criteria criteria = {
		.under = purge->criteria.under,
		.api = purge->criteria.api,
		.protocol = purge->criteria.protocol,
		.type = purge->criteria.type,
		.id = purge->criteria.id,
		.persistence = purge->criteria.persistence,
	};
	struct outcome outcome;
	outcome_init(&outcome, berth);
	outcome.on_progress = purge->on_progress;
	outcome.progress_context = purge->context;
	int code = outcome_wait(&outcome,
		registry_purge(berth->registry, &criteria, policies[purge->policy], purge->dry_run,
			outcome_progress, outcome_done, &outcome),
		err);
	if (code == 0 && ret_matches) {
		code = answer_from_json(ret_matches, outcome.records, err);
	}
	if (code == 0 && ret_purged) {
		outcome_take_paths(&outcome, ret_purged);
	}
	outcome_finish(&outcome);
	return code;
}

int berth_purge(struct berth *berth, const struct berth_purge *purge,
	struct berth_answer *ret_matches, struct berth_paths *ret_purged,
	struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	int code = handle_need_registry(berth, "purge", &err);
	if (code == 0) {
		code = run_purge(berth, purge, ret_matches, ret_purged, &err);
	}
	return code ? handle_fail(failure, &err) : 0;
}

int berth_add_write_accessor(
	struct berth *berth, const char *user, const char *password, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	int code = handle_need_registry(berth, "add_write_accessor", &err);
	if (code == 0) {
		code = registry_add_write_accessor(berth->registry, user, password, &err);
	}
	return code ? handle_fail(failure, &err) : 0;
}

int berth_clear_write_accessors(struct berth *berth, struct berth_failure *failure)
{
	struct err err = ERR_INIT;
	if (handle_need_registry(berth, "clear_write_accessors", &err) != 0) {
		return handle_fail(failure, &err);
	}
	registry_clear_write_accessors(berth->registry);
	return 0;
}
