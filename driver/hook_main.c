/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sriov-dra-hook: see hook.h. Linked without shared libraries, since the driver's image brings it
 * and any host runs it.
 */
#include "base/file.h"
#include "driver/hook.h"

#include <signal.h>
#include <stdio.h>
#include <syslog.h>

#define STATE_MAX (1 << 20)

static char too_late[256];

static void out_of_time(int number)
{
    (void)number;
    if (write(STDERR_FILENO, too_late, strlen(too_late)) < 0) {
        /* nobody listens */
    }
    _exit(1);
}

/* Whatever holds it up: a lock, the kernel, a runtime that doesn't end the state. */
static void limit_time(const char *claim)
{
    struct sigaction sa = {.sa_handler = out_of_time};
    sigset_t alarm_only;

    snprintf(too_late, sizeof(too_late),
             "sriov-dra: claim with uid %s: its VFs weren't in the pod after %d s; the container "
             "is tried again\n",
             claim, HOOK_LIMIT_S);
    sigaction(SIGALRM, &sa, NULL);
    /* a runtime's mask is inherited */
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &alarm_only, NULL);
    alarm(HOOK_LIMIT_S);
}

/*
 * One line. runc puts a hook's standard error into the error that becomes the pod's event; crun
 * throws it away, so it also goes to the node's log.
 */
static int say(int priority, const char *text)
{
    _cleanup_free_ char *line = xasprintf("sriov-dra: %s", text);

    for (char *p = line; *p; p++)
        if (*p == '\n')
            *p = ' ';
    if (priority == LOG_ERR)
        fprintf(stderr, "%s\n", line);
    openlog(HOOK_NAME, 0, LOG_DAEMON);
    syslog(priority, "%s", line);
    return priority == LOG_ERR ? 1 : 0;
}

int main(int argc, char **argv)
{
    _cleanup_(hook_container_done) struct hook_container c = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *state = NULL;
    struct hook_options o;
    bool moved;
    size_t len;

    if (hook_options_parse(argc, argv, &o, &e) < 0) {
        fprintf(stderr,
                "%s: %s\nusage: %s --state-dir DIR --claim UID [--sysroot DIR] <OCI-STATE\n",
                HOOK_NAME, err_text(&e), HOOK_NAME);
        return 2;
    }
    if (o.version) {
        puts(HOOK_NAME " " VERSION);
        return 0;
    }
    limit_time(o.claim);
    if (fd_read(STDIN_FILENO, STATE_MAX, &state, &len, &e) < 0 ||
        hook_container_parse(state, len, &c, &e) < 0) {
        (void)err_prefix(&e, e.code, "claim with uid %s", o.claim);
        return say(LOG_ERR, err_text(&e));
    }
    if (hook_run(&o, &c, &moved, &e) < 0)
        return say(LOG_ERR, err_text(&e));
    if (moved) {
        _cleanup_free_ char *text =
            xasprintf("claim with uid %s: the driver was away or late; its VFs are in sandbox %s",
                      o.claim, c.sandbox_id ? c.sandbox_id : "(not told)");

        return say(LOG_NOTICE, text);
    }
    return 0;
}
