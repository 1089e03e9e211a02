/* An answer of agent/names as a line: status, addresses, alias, targets, names that point here. */
#ifndef TESTS_SUPPORT_NAMES_LINE_H
#define TESTS_SUPPORT_NAMES_LINE_H

#include <arpa/inet.h>
#include <string.h>

#include "agent/names/names.h"
#include "lib/base/buffer.h"

/* The next call overwrites it. */
static inline const char *names_line(const struct names_answer *answer)
{
	static const char *const words[] = { "found", "absent", "pending", "unknown", "outside" };
	static char line[2048];
	struct buffer out;
	buffer_init(&out, sizeof(line) - 1);
	buffer_printf(&out, "%s%s", words[answer->status], answer->apex ? " apex" : "");
	for (size_t i = 0; i < answer->address_count; i++) {
		char text[INET6_ADDRSTRLEN];
		buffer_printf(&out, " %s",
			inet_ntop(answer->addresses[i].family, answer->addresses[i].bytes, text,
				sizeof(text)));
	}
	if (answer->alias) {
		buffer_printf(&out, " =%s", answer->alias);
	}
	for (size_t i = 0; i < answer->target_count; i++) {
		const struct names_target *target = &answer->targets[i];
		buffer_printf(&out, " [%u %u %u %s]", target->priority, target->weight,
			target->port, target->name);
	}
	for (size_t i = 0; i < answer->pointer_count; i++) {
		buffer_printf(&out, " ->%s", answer->pointers[i]);
	}
	strcpy(line, buffer_text(&out));
	buffer_finish(&out);
	return line;
}

#endif
