/*
 * The option table: every section and key there is.
 *
 * A row has the form of a key, the place of its value, its default and its help. The parser, -T,
 * berth.full.ini, berth.ini.5, the comparison of two configurations and the freeing of one
 * (field.h) all work from the rows. To add an option, add its member to config.h and its row to
 * the options_*.c that has the section.
 */
#ifndef AGENT_CONFIG_OPTIONS_H
#define AGENT_CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/config/config.h"
#include "lib/base/err.h"

/* The form of a value, and the type of its member. */
enum config_type {
	CONFIG_TEXT,     /* char *; at most `max` bytes when max is set */
	CONFIG_COMMAND,  /* char *, the command's text, and its words, a NULL-terminated char ** */
	CONFIG_FILE,     /* char *, an absolute file name */
	CONFIG_BOOLEAN,  /* bool */
	CONFIG_CHOICE,   /* bool, named by words[0] (false) and words[1] (true) */
	CONFIG_WORD,     /* enum, an index into `words` */
	CONFIG_INTEGER,  /* int, min to max */
	CONFIG_NUMBER,   /* double */
	CONFIG_DURATION, /* int64_t milliseconds, min to max */
	CONFIG_SIZE,     /* size_t bytes, min to max */
	CONFIG_MODE,     /* unsigned, octal, at least min */
	CONFIG_LIST,     /* char ** and a count */
	CONFIG_NUMBERED, /* char ** and a count; the keys are KEY or KEY.1, KEY.2, … */
	CONFIG_PAIRS,    /* struct config_name_value * and a count; the keys are KEY.NAME */
	CONFIG_BYTES,    /* char * and a length, written with escapes */
	CONFIG_STATUS_RANGES, /* struct config_status_range * and a count, min to max */
	CONFIG_SIGNAL,        /* int, by name */
	CONFIG_USER,          /* char * and its uid, (unsigned)-1 without one */
	CONFIG_GROUP,         /* char * and its gid, likewise */
	CONFIG_WRITER         /* struct config_writer */
};

struct config_option {
	const char *key; /* the family's name for CONFIG_NUMBERED and CONFIG_PAIRS */
	enum config_type type;
	size_t offset;
	size_t second; /* the offset of what goes with it: count, length, gid or words */
	/* CONFIG_COMMAND: the offset of a bool, a shell takes the text as it is; 0 for none */
	size_t shell;
	const char *fallback; /* the default as one would write it; NULL for none */
	/* for people: the behaviour without a value, when there is no fixed default */
	const char *automatic;
	const char *const *words;
	int64_t min;
	int64_t max;
	/* for these types of section, CONFIG_FOR(index into the words of `type`) | …; 0: all */
	unsigned for_types;
	bool waits;         /* may wait for an address; a fixed one follows it, too */
	bool fixed;         /* cannot change at run time: a reload that changes it is refused */
	bool may_be_empty;  /* `key =` sets it to nothing, rather than leaving the default */
	bool masks_secrets; /* CONFIG_PAIRS whose values may be secrets, by their names */
	bool prose;         /* " #" and " ;" may be meant */
	bool per_container; /* ${container.…} is replaced when there is a container */
	bool verbatim;      /* so may quotes, and what looks like a template's mark */
	int (*verify)(const char *value, struct err *err)
		ERR_REQUIRED(2); /* a check that the type does not make */
	int (*doubt)(const char *value, struct err *err)
		ERR_REQUIRED(2); /* legal and surely not meant: a warning, see doubt.h */
	int (*verify_name)(const char *name, struct err *err)
		ERR_REQUIRED(2); /* CONFIG_PAIRS: the NAME */
	const char *example;     /* for berth.full.ini, where there is no default */
	const char *help;        /* sentences without markup */
};

#define CONFIG_FOR(type) (1u << (type))

/* CONFIG_GLOB: named by a glob; the first section that matches counts. */
enum config_naming { CONFIG_UNNAMED, CONFIG_MAY_BE_NAMED, CONFIG_NAMED, CONFIG_GLOB };

enum config_section_kind {
	CONFIG_AGENT,
	CONFIG_LISTEN,
	CONFIG_REGISTRY,
	CONFIG_FURTHER,
	CONFIG_COMPONENT,
	CONFIG_ENDPOINT,
	CONFIG_CHECK,
	CONFIG_DIALECT,
	CONFIG_CACHE,
	CONFIG_DNS,
	CONFIG_XDS,
	CONFIG_OUTPUT,
	CONFIG_IMPORT,
	CONFIG_ZONE,
	CONFIG_BRIDGE,
	CONFIG_RUNTIME,
	CONFIG_CONTAINER,
	CONFIG_SECTION_COUNT
};

struct config_section_type {
	const char *kind;
	enum config_naming naming;
	const char *example_name; /* for berth.full.ini */
	const char *help;
	const struct config_option *options; /* terminated by a NULL key */
	/*
	 * Within struct config: the struct of an unnamed section; of others the array of structs,
	 * and its count. A component has the arrays of its endpoints and dialects.
	 */
	size_t offset;
	size_t count; /* 0: no such array */
	size_t size;  /* of one struct; the next two are within it */
	size_t name;
	size_t awaits; /* what an array's struct waits for */
	bool waits;    /* its values may wait for an address, and what they are for with them */
};

extern const struct config_section_type config_sections[CONFIG_SECTION_COUNT];

/* How many structs of the section the configuration has: 1 of an unnamed section. */
size_t config_section_count(const struct config *config, const struct config_section_type *type);
/* The struct at `index`, 0 for an unnamed section. */
void *config_section_place(
	const struct config *config, const struct config_section_type *type, size_t index);
/* The name of a struct: "" of an unnamed section. */
const char *config_section_name(const struct config_section_type *type, const void *target);

/*
 * The section with this kind and name ("": none); of two that have the kind, the one that is named
 * as the other is not. NULL for an unknown kind.
 */
const struct config_section_type *config_section_type_find(const char *kind, const char *name);
/* The kind that is written most like `kind`. */
const char *config_section_type_nearest(const char *kind);

/* The row for a key as written ("address.2", "env.PATH"); NULL for an unknown key. */
const struct config_option *config_option_find(
	const struct config_section_type *section, const char *key);
/*
 * The key that is written most like `key`: an option's own, with ".NAME" for a family. Into `out`.
 */
void config_option_nearest(
	const struct config_section_type *section, const char *key, char *out, size_t size);

/* For the option "address": 2 of "address.2", 0 of "address", -1 of a key that is not its own. */
int config_option_number(const struct config_option *option, const char *key);

#endif
