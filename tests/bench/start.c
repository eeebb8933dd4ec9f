/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-start [--kubeconfig FILE --slices DRIVER --devices N] [--line TEXT]... [--settle MS]
 *             [--register SOCKET] -- PROGRAM ARG...
 *
 * Runs a program and says, as one JSON object, how many milliseconds after exec its stderr had a
 * line with each TEXT, and when a watch of the API had seen a complete pool of N devices of
 * DRIVER; then, after `settle` ms more, its memory (KiB). One clock for all of it, the guest's.
 * Ends the program with SIGTERM; what it wrote is passed on. With --register it is told there, as
 * soon as it listens, that the kubelet knows it: the kubelet looks once a second.
 */
#include "base/clock.h"
#include "base/file.h"
#include "tests/bench/client.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#define LIMIT_US (120 * 1000000LL) /* for all that is waited for, and for its end */

struct wanted {
    const char *text;
    double ms; /* 0: not yet */
};

struct slice {
    char *name;
    int64_t generation, count;
    size_t devices;
};

struct start {
    const char *kubeconfig, *driver;
    const char *socket; /* for registration; NULL: none, or done */
    size_t devices;
    VEC(struct wanted) lines;
    int64_t settle_ms;
    char **argv;

    pid_t pid;
    int out; /* the program's stderr */
    int64_t began_us;
    struct strbuf text;  /* of a line that isn't complete */
    struct strbuf event; /* of the watch, likewise */
    VEC(struct slice) slices;
    double slices_ms;
    bool watching;
};

static double since(const struct start *s)
{
    return (double)(clock_mono_us() - s->began_us) / 1000;
}

/* Calls fn with each complete line of what was read so far, without its end, and keeps the rest. */
static void each_line(struct strbuf *b, void (*fn)(struct start *s, char *line), struct start *s)
{
    char *from = b->s, *end;

    while (from && (end = memchr(from, '\n', b->len - (size_t)(from - b->s)))) {
        *end = '\0';
        fn(s, from);
        from = end + 1;
    }
    size_t rest = from ? b->len - (size_t)(from - b->s) : 0;
    if (rest && from != b->s)
        memmove(b->s, from, rest);
    b->len = rest;
}

static void take_line(struct start *s, char *line)
{
    double now = since(s);

    fprintf(stderr, "%s\n", line);
    vec_foreach (w, &s->lines)
        if (!w->ms && strstr(line, w->text))
            w->ms = now;
}

static bool pool_is_complete(const struct start *s)
{
    int64_t newest = 0, count = 0, seen = 0;
    size_t devices = 0;

    vec_foreach (sl, &s->slices)
        if (sl->generation > newest) {
            newest = sl->generation;
            count = sl->count;
        }
    vec_foreach (sl, &s->slices)
        if (sl->generation == newest) {
            seen++;
            devices += sl->devices;
        }
    return seen == count && devices == s->devices;
}

static void take_event(struct start *s, char *line)
{
    json_t *parsed = NULL;
    double now = since(s);

    if (json_parse(line, strlen(line), &parsed, NULL) < 0)
        return;
    json_auto_t *doc = parsed;
    const char *driver = json_str_at(doc, "object.spec.driver");
    const char *name = json_str_at(doc, "object.metadata.name");
    if (!name || !driver || !streq(driver, s->driver) ||
        streq_null(json_str_at(doc, "type"), "DELETED"))
        return;
    struct slice *slice = NULL;
    vec_foreach (sl, &s->slices)
        if (streq(sl->name, name))
            slice = sl;
    if (!slice) {
        slice = VEC_PUSH(&s->slices);
        slice->name = xstrdup(name);
    }
    slice->generation = json_int_at(doc, "object.spec.pool.generation", 0);
    slice->count = json_int_at(doc, "object.spec.pool.resourceSliceCount", 0);
    slice->devices = json_array_size(json_at(doc, "object.spec.devices"));
    if (!s->slices_ms && pool_is_complete(s))
        s->slices_ms = now;
}

