/*
 * The services of a container, as its labels and its runtime describe them: paths, records, and the
 * checks that guard them. The labels are of berth (labels.h) or of Registrator (registrator.h).
 *
 * describe.h puts them together.
 *
 * All of it is pure: labels are text of strangers, and each becomes a value by the rules of the
 * same option in a configuration, or is named as a problem. No ${…} of theirs is replaced, and no
 * label is a command or a file.
 */
#ifndef AGENT_BRIDGE_SERVICES_H
#define AGENT_BRIDGE_SERVICES_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/bridge/facts.h"
#include "agent/config/config.h"
#include "agent/config/options.h"
#include "lib/base/err.h"

/* One record of the container. */
struct bridge_service {
	struct config *config; /* one component, and the checks that guard it */
	char *data;            /* the record; NULL: there can be none, for `mistake` */
	size_t len;
	struct err *mistake; /* NULL: none */
};

struct bridge_services {
	struct bridge_service *items;
	size_t count;
	char **problems; /* labels that cannot be used, and why */
	size_t problem_count;
	bool ignored; /* a label says so */
};

enum { BRIDGE_SERVICES_MAX = 64, BRIDGE_PROBLEMS_MAX = 32 };

/* Zeroed ones may be finished, too. */
void bridge_services_finish(struct bridge_services *services);

/* ---- for readers of labels ---- */

/* The container's labels, and the defaults of those that it lacks. */
struct bridge_labels {
	struct config_name_value *pairs; /* the values of defaults are expanded */
	size_t count;
};
/* NULL: there is none. Borrowed. */
const char *bridge_labels_find(const struct bridge_labels *labels, const char *name);

void bridge_services_problem(struct bridge_services *services, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The whole cannot be announced; the first mistake counts. */
void bridge_service_spoil(struct bridge_service *service, const struct err *err);
/* A component without a path, or NULL: there are too many. */
struct bridge_service *bridge_services_add(
	struct bridge_services *services, const struct bridge_facts *facts);
/*
 * Sets an option of the component, of its last endpoint, or of its last check: `section` is
 * CONFIG_COMPONENT, CONFIG_ENDPOINT or CONFIG_CHECK.
 */
int bridge_service_set(struct bridge_service *service, enum config_section_kind section,
	const char *key, const char *value, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(5);
void bridge_service_add_endpoint(struct bridge_service *service, const char *name);
void bridge_service_add_check(struct bridge_service *service, const char *name);
/* Where it is reached from outside of its host. */
struct bridge_place {
	char host[256];
	unsigned port;
};
int bridge_services_find_place(struct bridge_place *ret_place, const struct bridge_facts *facts,
	const struct config_runtime *runtime, unsigned port, const char *protocol, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(6);
/* "host:port", "[v6]:port". */
void bridge_place_text(const struct bridge_place *place, char *out, size_t size);
/* A path that an HTTP request can have: no byte of it ends the request's line. */
bool bridge_is_request_path(const char *path);
/* Gives the last check its target. */
void bridge_service_aim_check(
	struct bridge_service *service, const struct bridge_place *place, const char *path);
/* BASE/NAME/components/INSTANCE, from texts of strangers. */
int bridge_service_name(struct bridge_service *service, const char *base, const char *name,
	const char *instance, struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(5);
/* The beginning of the container's id. */
void bridge_short_id(const struct bridge_facts *facts, char out[16]);

#endif
