/*
 * top: status, checks and history on one screen, drawn again every second, until q.
 *
 * The output of the three verbs goes into memory first. The screen then gets as many lines as it
 * has rows in one write, so that it neither flickers nor scrolls.
 */
#include "cli/cli.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

enum {
	EVERY_MS = 1000,
	HISTORY_MIN = 3,
	ROWS_UNKNOWN = 24,
};

/* The other screen, without a cursor; what does not fit into a row is cut, not wrapped. */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"
#define HOME "\033[H"
#define TO_EOL "\033[K\n"
#define TO_END "\033[K\033[J"

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

/* Interrupts the wait, so that the screen is drawn in its new size at once. */
static void on_resize(int number)
{
	(void)number;
}

static size_t rows(void)
{
	struct winsize size;
	bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
	return known ? size.ws_row : ROWS_UNKNOWN;
}

/* The content of one screen; NULL for requests that the agent did not answer. */
struct documents {
	json_t *agent;
	json_t *checks;
	json_t *history;
	struct berth_failure failure; /* when something is NULL */
};

typedef int ask(struct berth *berth, struct berth_answer *ret, struct berth_failure *failure);

static json_t *fetch(struct cli *cli, ask *question, struct berth_failure *failure)
{
	struct berth_answer answer;
	return question(cli->berth, &answer, failure) == 0 ? cli_parse_take(&answer) : NULL;
}

static void fetch_all(struct cli *cli, struct documents *ret)
{
	*ret = (struct documents){ 0 };
	ret->agent = fetch(cli, berth_status, &ret->failure);
	ret->checks = ret->agent ? fetch(cli, berth_checks, &ret->failure) : NULL;
	ret->history = ret->checks ? fetch(cli, berth_history, &ret->failure) : NULL;
}

static void release_all(struct documents *documents)
{
	json_decref(documents->agent);
	json_decref(documents->checks);
	json_decref(documents->history);
}

static void print_all(struct cli *cli, const struct documents *documents, size_t history_count)
{
	if (documents->agent) {
		cli_print_status(cli, documents->agent);
	}
	if (json_array_size(documents->checks) > 0) {
		putchar('\n');
		cli_print_checks(cli, documents->checks);
	}
	if (json_array_size(documents->history) > 0) {
		putchar('\n');
		cli_print_history(cli, documents->history, history_count);
	}
	if (!documents->history) {
		fputs("no answer from the agent: ", stdout);
		output_line(documents->failure.message);
	}
}

/* All that is in a file; free(). NULL without memory. */
static char *read_all(int fd)
{
	struct stat stat;
	char *text = fstat(fd, &stat) == 0 ? calloc(1, (size_t)stat.st_size + 1) : NULL;
	if (text && pread(fd, text, (size_t)stat.st_size, 0) != stat.st_size) {
		*text = '\0';
	}
	return text;
}

/* The output of print_all(); free(). NULL when the kernel or malloc() refuses. */
static char *capture(struct cli *cli, const struct documents *documents, size_t history_count)
{
	char *text = NULL;
	fflush(stdout);
	int terminal = dup(STDOUT_FILENO);
	int memory = memfd_create("berth-top", MFD_CLOEXEC);
	if (terminal >= 0 && memory >= 0 && dup2(memory, STDOUT_FILENO) >= 0) {
		print_all(cli, documents, history_count);
		fflush(stdout);
		dup2(terminal, STDOUT_FILENO);
		text = read_all(memory);
	}
	if (memory >= 0) {
		close(memory);
	}
	if (terminal >= 0) {
		close(terminal);
	}
	return text;
}

static size_t count_lines(const char *text)
{
	size_t count = 0;
	for (; (text = strchr(text, '\n')) != NULL; text++) {
		count++;
	}
	return count;
}

/* With as much history as the screen has room for: its newest items are the last lines. */
static char *capture_fitting(struct cli *cli, const struct documents *documents, size_t room)
{
	size_t history = room;
	char *text = capture(cli, documents, history);
	while (text && count_lines(text) > room && history > HISTORY_MIN) {
		size_t excess = count_lines(text) - room;
		history = history > excess + HISTORY_MIN ? history - excess : HISTORY_MIN;
		free(text);
		text = capture(cli, documents, history);
	}
	return text;
}

static void draw(struct cli *cli)
{
	struct documents documents;
	output_init(&cli->output, false);
	fetch_all(cli, &documents);
	size_t room = rows() - 1;
	char *text = capture_fitting(cli, &documents, room);
	release_all(&documents);
	fputs(HOME, stdout);
	const char *line = text ? text : "";
	for (size_t i = 0; i < room && *line; i++) {
		size_t len = strcspn(line, "\n");
		printf("%.*s" TO_EOL, (int)len, line);
		line += len + (line[len] == '\n');
	}
	fputs(TO_END, stdout);
	fflush(stdout);
	free(text);
}

/* Until the next drawing, or a key; true to go on. A signal, such as a new size, ends it too. */
static bool wait_for_key(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	char key;
	if (poll(&input, 1, EVERY_MS) <= 0) {
		return !stopped;
	}
	return read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q' && key != 3;
}

int verb_top(struct cli *cli)
{
	struct termios before;
	output_init(&cli->output, false);
	if (!cli->output.terminal || tcgetattr(STDIN_FILENO, &before) != 0) {
		return output_usage(
			"top needs a terminal; for programs there are status, checks and "
			"history, with --json");
	}
	struct sigaction action = { .sa_handler = on_signal };
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	struct sigaction resized = { .sa_handler = on_resize };
	sigaction(SIGWINCH, &resized, NULL);
	struct termios raw = before;
	raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	fputs(ENTER, stdout);
	do {
		draw(cli);
	} while (!stopped && wait_for_key());
	fputs(LEAVE, stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
	return 0;
}
