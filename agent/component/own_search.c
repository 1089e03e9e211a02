#include "agent/component/own_search.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/path.h"

enum { DIGITS = 10 };

struct own_search {
	struct registry *registry;
	struct registry_request *request;
	char *prefix;
	char **paths; /* candidates; those before `own_count` are the session's own */
	size_t count;
	size_t next; /* to be looked at */
	size_t own_count;
	void (*on_found)(void *context, char *const *paths, size_t count, const struct err *err);
	void *context;
};

static void search_free(struct own_search *search)
{
	for (size_t i = 0; i < search->count; i++) {
		free(search->paths[i]);
	}
	free(search->paths);
	free(search->prefix);
	free(search);
}

static void finish(struct own_search *search, const struct err *err)
{
	search->on_found(search->context, search->paths, search->own_count, err);
	search_free(search);
}

static bool is_candidate(const char *path, const char *prefix)
{
	size_t len = strlen(prefix);
	return strncmp(path, prefix, len) == 0 && strlen(path + len) == DIGITS &&
		strspn(path + len, "0123456789") == DIGITS;
}

static void look_at_next(struct own_search *search);

static void on_stat(void *context, const struct registry_result *result)
{
	struct own_search *search = context;
	search->request = NULL;
	if (result->err.code && result->err.code != BERTH_PATH_NOT_FOUND) {
		finish(search, &result->err);
		return;
	}
	if (!result->err.code && result->stat.own) {
		char *own = search->paths[search->next];
		search->paths[search->next] = search->paths[search->own_count];
		search->paths[search->own_count++] = own;
	}
	search->next++;
	look_at_next(search);
}

static void look_at_next(struct own_search *search)
{
	if (search->next == search->count) {
		finish(search, &(struct err)ERR_INIT);
		return;
	}
	search->request = allocated(
		registry_stat(search->registry, search->paths[search->next], on_stat, search));
}

static void on_list(void *context, const struct registry_result *result)
{
	struct own_search *search = context;
	search->request = NULL;
	if (result->err.code && result->err.code != BERTH_PATH_NOT_FOUND) {
		finish(search, &result->err);
		return;
	}
	search->paths = allocate_zeroed(result->children_count + 1, sizeof(*search->paths));
	for (size_t i = 0; i < result->children_count; i++) {
		if (is_candidate(result->children[i], search->prefix)) {
			search->paths[search->count++] = allocate_text(result->children[i]);
		}
	}
	look_at_next(search);
}

struct own_search *own_search_start(struct registry *registry, const char *prefix,
	void (*on_found)(void *context, char *const *paths, size_t count, const struct err *err),
	void *context)
{
	struct own_search *search = allocate_zeroed(1, sizeof(*search));
	search->registry = registry;
	search->prefix = allocate_text(prefix);
	search->on_found = on_found;
	search->context = context;
	char *parent = allocate_bytes(prefix, path_parent_len(prefix));
	search->request = allocated(registry_list(registry, parent, on_list, search));
	free(parent);
	return search;
}

void own_search_cancel(struct own_search *search)
{
	if (search) {
		registry_cancel(search->registry, search->request);
		search_free(search);
	}
}
