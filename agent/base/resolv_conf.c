#include "agent/base/resolv_conf.h"

#include <stdio.h>
#include <string.h>

size_t resolv_conf_read(char ret_servers[RESOLV_CONF_SERVERS][RESOLV_CONF_SERVER_BYTES])
{
	FILE *file = fopen(RESOLV_CONF, "re");
	char line[512];
	size_t count = 0;
	while (file && count < RESOLV_CONF_SERVERS && fgets(line, sizeof(line), file)) {
		char host[64];
		if (sscanf(line, " nameserver %63s", host) == 1) {
			snprintf(ret_servers[count++], RESOLV_CONF_SERVER_BYTES,
				strchr(host, ':') ? "[%s]:53" : "%s:53", host);
		}
	}
	if (file) {
		fclose(file);
	}
	return count;
}
