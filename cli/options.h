/*
 * The command line: `berth [OPTION]… VERB [OPTION]… [OPERAND]… [-- COMMAND…]`, with options before
 * and after the verb.
 *
 * One table holds the options, another the verbs (verbs.c). A verb names the options that it takes
 * by their bits, and both tables together are the help, the check of what was given, and the
 * completions of the shells.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_id {
	/* of every verb */
	OPTION_SOCKET,
	OPTION_REGISTRY,
	OPTION_FORMAT,
	OPTION_OUTPUT,
	OPTION_JSON,
	OPTION_TIMEOUT,
	OPTION_AUTH_FILE,
	OPTION_HELP,
	OPTION_VERSION,
	/* of lookups */
	OPTION_LONG,
	OPTION_RECURSIVE,
	OPTION_FORCE,
	OPTION_FIRST,
	OPTION_RANDOM,
	OPTION_PLAIN,
	OPTION_API,
	OPTION_PROTOCOL,
	OPTION_SCOPE,
	OPTION_ATTRIBUTE,
	OPTION_TYPE,
	OPTION_ID,
	OPTION_PERSISTENCE,
	OPTION_UNDER,
	OPTION_NEAR,
	OPTION_ONCE,
	OPTION_SETTLE,
	OPTION_ENDPOINTS,
	OPTION_REGISTERED,
	/* of writes */
	OPTION_PARENTS,
	OPTION_OWNER,
	OPTION_FILE,
	OPTION_OVERWRITE,
	OPTION_EPHEMERAL,
	OPTION_INTERNAL,
	OPTION_URI,
	OPTION_INET,
	OPTION_WEBUI,
	OPTION_REST,
	OPTION_DESCRIPTION,
	OPTION_SECURE,
	OPTION_SYSTEM_ACCOUNTS,
	OPTION_WRITE_ACCESSORS,
	OPTION_REALM,
	OPTION_POLICY,
	OPTION_DRY_RUN,
	/* of the agent */
	OPTION_EXIT_CODE,
	OPTION_PORT,
	OPTION_COUNT,
	OPTION_SINCE,
	OPTION_FOLLOW,
	OPTION_REASON,
	OPTION_FOR,
	OPTION_CONTAINER,
	OPTION_WAIT,
	OPTION_MESSAGE,
	OPTION_AWAY_OK,
	/* of render: they take the place of others with the same name */
	OPTION_RENDER_FORMAT,
	OPTION_RENDER_WAIT,

	OPTION_END
};

enum { OPTIONS_ATTRIBUTES = 16 /* at most */ };

_Static_assert(OPTION_END <= 64, "a set of options is a uint64_t");

/* The bit of an option in a set: OPTION(SOCKET) | OPTION(TIMEOUT). */
#define OPTION(name) (UINT64_C(1) << OPTION_##name)

struct options {
	const char *socket;
	const char *registry;
	const char *auth_file;
	bool secure;
	const char *system_accounts;
	const char *write_accessors;
	const char *realm;
	bool json;
	int timeout_ms; /* 0: not given */
	bool help;
	bool version;

	bool long_list;
	bool recursive;
	bool force;
	bool parents;
	bool first;
	bool random;
	bool plain;
	const char *api;
	const char *protocol;
	const char *scope;
	const char *attributes[OPTIONS_ATTRIBUTES + 1]; /* NAME=VALUE; NULL behind the last */
	const char *type;
	const char *id;
	const char *persistence;
	const char *under;
	const char *near; /* NULL: not given */
	bool once;
	int settle_ms;      /* 0: not given */
	unsigned endpoints; /* 0: not given */
	bool registered;

	const char *owner; /* NULL: not given */
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

	bool exit_code;
	unsigned port;    /* 0: any */
	unsigned count;   /* 0: all */
	unsigned since_s; /* 0: all */
	bool follow;
	const char *reason;
	unsigned for_s; /* 0: until undrain */
	const char *container;
	bool wait;
	const char *message;
	bool away_ok;
	const char *render_format;
	unsigned instances; /* 0: do not wait */

	const char *verb;
	char **operands; /* NULL behind the last */
	size_t operand_count;
	char **command; /* the words behind "--"; NULL without it */
	uint64_t given; /* a set of options */
};

/*
 * Reads the arguments. 0, or the exit status 2 after saying what is wrong. The caller frees
 * `ret->operands`.
 */
int options_parse(int argc, char **argv, uint64_t accepted, struct options *ret);

/* 0, or 2 after saying which given option the verb does not take. */
int options_check(const struct options *options, uint64_t accepted);

/* The options that every verb takes. */
uint64_t options_everywhere(void);

/* Prints the help of a set of options. */
void options_print(uint64_t shown);

/* An option as completions show it. */
struct option_text {
	const char *name;     /* without the dashes */
	char letter;          /* 0: none */
	const char *argument; /* NULL: none */
	const char *words;    /* all values that there are, with | between them; NULL: any */
	const char *help;
};
typedef void options_visit(void *context, const struct option_text *option);
void options_each(uint64_t chosen, options_visit *visit, void *context);

/* The nearest of `count` words, or NULL when none is near. */
const char *options_nearest(const char *word, const char *const *words, size_t count);

/*
 * "500ms", "30s", "2m", "1h", or a number of seconds. False for anything else, and for what does
 * not fit an int.
 */
bool options_duration_ms(const char *text, int *ret_ms);

#endif
