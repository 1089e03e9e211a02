#include "lib/program/print_end.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int print_end(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout)) {
		return status;
	}
	if (errno != EPIPE) {
		fprintf(stderr, "%s: cannot write: %s\n", program_invocation_short_name,
			strerror(errno));
	}
	return status ? status : EXIT_FAILURE;
}