static size_t on_watch(char *bytes, size_t size, size_t n, void *data)
{
    struct start *s = data;

    strbuf_add(&s->event, bytes, size * n);
    each_line(&s->event, take_event, s);
    return size * n;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *data)
{
    struct start *s = data;

    if (size * n == 2) /* the empty line: the server has agreed to watch */
        s->watching = true;
    (void)bytes;
    return size * n;
}

static void read_program(struct start *s)
{
    char buf[4096];
    ssize_t n = read(s->out, buf, sizeof(buf));

    if (n > 0) {
        strbuf_add(&s->text, buf, (size_t)n);
        each_line(&s->text, take_line, s);
    } else if (n == 0) {
        close(s->out);
        s->out = -1;
    }
}

/* Refused until the program listens; then once more with the next turn. */
static void try_registration(struct start *s)
{
    static const char registered[] = "\x08\x01"; /* RegistrationStatus.plugin_registered */
    _cleanup_(strbuf_done) struct strbuf answer = {0};
    struct rpc rpc;

    if (rpc_open(s->socket, &rpc, NULL) < 0)
        return;
    if (rpc_call(&rpc, "/pluginregistration.Registration/NotifyRegistrationStatus", registered,
                 sizeof(registered) - 1, &answer, NULL) == 0)
        s->socket = NULL;
    rpc_done(&rpc);
}

/* Handles what comes in for at most `ms`. */
static void turn(struct start *s, CURLM *multi, int ms)
{
    if (s->socket && s->pid) {
        if (access(s->socket, F_OK) == 0)
            try_registration(s);
        ms = s->socket ? 2 : ms;
    }
    struct curl_waitfd fd = {.fd = s->out, .events = CURL_WAIT_POLLIN};
    struct pollfd readable = {.fd = s->out, .events = POLLIN};
    int running;

    curl_multi_poll(multi, &fd, s->out >= 0, ms, NULL);
    curl_multi_perform(multi, &running);
    if (s->out >= 0 && poll(&readable, 1, 0) > 0)
        read_program(s);
}

static bool all_seen(const struct start *s)
{
    vec_foreach (w, &s->lines)
        if (!w->ms)
            return false;
    return !s->driver || s->slices_ms;
}

static int begin_watch(struct start *s, struct client *client, CURLM *multi, struct err *e)
{
    static const char path[] = "/apis/resource.k8s.io/v1/resourceslices";
    json_t *list = NULL;
    int64_t end = clock_mono_us() + LIMIT_US;

    if (!s->driver)
        return 0;
    int r = client_open(s->kubeconfig, client, e);
    if (r == 0)
        r = client_send(client, "GET", path, NULL, &list, e);
    if (r < 0)
        return r;
    const char *version = json_str_at(list, "metadata.resourceVersion");
    _cleanup_free_ char *watch = xasprintf("%s?watch=1&resourceVersion=%s", path, version);
    json_decref(list);
    curl_easy_reset(client->curl);
    client_set_up(client, client->curl, watch);
    curl_easy_setopt(client->curl, CURLOPT_TIMEOUT, 0L);
    curl_easy_setopt(client->curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(client->curl, CURLOPT_HEADERDATA, s);
    curl_easy_setopt(client->curl, CURLOPT_WRITEFUNCTION, on_watch);
    curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, s);
    curl_multi_add_handle(multi, client->curl);
    while (!s->watching) {
        if (clock_mono_us() > end)
            return err_set(e, ERR_TRANSIENT, -ETIMEDOUT, "the watch doesn't begin");
        turn(s, multi, 50);
    }
    return 0;
}

static void launch(struct start *s)
{
    int p[2];

    if (pipe2(p, O_CLOEXEC) < 0)
        abort();
    s->out = p[0];
    s->began_us = clock_mono_us();
    s->pid = fork();
    if (s->pid == 0) {
        dup2(p[1], STDERR_FILENO);
        execv(s->argv[0], s->argv);
        fprintf(stderr, "bench-start: %s: %m\n", s->argv[0]);
        _exit(127);
    }
    close(p[1]);
}

