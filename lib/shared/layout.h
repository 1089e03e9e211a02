/*
 * The memory file in which the agent shares ready answers with the processes of its machine.
 *
 *   header, 4 KiB | slots of 64 bytes, open addressing | arena of blocks
 *
 * Every field is a word of 8 bytes in the machine's byte order, written and read by atomic
 * operations alone. docs/PROTOCOL.md describes layout and protocol for readers in other languages;
 * lib/shared/read.h is the reader in C, agent/shared/map.h the writer.
 */
#ifndef LIB_SHARED_LAYOUT_H
#define LIB_SHARED_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define SHARED_MAGIC UINT64_C(0x50414d4854524542) /* "BERTHMAP" on a little-endian machine */
#define SHARED_VERSION 1

#define SHARED_HEADER_BYTES 4096
#define SHARED_SLOT_BYTES 64
#define SHARED_WORD_BYTES 8
#define SHARED_TAG_BYTES 24           /* an entity tag with its quotes, padded with NUL */
#define SHARED_KEY_BYTES 1024         /* longer keys are for the socket */
#define SHARED_VALUE_BYTES (16 << 10) /* and so are longer values */
#define SHARED_MAX_BYTES (1u << 30)   /* of a file */

enum { SHARED_PROBES = 32 };

/* Words of the header. Those up to TIME_NAMESPACE do not change. */
enum shared_header {
	SHARED_H_MAGIC,
	SHARED_H_VERSION,
	SHARED_H_SIZE,  /* of the file */
	SHARED_H_SLOTS, /* how many; a power of 2 */
	SHARED_H_ARENA, /* where it begins */
	SHARED_H_KEY_0, /* of SipHash-1-3, random for each file */
	SHARED_H_KEY_1,
	SHARED_H_TIME_NAMESPACE, /* inode of /proc/self/ns/time of the writer */
	SHARED_H_STATE = 16,     /* enum shared_state; a cache line of its own begins here */
	SHARED_H_LIVE_UNTIL,     /* the lease: ns of CLOCK_BOOTTIME */
	SHARED_H_SERIAL          /* counts the changes of slots */
};

/* FILLED: not to be used yet. RETIRED: for good; the agent has another file, or none. */
enum shared_state { SHARED_FILLED = 0, SHARED_LIVE = 1, SHARED_RETIRED = 2 };

/* Words of a slot. */
enum shared_slot {
	SHARED_S_SEQUENCE, /* odd: being written */
	SHARED_S_HASH,     /* of the key; 0: never used, which ends a search */
	SHARED_S_OFFSET,   /* of its block in the file; a multiple of 8 */
	SHARED_S_LENGTHS,  /* the key's in the low half, the value's in the high half */
	SHARED_S_STATUS,   /* enum shared_status in the low half, for ERROR its code in the high */
	SHARED_SLOT_WORDS = SHARED_SLOT_BYTES / SHARED_WORD_BYTES
};

/*
 * ANSWER: the value is the body of the answer. ERROR: it is the text of an error; the code is that
 * of enum berth_error, without its sign. ASK: only the socket knows.
 */
enum shared_status { SHARED_ANSWER = 1, SHARED_ERROR = 2, SHARED_ASK = 3 };

/* Bytes of the key in a block, with its NUL and the pad behind. The tag follows, then the value. */
static inline size_t shared_key_room(size_t key_len)
{
	return (key_len + SHARED_WORD_BYTES) & ~(size_t)(SHARED_WORD_BYTES - 1);
}

/* Whole words. */
static inline size_t shared_block_bytes(size_t key_len, size_t value_len)
{
	return shared_key_room(key_len) + SHARED_TAG_BYTES + shared_key_room(value_len);
}

#endif
