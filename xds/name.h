/*
 * From a resource's name to the registry paths of its records, and the choice of their endpoints.
 * Pure.
 *
 *   prod.web.devteam           the instance /users/devteam/web/prod: its own record and those of
 *                              its components; or the node /devteam/web/prod, when it exists
 *   c1.prod.web.devteam        one component
 *   db.services                the node /services/db
 *   _http._tcp.NAME            those endpoints of NAME whose protocol, or whose api's last part, is
 *                              http
 *   canary.track._attr.NAME    those of records with the attribute track=canary, as labels; after
 *                              a service, and several if need be
 *   NAME?attribute.track=canary  the same exactly, after a name or a path
 *   /users/devteam/web/prod/components    a path: the record there and those of direct children
 *
 * A name is that of the DNS (agent/names/names.h), with or without the domain at its end. A port
 * behind it (NAME:8080), which users of gRPC write, changes nothing: endpoints have their own.
 */
#ifndef XDS_NAME_H
#define XDS_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/limits.h"
#include "lib/base/path.h"

enum { NAME_TEXT_BYTES = LIMIT_PATH_BYTES + 1, NAME_PLACES = 5 };

/* Which records belong to a place. */
enum name_shape {
	NAME_NODE,     /* that at the path */
	NAME_CHILDREN, /* and those of its direct children */
	NAME_INSTANCE  /* and those of the children of its node `components` */
};

struct name_place {
	enum name_shape shape;
	char *path;
	/*
	 * The length of the beginning of the path that rarely exists: while there is no such node,
	 * the place does not exist either. Names share these. 0: none.
	 */
	size_t guard_len;
};

struct name_meaning {
	char *service; /* the label of the endpoints; NULL: of all */
	/*
	 * The attributes that the records must have, in lines NAME=VALUE: as labels, and exactly.
	 * NULL: any.
	 */
	char *labels;
	char *selection;
	/* The first of these that exists is meant. None: such a name can mean nothing. */
	struct name_place *places;
	size_t count; /* NAME_PLACES at most */
};

/*
 * `domain`: in lower case, without a dot at its end. The caller's memory, for
 * name_meaning_finish().
 */
void name_read(struct name_meaning *ret_meaning, const char *name, const char *domain);
/* Puts all places below `root`, a path or "". It drops places whose paths become too long. */
void name_meaning_below(struct name_meaning *meaning, const char *root);
void name_meaning_finish(struct name_meaning *meaning);

/*
 * The shortest name that a record at `path` belongs to, for subscribers to everything: of a
 * component, that of its instance. False when it would be no DNS name.
 */
bool name_of_path(char out[PATH_DNS_NAME_BYTES], const char *path);

#endif
