/*
 * Looks a name up by the NSS module itself, as glibc would: nss_look_up MODULE NAME, and then a
 * number on each line of stdin, so many times. Prints the addresses in one line, or the status.
 * Around the calls it writes "begin" and "end" to stderr, for a tracer.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <nss.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef enum nss_status look_up(const char *name, struct hostent *host, char *buffer, size_t size,
	int *error, int *h_error);

static void mark(const char *word, long count)
{
	char text[64];
	int len = snprintf(text, sizeof(text), "%s %ld\n", word, count);
	if (write(2, text, (size_t)len) != len) {
		exit(1);
	}
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	void *module = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void *symbol = module ? dlsym(module, "_nss_berth_gethostbyname_r") : NULL;
	look_up *call;
	char line[64];
	if (!symbol) {
		fprintf(stderr, "nss_look_up: %s\n", argc == 3 ? dlerror() : "MODULE NAME");
		return 1;
	}
	memcpy(&call, &symbol, sizeof(call));
	while (fgets(line, sizeof(line), stdin)) {
		struct hostent host;
		char buffer[4096];
		char text[INET_ADDRSTRLEN];
		int error, h_error;
		enum nss_status status = NSS_STATUS_UNAVAIL;
		long count = strtol(line, NULL, 10);
		mark("begin", count);
		double began = seconds();
		for (long i = 0; i < count; i++) {
			status = call(argv[2], &host, buffer, sizeof(buffer), &error, &h_error);
		}
		double took = seconds() - began;
		mark("end", count);
		printf("%d %.0f", (int)status, took / (double)count * 1e9);
		for (char **at = host.h_addr_list; status == NSS_STATUS_SUCCESS && *at; at++) {
			printf(" %s", inet_ntop(AF_INET, *at, text, sizeof(text)));
		}
		printf("\n");
		fflush(stdout);
	}
	return 0;
}
