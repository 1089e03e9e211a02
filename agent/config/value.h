/*
 * Values as people write them: pure functions from text to numbers and lists, and back for
 * printing.
 *
 * Every parser takes the whole text (no blanks around it), returns 0 with `ret_…` set, or
 * BERTH_FAILED with an error that says what is allowed, and leaves `ret_…` untouched. Lists are
 * NULL-free arrays of malloc'ed strings.
 */
#ifndef AGENT_CONFIG_VALUE_H
#define AGENT_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/config/config.h"
#include "lib/base/err.h"

/* yes true on, no false off. */
int config_parse_boolean(const char *text, bool *ret_value, struct err *err) ERR_REQUIRED(3);
/* A whole number between min and max. */
int config_parse_integer(const char *text, int64_t min, int64_t max, int64_t *ret_value,
	struct err *err) ERR_REQUIRED(5);
/* A number like 3 or 1.5, between a thousandth and a million. */
int config_parse_number(const char *text, double *ret_value, struct err *err) ERR_REQUIRED(3);
/* A whole number and ms, s, m or h: milliseconds between min and max. */
int config_parse_duration(const char *text, int64_t min_ms, int64_t max_ms, int64_t *ret_ms,
	struct err *err) ERR_REQUIRED(5);
/* Bytes, or a whole number and K, M or G. */
int config_parse_size(const char *text, int64_t min, int64_t max, int64_t *ret_bytes,
	struct err *err) ERR_REQUIRED(5);
/* A resource limit: a number, a size, or "unlimited", which is UINT64_MAX. */
int config_parse_limit(const char *text, uint64_t *ret_limit, struct err *err) ERR_REQUIRED(3);
/* A signal's name, with or without SIG. */
int config_parse_signal(const char *text, int *ret_signal, struct err *err) ERR_REQUIRED(3);
/* File permissions in octal, at most 0777. */
int config_parse_mode(const char *text, unsigned *ret_mode, struct err *err) ERR_REQUIRED(3);
/* The index of `text` in the NULL-terminated `words`. */
int config_parse_word(const char *text, const char *const *words, unsigned *ret_index,
	struct err *err) ERR_REQUIRED(4);
/* Words between commas and blanks. */
void config_parse_list(const char *text, char ***ret_items, size_t *ret_count);
/*
 * Text with \r
 *  \t \\ \xHH for bytes. The result has a NUL behind its last byte.
 */
int config_parse_bytes(const char *text, char **ret_bytes, size_t *ret_len, struct err *err)
	ERR_REQUIRED(4);
/* Numbers from min to max and ranges of them: 200-299, 404. */
int config_parse_status_ranges(const char *text, int64_t min, int64_t max,
	struct config_status_range **ret_ranges, size_t *ret_count, struct err *err)
	ERR_REQUIRED(6);
/*
 * host:port or [v6]:port; the host comes without brackets, both are malloc'ed. Port 0 only when
 * min_port is 0.
 */
int config_parse_host_port(const char *text, int min_port, char **ret_host, char **ret_port,
	struct err *err) ERR_REQUIRED(5);
/* http[s]://host[:port][/path]; the path is at least "/"; all three are malloc'ed. */
int config_parse_http_url(const char *text, char **ret_host, char **ret_port, char **ret_path,
	bool *ret_tls, struct err *err) ERR_REQUIRED(6);

/* The inverse functions give a malloc'ed text that the parser above reads to the same value. */
char *config_format_duration(int64_t ms);
char *config_format_size(int64_t bytes);
char *config_format_list(char *const *items, size_t count);
char *config_format_bytes(const char *bytes, size_t len);
char *config_format_status_ranges(const struct config_status_range *ranges, size_t count);

/*
 * True for valid UTF-8 without control characters other than tab: a configuration may hold only
 * such lines.
 */
bool config_is_plain_text(const char *text, size_t len);
/* True for the name of an environment variable. */
bool config_is_variable_name(const char *text, size_t len);

void config_free_list(char **items, size_t count);

#endif
