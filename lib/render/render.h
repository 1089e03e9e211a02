/*
 * A set of records as the text that proxies, monitoring and scripts read. Pure: the agent's
 * outputs, GET /v1/targets and `berth render` all print with this.
 *
 * A picture holds the records at and below one path. Every endpoint address that the filter lets
 * through becomes an item, in the order of the paths and of the addresses in a record; items
 * without a host, or without the port that a format needs, are left out and counted.
 *
 *   lines       one address a line: host:port, URI or path
 *   json        an array of {path, scope, api, protocol, addressType, address}
 *   prometheus  file_sd and http_sd: an array of {targets, labels}
 *   envoy       an EDS DiscoveryResponse with one ClusterLoadAssignment, named like the set
 *   haproxy     server lines; with a backend's name, that whole section
 *   nginx       server lines for an upstream block
 *   hosts       lines of /etc/hosts: each literal address with its component's name
 *   env         variables for a shell: NAME_COUNT, NAME_1, NAME_1_HOST, NAME_1_PORT …, NAME
 */
#ifndef LIB_RENDER_RENDER_H
#define LIB_RENDER_RENDER_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/buffer.h"
#include "lib/base/err.h"
#include "lib/record/record.h"
#include "lib/record/target.h"

enum render_format {
	RENDER_LINES,
	RENDER_JSON,
	RENDER_PROMETHEUS,
	RENDER_ENVOY,
	RENDER_HAPROXY,
	RENDER_NGINX,
	RENDER_HOSTS,
	RENDER_ENV,
	RENDER_FORMATS
};

/* "lines", "json" …, in the order of the enum; NULL behind the last. */
extern const char *const render_format_names[];

struct render_member {
	const char *path;
	const struct record *record;
};

/* Borrowed by the call. */
struct render_picture {
	const char *from;                    /* the path that the set was asked for */
	const struct render_member *members; /* sorted by path; each has a record */
	size_t count;
};

/* NULL and "" are any. */
struct render_filter {
	const char *api;
	const char *protocol;
	const char *scope;
};

struct render_options {
	enum render_format format;
	struct render_filter filter;
	const char *name;    /* the set's name: Envoy's cluster, the prefix of variables */
	const char *backend; /* haproxy: NULL or "": server lines alone */
	const char *domain;  /* hosts: the domain at the end of component names */
};

struct render_result {
	size_t items;    /* printed */
	size_t left_out; /* addresses that the format cannot hold */
};

/*
 * Appends the text to `out`. 0, or BERTH_LIMIT_EXCEEDED when it is larger than the buffer may grow.
 * A picture without items gives an empty set in the format's own form.
 */
int render_write(struct buffer *out, const struct render_picture *picture,
	const struct render_options *options, struct render_result *ret_result, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(5);

/*
 * Appends the items alone, without the head and the tail of the format, for a text that is made in
 * parts. `*items` counts those of all parts: 0 for the first. Returns as render_write().
 */
int render_write_items(struct buffer *out, const struct render_picture *picture,
	const struct render_options *options, size_t *items, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(5);

/* The number of members with an endpoint that the filter lets through, for min_instances. */
size_t render_count_instances(
	const struct render_picture *picture, const struct render_filter *filter);

/*
 * Calls `visit` for each address that the filter lets through and that names a host: for outputs
 * that are no text. `literal`: the host is an address. `index` counts within the member.
 */
void render_each_target(const struct render_picture *picture, const struct render_filter *filter,
	void (*visit)(void *context, const struct render_member *member,
		const struct record_target *target, bool literal, size_t index),
	void *context);

/* A member's weight in a proxy, from its attribute `weight`: 1 to 256; 1 without. */
unsigned render_server_weight(const struct record *record);

/*
 * The name of a member's server in a proxy: the path below `from`, with dots. `index` 0 is the
 * first address.
 */
void render_server_name(char *out, size_t size, const char *from, const char *path, size_t index);

#endif
