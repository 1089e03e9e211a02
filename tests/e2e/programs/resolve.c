/* Prints the addresses of each name as the C library resolves it: NAME: ADDRESS ADDRESS, sorted. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

int main(int argc, char **argv)
{
	static char texts[1024][INET6_ADDRSTRLEN];
	for (int i = 1; i < argc; i++) {
		struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
		struct addrinfo *found = NULL;
		size_t count = 0;
		int error = getaddrinfo(argv[i], NULL, &hints, &found);
		printf("%s:", argv[i]);
		for (struct addrinfo *at = found; !error && at && count < 1024; at = at->ai_next) {
			getnameinfo(at->ai_addr, at->ai_addrlen, texts[count++], INET6_ADDRSTRLEN,
				NULL, 0, NI_NUMERICHOST);
		}
		qsort(texts, count, sizeof(texts[0]), by_text);
		for (size_t at = 0; at < count; at++) {
			printf(" %s", texts[at]);
		}
		printf("%s%s\n", error ? " " : "", error ? gai_strerror(error) : "");
		if (!error) {
			freeaddrinfo(found);
		}
	}
	return 0;
}
