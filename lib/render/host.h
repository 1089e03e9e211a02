/*
 * Whether every reader of the formats can take a host, and in which form. Pure.
 */
#ifndef LIB_RENDER_HOST_H
#define LIB_RENDER_HOST_H

enum render_host {
	RENDER_HOST_ADDRESS, /* an IPv4 or IPv6 address */
	RENDER_HOST_NAME,    /* by its grammar: nobody has looked it up */
	RENDER_HOST_BAD
};

/*
 * Tells what the text is. An IPv6 address gets its canonical form (RFC 5952), in place: proxies
 * print that one, whatever they were given. A name has labels of letters, digits, '-' and '_'; it
 * is bad when some resolvers take it for a number (127.1, 0x7f000001), or for a name of another
 * kind because a label begins with '_'.
 */
enum render_host render_host_read(char *host);

#endif
