#include "tests/sim/agent.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/addresses.h"
#include "tests/sim/answers.h"
#include "tests/sim/children.h"
#include "tests/sim/configurations.h"
#include "tests/sim/file_children.h"
#include "tests/sim/process.h"
#include "tests/sim/question.h"
#include "tests/sim/sim.h"
#include "tests/sim/sockets.h"

enum { PATH_BYTES = 200 };
enum { MOST_BETWEEN_QUESTIONS_MS = 20 * SIM_SECOND, OUTPUT_BYTES = 4096 };
enum { REQUEST_MS = 10 * SIM_SECOND }; /* until a request times out */
enum { MOST_MEMORY = 24 << 20, MOST_FILES = 100, NO_MEMORY_MS = 2000, MOST_AFTER_READ = 200 };

enum phase { DOWN, RUNNING, STOPPING };

struct sim_agent {
	struct net *net;
	const struct world *world;
	int number;
	struct sim_random random;
	enum phase phase;
	enum sim_health health;
	int64_t health_ms; /* since when */
	struct sim_drain drain;
	unsigned configuration;
	int64_t disturbed_ms;
	int64_t down_ms;  /* since when it is down */
	int64_t start_ms; /* when it starts again by itself; 0: not */
	unsigned starts;
	char *writes;         /* its output has this content, as it decided in this turn */
	int64_t connected_ms; /* to the registry, for the last time */
	bool informed;        /* by the registry, or by the state of an agent before that was */
	struct sim_random questions;
	int64_t asks_at_ms;
	struct process *process;
	struct client *client;
	char config_path[PATH_BYTES];
	char *argv[4];
};

static char folder[PATH_BYTES];
static struct sim_agent *agents[SIM_MOST];

/* ---- files ---- */

const char *sim_agent_file(const struct sim_agent *agent, const char *name)
{
	static char path[PATH_BYTES + 100];
	snprintf(path, sizeof(path), "%s/%d/%s", folder, agent->number, name);
	return path;
}

void sim_agents_begin(const char *to)
{
	snprintf(folder, sizeof(folder), "%s", to);
	configurations_make(folder);
}

static void remove_files(const struct sim_agent *agent, const char *name)
{
	DIR *directory = opendir(sim_agent_file(agent, name));
	const struct dirent *entry;
	while (directory && (entry = readdir(directory))) {
		if (entry->d_name[0] != '.') {
			unlinkat(dirfd(directory), entry->d_name, 0);
		}
	}
	if (directory) {
		closedir(directory);
	}
}

static void choose_configuration(struct sim_agent *agent, unsigned which)
{
	char target[16];
	char link[PATH_BYTES + 100];
	snprintf(target, sizeof(target), "%u.ini", which);
	snprintf(link, sizeof(link), "%s", sim_agent_file(agent, "next.ini"));
	unlink(link);
	if (symlink(target, link) || rename(link, agent->config_path)) {
		sim_fail("agent %d: no configuration", agent->number);
	}
}

/* ---- life ---- */

static void end(struct sim_agent *agent, bool retires)
{
	process_destroy(agent->process);
	agent->process = NULL;
	sim_drain_doubt(&agent->drain);
	agent->phase = DOWN;
	agent->disturbed_ms = sim_now_ms();
	agent->down_ms = sim_now_ms();
	client_disconnect(agent->client, retires);
	net_gone(agent->net, agent->number);
}

static bool is_contained(const struct sim_agent *agent)
{
	return sim_has_bridge() && agent->number != SIM_HOST;
}

void sim_agent_start(struct sim_agent *agent)
{
	if (agent->phase == DOWN) {
		sim_trace("agent %d starts", agent->number);
		if (is_contained(agent)) {
			containers_make(folder, agent->number);
			files_change();
		}
		agent->start_ms = 0;
		agent->phase = RUNNING;
		agent->disturbed_ms = sim_now_ms();
		agent->starts++;
		agent->process = process_start(agent->number, agent->argv);
	}
}

void sim_agent_kill(struct sim_agent *agent)
{
	if (agent->phase != DOWN) {
		sim_trace("agent %d is killed", agent->number);
		end(agent, false);
	}
}

void sim_agent_start_later(struct sim_agent *agent, int64_t in_ms)
{
	agent->start_ms = sim_now_ms() + in_ms;
}

void sim_agent_remove_container(struct sim_agent *agent)
{
	sim_agent_kill(agent);
	sim_trace("the container of agent %d is removed", agent->number);
	containers_remove(folder, agent->number);
	files_change();
}

static void signal_agent(struct sim_agent *agent, int signal_number, const char *what)
{
	agent->disturbed_ms = sim_now_ms();
	if (agent->phase == RUNNING) {
		sim_trace("agent %d %s", agent->number, what);
		process_signal(agent->process, signal_number);
	}
}

