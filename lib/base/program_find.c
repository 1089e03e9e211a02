#include "lib/base/program_find.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* False when there is none, or when others could have written it. */
static bool find_beside(char *out, size_t size, const char *name)
{
	ssize_t len = readlink("/proc/self/exe", out, size);
	char *slash = len > 0 && (size_t)len < size ? memrchr(out, '/', (size_t)len) : NULL;
	if (!slash || (size_t)(slash - out) + 1 + strlen(name) + 1 > size) {
		return false;
	}
	strcpy(slash + 1, name);
	/* In a directory such as /tmp a stranger could have put it there. */
	struct stat status;
	return stat(out, &status) == 0 && S_ISREG(status.st_mode) &&
		(status.st_uid == 0 || status.st_uid == geteuid()) &&
		(status.st_mode & (S_IWGRP | S_IWOTH)) == 0 && access(out, X_OK) == 0;
}

void program_find(char *out, size_t size, const char *name)
{
	const char *directory = secure_getenv("BERTH_LIBEXECDIR");
	if ((directory && *directory) || !find_beside(out, size, name)) {
		snprintf(out, size, "%s/%s", directory && *directory ? directory : BERTH_LIBEXECDIR,
			name);
	}
}
