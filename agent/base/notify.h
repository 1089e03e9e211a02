/*
 * Readiness for service managers, spoken without their libraries: systemd's datagrams to
 * $NOTIFY_SOCKET, and s6's newline on a descriptor.
 */
#ifndef AGENT_BASE_NOTIFY_H
#define AGENT_BASE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Reads $NOTIFY_SOCKET, $WATCHDOG_USEC/$WATCHDOG_PID; `ready_fd` is s6's notification descriptor,
 * -1 for none.
 */
void notify_init(int ready_fd);

/*
 * Each does nothing without a manager that listens, and none waits for one that is busy: what its
 * socket does not take goes with the next call, or with notify_again().
 */
void notify_ready(void);
void notify_reloading(void);
void notify_stopping(void);
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
void notify_watchdog(void);

/* True when the manager has all; else it is called again a little later. */
bool notify_again(void);

/* The interval between calls of notify_watchdog() (half of the manager's limit); 0: never. */
int64_t notify_watchdog_interval_ms(void);

#endif