void sim_agent_upgrade(struct sim_agent *agent)
{
	signal_agent(agent, SIGUSR2, "is upgraded");
}

void sim_agent_stop(struct sim_agent *agent)
{
	signal_agent(agent, SIGTERM, "stops");
	agent->phase = agent->phase == RUNNING ? STOPPING : agent->phase;
}

void sim_agent_quit(struct sim_agent *agent)
{
	signal_agent(agent, SIGQUIT, "quits");
	agent->phase = agent->phase == RUNNING ? STOPPING : agent->phase;
}

void sim_agent_reload(struct sim_agent *agent)
{
	agent->configuration = (agent->configuration + 1) % CONFIGURATIONS;
	choose_configuration(agent, agent->configuration);
	signal_agent(agent, SIGHUP, "reloads");
}

void sim_agent_reload_bad(struct sim_agent *agent)
{
	/* An agent that is down, or starts at this moment, would not start with it. */
	unsigned starts = agent->starts;
	if (agent->phase == RUNNING) {
		sim_agent_turn(agent, false); /* it may have been told to reload at this moment */
	}
	if (agent->phase == RUNNING && agent->starts == starts) {
		choose_configuration(agent, CONFIGURATION_BAD);
		signal_agent(agent, SIGHUP, "reloads a bad configuration");
		sim_agent_turn(agent, false);
		choose_configuration(agent, agent->configuration);
	}
}

void sim_agent_lose_state(struct sim_agent *agent)
{
	if (agent->phase == DOWN) {
		sim_trace("agent %d has lost its state", agent->number);
		agent->informed = false;
		remove_files(agent, "state");
		sim_drain_forget(&agent->drain);
	}
}

void sim_agent_drain(struct sim_agent *agent, uint64_t choice)
{
	if (agent->phase == RUNNING) {
		sim_trace("agent %d is told to drain, or no longer", agent->number);
		sim_drain_order(&agent->drain, agent->client, choice);
		process_wake(agent->process);
	}
}

void sim_agent_fail_allocation(struct sim_agent *agent, uint64_t choice, bool after_read)
{
	sim_drain_doubt(&agent->drain);
	if (agent->process && after_read && !is_contained(agent)) {
		sim_trace("agent %d will have no memory for what it reads", agent->number);
		net_fail_allocation(
			agent->net, agent->number, 1 + (unsigned)(choice % MOST_AFTER_READ));
	} else if (agent->process) {
		sim_trace("agent %d has no memory for a moment", agent->number);
		process_memory(agent->process)->fail_in = 1 + (unsigned)choice;
		process_memory(agent->process)->fail_until_ms = sim_now_ms() + NO_MEMORY_MS;
		agent->disturbed_ms = sim_now_ms();
	}
}

void sim_agent_set_health(struct sim_agent *agent, enum sim_health health)
{
	static const char *const words[] = { "works", "fails", "hangs" };
	sim_trace("the application of agent %d %s", agent->number, words[health]);
	if ((health == SIM_WORKS) != (agent->health == SIM_WORKS)) {
		agent->health_ms = sim_now_ms();
	}
	agent->health = health;
	agent->disturbed_ms = sim_now_ms();
}

static struct children_plan plan(int number, char *const *argv)
{
	struct sim_agent *agent = agents[number];
	struct children_plan plan = { .takes_ms = (int64_t)sim_below(&agent->random, 900) };
	if (strcmp(argv[0], "/bin/true") == 0) {
		plan.status = agent->health == SIM_WORKS ? 0 : 1;
	}
	if (strcmp(argv[0], "/bin/true") == 0 && agent->health == SIM_HANGS) {
		plan.takes_ms = SIM_HOUR;
		plan.fails_to_start = sim_chance(&agent->random, 20);
		plan.ignores_term = sim_chance(&agent->random, 50);
	}
	return plan;
}

/* ---- time ---- */

/* Only an agent that the run stops may end, or one without memory. */
static void look_at_end(struct sim_agent *agent)
{
	int status = process_status(agent->process);
	struct memory *memory = process_memory(agent->process);
	bool aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && memory->failed;
	bool stopped = agent->phase == STOPPING && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	sim_trace("agent %d ends: %x", agent->number, (unsigned)status);
	if (!aborted && !stopped && !(memory->failed && WIFEXITED(status))) {
		sim_fail("agent %d ends with status 0x%x", agent->number, (unsigned)status);
	}
	bool starts_again = agent->phase == RUNNING;
	end(agent, stopped);
	if (starts_again) {
		sim_agent_start(agent);
	}
}

