/*
 * Endpoint lists: from records, and into what berth.h gives to callers.
 *
 * In between stands the JSON of GET /v1/endpoints: an array of {path, scope, api, protocol, addressType, address}.
 */
#ifndef LIB_CLIENT_ENDPOINTS_H
#define LIB_CLIENT_ENDPOINTS_H

#include <jansson.h>

#include "lib/berth.h"
#include "lib/base/err.h"

/* Appends the addresses of the record's endpoints that pass the filter (NULL: all). A malformed record adds none. */
int endpoints_append(json_t *array, const char *path, const json_t *record,
	const struct berth_endpoint_filter *filter, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(5);

/* Makes the structs; keeps a reference to `array`. */
int endpoints_from_json(struct berth_endpoints *ret, json_t *array, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

#endif
