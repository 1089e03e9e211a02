/* LINK: $(XDS_READERS) */
/*
 * Requests of discovery, as any client of berth-xds may send them: what is taken has names that a
 * subscription can hold, within its bounds, and texts inside the bytes that came.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "xds/discovery.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_text(const struct discovery_text *text, const uint8_t *data, size_t len)
{
	const uint8_t *begin = (const uint8_t *)text->data;
	assert(text->len == 0 || (begin >= data && begin + text->len <= data + len));
}

static void check_names(const struct discovery_names *names, const uint8_t *data, size_t len)
{
	assert(names->count <= DISCOVERY_NAMES_MAX);
	for (size_t i = 0; i < names->count; i++) {
		check_text(&names->items[i], data, len);
		assert(discovery_name_valid(names->items[i].data, names->items[i].len));
		if (names->versions) {
			check_text(&names->versions[i], data, len);
			(void)discovery_read_version(&names->versions[i]);
		}
	}
}

static void check(bool delta, const uint8_t *data, size_t len)
{
	struct discovery_request request;
	struct err err = ERR_INIT;
	int code = discovery_read(&request, delta, data, len, &err);
	if (code != 0) {
		assert(code == BERTH_FAILED || code == BERTH_LIMIT_EXCEEDED);
		assert(*err.msg);
		return;
	}
	check_text(&request.type_url, data, len);
	check_text(&request.node, data, len);
	check_text(&request.version, data, len);
	check_text(&request.nonce, data, len);
	check_text(&request.error, data, len);
	check_names(&request.names, data, len);
	check_names(&request.dropped, data, len);
	check_names(&request.held, data, len);
	assert(delta || (request.dropped.count == 0 && request.held.count == 0));
	assert(request.type == RESOURCE_TYPES ||
		discovery_text_is(&request.type_url, resource_url(request.type)));
	discovery_request_finish(&request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	check(false, data, len);
	check(true, data, len);
	return 0;
}
