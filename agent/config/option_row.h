/*
 * The words of the option tables: a macro for each form of a value, which names its member and
 * checks the member's type. Only the files with tables, and the list of the sections in options.c,
 * include this.
 */
#ifndef AGENT_CONFIG_OPTION_ROW_H
#define AGENT_CONFIG_OPTION_ROW_H

#include "agent/config/options.h"

/* Each table ends with OPTIONS_END. */
extern const struct config_option config_agent_options[];
extern const struct config_option config_listen_options[];
extern const struct config_option config_registry_options[];
extern const struct config_option config_further_options[];
extern const struct config_option config_component_options[];
extern const struct config_option config_endpoint_options[];
extern const struct config_option config_check_options[];
extern const struct config_option config_dialect_options[];
extern const struct config_option config_cache_options[];
extern const struct config_option config_dns_options[];
extern const struct config_option config_xds_options[];
extern const struct config_option config_output_options[];
extern const struct config_option config_import_options[];
extern const struct config_option config_zone_options[];
extern const struct config_option config_bridge_options[];
extern const struct config_option config_runtime_options[];
extern const struct config_option config_container_options[];

#define OPTIONS_END                                                                                \
	{                                                                                          \
		.key = NULL                                                                        \
	}

/* The offset of a member, if it has this type: a row that says otherwise does not compile. */
#define FIELD(section, member, type)                                                               \
	(offsetof(struct config_##section, member) +                                               \
		_Generic(((struct config_##section *)NULL)->member, type : 0))

#define TEXT(section, member) .type = CONFIG_TEXT, .offset = FIELD(section, member, char *)
#define COMMAND(section, member, words)                                                            \
	.type = CONFIG_COMMAND, .offset = FIELD(section, member, char *),                          \
	.second = FIELD(section, words, char **)
#define FILE_NAME(section, member) .type = CONFIG_FILE, .offset = FIELD(section, member, char *)
#define BOOLEAN(section, member) .type = CONFIG_BOOLEAN, .offset = FIELD(section, member, bool)
#define CHOICE(section, member, ...)                                                               \
	.type = CONFIG_CHOICE, .offset = FIELD(section, member, bool),                             \
	.words = (const char *const[])                                                             \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}
#define WORD(section, member, ...)                                                                 \
	.type = CONFIG_WORD, .offset = FIELD(section, member, unsigned),                           \
	.words = (const char *const[])                                                             \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}
#define INTEGER(section, member, least, most)                                                      \
	.type = CONFIG_INTEGER, .offset = FIELD(section, member, int), .min = least, .max = most
#define NUMBER(section, member) .type = CONFIG_NUMBER, .offset = FIELD(section, member, double)
#define DURATION(section, member, least, most)                                                     \
	.type = CONFIG_DURATION, .offset = FIELD(section, member, int64_t), .min = least,          \
	.max = most
#define SIZE(section, member, least, most)                                                         \
	.type = CONFIG_SIZE, .offset = FIELD(section, member, size_t), .min = least, .max = most
#define MODE(section, member) .type = CONFIG_MODE, .offset = FIELD(section, member, unsigned)
#define LIST(section, member, count)                                                               \
	.type = CONFIG_LIST, .offset = FIELD(section, member, char **),                            \
	.second = FIELD(section, count, size_t)
#define NUMBERED(section, member, count)                                                           \
	.type = CONFIG_NUMBERED, .offset = FIELD(section, member, char **),                        \
	.second = FIELD(section, count, size_t)
#define PAIRS(section, member, count)                                                              \
	.type = CONFIG_PAIRS, .offset = FIELD(section, member, struct config_name_value *),        \
	.second = FIELD(section, count, size_t), .masks_secrets = true
#define BYTES(section, member, len)                                                                \
	.type = CONFIG_BYTES, .offset = FIELD(section, member, char *),                            \
	.second = FIELD(section, len, size_t)
#define STATUS_RANGES(section, member, count, least, most)                                         \
	.type = CONFIG_STATUS_RANGES,                                                              \
	.offset = FIELD(section, member, struct config_status_range *),                            \
	.second = FIELD(section, count, size_t), .min = least, .max = most
#define SIGNAL(section, member) .type = CONFIG_SIGNAL, .offset = FIELD(section, member, int)
#define USER(section, member, id)                                                                  \
	.type = CONFIG_USER, .offset = FIELD(section, member, char *),                             \
	.second = FIELD(section, id, unsigned)
#define GROUP(section, member, id)                                                                 \
	.type = CONFIG_GROUP, .offset = FIELD(section, member, char *),                            \
	.second = FIELD(section, id, unsigned)
#define WRITER(section, member)                                                                    \
	.type = CONFIG_WRITER, .offset = FIELD(section, member, struct config_writer)

#define SECONDS(count) ((int64_t)(count)*1000)
#define HOURS(count) (SECONDS(3600) * (count))
#define DAYS(count) (HOURS(24) * (count))
#define KIB(count) ((int64_t)(count)*1024)
#define GIB(count) (KIB(1024) * 1024 * (count))

enum { SOCKET_PATH_BYTES = 107 /* sockaddr_un's room, without its NUL */ };

#endif