static void look_at_limits(struct sim_agent *agent)
{
	struct memory *memory = process_memory(agent->process);
	if (memory->bytes > MOST_MEMORY) {
		sim_fail("agent %d holds %zu bytes in %zu blocks", agent->number, memory->bytes,
			memory->count);
	}
	if (process_descriptors(agent->process) > MOST_FILES) {
		sim_fail("agent %d holds %d descriptors", agent->number,
			process_descriptors(agent->process));
	}
}

static void note_file(int number, const struct file_work *work)
{
	struct sim_agent *agent = agents[number];
	if (work->data && strcmp(work->path, sim_agent_file(agent, SIM_OUTPUT)) == 0) {
		free(agent->writes);
		agent->writes = strndup(work->data, work->len);
	}
}

const char *sim_agent_output(const struct sim_agent *agent)
{
	static char text[OUTPUT_BYTES];
	FILE *file = fopen(sim_agent_file(agent, SIM_OUTPUT), "r");
	size_t len = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	text[len] = '\0';
	if (file) {
		fclose(file);
	}
	return text;
}

/*
 * An output is written while the registry confirms it, and at no other time. It does not wait for
 * the record of a path that has come, whose read may take as long as a request.
 */
static void look_at_output(struct sim_agent *agent)
{
	int64_t not_before_ms = sim_now_ms() - ANSWERS_CONFIRM_MS;
	if (agent->connected_ms < not_before_ms) {
		sim_fail("agent %d writes its output, and the registry is away", agent->number);
	}
	addresses_check_each(agent->world, agent->number, "output", agent->writes, not_before_ms,
		not_before_ms - REQUEST_MS);
	free(agent->writes);
	agent->writes = NULL;
}

static void ask_lasting_name(struct sim_agent *agent)
{
	const char *name = addresses_lasting_name(
		(unsigned)sim_below(&agent->questions, ADDRESSES_LASTING));
	if (question_ask(agent->process, name, false, false).code == ns_r_nxdomain) {
		sim_fail("the DNS server of agent %d says that %s does not exist", agent->number,
			name);
	}
}

/* Nobody waits for an answer that takes time: only an answer that comes at once counts. */
static void ask_name(struct sim_agent *agent)
{
	agent->asks_at_ms = sim_now_ms() +
		(int64_t)sim_below(&agent->questions, MOST_BETWEEN_QUESTIONS_MS);
	if (sim_chance(&agent->questions, 30)) {
		ask_lasting_name(agent);
		return;
	}
	struct question_answer answer = question_ask(agent->process, ADDRESSES_NAME, false, false);
	bool fresh = answer.text[0] && !answer.stale; /* without addresses it does not say so */
	if (answer.code == ns_r_noerror || answer.code == ns_r_nxdomain) {
		answers_check_name(client_answers(agent->client), "DNS answer",
			answer.code == ns_r_noerror ? answer.text : NULL,
			fresh ? sim_now_ms() - ANSWERS_CONFIRM_MS : INT64_MIN + 1);
	}
}

/* To the registry, or to a host's agent that is. */
static bool is_connected(const struct sim_agent *agent)
{
	const struct sim_agent *owner = agents[sim_owner_of(agent->number)];
	return owner->process && net_session(owner->net, owner->number) != 0;
}

void sim_agent_turn(struct sim_agent *agent, bool calm)
{
	if (agent->start_ms && agent->start_ms <= sim_now_ms()) {
		sim_agent_start(agent);
	}
	if (is_connected(agent)) {
		agent->connected_ms = sim_now_ms();
		agent->informed = true;
	}
	bool hears = agent->process && net_agent_due_ms(agent->net, agent->number) <= sim_now_ms();
	if (hears) {
		net_ring(agent->net, agent->number);
		process_wake_by_kernel(agent->process);
		net_each_due(agent->net, agent->number, client_hear, agent->client);
	}
	client_step(agent->client, agent->process, calm);
	if (!agent->process || process_due_ms(agent->process) > sim_now_ms()) {
		return;
	}
	if (sim_now_ms() > process_memory(agent->process)->fail_until_ms) {
		process_memory(agent->process)->fail_in = 0;
	}
	process_run(agent->process);
	answers_inform(client_answers(agent->client), agent->informed);
	if (agent->writes) {
		look_at_output(agent);
	}
	if (!calm && agent->asks_at_ms <= sim_now_ms() && !sim_has_bridge()) {
		ask_name(agent);
	}
	if (process_has_acted(agent->process)) {
		client_receive(agent->client);
	}
	if (sim_drain_turn(&agent->drain, agent->client)) {
		agent->disturbed_ms = sim_now_ms();
	}
	client_look(agent->client);
	if (process_has_ended(agent->process)) {
		look_at_end(agent);
	} else {
		look_at_limits(agent);
	}
}

static int64_t earlier_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

