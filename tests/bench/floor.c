/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-floor KUBECONFIG SOCKET SLICE...: what a program with the driver's libraries can't do
 * without. It initialises them, says so, asks the API server what a driver has to ask before it can
 * publish, creates the slices of the files, says so, and idles until SIGTERM. What it says goes to
 * stderr, one word a line; whoever started it has the clock.
 */
#include "base/file.h"
#include "netlink/transport.h"
#include "proto/dra_v1.pb-c.h"
#include "sriov/names.h"
#include "tests/bench/client.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <netlink/msg.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <yaml.h>

#define SLICE_MAX (1 << 20)

struct server {
    grpc_completion_queue *cq;
    grpc_server *server;
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
};

static void *wait_for_calls(void *data)
{
    struct server *s = data;

    (void)grpc_completion_queue_next(s->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    return NULL;
}

/* A server that is ready for a call, and a thread that waits for it: as much as a driver needs. */
static void serve(struct server *s, const char *socket)
{
    _cleanup_free_ char *uri = xasprintf("unix:%s", socket);
    grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
    pthread_t thread;

    grpc_init();
    s->cq = grpc_completion_queue_create_for_next(NULL);
    s->server = grpc_server_create(NULL, NULL);
    grpc_server_register_completion_queue(s->server, s->cq, NULL);
    if (!grpc_server_add_http2_port(s->server, uri, creds)) {
        fprintf(stderr, "bench-floor: no gRPC server on %s\n", socket);
        exit(1);
    }
    grpc_server_credentials_release(creds);
    grpc_server_start(s->server);
    grpc_call_details_init(&s->details);
    grpc_metadata_array_init(&s->metadata);
    (void)grpc_server_request_call(s->server, &s->call, &s->details, &s->metadata, s->cq, s->cq, s);
    pthread_create(&thread, NULL, wait_for_calls, s);
}

/* The rest: each library does one small thing, so that it is loaded and set up. */
static int use_libraries(struct nl_transport **ret_nl, struct err *e)
{
    yaml_parser_t yaml;
    K8s__Io__Kubelet__Pkg__Apis__Dra__V1__Claim claim;
    uint8_t packed[64];

    struct pci_names *names = pci_names_open();
    free(pci_names_vendor(names, 0x8086));
    free(pci_names_device(names, 0x8086, 0x10c9));
    pci_names_free(names);

    yaml_parser_initialize(&yaml);
    yaml_parser_delete(&yaml);
    k8s__io__kubelet__pkg__apis__dra__v1__claim__init(&claim);
    (void)k8s__io__kubelet__pkg__apis__dra__v1__claim__pack(&claim, packed);
    nlmsg_free(nlmsg_alloc());
    return nl_open(NETLINK_ROUTE, ret_nl, e);
}

static int publish(struct client *c, char **files, struct err *e)
{
    int r = client_send(c, "GET", "/api/v1/nodes?limit=1", NULL, NULL, e);

    if (r == 0)
        r = client_send(c, "GET", "/apis/resource.k8s.io/v1/resourceslices", NULL, NULL, e);
    for (; r == 0 && *files; files++) {
        _cleanup_free_ char *text = NULL;

        r = file_read(AT_FDCWD, *files, SLICE_MAX, &text, NULL, e);
        if (r == 0)
            r = client_send(c, "POST", "/apis/resource.k8s.io/v1/resourceslices", text, NULL, e);
    }
    return r;
}

static void say(const char *word)
{
    (void)!write(STDERR_FILENO, word, strlen(word));
}

int main(int argc, char **argv)
{
    _cleanup_(nl_freep) struct nl_transport *nl = NULL;
    _cleanup_err_ struct err e = ERR_INIT;
    struct server server = {0};
    struct client client;
    sigset_t set;
    int number;

    if (argc < 3)
        return 2;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);

    curl_global_init(CURL_GLOBAL_DEFAULT);
    serve(&server, argv[2]);
    int r = use_libraries(&nl, &e);
    if (r == 0)
        r = client_open(argv[1], &client, &e);
    if (r == 0) {
        say("initialised\n");
        r = publish(&client, argv + 3, &e);
    }
    if (r < 0) {
        fprintf(stderr, "bench-floor: %s\n", err_text(&e));
        return 1;
    }
    say("published\n");
    sigwait(&set, &number);
    unlink(argv[2]);
    _exit(0); /* gRPC's thread still waits */
}
