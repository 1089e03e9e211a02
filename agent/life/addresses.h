/*
 * Follows the addresses of this machine: records, checks, listeners, outputs and all else with
 * ${berth.ip} and its like, without a reload.
 *
 *   KNOWN --another one--> KNOWN
 *   KNOWN --gone, and for some seconds none came--> UNKNOWN: what needs it waits
 *   UNKNOWN --one comes--> KNOWN
 */
#ifndef AGENT_LIFE_ADDRESSES_H
#define AGENT_LIFE_ADDRESSES_H

struct agent;

/* Before anything that may look; the kernel's news come after agent_addresses_watch(). */
void agent_addresses_init(struct agent *agent);
void agent_addresses_watch(struct agent *agent);
void agent_addresses_finish(struct agent *agent);
/* Looks now. */
void agent_addresses_look(struct agent *agent);

#endif
