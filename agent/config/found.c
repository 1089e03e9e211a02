#include "agent/config/found.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"

static struct config_found_list *open_list;

void config_found_begin(struct config_found_list *list)
{
	open_list = list;
}

void config_found_end(void)
{
	open_list = NULL;
}

bool config_found_is_open(void)
{
	return open_list != NULL;
}

void config_found_add(
	struct config_found_list *list, const char *name, const char *value, const char *why)
{
	list->items = allocate_grow(list->items, list->count, sizeof(*list->items));
	list->items[list->count++] = (struct config_found){ .name = allocate_text(name),
		.value = value ? allocate_text(value) : NULL,
		.why = allocate_text(why) };
}

const struct config_found *config_found_find(const struct config_found_list *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->items[i].name, name) == 0) {
			return &list->items[i];
		}
	}
	return NULL;
}

int config_found_get(const char *name, config_finder *find, char **ret_value, struct err *err)
{
	if (!open_list) {
		return find(name, ret_value, err);
	}
	const struct config_found *known = config_found_find(open_list, name);
	if (!known) {
		struct err why = ERR_INIT;
		char *value = NULL;
		(void)find(name, &value, &why);
		config_found_add(open_list, name, value, why.msg);
		known = &open_list->items[open_list->count - 1];
		free(value);
	}
	if (!known->value) {
		return err_set(err, BERTH_FAILED, "%s", known->why);
	}
	*ret_value = allocate_text(known->value);
	return 0;
}

void config_found_finish(struct config_found_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->items[i].name);
		free(list->items[i].value);
		free(list->items[i].why);
	}
	free(list->items);
	*list = (struct config_found_list){ 0 };
}
