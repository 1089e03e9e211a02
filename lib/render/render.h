/*
 * A set of records as the text that proxies, monitoring and scripts read. Pure: the agent's
 * outputs, GET /v1/targets and `berth render` all print with this.
 *
 * A picture holds the records at and below one path. Every endpoint address that the filter lets
 * through becomes an item, in the order of the paths and of the addresses in a record. An item that
 * the format cannot hold, or that its reader would refuse together with everything else, is left
 * out, counted and named: no host that a name server or a resolver would take, no port, a control
 * character.
 *
 * A member of weight 0 takes no traffic: weight 0 in haproxy, `down` in nginx, DRAINING in envoy.
 * The other formats name it like any other.
 *
 *   lines       one address a line: host:port, URI or path
 *   json        an array of {path, scope, api, protocol, addressType, address, weight}
 *   prometheus  file_sd and http_sd: an array of {targets, labels}
 *   envoy       an EDS DiscoveryResponse with one ClusterLoadAssignment, named like the set: a
 *               locality for each zone, near ones with priority, weights and health; no
 *               address twice
 *   haproxy     server lines; with a backend's name, that whole section
 *   nginx       server lines for an upstream block; a host name becomes its addresses
 *   hosts       lines of /etc/hosts: each literal address with the names of its component and of
 *               the instance
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
	unsigned rank; /* 0: of the path asked for; 1: of the first one that takes its place … */
	unsigned tier; /* see render_by_nearness(); 0 without it */
};

/* Borrowed by the call. */
struct render_picture {
	const char *from;                    /* the path that the set was asked for */
	const struct render_member *members; /* in the order of the text; each has a record */
	size_t count;
};

/* NULL and "" are any. */
struct render_filter {
	const char *api;
	const char *protocol;
	const char *scope;
	const char *attributes; /* see lib/record/select.h */
};

/* One address of one endpoint. */
struct render_item {
	const char *path;
	const struct record *record;
	const struct record_endpoint *endpoint;
	const json_t *address;
	struct record_target target; /* host "" when the address names none that can be used */
	bool literal;                /* the host is an IPv4 or IPv6 address, in canonical form */
	const char *problem;         /* why the host is "" */
	size_t index;                /* among the items of its record that were taken */
	unsigned tier;               /* its member's */
	unsigned weight;             /* its record's; see render_weight() */
	bool weighted;               /* the record says so */
};

struct render_options {
	enum render_format format;
	struct render_filter filter;
	const char *name;    /* the set's name: Envoy's cluster, the prefix of variables */
	const char *backend; /* haproxy: NULL or "": server lines alone */
	const char *domain;  /* hosts: the domain at the end of component names */
	bool tiers;          /* json, prometheus: each item says of which tier it is */
	bool compact;        /* json: no line for each item */
	/*
	 * nginx: the addresses of a host name, from index 0 to the first NULL; NULL: names are left
	 * out. nginx refuses its whole configuration when it cannot look up one name of it.
	 */
	const char *(*address_of)(void *context, const char *name, size_t index);
	void *address_context;
};

#define RENDER_WHY_BYTES 600

struct render_result {
	size_t items;               /* printed */
	size_t left_out;            /* addresses that are not */
	char why[RENDER_WHY_BYTES]; /* the first of them, each with its reason; "" without */
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

/*
 * Calls `take` for each item, for outputs that are not a text of these formats. It returns NULL, or
 * why it leaves the item out, as text that stays.
 */
void render_each(const struct render_picture *picture, const struct render_filter *filter,
	const char *(*take)(void *context, const struct render_item *item), void *context,
	struct render_result *ret_result);

/*
 * Sets the tiers of the members, and orders them by tier, then by path. The nearest tier that
 * has servers serves in haproxy and nginx, and the others are backups; in envoy tiers are
 * priorities. `own`: the own zone, or "".
 */
void render_by_nearness(struct render_member *members, size_t count, const char *own);

/* Why a server of this host and port cannot be: NULL when it can. */
const char *render_server_problem(const struct render_item *item);

/*
 * The number of members that serve, for min_instances: those with an endpoint that the filter lets
 * through, and a weight that is not 0.
 */
size_t render_count_instances(
	const struct render_picture *picture, const struct render_filter *filter);

/*
 * Weights in HAProxy go to 256. Where a member of the picture has more, its servers get the weights
 * of all as shares of 256.
 */
unsigned render_heaviest(const struct render_picture *picture);
unsigned render_haproxy_weight(unsigned weight, unsigned heaviest);

/* Of a path of 1024 bytes, with the prefix and the number. */
#define RENDER_SERVER_NAME_BYTES 1060
/*
 * The names of all servers in proxies begin with this. The colon keeps them apart from names that
 * people give.
 */
#define RENDER_SERVER_PREFIX "berth:"

/*
 * The name of an item's server in a proxy: the prefix, and the path below `from` with dots; of
 * another path all of it, from its first dot on. `index` 0 is the first address.
 */
void render_server_name(
	char out[RENDER_SERVER_NAME_BYTES], const char *from, const char *path, size_t index);

#endif
