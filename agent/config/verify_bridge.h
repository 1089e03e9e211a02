/* Checks of single values of [bridge] and [container GLOB]. */
#ifndef AGENT_CONFIG_VERIFY_BRIDGE_H
#define AGENT_CONFIG_VERIFY_BRIDGE_H

#include "lib/base/err.h"

/* One path of `allow`. */
int config_verify_allow(const char *value, struct err *err) ERR_REQUIRED(2);
/* uid:gid, in numbers. */
int config_verify_owner(const char *value, struct err *err) ERR_REQUIRED(2);
/* The NAME of a pinned attribute. */
int config_verify_pinned_name(const char *name, struct err *err) ERR_REQUIRED(2);
/* The GLOB of [container GLOB]. */
int config_verify_container_glob(const char *name, struct err *err) ERR_REQUIRED(2);
/* One of `labels`: letters, digits, - and dots. */
int config_verify_label_prefix(const char *value, struct err *err) ERR_REQUIRED(2);
/* The NAME of a default label. */
int config_verify_label_name(const char *name, struct err *err) ERR_REQUIRED(2);
/* Reads what config_verify_owner() accepted. */
int config_parse_owner(const char *value, unsigned *ret_uid, unsigned *ret_gid, struct err *err)
	ERR_REQUIRED(4);

#endif