void sim_agent_look_at_files(struct sim_agent *agent)
{
	if (agent->process && files_have_news(agent->process)) {
		process_wake_by_kernel(agent->process);
	}
}

int64_t sim_agent_due_ms(const struct sim_agent *agent)
{
	if (!agent->process) {
		return agent->start_ms ? agent->start_ms : INT64_MAX;
	}
	int64_t due_ms = earlier_of(
		process_due_ms(agent->process), net_agent_due_ms(agent->net, agent->number));
	return earlier_of(due_ms, client_due_ms(agent->client));
}

/* ---- creation ---- */

static void hear_write(int fd)
{
	for (int i = 0; i < sim_agent_count(); i++) {
		client_hear_write(agents[i]->client, fd);
	}
}

struct sim_agent *sim_agent_create(
	struct net *net, const struct world *world, int number, uint64_t seed)
{
	struct sim_agent *agent = calloc(1, sizeof(*agent));
	agents[number] = agent;
	children_plan_by(plan);
	file_children_begin(seed, note_file);
	sockets_on_write(hear_write);
	agent->net = net;
	agent->world = world;
	agent->number = number;
	agent->phase = DOWN;
	sim_drain_init(&agent->drain);
	snprintf(agent->config_path, sizeof(agent->config_path), "%s",
		sim_agent_file(agent, "berth.ini"));
	agent->argv[0] = "berthd";
	agent->argv[1] = "-c";
	agent->argv[2] = agent->config_path;
	choose_configuration(agent, 0);
	remove_files(agent, "state");
	if (is_contained(agent)) {
		containers_remove(folder, number);
		files_change();
	}
	unlink(sim_agent_file(agent, SIM_OUTPUT)); /* an equal one would not be written */
	sim_random_init(&agent->random, seed, 100 + (uint64_t)number);
	sim_random_init(&agent->questions, seed, 300 + (uint64_t)number);
	agent->client = client_begin(world, number, seed, sim_agent_file(agent, "sock"));
	return agent;
}

void sim_agent_destroy(struct sim_agent *agent)
{
	if (agent->phase != DOWN) {
		end(agent, false);
	}
	unlink(sim_agent_file(agent, "sock"));
	client_destroy(agent->client);
	free(agent->writes);
	free(agent);
}

/* ---- for the oracle ---- */

bool sim_agent_is_running(const struct sim_agent *agent)
{
	return agent->phase == RUNNING;
}

int64_t sim_agent_down_ms(const struct sim_agent *agent)
{
	return agent->phase == DOWN ? agent->down_ms : INT64_MAX;
}

unsigned sim_agent_configuration(const struct sim_agent *agent)
{
	return agent->configuration;
}

enum sim_health sim_agent_health(const struct sim_agent *agent)
{
	return agent->health;
}

bool sim_agent_serves(const struct sim_agent *agent)
{
	return agent->phase == RUNNING && agent->health == SIM_WORKS &&
		agent->drain.state != SIM_DRAINS;
}

struct sim_drain *sim_agent_drain_of(struct sim_agent *agent)
{
	return &agent->drain;
}

int64_t sim_agent_health_ms(const struct sim_agent *agent)
{
	return agent->health_ms;
}

const char *sim_agent_path(const struct sim_agent *agent, enum sim_agent_component component)
{
	static char path[64];
	snprintf(path, sizeof(path), "/users/joe/web/prod/components/c%d", agent->number);
	return component == SIM_OWN ? path : "/services/leader";
}

const char *sim_agent_mark(const struct sim_agent *agent)
{
	static char mark[32];
	snprintf(mark, sizeof(mark), "\"mark\":\"%c%d\"", (char)('a' + (int)agent->configuration),
		agent->number);
	return mark;
}

int64_t sim_agent_disturbed_ms(const struct sim_agent *agent)
{
	int64_t away_ms = net_disturbed_ms(agent->net, sim_owner_of(agent->number));
	return away_ms > agent->disturbed_ms ? away_ms : agent->disturbed_ms;
}

int64_t sim_agent_connected_ms(const struct sim_agent *agent)
{
	return agent->connected_ms;
}

void sim_agent_disturb(struct sim_agent *agent)
{
	agent->disturbed_ms = sim_now_ms();
}

json_t *sim_agent_ask(
	struct sim_agent *agent, const char *target, json_t *(*read)(const char *body))
{
	return agent->process ? client_ask(agent->client, agent->process, target, read) : NULL;
}

struct question_answer sim_agent_ask_name(struct sim_agent *agent, bool tcp)
{
	return agent->process ? question_ask(agent->process, ADDRESSES_NAME, tcp, true)
			      : (struct question_answer){ .code = -1 };
}

struct client *sim_agent_client(struct sim_agent *agent)
{
	return agent->client;
}
