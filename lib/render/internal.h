/*
 * Inside the renderer: a format prints a head, items and a tail.
 *
 *   walk.c        from a picture to its items
 *   host.c        which hosts can be used
 *   render.c      the text from the items, lines, json
 *   assignment.c  endpoints by their zones, as load balancers take them
 *   envoy.c       envoy
 *   failover.c    which of several paths are in use
 *   locality.c    zones and health, as load balancers take them
 *   proxy.c       haproxy, nginx
 *   discovery.c   prometheus, hosts, env
 */
#ifndef LIB_RENDER_INTERNAL_H
#define LIB_RENDER_INTERNAL_H

#include "lib/record/target.h"
#include "lib/render/assignment.h"
#include "lib/render/render.h"

struct render {
	const struct render_picture *picture;
	const struct render_options *options;
	struct buffer *out;
	size_t items;                 /* printed so far */
	unsigned nearest;             /* the tier of the first of them */
	unsigned heaviest;            /* haproxy: the weight of the heaviest member */
	struct buffer list;           /* env: all items in one line */
	struct assignment assignment; /* envoy */
};

struct render_writer {
	void (*head)(struct render *render); /* may be NULL, as the tail */
	/* NULL, or why the item is left out. */
	const char *(*item)(struct render *render, const struct render_item *item);
	void (*tail)(struct render *render);
	bool is_json;
};

extern const struct render_writer render_prometheus;
extern const struct render_writer render_envoy;
extern const struct render_writer render_haproxy;
extern const struct render_writer render_nginx;
extern const struct render_writer render_hosts;
extern const struct render_writer render_env;

/* Appends a JSON string. */
void render_json_string(struct buffer *out, const char *text);
/* The host as a part of host:port: IPv6 in brackets. */
void render_host(struct buffer *out, const struct record_target *target);

#endif
