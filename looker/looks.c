#include "looker/looks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/path.h"
#include "lib/base/text.h"
#include "lib/base/trust.h"
#include "lib/looker/allow.h"
#include "lib/looker/protocol.h"
#include "lib/program/memory.h"
#include "lib/record/record.h"
#include "looker/effort.h"
#include "looker/socket.h"
#include "looker/tree.h"
#include "looker/watches.h"

enum {
	MOST_CONTAINERS = 1025, /* one more than the agent serves, which it reports */
	MOST_LISTED = 16 * 1024,
	CONTAINER_NAME_BYTES = 64,
	MORE_CLAIMS = 64, /* records beyond the allowed number that are named as refused */
	FLUSH_BYTES = 32 * 1024,
};

#define NS_PER_MS INT64_C(1000000)
#define LOOK_NS (20 * NS_PER_MS) /* for one look */
#define WALK_NS (10 * NS_PER_MS) /* of that */
#define ABOVE UINT64_MAX         /* the set of the directory above */

static const char REGISTRY[] = "registry";

struct looks {
	struct wire *wire;
	struct watches *watches;
	char *path;
	int fd;
	struct stat status; /* of fd */
	int above;          /* its end makes no event in it while it is open */
};

/* ---- the directory of all ---- */

/* It must not be somebody else's: its subdirectories decide who may register what. */
static int open_directory(struct looks *looks, struct err *err)
{
	looks->fd = open(looks->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (looks->fd < 0 && errno == ENOENT) {
		if (mkdir(looks->path, 0700) != 0 && errno != EEXIST) {
			return err_set_errno(
				err, BERTH_FAILED, errno, "cannot make %s", looks->path);
		}
		looks->fd = open(looks->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (looks->fd < 0 || fstat(looks->fd, &looks->status) != 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot open %s", looks->path);
	}
	return trust_check_directory(looks->path, err);
}

static void watch_directory(struct looks *looks)
{
	watches_begin(looks->watches, 0, NULL);
	watches_add(looks->watches, looks->fd);
	(void)watches_end(looks->watches);
	if (looks->above >= 0) {
		watches_begin(looks->watches, ABOVE, path_name(looks->path));
		watches_add(looks->watches, looks->above);
		(void)watches_end(looks->watches);
	}
}

struct looks *looks_open(struct wire *wire, const char *path, struct err *err)
{
	struct looks *looks = memory_zeroed(1, sizeof(*looks));
	looks->wire = wire;
	looks->path = memory_text(path, strlen(path));
	looks->above = -1;
	effort_init();
	looks->watches = watches_create();
	if (open_directory(looks, err)) {
		looks_close(looks);
		return NULL;
	}
	looks->above = openat(looks->fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	watch_directory(looks);
	return looks;
}

void looks_close(struct looks *looks)
{
	if (!looks) {
		return;
	}
	watches_destroy(looks->watches);
	if (looks->fd >= 0) {
		close(looks->fd);
	}
	if (looks->above >= 0) {
		close(looks->above);
	}
	free(looks->path);
	free(looks);
}

int looks_directory(const struct looks *looks)
{
	return looks->fd;
}

/* Another directory may have taken its place, or none. */
static bool is_in_place(const struct looks *looks)
{
	struct stat named;
	return stat(looks->path, &named) == 0 && looks->status.st_dev == named.st_dev &&
		looks->status.st_ino == named.st_ino;
}

/* How many entries were sent. */
static size_t list_entry(struct looks *looks, const char *name, struct err *err)
{
	struct stat status;
	if (name[0] == '.' || strlen(name) > CONTAINER_NAME_BYTES) {
		return 0;
	}
	int fd = tree_open(looks->fd, name, false);
	if (fd < 0) {
		/* It is gone, or no directory; or nobody can say. */
		if (tree_is_want(errno)) {
			err_set_errno(err, BERTH_FAILED, errno, "cannot look at %s/%s", looks->path,
				name);
		}
		return 0;
	}
	bool seen = fstat(fd, &status) == 0;
	close(fd);
	if (seen) {
		wire_begin(looks->wire, LOOKER_ENTRY);
		wire_text(looks->wire, name);
		wire_number(looks->wire, status.st_dev);
		wire_number(looks->wire, status.st_ino);
		wire_end(looks->wire);
	}
	return seen;
}

static void list_entries(struct looks *looks, struct err *err)
{
	size_t listed = 0;
	int fd = openat(looks->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	if (!stream) {
		err_set_errno(err, BERTH_FAILED, errno, "cannot read %s", looks->path);
		if (fd >= 0) {
			close(fd);
		}
		return;
	}
	const struct dirent *entry;
	for (size_t i = 0; i < MOST_LISTED && listed < MOST_CONTAINERS && (entry = readdir(stream));
		i++) {
		listed += list_entry(looks, entry->d_name, err);
	}
	closedir(stream);
}

static void list(struct looks *looks)
{
	struct err err = ERR_INIT;
	bool in_place = is_in_place(looks);
	if (in_place) {
		watch_directory(looks);
		list_entries(looks, &err);
	}
	wire_begin(looks->wire, LOOKER_LISTED);
	wire_text(looks->wire, err.msg);
	wire_number(looks->wire, in_place ? 0 : LOOKER_ANOTHER);
	wire_end(looks->wire);
}

/* ---- one look: what is asked ---- */

struct claim {
	const char *path; /* first of what the tree compares; borrowed from the frame, or ours */
	bool is_new;
	bool waits; /* new, and over a limit unless one of those known has gone */
	struct tree_version version;
	uint64_t owner_inode;
	bool good; /* this version is a record */
};

/* Over records that are accepted. */
struct sums {
	size_t records;
	size_t bytes;
};

struct look {
	struct looks *looks;
	uint64_t id;
	const char *name;
	uint64_t device;
	uint64_t inode;
	unsigned flags; /* as asked */
	struct tree_place place;
	size_t max_records;
	size_t max_bytes;
	uid_t owner_uid;
	gid_t owner_gid;
	struct socket_place socket;
	const char **allow;
	size_t allow_count;
	const char **pins; /* a name and a value each */
	size_t pin_count;
	struct claim *claims;
	size_t claim_count;
	size_t known_count; /* of those, the first ones: as asked */
	size_t claim_max;
	void *by_path; /* tsearch() tree */

	int64_t until_ns;
	int registry_fd; /* -1: there is none */
	struct sums accepted;
	uint64_t registry_device;
	bool hands_owners; /* their locks may be asked for without asking anybody else */
	unsigned result;   /* flags of the answer */
	size_t looked_at;
	size_t more;
	struct err mistake; /* why the container is not served */
};

static int compare_paths(const void *a, const void *b)
{
	return strcmp(((const struct claim *)a)->path, ((const struct claim *)b)->path);
}

static size_t get_count(struct wire_frame *frame)
{
	uint64_t count = wire_get_number(frame);
	/* Each takes more bytes than one. */
	if (count > (size_t)(frame->end - frame->at)) {
		frame->bad = true;
		return 0;
	}
	return (size_t)count;
}

static const char **get_texts(struct wire_frame *frame, size_t count)
{
	const char **texts = memory_zeroed(count + 1, sizeof(*texts));
	for (size_t i = 0; i < count; i++) {
		texts[i] = wire_get_text(frame);
	}
	return texts;
}

static void get_claims(struct look *look, struct wire_frame *frame)
{
	look->known_count = get_count(frame);
	look->claim_count = look->known_count;
	look->claim_max = look->max_records + MORE_CLAIMS;
	if (look->claim_max < look->claim_count) {
		look->claim_max = look->claim_count;
	}
	/* Addresses in it are in the tree: it does not move. */
	look->claims = memory_zeroed(look->claim_max, sizeof(*look->claims));
	for (size_t i = 0; i < look->claim_count; i++) {
		struct claim *claim = &look->claims[i];
		claim->path = wire_get_text(frame);
		claim->version.inode = wire_get_number(frame);
		claim->version.size = wire_get_number(frame);
		claim->version.modified_ns = (int64_t)wire_get_number(frame);
		claim->version.changed_ns = (int64_t)wire_get_number(frame);
		claim->owner_inode = wire_get_number(frame);
		claim->good = wire_get_number(frame) != 0;
		memory_must(tsearch(claim, &look->by_path, compare_paths));
	}
}

static bool get_look(struct look *look, struct wire_frame *frame)
{
	look->id = wire_get_number(frame);
	look->name = wire_get_text(frame);
	look->device = wire_get_number(frame);
	look->inode = wire_get_number(frame);
	look->flags = (unsigned)wire_get_number(frame);
	look->looked_at = (size_t)wire_get_number(frame);
	text_printf(look->place.path, sizeof(look->place.path), "%s", wire_get_text(frame));
	look->place.left = (size_t)wire_get_number(frame);
	look->max_records = (size_t)wire_get_number(frame);
	look->max_bytes = (size_t)wire_get_number(frame);
	look->owner_uid = (uid_t)wire_get_number(frame);
	look->owner_gid = (gid_t)wire_get_number(frame);
	look->socket.device = wire_get_number(frame);
	look->socket.inode = wire_get_number(frame);
	look->allow_count = get_count(frame);
	look->allow = get_texts(frame, look->allow_count);
	look->pin_count = get_count(frame);
	look->pins = get_texts(frame, 2 * look->pin_count);
	get_claims(look, frame);
	return !frame->bad;
}

static void keep_node(void *node)
{
	(void)node;
}

static void finish_look(struct look *look)
{
	tdestroy(look->by_path, keep_node);
	for (size_t i = 0; i < look->claim_count; i++) {
		if (look->claims[i].is_new) {
			free((char *)(uintptr_t)look->claims[i].path);
		}
	}
	free(look->claims);
	free(look->allow);
	free(look->pins);
}

/* ---- one look: the subdirectory ---- */

/* Others than root and the agent could swap registry/ and the socket for something else. */
static int check_safe(const struct stat *status, struct err *err)
{
	bool ours = status->st_uid == 0 || status->st_uid == geteuid();
	return ours && !(status->st_mode & (S_IWGRP | S_IWOTH))
		? 0
		: err_set(err, BERTH_NO_PATH_PERMISSIONS,
			  "the subdirectory can be written by others than root: it must belong to "
			  "root, with mode 0755");
}

static void give(struct look *look, int registry_fd, const struct stat *status)
{
	if (look->owner_uid != (uid_t)-1 &&
		(status->st_uid != look->owner_uid || status->st_gid != look->owner_gid) &&
		fchown(registry_fd, look->owner_uid, look->owner_gid) != 0) {
		err_set_errno(
			&look->mistake, BERTH_FAILED, errno, "cannot give registry/ to its owner");
	}
}

static void renew_socket(struct look *look, int fd)
{
	int socket_fd;
	if (socket_renew(fd, &look->socket, &socket_fd, &look->mistake) || socket_fd < 0) {
		return;
	}
	struct wire *wire = look->looks->wire;
	wire_flush(wire);
	wire_begin(wire, LOOKER_SOCKET);
	wire_number(wire, look->socket.device);
	wire_number(wire, look->socket.inode);
	wire_end_with(wire, socket_fd);
	close(socket_fd);
}

/*
 * The agent asks for the locks of open files by itself when this process does not answer. A file
 * system with a server behind it could hold up the question.
 */
static bool is_local(int fd)
{
	static const unsigned long local[] = { 0x01021994 /* tmpfs */, 0x858458f6 /* ramfs */,
		0xef53 /* ext4 */, 0x58465342 /* XFS */, 0x9123683e /* btrfs */,
		0x794c7630 /* overlay */, 0xf2f52010 /* F2FS */, 0x2fc12fc1 /* ZFS */,
		0xca451a4e /* bcachefs */ };
	struct statfs status;
	bool known = false;
	if (fstatfs(fd, &status) == 0) {
		for (size_t i = 0; i < ARRAY_LEN(local); i++) {
			known = known || (unsigned long)status.f_type == local[i];
		}
	}
	return known;
}

/* Users of the host get no rights from a program or a device in it. */
static bool is_safe_mount(int fd)
{
	struct statvfs status;
	return fstatvfs(fd, &status) != 0 ||
		(status.f_flag & (ST_NOSUID | ST_NODEV)) == (ST_NOSUID | ST_NODEV);
}

/* registry/ as it is now: a file system may have been mounted there since. -1: `mistake` says why.
 */
static int open_registry(struct look *look, int fd, const struct stat *subdirectory)
{
	struct stat status;
	int registry_fd = tree_open(fd, REGISTRY, false);
	if (registry_fd < 0 && errno == ENOENT) {
		if (mkdirat(fd, REGISTRY, 0755) != 0 && errno != EEXIST) {
			err_set_errno(&look->mistake, BERTH_FAILED, errno, "cannot make registry/");
			return -1;
		}
		registry_fd = tree_open(fd, REGISTRY, false);
	}
	if (registry_fd < 0 || fstat(registry_fd, &status) != 0) {
		look->result |= tree_is_want(errno) ? LOOKER_UNSEEN : 0;
		err_set_errno(&look->mistake, BERTH_FAILED, errno,
			"cannot open registry/ as a directory");
		return registry_fd;
	}
	give(look, registry_fd, &status);
	look->registry_device = status.st_dev;
	look->hands_owners = is_local(registry_fd);
	look->result |= status.st_dev == subdirectory->st_dev ? LOOKER_UNBOUNDED : 0;
	look->result |= is_safe_mount(registry_fd) ? 0 : LOOKER_UNSAFE;
	return registry_fd;
}

/* ---- one look: the records ---- */

static bool is_allowed(const struct look *look, const char *path)
{
	bool allowed = false;
	for (size_t i = 0; i < look->allow_count && !allowed; i++) {
		allowed = looker_allows(look->allow[i], path);
	}
	return allowed && (look->flags & LOOKER_HAS_POLICY);
}

/* The record as it is to be announced: checked, and with the attributes of the policy. */
static int convert(const struct look *look, const struct tree_node *node, char **ret_text,
	size_t *ret_len, struct err *err)
{
	struct record *record = NULL;
	int code = record_decode_strictly(&record, node->data, node->len, err);
	for (size_t i = 0; code == 0 && i < look->pin_count; i++) {
		code = record_set_text(record, look->pins[2 * i], look->pins[2 * i + 1]);
		if (code) {
			code = err_set(err, BERTH_INVALID_RECORD,
				"an attribute of the policy is not UTF-8 text");
		}
	}
	if (code == 0) {
		code = record_encode(record, ret_text, ret_len, err);
	}
	record_free(record);
	return code;
}

/* Whether it is a good record. */
static bool send_record(struct look *look, const struct claim *claim, struct tree_node *node,
	bool unread, const struct err *refusal)
{
	struct wire *wire = look->looks->wire;
	struct err err = refusal->code ? *refusal : node->err;
	char *text = NULL;
	size_t len = 0;
	if (node->data && !err.code && convert(look, node, &text, &len, &err)) {
		text = NULL;
		len = 0;
	}
	bool read = text || err.code;
	wire_begin(wire, LOOKER_RECORD);
	wire_text(wire, claim->path);
	wire_number(wire, node->kind);
	wire_number(wire,
		(read ? LOOKER_READ : 0) | (unread ? LOOKER_UNREAD : 0) |
			(claim->is_new ? LOOKER_NEW : 0));
	wire_number(wire, node->version.inode);
	wire_number(wire, node->version.size);
	wire_number(wire, (uint64_t)node->version.modified_ns);
	wire_number(wire, (uint64_t)node->version.changed_ns);
	wire_number(wire, (uint64_t)(int64_t)err.code);
	if (text) {
		wire_bytes(wire, text, len);
	} else {
		wire_text(wire, err.msg);
	}
	wire_end(wire);
	free(text);
	return read ? text != NULL : claim->good;
}

static void send_owner(struct look *look, const struct claim *claim, const struct tree_node *node)
{
	struct wire *wire = look->looks->wire;
	if (!look->hands_owners || node->owner_device != look->registry_device ||
		node->owner_inode == claim->owner_inode) {
		return;
	}
	wire_flush(wire);
	wire_begin(wire, LOOKER_OWNER);
	wire_text(wire, claim->path);
	wire_number(wire, node->owner_device);
	wire_number(wire, node->owner_inode);
	wire_end_with(wire, node->owner_fd);
}

/* Judged before it is read: what is over a limit costs nothing but the question whether it lives.
 */
static void look_at(struct look *look, struct claim *claim)
{
	struct sums *sums = &look->accepted;
	struct err refusal = ERR_INIT;
	struct tree_node node;
	bool allowed = is_allowed(look, claim->path);
	bool counts = allowed && sums->records < look->max_records;
	const struct tree_want want = { .data = counts,
		.max_bytes = sums->bytes < look->max_bytes ? look->max_bytes - sums->bytes : 0,
		.known = &claim->version };
	tree_look(&node, look->registry_fd, claim->path, &want);
	bool live = node.kind == LOOKER_KIND_LIVE;
	look->result |= node.kind == LOOKER_KIND_UNSEEN ? LOOKER_UNSEEN : 0;
	bool unread = live && (!counts || node.too_large);
	if (live && allowed && !counts) {
		err_set(&refusal, BERTH_LIMIT_EXCEEDED, "max_records = %zu", look->max_records);
	} else if (live && node.too_large) {
		err_set(&refusal, BERTH_LIMIT_EXCEEDED, "max_bytes = %zu", look->max_bytes);
	}
	/* A new one may have gone again. */
	if (live || !claim->is_new) {
		bool good = send_record(look, claim, &node, unread, &refusal);
		if (live && good && !unread) {
			sums->records++;
			sums->bytes += (size_t)node.version.size;
			send_owner(look, claim, &node);
		}
	}
	tree_node_finish(&node);
	if (look->looks->wire->out.len >= FLUSH_BYTES) {
		wire_flush(look->looks->wire);
	}
}

/* Adds those that are known as good, from the one at `begin` on. */
static void accept_known(struct look *look, size_t begin, size_t end)
{
	for (size_t i = begin; i < end; i++) {
		const struct claim *claim = &look->claims[i];
		if (claim->good && is_allowed(look, claim->path)) {
			look->accepted.records++;
			look->accepted.bytes += (size_t)claim->version.size;
		}
	}
}

/* ---- one look: new records ---- */

static void on_live(void *context, const char *path)
{
	struct look *look = context;
	const struct claim key = { .path = path };
	if (tfind(&key, &look->by_path, compare_paths)) {
		return;
	}
	if (look->claim_count >= look->claim_max) {
		look->more++;
		return;
	}
	struct claim *claim = &look->claims[look->claim_count++];
	*claim = (struct claim){ .path = memory_text(path, strlen(path)), .is_new = true };
	memory_must(tsearch(claim, &look->by_path, compare_paths));
	/* At once: the walk does not come here again when the time is over. */
	claim->waits = look->accepted.records >= look->max_records;
	if (!claim->waits) {
		look_at(look, claim);
	}
}

static void on_unseen(void *context)
{
	((struct look *)context)->result |= LOOKER_UNSEEN;
}

static void on_directory(void *context, int fd)
{
	const struct look *look = context;
	if (look->flags & LOOKER_WATCH) {
		watches_add(look->looks->watches, fd);
	}
}

static void walk(struct look *look, int fd, int64_t began_ns)
{
	const struct tree_walk walk = {
		.until_ns = began_ns + WALK_NS,
		.on_directory = on_directory,
		.on_live = on_live,
		.on_unseen = on_unseen,
		.context = look,
	};
	if (*look->place.path) {
		watches_go_on(look->looks->watches, look->id);
	} else {
		watches_begin(look->looks->watches, look->id, NULL);
	}
	on_directory(look, fd);
	accept_known(look, 0, look->known_count);
	const struct sums known = look->accepted;
	enum tree_end end = look->registry_fd < 0
		? TREE_WHOLE
		: tree_walk(&walk, look->registry_fd, &look->place);
	look->accepted.records -= known.records;
	look->accepted.bytes -= known.bytes;
	if (end != TREE_OUT_OF_TIME) {
		bool complete = watches_end(look->looks->watches);
		look->result |= (complete ? 0 : LOOKER_INCOMPLETE) |
			(end == TREE_MANY_ENTRIES ? LOOKER_PARTIAL : 0);
		*look->place.path = '\0';
	}
}

/* ---- one look: the records that are known ---- */

/* Those before `looked_at` were looked at in the look before, whose time was over. */
static void look_at_known(struct look *look)
{
	size_t i = look->looked_at < look->known_count ? look->looked_at : 0;
	look->looked_at = 0;
	accept_known(look, 0, i);
	for (size_t first = i; i < look->known_count; i++) {
		if (i > first && clock_read_ns(CLOCK_MONOTONIC) >= look->until_ns) {
			look->looked_at = i;
			accept_known(look, i, look->known_count);
			return;
		}
		look_at(look, &look->claims[i]);
	}
}

static void look_at_waiting(struct look *look)
{
	for (size_t i = look->known_count; i < look->claim_count; i++) {
		if (look->claims[i].waits) {
			look_at(look, &look->claims[i]);
		}
	}
}

static void look_into(struct look *look, int fd, const struct stat *status, int64_t began_ns)
{
	if (check_safe(status, &look->mistake) == 0) {
		/* Before registry/, so that a container that finds that can ask. */
		renew_socket(look, fd);
		look->registry_fd = open_registry(look, fd, status);
	}
	if (!(look->flags & LOOKER_WATCH)) {
		watches_forget(look->looks->watches, look->id);
	}
	if (!(look->result & LOOKER_UNSEEN)) {
		if (look->flags & LOOKER_WALK) {
			walk(look, fd, began_ns);
		}
		look_at_known(look);
		look_at_waiting(look);
	}
	if (look->registry_fd >= 0) {
		close(look->registry_fd);
	}
}

static bool look_at_container(struct looks *looks, struct wire_frame *frame)
{
	int64_t began_ns = clock_read_ns(CLOCK_MONOTONIC);
	int64_t effort_before_ns = effort_ns();
	struct look look = { .looks = looks, .until_ns = began_ns + LOOK_NS, .registry_fd = -1 };
	if (!get_look(&look, frame)) {
		finish_look(&look);
		return false;
	}
	struct stat status;
	int fd = tree_open(looks->fd, look.name, false);
	if (fd >= 0 && fstat(fd, &status) == 0 && status.st_dev == look.device &&
		status.st_ino == look.inode) {
		look_into(&look, fd, &status, began_ns);
	} else {
		look.result |= fd < 0 && tree_is_want(errno) ? LOOKER_UNSEEN : LOOKER_GONE;
	}
	if (fd >= 0) {
		close(fd);
	}
	wire_begin(looks->wire, LOOKER_LOOKED);
	wire_number(looks->wire, look.id);
	wire_number(looks->wire, look.result);
	wire_number(looks->wire, look.looked_at);
	wire_text(looks->wire, look.place.path);
	wire_number(looks->wire, look.place.left);
	wire_number(looks->wire, look.more);
	wire_number(looks->wire, (uint64_t)(effort_ns() - effort_before_ns));
	wire_text(looks->wire, look.mistake.msg);
	wire_end(looks->wire);
	finish_look(&look);
	return true;
}

bool looks_answer(struct looks *looks, struct wire_frame *frame)
{
	switch (frame->type) {
	case LOOKER_LIST:
		list(looks);
		return true;
	case LOOKER_LOOK:
		return look_at_container(looks, frame);
	case LOOKER_FORGET:
		watches_forget(looks->watches, wire_get_number(frame));
		return !frame->bad;
	default:
		return false;
	}
}

/* ---- events ---- */

int looks_events_fd(const struct looks *looks)
{
	return watches_fd(looks->watches);
}

static void on_events(void *context, uint64_t set, unsigned what, size_t count)
{
	struct wire *wire = context;
	wire_begin(wire, LOOKER_EVENT);
	wire_number(wire, set == ABOVE ? 0 : set);
	wire_number(wire, what);
	wire_number(wire, count);
	wire_end(wire);
}

void looks_on_events(struct looks *looks)
{
	watches_read(looks->watches, on_events, looks->wire);
}

/* A look at everything watches it; without inotify the list of containers is read once a second. */
void looks_on_time(struct looks *looks)
{
	unsigned what = watches_retry(looks->watches, clock_read_ns(CLOCK_MONOTONIC) / NS_PER_MS);
	if (what) {
		on_events(looks->wire, 0, what, 1);
	}
}
