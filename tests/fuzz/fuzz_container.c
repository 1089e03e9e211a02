/* LINK: runtime/facts.o runtime/objects.o lib/program/memory.o */
/*
 * The answers of a container runtime, and the labels in them: a stream of JSON objects, lists,
 * events or inspections. No bytes crash a reader; however the stream comes in pieces, the objects
 * are the same; the agent understands each frame that berth-runtime makes of one; and each service
 * of its labels has a valid path, and a record or a reason why it has none.
 */
#include <assert.h>
#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "agent/bridge/describe.h"
#include "agent/bridge/facts.h"
#include "lib/base/array.h"
#include "lib/base/buffer.h"
#include "lib/base/json_read.h"
#include "lib/base/path.h"
#include "lib/record/record.h"
#include "runtime/facts.h"
#include "runtime/objects.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { OBJECT_BYTES = 2048 };

static void check_service(const struct bridge_service *service)
{
	const char *path = service->config->components[0].path;
	struct record *record = NULL;
	struct err err = ERR_INIT;
	assert(path_check(path, strlen(path), NULL) == 0);
	assert(!service->data == (service->mistake != NULL));
	for (size_t i = 0; i < service->config->check_count; i++) {
		assert(!*service->config->checks[i].command);
	}
	if (service->data) {
		assert(record_decode(&record, service->data, service->len, &err) == 0);
		record_free(record);
	}
}

static void check_labels(const struct bridge_facts *facts, const char *address)
{
	static char *forms[] = { (char *)"berth", (char *)"registrator" };
	struct config_name_value label = { (char *)"berth.attribute.of",
		(char *)"${container.name} ${container.image} ${container.no} ${container." };
	const struct config_container policy = { .labels = &label, .label_count = 1 };
	const struct config_runtime runtime = { .name = (char *)"docker",
		.labels = forms,
		.label_count = ARRAY_LEN(forms),
		.address = (char *)(uintptr_t)address,
		.network = (char *)"",
		.base = (char *)"/services" };
	struct bridge_services services;
	bridge_services_make(&services, facts, &runtime, &policy);
	assert(services.count <= BRIDGE_SERVICES_MAX);
	assert(services.problem_count <= BRIDGE_PROBLEMS_MAX);
	for (size_t i = 0; i < services.count; i++) {
		check_service(&services.items[i]);
	}
	bridge_services_finish(&services);
}

static void check_inspection(const json_t *inspection)
{
	static char *prefixes[] = { (char *)"berth.", (char *)"SERVICE_" };
	const struct facts_filter filter = { prefixes, ARRAY_LEN(prefixes) };
	struct wire wire;
	struct wire_frame frame;
	struct bridge_facts facts;
	size_t used = 0;
	wire_init(&wire, -1);
	facts_write(&wire, inspection, &filter, false);
	wire_end(&wire);
	buffer_append(&wire.in, wire.out.data, wire.out.len);
	assert(wire_next(&wire, &used, &frame) == 1 && used == wire.out.len);
	if (*facts_id(json_object_get(inspection, "Id"))) {
		bool good = bridge_facts_read(&facts, &frame);
		assert(good && frame.at == frame.end);
		check_labels(&facts, "192.0.2.7");
		check_labels(&facts, "container");
		bridge_facts_finish(&facts);
	}
	wire_finish(&wire);
}

static void on_object(void *context, const char *text, size_t len, bool is_whole)
{
	struct buffer *all = context;
	struct buffer signature;
	buffer_printf(all, "%d %zu ", is_whole, len);
	buffer_append(all, text, len);
	json_t *object = is_whole ? json_read(text, len, 0, NULL) : NULL;
	if (object) {
		buffer_init(&signature, OBJECT_BYTES);
		facts_signature(&signature, object);
		buffer_finish(&signature);
		check_inspection(object);
	}
	json_decref(object);
}

static void collect(void *context, const char *text, size_t len, bool is_whole)
{
	struct buffer *all = context;
	buffer_printf(all, "%d %zu ", is_whole, len);
	buffer_append(all, text, len);
}

static void feed(struct buffer *all, const char *text, size_t len, size_t piece,
	void (*take)(void *context, const char *text, size_t len, bool is_whole))
{
	struct objects objects;
	objects_init(&objects, OBJECT_BYTES, take, all);
	for (size_t at = 0; at < len; at += piece) {
		objects_feed(&objects, text + at, len - at < piece ? len - at : piece);
	}
	objects_finish(&objects);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct buffer whole;
	struct buffer pieces;
	buffer_init(&whole, SIZE_MAX);
	buffer_init(&pieces, SIZE_MAX);
	feed(&whole, (const char *)data, len, len, on_object);
	feed(&pieces, (const char *)data, len, 1, collect);
	assert(whole.len == pieces.len);
	assert(whole.len == 0 || memcmp(whole.data, pieces.data, whole.len) == 0);
	buffer_finish(&whole);
	buffer_finish(&pieces);
	return 0;
}
