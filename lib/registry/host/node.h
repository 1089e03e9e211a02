/*
 * The host agent's answer about a node or a list becomes the result of a task. The JSON may be
 * anything: it comes from another process, of another version.
 */
#ifndef LIB_REGISTRY_HOST_NODE_H
#define LIB_REGISTRY_HOST_NODE_H

#include <jansson.h>

#include "lib/registry/backend.h"

/* Fills the results of a get, stat or children task from a READ event. */
void host_node_take(struct registry_task *task, const json_t *event);

#endif
