/*
 * The machine's answers while a configuration is made: values of ${berth.…}, ids of users and
 * groups. Each name is looked up once for a configuration, and when it is made again for other
 * addresses (config_follow()), nothing else is looked up: the loop must not wait for a resolver or
 * a directory of users, least of all while the network changes.
 */
#ifndef AGENT_CONFIG_FOUND_H
#define AGENT_CONFIG_FOUND_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

struct config_found {
	char *name;
	char *value; /* NULL: the machine has none */
	char *why;   /* if so */
};

struct config_found_list {
	struct config_found *items;
	size_t count;
};

/* Looks a name up: a malloc'ed value, or BERTH_FAILED. */
typedef int config_finder(const char *name, char **ret_value, struct err *err);

/* Until config_found_end() answers are kept in the list, and taken from it. */
void config_found_begin(struct config_found_list *list);
void config_found_end(void);
/* Whether the two functions above are around us. */
bool config_found_is_open(void);

/* As the finder, by the list. Without one the finder is asked. */
int config_found_get(const char *name, config_finder *find, char **ret_value, struct err *err);

/* Adds an answer; both texts are copied, `value` may be NULL. */
void config_found_add(
	struct config_found_list *list, const char *name, const char *value, const char *why);
/* NULL: nobody asked. */
const struct config_found *config_found_find(
	const struct config_found_list *list, const char *name);
void config_found_finish(struct config_found_list *list);

#endif
