/*
 * The share of the program that one client may take. A client is what lib/base/share.h says;
 * all its connections together have one share, so that a thousand of them leave the others theirs.
 * Pure: the time is passed in.
 *
 *   connections  three quarters of all
 *   names        and the streams of the agent that it makes the world follow: three times as many
 *                as are free (follow.h); a name that is followed already costs nothing
 *   memory       for what it has sent in part, for its subscriptions, and for what it has not read;
 *                that of all clients is bounded, too
 *   work         half of the program's time, after a burst: beyond that it is not listened to for a
 *                while
 */
#ifndef XDS_SHARE_H
#define XDS_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "xds/follow.h"

enum {
	SHARE_BYTES = 64 << 20,
	SHARE_ALL_BYTES = 256 << 20,
	SHARE_BURST_US = 200000,
	SHARE_DEBT_US = SHARE_BURST_US + 1000000 /* at most: it waits for two seconds, no longer */
};

struct shares; /* of all clients */
struct share;

/* `connections`: how many there may be. */
struct shares *shares_create(size_t connections);
/* Without connections. */
void shares_destroy(struct shares *shares);

/*
 * The share of the client at the other end of a connected socket, for another connection; until
 * share_leave(). NULL: it has as many connections as it may have.
 */
struct share *share_join(struct shares *shares, int fd);
void share_leave(struct share *share);

struct follow_quota *share_quota(struct share *share);

/*
 * Memory that a connection holds, before and now. False: the client, or all of them, hold too much,
 * and the connection has to go.
 */
bool share_hold(struct share *share, size_t before, size_t now);

/* The program has worked for the client. */
void share_work(struct share *share, int64_t work_us, int64_t now_us);
/* How long the client has to wait until it is listened to again; 0: not at all. */
int64_t share_pause_us(struct share *share, int64_t now_us);

#endif
