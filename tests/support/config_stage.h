/*
 * Configurations out of texts: a folder for one test, files in it, and what config_load() makes of
 * them. Every function fails the test when something else happens.
 */
#ifndef TESTS_SUPPORT_CONFIG_STAGE_H
#define TESTS_SUPPORT_CONFIG_STAGE_H

#include <stddef.h>

#include "agent/config/config.h"

/* Pieces of a text: a component takes 5 lines, a check needs a command or a type. */
#define COMPONENT                                                                                  \
	"[component]\nuser = devteam\nservice_class = tomcat\ninstance = test1\nname = n1\n"
#define ENDPOINT "[endpoint rest]\napi = http://a/b\nprotocol = REST\naddress_type = uri\n"
#define CHECK "[check c]\n"
#define TWO "[component a]\npath = /a\n[component b]\npath = /b\n"
#define AN_ENDPOINT(name, component)                                                               \
	"[endpoint " name "]\ncomponent = " component                                              \
	"\napi = a\nprotocol = p\naddress_type = uri\naddress = http://a\n"

/* The beginning and the end of a test: a folder that holds an empty conf.d. */
void make_folder(void);
void remove_folder(void);
/* Below the folder; the next call overwrites it. */
const char *path_of(const char *name);
void write_bytes(const char *name, const char *bytes, size_t len);
void write_file(const char *name, const char *text);

/* The configuration of a file or directory without a mistake; load() writes a.ini. */
struct config *load_path(const char *path);
struct config *load(const char *text);
/* The mistakes of a refused configuration, without its warnings, of which test_doubt.c knows. */
struct config_problems fail_path(const char *path);
struct config_problems fail(const char *text);

/* A mistake in this line of this file, whose message holds `part`. */
void check_problem(const struct config_problems *problems, size_t index, const char *file, int line,
	const char *part);
/* The text has one mistake, in this line. */
void check_one(const char *text, int line, const char *part);

#endif
