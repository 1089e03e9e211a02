/*
 * The command line: `berth [OPTION]… VERB [OPTION]… [OPERAND]…`, with options before and after the verb alike.
 *
 * One table of options, one of verbs (main.c): a verb names the options that it takes by their keys.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct options {
	const char *socket;
	const char *registry;
	const char *auth_file;
	bool secure;
	const char *system_accounts;
	const char *realm;
	bool json;
	int timeout_ms; /* 0: not given */
	bool help;
	bool version;

	bool long_list;
	bool recursive;
	bool parents;
	bool first;
	bool random;
	const char *api;
	const char *protocol;
	const char *scope;
	const char *type;
	const char *id;
	const char *persistence;
	const char *under;

	const char *file;
	bool overwrite;
	bool ephemeral;
	bool internal;
	const char *uri;
	const char *inet;
	const char *webui;
	const char *rest;
	const char *description;
	const char *policy;
	bool dry_run;

	const char *reason;
	unsigned for_s; /* 0: until undrain */
	bool wait;

	const char *verb;
	char **operands;
	size_t operand_count;
	char **command;           /* what follows "--"; NULL without it */
	unsigned long long given; /* bit i: row i of the table */
};

/* Reads the arguments. 0, or the exit status 2 after saying what is wrong. `ret->operands` is to be freed. */
int options_parse(int argc, char **argv, struct options *ret);

/* 0, or 2 after saying which given option the verb does not take. `accepted`: keys of the table. */
int options_check(const struct options *options, const char *accepted);

/* Prints the rows of those keys; "" for the ones that every verb takes. */
void options_print(const char *keys);

/* The nearest of `count` words, or NULL when none is near. */
const char *options_nearest(const char *word, const char *const *words, size_t count);

/* "500ms", "30s", "2m", "1h", or a number of seconds. False for anything else, and for what does not fit an int. */
bool options_duration_ms(const char *text, int *ret_ms);

#endif
