/*
 * Lists of endpoints as berth.h gives them: built address by address, from records or from an
 * agent's answer.
 */
#ifndef LIB_CLIENT_ENDPOINTS_H
#define LIB_CLIENT_ENDPOINTS_H

#include <jansson.h>

#include "lib/base/err.h"
#include "lib/berth.h"
#include "lib/record/record.h"

/* A list that grows; zeroed to begin with. */
struct endpoint_list {
	struct berth_endpoint
		*items; /* each one's strings are one block of memory, which `path` begins */
	size_t count;
	size_t size;
};

/* Adds the addresses of the record's endpoints that pass the filter (NULL: all). */
int endpoint_list_add_record(struct endpoint_list *list, const char *path,
	const struct record *record, const struct berth_endpoint_filter *filter, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(5);

/*
 * Adds what GET /v1/endpoints answered: an array of {path, scope, api, protocol, addressType,
 * address}.
 */
int endpoint_list_add_json(struct endpoint_list *list, const json_t *array, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

/* The list in the public form, for berth_endpoints_finish(); the list is empty afterwards. */
struct berth_endpoints endpoint_list_take(struct endpoint_list *list);
void endpoint_list_finish(struct endpoint_list *list);

#endif
