/*
 * Inside the renderer: an item is one address of one endpoint; a format prints a head, items and a
 * tail.
 *
 *   render.c      the walk over the picture, lines, json
 *   proxy.c       envoy, haproxy, nginx
 *   discovery.c   prometheus, hosts, env
 */
#ifndef LIB_RENDER_INTERNAL_H
#define LIB_RENDER_INTERNAL_H

#include "lib/record/target.h"
#include "lib/render/render.h"

#define RENDER_NAME_BYTES 300

struct render_item {
	const char *path;
	const struct record *record;
	const struct record_endpoint *endpoint;
	const json_t *address;
	struct record_target target; /* host "" when the address names none */
	bool literal;                /* the host is an IPv4 or IPv6 address */
	size_t index;                /* among the items of its record that were printed */
};

struct render {
	const struct render_picture *picture;
	const struct render_options *options;
	struct buffer *out;
	size_t items;       /* printed so far */
	struct buffer list; /* env: all items in one line */
};

struct render_writer {
	void (*head)(struct render *render);                                 /* each may be NULL */
	bool (*item)(struct render *render, const struct render_item *item); /* false: left out */
	void (*tail)(struct render *render);
};

extern const struct render_writer render_prometheus;
extern const struct render_writer render_envoy;
extern const struct render_writer render_haproxy;
extern const struct render_writer render_nginx;
extern const struct render_writer render_hosts;
extern const struct render_writer render_env;

/* Appends a JSON string. */
void render_json_string(struct buffer *out, const char *text);
/* The record's attribute `weight`, 1 to 256; 0 when it has none. */
unsigned render_weight(const struct record *record);
/* The host as a part of host:port: IPv6 in brackets. */
void render_host(struct buffer *out, const struct record_target *target);

#endif