static int64_t memory(pid_t pid, const char *key)
{
    _cleanup_free_ char *path = xasprintf("/proc/%d/status", (int)pid), *text = NULL;

    if (file_read(AT_FDCWD, path, 1 << 16, &text, NULL, NULL) < 0)
        return -1;
    const char *at = strstr(text, key);
    return at ? strtoll(at + strlen(key), NULL, 10) : -1;
}

/* SIGTERM, and its output until it ends; its wait status, or -1. */
static int finish(struct start *s, CURLM *multi)
{
    int64_t end = clock_mono_us() + LIMIT_US;
    int status = -1;

    kill(s->pid, SIGTERM);
    while (waitpid(s->pid, &status, WNOHANG) == 0) {
        if (clock_mono_us() > end) {
            kill(s->pid, SIGKILL);
            waitpid(s->pid, NULL, 0);
            return -1;
        }
        turn(s, multi, 20);
    }
    return status;
}

static int measure(struct start *s, CURLM *multi, json_t *out, struct err *e)
{
    struct client client = {0};
    int r = begin_watch(s, &client, multi, e);

    if (r < 0)
        return r;
    launch(s);
    int64_t end = s->began_us + LIMIT_US;
    while (!all_seen(s) && clock_mono_us() < end && s->out >= 0)
        turn(s, multi, 100);
    bool seen = all_seen(s);
    for (end = clock_mono_us() + s->settle_ms * 1000; seen && clock_mono_us() < end;)
        turn(s, multi, 100);
    json_object_set_new(out, "rss", json_integer(memory(s->pid, "VmRSS:")));
    json_object_set_new(out, "anon", json_integer(memory(s->pid, "RssAnon:")));
    int status = finish(s, multi);
    if (s->driver) {
        curl_multi_remove_handle(multi, client.curl);
        client_done(&client);
    }
    if (!seen)
        return err_set(e, ERR_PERMANENT, -ETIMEDOUT, "not all was seen of what was waited for");
    if (status != 0)
        return err_set(e, ERR_PERMANENT, -EIO, "%s ended with wait status %d", s->argv[0], status);
    vec_foreach (w, &s->lines)
        json_object_set_new(out, w->text, json_real(w->ms));
    if (s->driver)
        json_object_set_new(out, "slices", json_real(s->slices_ms));
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"slices", required_argument, NULL, 's'},
        {"devices", required_argument, NULL, 'd'},
        {"kubeconfig", required_argument, NULL, 'k'},
        {"line", required_argument, NULL, 'l'},
        {"settle", required_argument, NULL, 't'},
        {"register", required_argument, NULL, 'r'},
        {0},
    };
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *out = json_object();
    struct start s = {.out = -1};

    for (int o; (o = getopt_long(argc, argv, "+", options, NULL)) != -1;) {
        switch (o) {
        case 's':
            s.driver = optarg;
            break;
        case 'd':
            s.devices = strtoul(optarg, NULL, 10);
            break;
        case 'k':
            s.kubeconfig = optarg;
            break;
        case 'l':
            VEC_PUSH(&s.lines)->text = optarg;
            break;
        case 'r':
            s.socket = optarg;
            break;
        case 't':
            s.settle_ms = strtoll(optarg, NULL, 10);
            break;
        default:
            return 2;
        }
    }
    if (optind == argc || (s.driver && !s.kubeconfig))
        return 2;
    s.argv = argv + optind;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    CURLM *multi = curl_multi_init();
    if (measure(&s, multi, out, &e) < 0) {
        fprintf(stderr, "bench-start: %s\n", err_text(&e));
        return 1;
    }
    curl_multi_cleanup(multi);
    _cleanup_free_ char *text = json_text(out);
    puts(text);
    vec_foreach (sl, &s.slices)
        free(sl->name);
    free(s.slices.v);
    free(s.lines.v);
    strbuf_done(&s.text);
    strbuf_done(&s.event);
    return 0;
}
