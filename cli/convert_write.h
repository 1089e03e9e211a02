/* The parts that the converters of convert.h share: writing INI text, and dropping keys. */
#ifndef CLI_CONVERT_WRITE_H
#define CLI_CONVERT_WRITE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "lib/base/err.h"

/* A key that is not asked for by the converter, and why it is dropped; the last has no name. */
struct convert_drop {
	const char *name;
	const char *why;
};

/* KEY = VALUE with each $ doubled; a comment when the value does not fit into a line. */
void convert_write_text(FILE *out, const char *key, const char *value);
/* The same for a command that a shell gets: $ is the shell's. */
void convert_write_command(FILE *out, const char *key, const char *value);
void convert_write_dropped(FILE *out, const char *key, const char *why);
/* A comment for each member of `object` that is not in `used`, which ends with NULL. */
void convert_write_rest(FILE *out, const char *prefix, const json_t *object,
	const char *const *used, const struct convert_drop *drops);
/* A member that is a number; false when there is none. */
bool convert_number(const json_t *object, const char *name, double *ret_number);
/* Letters, digits and hyphens of the text as one label. */
void convert_label(char *out, size_t size, const char *text);

int convert_registrar(const json_t *json, FILE *out, struct err *err) ERR_REQUIRED(3);
int convert_consul(const json_t *json, FILE *out, struct err *err) ERR_REQUIRED(3);
int convert_nerve(const json_t *json, FILE *out, struct err *err) ERR_REQUIRED(3);

#endif
