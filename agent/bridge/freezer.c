#include "agent/bridge/freezer.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/text.h"

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
