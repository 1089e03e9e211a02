#include "agent/base/file_place.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "lib/base/trust.h"

enum { LINKS_MAX = 8 };

/* The path that a link leads to; NULL: there is no link. */
static char *follow(const char *path)
{
	char target[PATH_MAX];
	ssize_t len = readlink(path, target, sizeof(target) - 1);
	const char *slash = strrchr(path, '/');
	if (len < 0) {
		return NULL;
	}
	target[len] = '\0';
	return *target == '/' ? allocate_text(target)
			      : allocate_format("%.*s%s", (int)(slash + 1 - path), path, target);
}

/* The link's maker chooses which file is written with the agent's rights. */
static int check_link(const char *path, struct err *err)
{
	struct err why = ERR_INIT;
	struct stat status;
	char *folder = allocate_bytes(path, (size_t)(strrchr(path, '/') + 1 - path));
	if (trust_check_directory(folder, &why) == 0 &&
		(lstat(path, &status) < 0 || (status.st_uid != 0 && status.st_uid != geteuid()))) {
		err_set(&why, BERTH_FAILED, "it is another user's");
	}
	free(folder);
	return why.code ? err_set(err, BERTH_FAILED,
				  "%s is a symbolic link, and is not followed: %s", path, why.msg)
			: 0;
}

char *file_place(const char *path, struct err *err)
{
	char *place = allocate_text(path);
	char *next;
	for (int links = 0; (next = follow(place)) != NULL; links++) {
		if (links == LINKS_MAX) {
			err_set(err, BERTH_FAILED, "%s leads through too many symbolic links",
				path);
		}
		if (err->code || check_link(place, err)) {
			free(place);
			free(next);
			return NULL;
		}
		free(place);
		place = next;
	}
	return place;
}
