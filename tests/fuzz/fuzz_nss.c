/* LINK: nss/query.o nss/memory.o */
/*
 * An agent's answer to the NSS module, which runs inside any process. No bytes crash it; what it
 * gives is within its bounds, and only an answer with status 200 is FOUND.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/array.h"
#include "nss/query.h"
#include "tests/support/scripted_agent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(const struct nss_answer *answer, enum nss_query_status status)
{
	assert(answer->count <= NSS_MAX_ADDRESSES);
	assert(memchr(answer->name, '\0', sizeof(answer->name)));
	assert(status == NSS_QUERY_FOUND || (answer->count == 0 && !answer->name[0]));
	for (size_t i = 0; i < answer->count; i++) {
		assert(answer->addresses[i].family == AF_INET ||
			answer->addresses[i].family == AF_INET6);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct nss_answer answer;
	static const uint8_t loopback[16] = { [15] = 1 };
	static char too_long[NSS_NAME_BYTES + 1];
	static const char *const names[] = { "c1.web.berth", "single", "no/name.berth", too_long };
	memset(too_long, '.', sizeof(too_long) - 1);
	scripted_agent_set(data, len);
	setenv("BERTH_SOCKET", scripted_agent_path(), 1);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		enum nss_query_status status = nss_query_name(&answer, names[i]);
		assert(i == 0 || status == NSS_QUERY_ABSENT);
		check(&answer, status);
	}
	check(&answer, nss_query_address(&answer, len & 1 ? AF_INET : AF_INET6, loopback));
	return 0;
}
