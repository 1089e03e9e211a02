/*
 * A value: the data of a node or the list of its children as a registry has read them, or why there
 * is neither. It never changes, and its users keep a reference instead of a copy.
 */
#ifndef LIB_REGISTRY_VALUE_H
#define LIB_REGISTRY_VALUE_H

#include "lib/registry/registry.h"

struct registry_task;

struct registry_value {
	unsigned references; /* 0: of a constant, which nobody frees */
	int code;            /* 0, or an enum berth_error */
	/* `children` and `foreign` count the paths of `children`; both 0 in the value of data */
	struct registry_stat stat;
	size_t bytes;    /* of the heap, without malloc's own */
	const char *why; /* NULL: the code says it all */
	/* of data: NUL-terminated; NULL when nothing was read */
	const char *data;
	size_t data_len;
	/*
	 * of a list: full paths, sorted by strcmp; behind them those of the foreign children, which
	 * are escaped and sorted, too
	 */
	char *const *children;
};

/*
 * The value that a get or a list has read; a new reference. NULL without memory.
 */
const struct registry_value *registry_value_of_data(const struct registry_task *task);
const struct registry_value *registry_value_of_list(
	const char *path, const struct registry_task *task);

/* The value of a node that does not exist: a constant. */
const struct registry_value *registry_value_absent(void);
/* The list of an ephemeral node, which has no children: a constant. */
const struct registry_value *registry_value_childless(void);
/*
 * The value that a result shows: its code, its stat, its data or its children; a new reference.
 * NULL without memory.
 */
const struct registry_value *registry_value_copy(const struct registry_result *result);

/* Another reference to the same value. Accepts NULL. */
const struct registry_value *registry_value_hold(const struct registry_value *value);
/* Accepts NULL. */
void registry_value_release(const struct registry_value *value);

/* The node exists, though its data are perhaps not a record. */
bool registry_value_exists(const struct registry_value *value);
/* Of a list: it says of every path below whether it is there. The path is absent, or was listed. */
bool registry_value_is_whole_list(const struct registry_value *list);
/* Of a list: it has the full path among its children. */
bool registry_value_names(const struct registry_value *list, const char *path);
/* Both hold the same data, or the same list, or are absent for the same reason. */
bool registry_value_same(const struct registry_value *a, const struct registry_value *b);

/*
 * Fills a result that borrows from the value; `path` is for its error message. `changed` is the
 * caller's to set.
 */
void registry_value_result(
	const struct registry_value *value, const char *path, struct registry_result *ret_result);

#endif
