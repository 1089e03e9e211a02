/* LINK: $(CONVERTERS) */
/*
 * Configurations of Registrar, nerve and Consul: any JSON becomes INI lines or is refused with a
 * reason; each line is a comment, a section, or a key with its value, so that no value makes a line
 * of its own; and the agent's reader takes the text or refuses it with reasons.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/config/config.h"
#include "cli/convert_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_line(const char *line)
{
	static const char *const sections[] = { "[agent]", "[registry]", "[component]",
		"[endpoint service]", "[dialect binder]", "[dialect nerve]", "[check ",
		"[component ", "[endpoint " };
	if (*line == '\0' || *line == ';') {
		return;
	}
	if (*line == '[') {
		size_t i = 0;
		while (i < 9 && strncmp(line, sections[i], strlen(sections[i])) != 0) {
			i++;
		}
		assert(i < 9);
		return;
	}
	const char *equals = strstr(line, " = ");
	assert(equals && equals != line);
	if (strncmp(line, "labels.", 7) != 0 && strncmp(line, "header.", 7) != 0 &&
		strncmp(line, "attribute.", 10) != 0) {
		static const char key[] = "abcdefghijklmnopqrstuvwxyz_";
		assert(line + strspn(line, key) == equals);
	}
}

static void check_text(char *text, size_t len)
{
	assert(strlen(text) == len);
	int fd = memfd_create("fuzz.ini", MFD_CLOEXEC);
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert(fd >= 0 && write(fd, text, len) == (ssize_t)len);
	struct config *config = NULL;
	struct config_problems problems;
	int code = config_load(&config, path, &problems);
	assert((code == 0) == (problems.error_count == 0));
	config_problems_finish(&problems);
	config_unref(config);
	close(fd);
	for (char *line; (line = strsep(&text, "\n"));) {
		check_line(line);
	}
}

static void convert(const json_t *json, int (*with)(const json_t *json, FILE *out, struct err *err))
{
	struct err err = ERR_INIT;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	assert(out);
	int code = with(json, out, &err);
	fclose(out);
	assert(code == err.code && (code == 0 || (code == BERTH_FAILED && err.msg[0])));
	if (code == 0) {
		check_text(text, len);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	json_t *json = json_loadb((const char *)data, len, 0, NULL);
	if (json) {
		convert(json, convert_registrar);
		convert(json, convert_nerve);
		convert(json, convert_consul);
	}
	json_decref(json);
	return 0;
}
