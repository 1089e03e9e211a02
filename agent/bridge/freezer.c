#include "agent/bridge/freezer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/text.h"

void bridge_freezer_find(struct bridge_locked *files, size_t count)
{
	char line[256];
	FILE *locks = fopen("/proc/locks", "re");
	while (locks && fgets(line, sizeof(line), locks)) {
		struct bridge_locked at;
		if (sscanf(line, "%*d: FLOCK %*s READ %d %" SCNx32 ":%" SCNx32 ":%" SCNu64, &at.pid,
			    &at.major, &at.minor, &at.inode) != 4) {
			continue;
		}
		for (size_t i = 0; i < count; i++) {
			struct bridge_locked *file = &files[i];
			if (file->inode == at.inode && file->major == at.major &&
				file->minor == at.minor) {
				file->pid = at.pid;
			}
		}
	}
	if (locks) {
		fclose(locks);
	}
}

static bool has_line(const char *path, const char *wanted)
{
	char line[256];
	bool found = false;
	FILE *file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		found = strcmp(line, wanted) == 0;
	}
	if (file) {
		fclose(file);
	}
	return found;
}

/* A group's files say, too, when a group above is frozen. */
static bool is_frozen(const char *controllers, const char *group)
{
	static const struct {
		const char *controller; /* "": version 2 */
		const char *mount;
		const char *file;
		const char *line;
	} places[] = {
		{ "", "/sys/fs/cgroup", "cgroup.events", "frozen 1" },
		{ "", "/sys/fs/cgroup/unified", "cgroup.events", "frozen 1" },
		{ "freezer", "/sys/fs/cgroup/freezer", "freezer.state", "FROZEN" },
	};
	char path[4096 + 64];
	bool frozen = false;
	for (size_t i = 0; i < ARRAY_LEN(places) && !frozen; i++) {
		if (strcmp(controllers, places[i].controller) == 0) {
			text_printf(path, sizeof(path), "%s%s/%s", places[i].mount, group,
				places[i].file);
			frozen = has_line(path, places[i].line);
		}
	}
	return frozen;
}

bool bridge_freezer_has(pid_t pid, char *ret_group, size_t size)
{
	char path[64];
	char line[4096];
	bool frozen = false;
	text_printf(path, sizeof(path), "/proc/%ld/cgroup", (long)pid);
	FILE *file = fopen(path, "re");
	while (file && !frozen && fgets(line, sizeof(line), file)) {
		/* number:controllers:path; a path above our own root begins with /.. */
		char *rest = line;
		line[strcspn(line, "\n")] = '\0';
		(void)strsep(&rest, ":");
		const char *controllers = strsep(&rest, ":");
		if (controllers && rest && strncmp(rest, "/..", 3) != 0) {
			frozen = is_frozen(controllers, rest);
			text_printf(ret_group, size, "%s", rest);
		}
	}
	if (file) {
		fclose(file);
	}
	return frozen;
}
