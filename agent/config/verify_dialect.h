/* Checks of values that go into the nodes of other naming schemes; as in verify.h. */
#ifndef AGENT_CONFIG_VERIFY_DIALECT_H
#define AGENT_CONFIG_VERIFY_DIALECT_H

#include "lib/base/err.h"

/* A domain name of two labels or more, in any case. */
int config_verify_dns_name(const char *value, struct err *err) ERR_REQUIRED(2);
/* One element of a foreign path. */
int config_verify_foreign_name(const char *value, struct err *err) ERR_REQUIRED(2);
int config_verify_foreign_path(const char *value, struct err *err) ERR_REQUIRED(2);
/* A word of letters, digits, _ and -. */
int config_verify_host_type(const char *value, struct err *err) ERR_REQUIRED(2);
int config_verify_ipv4(const char *value, struct err *err) ERR_REQUIRED(2);
/* 0 to 2147483647. */
int config_verify_count(const char *value, struct err *err) ERR_REQUIRED(2);
/* Whole seconds: 25, or a duration such as 25s or 5m. */
int config_verify_seconds(const char *value, struct err *err) ERR_REQUIRED(2);
/* 1 to 65535. */
int config_verify_port(const char *value, struct err *err) ERR_REQUIRED(2);
int config_verify_json(const char *value, struct err *err) ERR_REQUIRED(2);

#endif
