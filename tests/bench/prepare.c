/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-prepare KUBECONFIG NAMESPACE/NAME UID SOCKET PF VF-INDEX DIR ROUNDS PAUSE-MS
 *
 * Prepare by the driver at SOCKET, and beside it, on another VF, what no driver could save: the
 * same requests bare. In turns, each first in every other round, with a pause so that neither
 * meets what the other set off. The claim is allocated, and asks for MAC, VLAN, spoof checking,
 * trust and MTU. Prints one JSON object of arrays in milliseconds.
 *
 * Bare is: one GET of the claim on a kept connection; both sides of the VF read; a durable write;
 * own MAC and MTU in one message, all of the PF's entry in another; both sides read back; a file on
 * tmpfs; a durable write.
 */
#include "base/clock.h"
#include "base/file.h"
#include "proto/dra_v1.pb-c.h"
#include "tests/bench/client.h"
#include "tests/bench/vf.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#define SERVICE     "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"
#define RECORD_SIZE 1400 /* the driver's record of such a claim */
#define CDI_SIZE    500

typedef K8s__Io__Kubelet__Pkg__Apis__Dra__V1__Claim claim_message;

struct bench {
    struct client api;
    struct rpc rpc;
    const char *namespace, *name, *uid;
    char *claim_path;
    struct hw hw;
    int durable_dir, tmpfs_dir;
    struct vf_original original; /* of the bare VF */
    int pf_ifindex, vf_ifindex;
    json_t *bare, *called, *uncalled;
};

static void add(json_t *to, int64_t began_us)
{
    json_array_append_new(to, json_real((double)(clock_mono_us() - began_us) / 1000));
}

static int read_both(struct bench *b, struct err *e)
{
    _cleanup_(link_done) struct link pf = {0}, own = {0};
    ipnet_vec addrs = {0};
    int r = link_get(b->hw.nl, b->pf_ifindex, NULL, true, &pf, e);

    if (r == 0)
        r = link_get(b->hw.nl, b->vf_ifindex, NULL, false, &own, e);
    if (r == 0)
        r = addr_list(b->hw.nl, b->vf_ifindex, &addrs, e);
    free(addrs.v);
    return r;
}

static int bare_settings(struct bench *b, struct err *e)
{
    const struct mac mac = {{0x52, 0x54, 0, 0xbe, 0xef, 1}};
    const struct link_change own = {.ifindex = b->vf_ifindex,
                                    .set = LINK_FIELD_MAC | LINK_FIELD_MTU,
                                    .mac = mac,
                                    .mtu = 1400,
                                    .netns_fd = -1};
    const struct vf_change entry = {.index = b->original.index,
                                    .set = VF_FIELD_MAC | VF_FIELD_VLAN | VF_FIELD_SPOOFCHK |
                                           VF_FIELD_TRUST,
                                    .mac = mac,
                                    .vlan_id = 100,
                                    .vlan_qos = 3,
                                    .spoofchk = false,
                                    .trust = true};
    int r = link_change_send(b->hw.nl, &own, e);

    return r < 0 ? r : vf_change_send(b->hw.nl, b->pf_ifindex, &entry, e);
}

static int bare_prepare(struct bench *b, struct err *e)
{
    static const char filler[RECORD_SIZE];
    json_t *claim = NULL;
    int64_t began = clock_mono_us();
    int r = client_send(&b->api, "GET", b->claim_path, NULL, &claim, e);

    json_decref(claim);
    if (r < 0 || (r = read_both(b, e)) < 0 ||
        (r = file_write_atomic(b->durable_dir, "record", filler, RECORD_SIZE, 0600, true, e)) < 0 ||
        (r = bare_settings(b, e)) < 0 || (r = read_both(b, e)) < 0 ||
        (r = file_write_atomic(b->tmpfs_dir, "bench", filler, CDI_SIZE, 0644, false, e)) < 0 ||
        (r = file_write_atomic(b->durable_dir, "record", filler, RECORD_SIZE, 0600, true, e)) < 0)
        return r;
    add(b->bare, began);
    return 0;
}

/* The VF as it was; not measured. */
static int bare_undo(struct bench *b, struct err *e)
{
    int r = vf_restore(&b->hw, &b->original, NULL, e);

    if (r == 0)
        r = file_remove(b->durable_dir, "record", true, e);
    return r < 0 ? r : file_remove(b->tmpfs_dir, "bench", false, e);
}

/* What the driver says of the one claim; an answer without an error is what is measured. */
static int judge(bool prepare, const struct strbuf *answer, struct err *e)
{
    const uint8_t *bytes = (const uint8_t *)(answer->s ? answer->s : "");
    const char *error = "the answer can't be read";

    if (prepare) {
        K8s__Io__Kubelet__Pkg__Apis__Dra__V1__NodePrepareResourcesResponse *m =
            k8s__io__kubelet__pkg__apis__dra__v1__node_prepare_resources_response__unpack(
                NULL, answer->len, bytes);
        if (m && m->n_claims == 1)
            error = m->claims[0]->value ? m->claims[0]->value->error : "";
        int r = *error ? err_set(e, ERR_PERMANENT, -EIO, "Prepare: %s", error) : 0;
        k8s__io__kubelet__pkg__apis__dra__v1__node_prepare_resources_response__free_unpacked(m,
                                                                                             NULL);
        return r;
    }
    K8s__Io__Kubelet__Pkg__Apis__Dra__V1__NodeUnprepareResourcesResponse *m =
        k8s__io__kubelet__pkg__apis__dra__v1__node_unprepare_resources_response__unpack(
            NULL, answer->len, bytes);
    if (m && m->n_claims == 1)
        error = m->claims[0]->value ? m->claims[0]->value->error : "";
    int r = *error ? err_set(e, ERR_PERMANENT, -EIO, "Unprepare: %s", error) : 0;
    k8s__io__kubelet__pkg__apis__dra__v1__node_unprepare_resources_response__free_unpacked(m, NULL);
    return r;
}

