/*
 * The grammar of names: which paths a name may mean, and which of their records. Pure. DNS, NSS,
 * GET /v1/names and sets, and through them xDS, have this one.
 *
 * A path's elements in reverse order, then the domain: /services/db is db.services.berth. Below
 * /users the elements `users` and `components`, and Hadoop's level `services`, may be left out:
 *
 *   c1.components.prod.web.joe.users   /users/joe/web/prod/components/c1
 *   c1.prod.web.joe                    the same
 *   prod.web.joe                       the instance's own record and all its components
 *   c1.app.joe, worker.app.joe         Hadoop: the records below /users/joe/services/CLASS/app
 *                                      with description c1, or with yarn:component worker
 *   ctr-e50-1-1-1                      the record whose path ends so, among those that are known
 *   ip-10-0-0-1.NAME                   that address, when NAME has it: the target of an SRV answer
 *                                      when a record has several addresses
 *
 * The first path that exists is meant. A name that ends in NAME.net is one of the further registry
 * NAME: the rules are the same for what is before that, and all paths begin with /net/NAME.
 *
 * A name with a first part _SERVICE._tcp or _SERVICE._udp asks for the endpoints whose protocol, or
 * whose api's last part, is SERVICE.
 *
 * Before the name, and after a service, VALUE.ATTRIBUTE._attr asks for the records with that
 * attribute; there may be several: canary.track._attr.2.shard._attr.NAME.
 */
#ifndef LIB_NAMES_MEANING_H
#define LIB_NAMES_MEANING_H

#include "lib/names/text.h"
#include "lib/record/record.h"

/* A name, read. */
struct names_name {
	struct names_labels labels; /* without domain and NAME.net */
	const char *service;        /* NULL: every endpoint, else those of this service */
	size_t service_labels;      /* 2; 1 for a bare _tcp; 0 */
	size_t attribute_labels;    /* behind them: VALUE.NAME._attr, several times */
	size_t first;               /* the label behind all of them */
	bool has_address;           /* that label is an address's */
	struct names_address address;
	/* "", or the path below which all that it may mean lies: /net/NAME. */
	char base[sizeof("/net/") + PATH_DNS_NAME_BYTES];
};

/*
 * Reads what is left of a name without the domain. All of its paths lie below `root`, a path, or
 * "".
 */
void names_read(struct names_name *ret_name, const struct names_labels *labels, const char *root);
/* Can a record have that name? */
bool names_can_be(const struct names_name *name);
/* The same name below another path; false when the path is too long. */
bool names_below(struct names_name *ret_name, const struct names_name *name, const char *root);

/* Questions about a record, which the source of nodes answers. */
enum names_trait {
	NAMES_HAS_ATTRIBUTES,      /* all that the name asks for */
	NAMES_HAS_ADDRESS,         /* the name's */
	NAMES_IS_COMPONENT,        /* Hadoop's, by the name's first label */
	NAMES_IS_COMPONENT_BEHIND, /* by the label behind an address's */
	NAMES_TRAITS
};
bool names_record_is(
	const struct names_name *name, const struct record *record, enum names_trait trait);

enum names_known {
	NAMES_NODE_THERE,
	NAMES_NODE_ABSENT,
	NAMES_NODE_PENDING, /* being read */
	NAMES_NODE_UNKNOWN  /* never read, and the registry is away */
};

/* A record is what the source takes for one. */
typedef void names_visit(void *context, const char *path, const void *record);

/* Nodes of the registry; its results are borrowed during the call. */
struct names_source {
	void *context;
	/* *ret_record is NULL for a node without a record that can be read. */
	enum names_known (*node)(void *context, const char *path, const void **ret_record);
	/* Full paths, sorted. */
	enum names_known (*children)(
		void *context, const char *path, char *const **ret_paths, size_t *ret_count);
	/*
	 * Visits the records that are known without reading and that have the key, and perhaps
	 * others. THERE or PENDING. May be NULL: there are none.
	 */
	enum names_known (*each_known)(
		void *context, uint64_t key, names_visit *visit, void *visit_context);
	/* NULL: they are of struct record. */
	bool (*is)(void *context, const struct names_name *name, const void *record,
		enum names_trait trait);
};

/* The result of a search; `pending` and `unknown` before `found`. */
struct names_found {
	bool found;      /* a path that the name may mean exists */
	bool pending;    /* something is being read: the search has to be made again */
	bool unknown;    /* something that counts is unknown */
	bool by_address; /* the records have the name's address, and it is meant alone */
};

/* Calls `collect` for each record that the name means. */
struct names_found names_find(const struct names_name *name, const struct names_source *source,
	names_visit *collect, void *context);

#endif
