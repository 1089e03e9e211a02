#include "agent/base/mount.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"

/* The number of the mount that the path is in, as every kernel since 3.15 tells it; -1: none. */
static int mount_of(const char *path)
{
	char name[64];
	char line[256];
	int number = -1;
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return -1;
	}
	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", fd);
	FILE *file = fopen(name, "re");
	while (file && number < 0 && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "mnt_id: %d", &number) != 1) {
			number = -1;
		}
	}
	if (file) {
		fclose(file);
	}
	close(fd);
	return number;
}

bool mount_is_at(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash ? allocate_bytes(path, (size_t)(slash + 1 - path)) : NULL;
	int own = mount_of(path);
	/* The slash at its end follows a link. */
	int around = folder ? mount_of(folder) : -1;
	bool is_mount = own >= 0 && around >= 0 && own != around;
	free(folder);
	return is_mount;
}
