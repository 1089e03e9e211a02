/*
 * A block of lines in a hosts file that others write, too, between marks with a name. Pure.
 *
 *   127.0.0.1 localhost
 *   # BEGIN berth web
 *   10.0.0.1	c1.prod.web.joe.berth
 *   # END berth web
 *
 * All lines outside of the marks stay. Lines that Berth 0.2.0 wrote had no marks and a head of
 * their own, "# components of PATH": those go when the block comes.
 */
#ifndef AGENT_BASE_HOSTS_BLOCK_H
#define AGENT_BASE_HOSTS_BLOCK_H

#include <stddef.h>

#include "lib/base/buffer.h"
#include "lib/base/err.h"

/* The lines of a block; borrowed. */
struct hosts_block {
	const char *name;   /* of letters, digits, . _ and - */
	const char *domain; /* that the names of 0.2.0 end in */
	const char *lines;  /* whole ones */
	size_t len;
};

/*
 * Appends to `out` the file `text` with this block in place of the one of this name, or with the
 * block at its end. BERTH_FAILED when a mark lacks its counterpart or there is more than one block:
 * nobody can tell then which lines are whose.
 */
int hosts_block_put(struct buffer *out, const char *text, size_t len,
	const struct hosts_block *block, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(5);

#endif