/* Both requests are a list of claims in field 1, and packed alike. */
static int call(struct bench *b, bool prepare, struct err *e)
{
    K8s__Io__Kubelet__Pkg__Apis__Dra__V1__NodePrepareResourcesRequest request;
    _cleanup_(strbuf_done) struct strbuf answer = {0};
    claim_message claim, *claims[] = {&claim};

    k8s__io__kubelet__pkg__apis__dra__v1__node_prepare_resources_request__init(&request);
    k8s__io__kubelet__pkg__apis__dra__v1__claim__init(&claim);
    claim.namespace_ = (char *)(uintptr_t)b->namespace;
    claim.name = (char *)(uintptr_t)b->name;
    claim.uid = (char *)(uintptr_t)b->uid;
    request.n_claims = 1;
    request.claims = claims;
    size_t len =
        k8s__io__kubelet__pkg__apis__dra__v1__node_prepare_resources_request__get_packed_size(
            &request);
    _cleanup_free_ uint8_t *packed = xmalloc(len);
    k8s__io__kubelet__pkg__apis__dra__v1__node_prepare_resources_request__pack(&request, packed);

    int64_t began = clock_mono_us();
    int r = rpc_call(&b->rpc,
                     prepare ? SERVICE "NodePrepareResources" : SERVICE "NodeUnprepareResources",
                     packed, len, &answer, e);
    if (r == 0)
        r = judge(prepare, &answer, e);
    if (r == 0)
        add(prepare ? b->called : b->uncalled, began);
    return r;
}

static void pause_ms(long ms)
{
    const struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    (void)nanosleep(&ts, NULL);
}

static int one_round(struct bench *b, bool bare_first, long pause, struct err *e)
{
    for (int i = 0; i < 2; i++) {
        bool bare = bare_first == (i == 0);
        int r = bare ? bare_prepare(b, e) : call(b, true, e);

        if (bare) /* also when it failed half-way */
            r = bare_undo(b, r < 0 ? NULL : e) < 0 && r == 0 ? -EIO : r;
        if (r < 0)
            return r;
        pause_ms(pause);
        if (!bare) {
            if ((r = call(b, false, e)) < 0)
                return r;
            pause_ms(pause);
        }
    }
    return 0;
}

static int find_vf(struct bench *b, const char *pf, unsigned index, struct err *e)
{
    _cleanup_(vf_state_done) struct vf_state s = {0};
    int r = bench_find_vf(&b->hw, pf, index, &s, &b->original, e);

    b->pf_ifindex = s.pf_ifindex;
    b->vf_ifindex = s.ifindex;
    return r;
}

static int run(struct bench *b, char **argv, struct err *e)
{
    long rounds = strtol(argv[8], NULL, 10), pause = strtol(argv[9], NULL, 10);
    static struct sysroot root;
    static struct nl_transport *nl;
    int r;

    char *slash = strchr(argv[2], '/');
    if (!slash)
        return err_set(e, ERR_USER, -EINVAL, "\"%s\" is no NAMESPACE/NAME", argv[2]);
    *slash = '\0';
    b->namespace = argv[2];
    b->name = slash + 1;
    b->uid = argv[3];
    b->claim_path = xasprintf("/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s",
                              b->namespace, b->name);
    if ((r = client_open(argv[1], &b->api, e)) < 0 || (r = rpc_open(argv[4], &b->rpc, e)) < 0 ||
        (r = sysroot_open("/", &root, e)) < 0 || (r = nl_open(NETLINK_ROUTE, &nl, e)) < 0 ||
        (r = dir_make(argv[7], 0700, &b->durable_dir, e)) < 0 ||
        (r = dir_make("/run/bench", 0755, &b->tmpfs_dir, e)) < 0)
        return r;
    b->hw = (struct hw){.root = &root, .nl = nl};
    if ((r = find_vf(b, argv[5], (unsigned)strtoul(argv[6], NULL, 10), e)) < 0)
        return r;
    /* Connections are made and caches filled by a round that doesn't count. */
    r = one_round(b, true, pause, e);
    json_array_clear(b->bare);
    json_array_clear(b->called);
    json_array_clear(b->uncalled);
    for (long i = 0; r == 0 && i < rounds; i++)
        r = one_round(b, i % 2 == 0, pause, e);
    return r;
}

int main(int argc, char **argv)
{
    struct bench b = {.durable_dir = -1,
                      .tmpfs_dir = -1,
                      .bare = json_array(),
                      .called = json_array(),
                      .uncalled = json_array()};
    _cleanup_err_ struct err e = ERR_INIT;

    if (argc != 10)
        return 2;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    if (run(&b, argv, &e) < 0) {
        fprintf(stderr, "bench-prepare: %s\n", err_text(&e));
        return 1;
    }
    json_auto_t *out = json_object();
    json_object_set_new(out, "bare", b.bare);
    json_object_set_new(out, "prepare", b.called);
    json_object_set_new(out, "unprepare", b.uncalled);
    _cleanup_free_ char *text = json_text(out);
    puts(text);
    free(b.claim_path);
    return 0;
}
