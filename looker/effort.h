/*
 * How long this process has worked or was held up, and not how long the machine had no processor
 * for it: nobody that is looked at can help a busy machine.
 */
#ifndef LOOKER_EFFORT_H
#define LOOKER_EFFORT_H

#include <stdint.h>

/* Before /proc is out of reach. Where the kernel does not count, all time is effort. */
void effort_init(void);
/* On a clock of its own: only differences mean something. */
int64_t effort_ns(void);

#endif
