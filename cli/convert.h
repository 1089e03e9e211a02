/*
 * Configurations of other programs as berth.ini: Registrar's file, nerve's file of a service,
 * and Consul's definitions of services.
 * Every key has its counterpart in the output, or a comment that names it and gives the reason.
 */
#ifndef CLI_CONVERT_H
#define CLI_CONVERT_H

#include <stdio.h>

#include "lib/base/err.h"

enum convert_from { CONVERT_REGISTRAR, CONVERT_NERVE, CONVERT_CONSUL };

/*
 * Writes the INI text for the JSON file `path`. BERTH_FAILED when it cannot be read, is not JSON,
 * or lacks a key that the scheme needs; then `out` may have got a part.
 */
int convert_file(enum convert_from from, const char *path, FILE *out, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(4);

#endif
