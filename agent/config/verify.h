/*
 * Checks of an option's value beyond its type. Each returns 0, or BERTH_FAILED with an error that
 * says what is allowed; none is called with an empty value.
 */
#ifndef AGENT_CONFIG_VERIFY_H
#define AGENT_CONFIG_VERIFY_H

#include "lib/base/err.h"

int config_verify_label(const char *value, struct err *err) ERR_REQUIRED(2);
int config_verify_path(const char *value, struct err *err) ERR_REQUIRED(2);
int config_verify_import_path(const char *value, struct err *err) ERR_REQUIRED(2);
/* A path with or without a trailing slash and two asterisks. */
int config_verify_warm(const char *value, struct err *err) ERR_REQUIRED(2);
/* A path that others are put below. */
int config_verify_root(const char *value, struct err *err) ERR_REQUIRED(2);
/* A path with them. */
int config_verify_tree(const char *value, struct err *err) ERR_REQUIRED(2);
/* ADDRESS:PORT with a numeric address. */
int config_verify_dns_address(const char *value, struct err *err) ERR_REQUIRED(2);
/* The same, or none or system. */
int config_verify_dns_forward(const char *value, struct err *err) ERR_REQUIRED(2);
/* Labels between dots. */
int config_verify_domain(const char *value, struct err *err) ERR_REQUIRED(2);
/* A host name as in a URL, or "*". */
int config_verify_host_name(const char *value, struct err *err) ERR_REQUIRED(2);
/* The path of a Unix socket, or host:port. */
int config_verify_xds_listen(const char *value, struct err *err);
/* region/zone/…: parts of letters, digits, - . and _. */
int config_verify_zone(const char *value, struct err *err);
int config_verify_listen(const char *value, struct err *err) ERR_REQUIRED(2);
int config_verify_registry_url(const char *value, struct err *err) ERR_REQUIRED(2);
int config_verify_auth(const char *value, struct err *err) ERR_REQUIRED(2);
int config_verify_accounts(const char *value, struct err *err) ERR_REQUIRED(2);
int config_verify_scope(const char *value, struct err *err) ERR_REQUIRED(2);
/* The name of a backend or server in HAProxy's configuration. */
int config_verify_proxy_name(const char *value, struct err *err) ERR_REQUIRED(2);
int config_verify_address_type(const char *value, struct err *err) ERR_REQUIRED(2);
/* An address of type uri: it begins with a scheme. */
int config_verify_uri(const char *value, struct err *err) ERR_REQUIRED(2);
/* Only what the list of allowed words would not help with. */
int config_verify_check_type(const char *value, struct err *err) ERR_REQUIRED(2);
/* The name of a signal that may mean "stop" to the agent. */
int config_verify_stop_on(const char *value, struct err *err) ERR_REQUIRED(2);
int config_verify_user(const char *value, struct err *err) ERR_REQUIRED(2);
int config_verify_regex(const char *value, struct err *err) ERR_REQUIRED(2);
int config_verify_method(const char *value, struct err *err) ERR_REQUIRED(2);
int config_verify_host(const char *value, struct err *err) ERR_REQUIRED(2);
/* Of an attribute that any record may have. */
int config_verify_selected_name(const char *name, struct err *err) ERR_REQUIRED(2);
int config_verify_attribute_name(const char *name, struct err *err) ERR_REQUIRED(2);
int config_verify_variable_name(const char *name, struct err *err) ERR_REQUIRED(2);
/* Of [check] header.NAME = value. */
int config_verify_server_name(const char *value, struct err *err) ERR_REQUIRED(2);
int config_verify_field_name(const char *name, struct err *err) ERR_REQUIRED(2);
int config_verify_header_name(const char *name, struct err *err) ERR_REQUIRED(2);
/* Of [check] limit.NAME = value. */
int config_verify_limit_name(const char *name, struct err *err) ERR_REQUIRED(2);
int config_verify_limit(const char *value, struct err *err) ERR_REQUIRED(2);
/* The NAME of [endpoint NAME] and the like: it is used in URLs and metrics. */
int config_verify_section_name(const char *name, struct err *err) ERR_REQUIRED(2);

/* Users and groups by name or number. */
int config_find_user(const char *name, unsigned *ret_id, struct err *err) ERR_REQUIRED(3);
int config_find_group(const char *name, unsigned *ret_id, struct err *err) ERR_REQUIRED(3);

#endif
