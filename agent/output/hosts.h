/*
 * The addresses of the host names in an output, for a format whose reader refuses names that it
 * cannot look up.
 *
 * Each name is looked up in a child when it appears, and again every half minute. A name that
 * cannot be looked up any more keeps its last addresses. A round of look-ups has a deadline, and so
 * has each name in it, so that names which nobody answers do not hold the others.
 */
#ifndef AGENT_OUTPUT_HOSTS_H
#define AGENT_OUTPUT_HOSTS_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/render/render.h"

#define OUTPUT_HOSTS_MAX 256

struct output_hosts;

/*
 * on_change comes from the loop: when the round ended that output_hosts_want() began, and when a
 * later one has found other addresses.
 */
struct output_hosts *output_hosts_create(
	struct ev_loop *loop, void (*on_change)(void *context), void *context);
/* Accepts NULL. */
void output_hosts_destroy(struct output_hosts *hosts);

/*
 * The names that are followed from now on are those of the picture, OUTPUT_HOSTS_MAX at most. True
 * when all of them have been looked up; otherwise that begins, and on_change comes.
 */
bool output_hosts_want(struct output_hosts *hosts, const struct render_picture *picture,
	const struct render_filter *filter);

/* The address of this number as text, in a stable order; NULL behind the last. */
const char *output_hosts_address(void *hosts, const char *name, size_t index);

#endif
