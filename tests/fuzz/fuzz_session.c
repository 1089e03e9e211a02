/*
 * The session that an agent leaves in its state directory or hands to its successor: no document
 * crashes; an accepted session is encoded to a document that is accepted again, and gives the same
 * session.
 */
#include <assert.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/registry/zookeeper/zookeeper.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static char url[] = "zookeeper://127.0.0.1:2181/registry";

static struct registry_zk_session session_of(const json_t *document)
{
	struct registry_zk zk = { .url = url };
	registry_zk_session_decode(&zk, document);
	return zk.session;
}

static json_t *document_of(const struct registry_zk_session *session)
{
	struct registry_zk zk = { .url = url, .session = *session };
	return registry_zk_session_encode(&zk);
}

static void check(const json_t *document)
{
	struct registry_zk_session first = session_of(document);
	json_t *again = document_of(&first);
	assert((first.id == 0) == (again == NULL));
	if (again) {
		struct registry_zk_session second = session_of(again);
		assert(first.timeout_ms > 0);
		assert(first.id == second.id && first.timeout_ms == second.timeout_ms);
		assert(memcmp(first.password, second.password, sizeof(first.password)) == 0);
	}
	json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	json_t *document = json_loadb((const char *)data, len, JSON_REJECT_DUPLICATES, NULL);
	if (document) {
		check(document);
		/* The file of the state directory holds the session as a member. */
		check(json_object_get(document, "session"));
	}
	json_decref(document);
	return 0;
}
