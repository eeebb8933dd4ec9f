/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/nri.h"

#include "tests/unit/kube/nri_runtime.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <sys/socket.h>

struct hand_clock {
    struct clock clock;
    int64_t now;
};

static int64_t hand_now(struct clock *c)
{
    return container_of(c, struct hand_clock, clock)->now;
}

/* A plugin and its runtime on one loop; `seen` is what the plugin's handlers were told. */
struct fixture {
    struct hand_clock clock;
    struct loop *loop;
    struct runtime rt;
    struct nri *nri;
    struct strbuf seen;
    bool hold;           /* keep calls in `held` instead of answering */
    const char *free_in; /* the handler that calls nri_free() */
    struct nri_call *held[8];
    size_t n_held;
};

static bool free_here(struct fixture *f, const char *handler)
{
    if (!f->free_in || !streq(f->free_in, handler))
        return false;
    nri_free(TAKE_PTR(f->nri));
    return true;
}

static void on_state(bool connected, const char *text, void *data)
{
    struct fixture *f = data;

    free_here(f, connected ? "up" : "down");
    strbuf_printf(&f->seen, "%s: %s\n", connected ? "up" : "down", text);
}

static void on_synchronize(const nri_pod_vec *pods, const nri_container_vec *containers, void *data)
{
    struct fixture *f = data;

    strbuf_puts(&f->seen, "synchronize");
    vec_foreach (p, pods)
        strbuf_printf(&f->seen, " %s", p->id);
    strbuf_puts(&f->seen, " |");
    vec_foreach (c, containers)
        strbuf_printf(&f->seen, " %s", c->id);
    strbuf_puts(&f->seen, "\n");
    free_here(f, "synchronize");
}

static void on_event(struct nri_call *call, enum nri_event ev, const struct nri_pod *pod,
                     const struct nri_container *container, void *data)
{
    static const char *const names[] = {
        [NRI_RUN_SANDBOX] = "run",
        [NRI_STOP_SANDBOX] = "stop",
        [NRI_REMOVE_SANDBOX] = "remove",
        [NRI_CREATE_CONTAINER] = "create",
    };
    struct fixture *f = data;

    strbuf_printf(&f->seen, "%s %s/%s %s %s%s%s\n", names[ev], pod->namespace, pod->name, pod->id,
                  pod->netns ? pod->netns : "host", container ? " " : "",
                  container ? container->name : "");
    if (free_here(f, "event"))
        return;
    if (f->hold)
        f->held[f->n_held++] = call;
    else
        nri_reply(call, NULL, NULL);
}

static int setup(void **state)
{
    struct fixture *f = xnew(struct fixture);

    f->clock = (struct hand_clock){.clock = {hand_now}, .now = 1000};
    assert_ok(loop_new(&f->clock.clock, &f->loop, NULL), NULL);
    runtime_init(&f->rt, f->loop);
    strbuf_puts(&f->seen, "");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    nri_free(f->nri);
    runtime_done(&f->rt);
    loop_free(f->loop);
    strbuf_done(&f->seen);
    free(f);
    return 0;
}

static void plugin_start(struct fixture *f)
{
    struct nri_config c = {.socket = f->rt.path, .name = "sriov-dra", .index = "10"};
    struct nri_handlers h = {on_state, on_synchronize, on_event, f};

    assert_ok(nri_new(f->loop, &c, &h, &f->nri, NULL), NULL);
}

static void saw(struct fixture *f, const char *what)
{
    assert_string_equal(f->seen.s, what);
    strbuf_done(&f->seen);
    strbuf_puts(&f->seen, "");
}

#define UP "up: containerd v2.4.2, NRI v0.12.3\n"

/* Up to the first event. */
static void connect_both(struct fixture *f)
{
    if (f->rt.listening < 0)
        runtime_listen(&f->rt);
    if (!f->nri)
        plugin_start(f);
    runtime_accept(&f->rt);
    runtime_register(&f->rt);
    runtime_configure(&f->rt, 2000);
    runtime_synchronize(&f->rt);
    saw(f, UP "synchronize |\n");
}

static Nri__Pkg__Api__V1alpha1__PodSandbox *pod(void)
{
    static char id[] = "p1", name[] = "web", uid[] = "u1", namespace[] = "shop", type[] = "network",
                path[] = "/run/netns/p1";
    static Nri__Pkg__Api__V1alpha1__LinuxNamespace ns, *list[] = {&ns};
    static Nri__Pkg__Api__V1alpha1__LinuxPodSandbox lin;
    static Nri__Pkg__Api__V1alpha1__PodSandbox p;

    nri__pkg__api__v1alpha1__linux_namespace__init(&ns);
    nri__pkg__api__v1alpha1__linux_pod_sandbox__init(&lin);
    nri__pkg__api__v1alpha1__pod_sandbox__init(&p);
    ns.type = type;
    ns.path = path;
    lin.n_namespaces = 1;
    lin.namespaces = list;
    p.id = id;
    p.name = name;
    p.uid = uid;
    p.namespace_ = namespace;
    p.linux = &lin;
    return &p;
}

static uint32_t call_pod(struct runtime *r, const char *method)
{
    Nri__Pkg__Api__V1alpha1__RunPodSandboxRequest m =
        NRI__PKG__API__V1ALPHA1__RUN_POD_SANDBOX_REQUEST__INIT;

    m.pod = pod();
    return runtime_call(r, method, &m.base);
}

static uint32_t call_state_change(struct runtime *r, int event)
{
    Nri__Pkg__Api__V1alpha1__StateChangeEvent m = NRI__PKG__API__V1ALPHA1__STATE_CHANGE_EVENT__INIT;

    m.event = (Nri__Pkg__Api__V1alpha1__Event)event;
    m.pod = pod();
    return runtime_call(r, "StateChange", &m.base);
}

static uint32_t call_create(struct runtime *r)
{
    Nri__Pkg__Api__V1alpha1__CreateContainerRequest m =
        NRI__PKG__API__V1ALPHA1__CREATE_CONTAINER_REQUEST__INIT;
    Nri__Pkg__Api__V1alpha1__Container c = NRI__PKG__API__V1ALPHA1__CONTAINER__INIT;
    char id[] = "c1", sandbox[] = "p1", name[] = "nginx";

    c.id = id;
    c.pod_sandbox_id = sandbox;
    c.name = name;
    m.pod = pod();
    m.container = &c;
    return runtime_call(r, "CreateContainer", &m.base);
}

static void expect(struct runtime *r, uint32_t stream, int code, const char *message)
{
    _cleanup_(ttrpc_response_done) struct ttrpc_response resp = {0};

    runtime_wait_response(r, stream, &resp);
    if (resp.code != code || !streq_null(resp.message, message))
        fail_msg("stream %u: code %d, %s", stream, resp.code, resp.message ? resp.message : "-");
}

/* The plugin drops the connection by itself. */
static void expect_down(struct fixture *f, const char *why)
{
    _cleanup_free_ char *text = xasprintf("down: %s\n", why);

    for (int i = 0; i < 5000 && f->seen.len == 0; i++)
        assert_ok(loop_once(f->loop, 1, NULL), NULL);
    saw(f, text);
    assert_false(nri_connected(f->nri));
    runtime_hangup(&f->rt);
}

static void test_session(void **state)
{
    struct fixture *f = *state;

    runtime_listen(&f->rt);
    plugin_start(f);
    runtime_accept(&f->rt);
    assert_false(nri_connected(f->nri));
    assert_int_equal(nri_request_timeout_ms(f->nri), 2000);
    runtime_register(&f->rt);
    runtime_settle(&f->rt);
    saw(f, "");
    runtime_configure(&f->rt, 3500);
    saw(f, UP);
    assert_true(nri_connected(f->nri));
    assert_int_equal(nri_request_timeout_ms(f->nri), 3500);
    runtime_synchronize(&f->rt);
    saw(f, "synchronize |\n");
    expect(&f->rt, call_pod(&f->rt, "RunPodSandbox"), 0, NULL);
    expect(&f->rt, call_create(&f->rt), 0, NULL);
    expect(&f->rt, call_pod(&f->rt, "StopPodSandbox"), 0, NULL);
    expect(&f->rt, call_pod(&f->rt, "RemovePodSandbox"), 0, NULL);
    saw(f, "run shop/web p1 /run/netns/p1\n"
           "create shop/web p1 /run/netns/p1 nginx\n"
           "stop shop/web p1 /run/netns/p1\n"
           "remove shop/web p1 /run/netns/p1\n");
}

/* All bytes of a session, one at a time. */
static void test_session_byte_by_byte(void **state)
{
    struct fixture *f = *state;

    f->rt.piece = 1;
    test_session(state);
}

/* NRI before 0.12 has no calls of their own for these, 0.12 falls back on code 12. */
static void test_state_change_is_the_same_event(void **state)
{
    static const struct {
        const char *method;
        int event;
        const char *seen;
    } cases[] = {
        {"RunPodSandbox", 1, "run shop/web p1 /run/netns/p1\n"},
        {"StopPodSandbox", 2, "stop shop/web p1 /run/netns/p1\n"},
        {"RemovePodSandbox", 3, "remove shop/web p1 /run/netns/p1\n"},
    };
    struct fixture *f = *state;

    connect_both(f);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        expect(&f->rt, call_pod(&f->rt, cases[i].method), 0, NULL);
        saw(f, cases[i].seen);
        expect(&f->rt, call_state_change(&f->rt, cases[i].event), 0, NULL);
        saw(f, cases[i].seen);
    }
    expect(&f->rt, call_state_change(&f->rt, 6), 0, NULL);
    saw(f, "");
}

static void test_synchronize_in_parts(void **state)
{
    struct fixture *f = *state;

    runtime_listen(&f->rt);
    plugin_start(f);
    runtime_accept(&f->rt);
    runtime_register(&f->rt);
    runtime_configure(&f->rt, 0);
    assert_int_equal(nri_request_timeout_ms(f->nri), 2000);
    saw(f, UP);
    for (int part = 0; part < 3; part++) {
        Nri__Pkg__Api__V1alpha1__SynchronizeRequest m =
            NRI__PKG__API__V1ALPHA1__SYNCHRONIZE_REQUEST__INIT;
        Nri__Pkg__Api__V1alpha1__PodSandbox p = NRI__PKG__API__V1ALPHA1__POD_SANDBOX__INIT,
                                            *pods[] = {&p};
        Nri__Pkg__Api__V1alpha1__Container c = NRI__PKG__API__V1ALPHA1__CONTAINER__INIT,
                                           *containers[] = {&c};
        char pod_id[] = {(char)('a' + part), '\0'}, container_id[] = {(char)('x' + part), '\0'};
        _cleanup_(ttrpc_response_done) struct ttrpc_response resp = {0};

        p.id = pod_id;
        c.id = container_id;
        m.n_pods = m.n_containers = 1;
        m.pods = pods;
        m.containers = containers;
        m.more = part < 2;
        runtime_wait_response(&f->rt, runtime_call(&f->rt, "Synchronize", &m.base), &resp);
        assert_int_equal(resp.code, 0);
        /* SynchronizeResponse{more}: else the runtime takes us for one that can't */
        assert_int_equal(resp.n, part < 2 ? 2 : 0);
        saw(f, part < 2 ? "" : "synchronize a b c | x y z\n");
    }
}

/* The parts of a state whose end never came don't get into the next one. */
static void test_synchronize_cut_off(void **state)
{
    struct fixture *f = *state;
    Nri__Pkg__Api__V1alpha1__SynchronizeRequest m =
        NRI__PKG__API__V1ALPHA1__SYNCHRONIZE_REQUEST__INIT;
    Nri__Pkg__Api__V1alpha1__PodSandbox *pods[] = {pod()};
    _cleanup_(ttrpc_response_done) struct ttrpc_response resp = {0};

    connect_both(f);
    m.n_pods = 1;
    m.pods = pods;
    m.more = true;
    runtime_wait_response(&f->rt, runtime_call(&f->rt, "Synchronize", &m.base), &resp);
    runtime_hangup(&f->rt);
    expect_down(f, "the runtime closed the connection");
    f->clock.now += 500;
    connect_both(f);
}

/* The runtime may call before our registration is answered, and cuts the conns into each other. */
static void test_interleaved(void **state)
{
    struct fixture *f = *state;
    _cleanup_(strbuf_done) struct strbuf ours = {0}, theirs = {0}, out = {0}, late = {0};
    _cleanup_(ttrpc_response_done) struct ttrpc_response resp = {0};
    Nri__Pkg__Api__V1alpha1__ConfigureRequest m = NRI__PKG__API__V1ALPHA1__CONFIGURE_REQUEST__INIT;
    uint8_t bytes[64];
    char nri[] = "v0.12.3";

    runtime_listen(&f->rt);
    plugin_start(f);
    runtime_accept(&f->rt);
    runtime_wait(&f->rt, MUX_CONN_RUNTIME, 1);
    m.nri_version = nri;
    ttrpc_put_request(&theirs, 1, "nri.pkg.api.v1alpha1.Plugin", "Configure", bytes,
                      protobuf_c_message_pack(&m.base, bytes));
    ttrpc_put_response(&ours, 1, NULL, 0);
    /* header and body of each message in frames of their own, in turns */
    mux_put(&out, MUX_CONN_PLUGIN, theirs.s, 10);
    mux_put(&out, MUX_CONN_RUNTIME, ours.s, 4);
    mux_put(&out, MUX_CONN_PLUGIN, theirs.s + 10, 7);
    mux_put(&out, 3, "nobody", 6);
    mux_put(&out, 0, "reserved", 8);
    mux_put(&out, MUX_CONN_PLUGIN, theirs.s + 17, theirs.len - 17);
    runtime_write(&f->rt, out.s, out.len);
    runtime_wait_response(&f->rt, 1, &resp);
    assert_int_equal(resp.code, 0);
    saw(f, "up: a runtime , NRI v0.12.3\n");
    mux_put(&late, MUX_CONN_RUNTIME, ours.s + 4, ours.len - 4);
    runtime_write(&f->rt, late.s, late.len);
    f->rt.stream = 1;
    runtime_synchronize(&f->rt);
    saw(f, "synchronize |\n");
}

/* Two messages in one frame, and answers in another order than the calls. */
static void test_calls_at_once(void **state)
{
    struct fixture *f = *state;

    connect_both(f);
    f->hold = true;

    uint32_t run = call_pod(&f->rt, "RunPodSandbox"), create = call_create(&f->rt),
             stop = call_pod(&f->rt, "StopPodSandbox");

    while (f->n_held < 3)
        assert_ok(loop_once(f->loop, 1, NULL), NULL);
    nri_reply(f->held[2], NULL, NULL);
    expect(&f->rt, stop, 0, NULL);
    nri_reply(f->held[0], "VF 0000:02:10.0 isn't home", NULL);
    nri_reply(f->held[1], NULL, NULL);
    expect(&f->rt, create, 0, NULL);
    expect(&f->rt, run, 2, "VF 0000:02:10.0 isn't home");
}

static void test_reply(void **state)
{
    struct fixture *f = *state;
    struct nri_env env = {(char[]){"PCIDEVICE"}, (char[]){"0000:02:10.0"}};
    struct nri_adjust adjust = {.env = {.v = &env, .n = 1}};
    _cleanup_(ttrpc_response_done) struct ttrpc_response resp = {0};
    uint32_t stream;

    connect_both(f);
    f->hold = true;
    stream = call_create(&f->rt);
    while (f->n_held < 1)
        assert_ok(loop_once(f->loop, 1, NULL), NULL);
    nri_reply(f->held[0], NULL, &adjust);
    runtime_wait_response(&f->rt, stream, &resp);

    Nri__Pkg__Api__V1alpha1__CreateContainerResponse *p =
        nri__pkg__api__v1alpha1__create_container_response__unpack(NULL, resp.n, resp.payload);

    assert_int_equal(p->adjust->n_env, 1);
    assert_string_equal(p->adjust->env[0]->key, "PCIDEVICE");
    assert_string_equal(p->adjust->env[0]->value, "0000:02:10.0");
    nri__pkg__api__v1alpha1__create_container_response__free_unpacked(p, NULL);

    /* one bad byte, and the Go side couldn't read the answer at all */
    stream = call_create(&f->rt);
    while (f->n_held < 2)
        assert_ok(loop_once(f->loop, 1, NULL), NULL);
    nri_reply(f->held[1], "kernel: \xff\xfe", NULL);
    expect(&f->rt, stream, 2, "kernel: ??");
}

static void test_refused_requests(void **state)
{
    static const struct {
        const char *service, *method, *payload;
        int code;
        const char *message;
    } cases[] = {
        {"nri.pkg.api.v1alpha1.Plugin", "StartContainer", "", 12, "method StartContainer"},
        {"nri.pkg.api.v1alpha1.Plugin", "", "", 12, "method "},
        {"nri.pkg.api.v1alpha1.Runtime", "RunPodSandbox", "", 12,
         "service nri.pkg.api.v1alpha1.Runtime"},
        {"", "Configure", "", 12, "service "},
        {"nri.pkg.api.v1alpha1.Plugin", "RunPodSandbox", "", 3, "no pod"},
        {"nri.pkg.api.v1alpha1.Plugin", "Configure", "\xff", 3, "not the message of Configure"},
        {"nri.pkg.api.v1alpha1.Plugin", "Synchronize", "\xff", 3, "not the message of Synchronize"},
    };
    struct fixture *f = *state;

    connect_both(f);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(strbuf_done) struct strbuf message = {0}, out = {0};

        f->rt.stream += 2;
        ttrpc_put_request(&message, f->rt.stream, cases[i].service, cases[i].method,
                          cases[i].payload, strlen(cases[i].payload));
        mux_put(&out, MUX_CONN_PLUGIN, message.s, message.len);
        runtime_write(&f->rt, out.s, out.len);
        expect(&f->rt, f->rt.stream, cases[i].code, cases[i].message);
    }
    /* and none of it did harm */
    expect(&f->rt, call_pod(&f->rt, "RunPodSandbox"), 0, NULL);
    saw(f, "run shop/web p1 /run/netns/p1\n");
}

static void test_bad_streams(void **state)
{
    static const struct {
        uint32_t stream;
        const char *message;
    } cases[] = {
        {8, "stream 8: a client's streams are odd"},
        {1, "stream 1 comes after stream 3"},
    };
    struct fixture *f = *state;

    connect_both(f);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(strbuf_done) struct strbuf message = {0}, out = {0};

        runtime_drop_messages(&f->rt);
        ttrpc_put_request(&message, cases[i].stream, "x", "y", NULL, 0);
        mux_put(&out, MUX_CONN_PLUGIN, message.s, message.len);
        runtime_write(&f->rt, out.s, out.len);
        expect(&f->rt, cases[i].stream, 3, cases[i].message);
    }
}

static void test_protocol_violations(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *why;
    } cases[] = {
        {"\0\0\0\1\xff\xff\xff\xff", 8,
         "a frame of conn 1 announces 4294967295 bytes, the limit is 4194314"},
        {"\0\0\0\1\0\0\0\x0a\0\x40\0\1\0\0\0\5\1\0", 18,
         "a message on stream 5 announces 4194305 bytes, the limit is 4194304"},
        {"\0\0\0\2\0\0\0\x0b\0\0\0\1\0\0\0\1\2\0\xff", 19, "stream 1: not a ttrpc response"},
        {"HTTP/1.1 400 Bad Request\r\n\r\n", 28,
         "a frame of conn 1213486160 announces 791752241 bytes, the limit is 4194314"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        connect_both(f);
        runtime_write(&f->rt, cases[i].bytes, cases[i].n);
        expect_down(f, cases[i].why);
        f->clock.now += 500;
    }
}

static void test_registration_refused(void **state)
{
    struct fixture *f = *state;
    _cleanup_(strbuf_done) struct strbuf message = {0}, out = {0};

    runtime_listen(&f->rt);
    plugin_start(f);
    runtime_accept(&f->rt);
    ttrpc_put_error(&message, 1, TTRPC_UNKNOWN, "invalid plugin name");
    mux_put(&out, MUX_CONN_RUNTIME, message.s, message.len);
    runtime_write(&f->rt, out.s, out.len);
    expect_down(f, "registration refused: invalid plugin name (code 2)");
    f->clock.now += 500;
    runtime_accept(&f->rt);
    runtime_write(&f->rt, out.s, out.len);
    runtime_settle(&f->rt);
    runtime_hangup(&f->rt);
    f->clock.now += 1000;
    runtime_accept(&f->rt);
    saw(f, ""); /* told once */
}

static void test_shutdown(void **state)
{
    struct fixture *f = *state;

    connect_both(f);
    runtime_call(&f->rt, "Shutdown", NULL);
    expect_down(f, "the runtime shuts down");
    f->clock.now += 500;
    connect_both(f);
}

/* The runtime is restarted while it waits for us: the answer is dropped, and nothing leaks. */
static void test_reply_after_loss(void **state)
{
    struct fixture *f = *state;

    f->hold = true;
    connect_both(f);
    call_pod(&f->rt, "RunPodSandbox");
    call_create(&f->rt);
    call_pod(&f->rt, "StopPodSandbox");
    while (f->n_held < 3)
        assert_ok(loop_once(f->loop, 1, NULL), NULL);
    saw(f, "run shop/web p1 /run/netns/p1\n"
           "create shop/web p1 /run/netns/p1 nginx\n"
           "stop shop/web p1 /run/netns/p1\n");
    runtime_hangup(&f->rt);
    nri_reply(f->held[1], "before the loss is known", NULL);
    expect_down(f, "the runtime closed the connection");
    nri_reply(f->held[0], "while there is no connection", NULL);
    f->clock.now += 500;
    connect_both(f);
    nri_reply(f->held[2], "to a new connection, which has the same stream", NULL);
    f->hold = false;
    expect(&f->rt, call_pod(&f->rt, "RunPodSandbox"), 0, NULL);
    f->hold = true;
    f->n_held = 0;
    call_pod(&f->rt, "StopPodSandbox");
    while (f->n_held < 1)
        assert_ok(loop_once(f->loop, 1, NULL), NULL);
    /* the last is never answered: nri_free() in teardown frees it */
}

static void test_backoff(void **state)
{
    static const int64_t waits[] = {500, 1000, 2000, 4000, 8000, 10000, 10000};
    struct fixture *f = *state;
    _cleanup_free_ char *absent =
        xasprintf("down: connecting to %s: No such file or directory\n", f->rt.path);

    plugin_start(f);
    saw(f, ""); /* never from within nri_new() */
    runtime_settle(&f->rt);
    saw(f, absent);
    for (size_t i = 0; i < ARRAY_SIZE(waits); i++) {
        runtime_listen(&f->rt);
        f->clock.now += waits[i] - 1;
        runtime_settle(&f->rt);
        assert_int_equal(accept(f->rt.listening, NULL, NULL), -1);
        runtime_unlisten(&f->rt);
        f->clock.now++;
        runtime_settle(&f->rt);
        saw(f, ""); /* the same reason is told once */
    }
    f->clock.now += 10000;
    connect_both(f);
    /* once all is well, the next loss begins anew */
    runtime_unlisten(&f->rt);
    runtime_hangup(&f->rt);
    expect_down(f, "the runtime closed the connection");
    runtime_listen(&f->rt);
    f->clock.now += 500;
    connect_both(f);
}

/* A runtime that takes us and throws us out at once isn't asked every 500 ms. */
static void test_backoff_without_synchronize(void **state)
{
    struct fixture *f = *state;

    runtime_listen(&f->rt);
    plugin_start(f);
    for (int64_t wait = 500; wait <= 4000; wait *= 2) {
        runtime_accept(&f->rt);
        runtime_register(&f->rt);
        runtime_configure(&f->rt, 2000);
        saw(f, UP);
        runtime_hangup(&f->rt);
        expect_down(f, "the runtime closed the connection");
        f->clock.now += wait - 1;
        runtime_settle(&f->rt);
        assert_int_equal(accept(f->rt.listening, NULL, NULL), -1);
        f->clock.now++;
    }
    runtime_accept(&f->rt);
    runtime_hangup(&f->rt);
    expect_down(f, "the runtime closed the connection before it configured us");
}

/* A session cut after each of its bytes: always a loss, or nothing yet, and then a new session. */
static void test_cut_at_every_byte(void **state)
{
    struct fixture *f = *state;
    _cleanup_(strbuf_done) struct strbuf out = {0}, answer = {0};

    ttrpc_put_response(&answer, 1, NULL, 0);
    mux_put(&out, MUX_CONN_RUNTIME, answer.s, answer.len);
    (void)runtime_put_call(&f->rt, &out, "Configure", NULL);
    (void)runtime_put_call(&f->rt, &out, "Synchronize", NULL);
    runtime_listen(&f->rt);
    plugin_start(f);
    for (size_t cut = 0; cut <= out.len; cut++) {
        runtime_accept(&f->rt);
        runtime_write(&f->rt, out.s, cut);
        runtime_settle(&f->rt);
        runtime_hangup(&f->rt);
        runtime_settle(&f->rt);
        assert_false(nri_connected(f->nri));
        f->clock.now += 10000;
        strbuf_done(&f->seen);
        strbuf_puts(&f->seen, "");
    }
    connect_both(f);
}

/* More answers than the socket holds: they wait for the runtime, and all arrive. */
static void test_runtime_reads_late(void **state)
{
    struct fixture *f = *state;
    uint32_t streams[2000];
    size_t n = 0;

    connect_both(f);
    for (; n < ARRAY_SIZE(streams); n++)
        streams[n] = call_pod(&f->rt, "NoSuchMethodWithAVeryLongNameThatFillsTheSocketSoonerThanIt"
                                      "WouldOtherwiseTakeToFillItWithTheShortAnswersThatOneGets"
                                      "WhenAllIsWellAndEveryMethodIsKnown");
    runtime_settle(&f->rt);
    for (size_t i = 0; i < n; i++) {
        _cleanup_(ttrpc_response_done) struct ttrpc_response resp = {0};

        runtime_wait_response(&f->rt, streams[i], &resp);
        assert_int_equal(resp.code, 12);
    }
    expect(&f->rt, call_pod(&f->rt, "RunPodSandbox"), 0, NULL);
}

static void test_runtime_never_reads(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *method = xcalloc(1, 900001);

    memset(method, 'm', 900000);
    connect_both(f);
    for (int i = 0; i < 40 && f->seen.len == 0; i++)
        runtime_call(&f->rt, method, NULL);
    expect_down(f, "the runtime doesn't read its answers");
}

/* The same from answers that come late, when nothing else would wake the loop. */
static void test_runtime_is_silent(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *text = xcalloc(1, 3000001);

    memset(text, 'x', 3000000);
    connect_both(f);
    f->hold = true;
    for (size_t i = 0; i < ARRAY_SIZE(f->held); i++)
        call_pod(&f->rt, "RunPodSandbox");
    while (f->n_held < ARRAY_SIZE(f->held))
        assert_ok(loop_once(f->loop, 1, NULL), NULL);
    strbuf_done(&f->seen);
    for (size_t i = 0; i < f->n_held; i++)
        nri_reply(f->held[i], text, NULL);
    assert_int_equal(f->seen.len, 0); /* never from within nri_reply() */
    expect_down(f, "the runtime doesn't read its answers");
}

static void test_free_in_a_handler(void **state)
{
    static const char *const handlers[] = {"up", "synchronize", "event", "down"};
    struct fixture *f = *state;

    runtime_listen(&f->rt);
    for (size_t i = 0; i < ARRAY_SIZE(handlers); i++) {
        Nri__Pkg__Api__V1alpha1__RunPodSandboxRequest m =
            NRI__PKG__API__V1ALPHA1__RUN_POD_SANDBOX_REQUEST__INIT;
        _cleanup_(strbuf_done) struct strbuf out = {0};

        f->free_in = handlers[i];
        plugin_start(f);
        runtime_accept(&f->rt);
        /* all in one read, so that much is left to do when the handler frees */
        m.pod = pod();
        (void)runtime_put_call(&f->rt, &out, "Configure", NULL);
        (void)runtime_put_call(&f->rt, &out, "Synchronize", NULL);
        (void)runtime_put_call(&f->rt, &out, "RunPodSandbox", &m.base);
        (void)runtime_put_call(&f->rt, &out, "Shutdown", NULL);
        runtime_write(&f->rt, out.s, out.len);
        runtime_settle(&f->rt);
        assert_null(f->nri);
        runtime_hangup(&f->rt);
    }
    /* and from the timer, without a connection */
    runtime_unlisten(&f->rt);
    f->free_in = "down";
    plugin_start(f);
    runtime_settle(&f->rt);
    assert_null(f->nri);
}

static void test_bad_config(void **state)
{
    static const char long_path[] =
        "/run/0123456789012345678901234567890123456789012345678901234567"
        "8901234567890123456789012345678901234567890123456789.sock";
    static const struct {
        struct nri_config c;
        const char *text;
    } cases[] = {
        {{"/run/nri.sock", "", "10"}, "name"},
        {{"/run/nri.sock", "sriov dra", "10"}, "\"sriov dra\""},
        {{"/run/nri.sock", "sriov-dra", "1"}, "index \"1\""},
        {{"/run/nri.sock", "sriov-dra", "1a"}, "two digits"},
        {{"/run/nri.sock", "sriov-dra", "100"}, "two digits"},
        {{"", "sriov-dra", "10"}, "NRI socket"},
        {{long_path, "sriov-dra", "10"}, "1 to 107 bytes"},
    };
    struct fixture *f = *state;
    struct nri_handlers h = {on_state, on_synchronize, on_event, f};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_err_ struct err e = ERR_INIT;

        assert_true(nri_new(f->loop, &cases[i].c, &h, &f->nri, &e) < 0);
        assert_null(f->nri);
        assert_int_equal(e.kind, ERR_USER);
        assert_err_has(&e, cases[i].text);
    }
}

static uint32_t rnd(uint32_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 17;
    return *s ^= *s << 5;
}

/* Random bytes, and a good session with some bytes changed: no crash, no leak, no endless loop. */
static void test_noise(void **state)
{
    struct fixture *f = *state;
    _cleanup_(strbuf_done) struct strbuf good = {0};
    Nri__Pkg__Api__V1alpha1__RunPodSandboxRequest m =
        NRI__PKG__API__V1ALPHA1__RUN_POD_SANDBOX_REQUEST__INIT;
    uint32_t seed = 20261130;

    m.pod = pod();
    (void)runtime_put_call(&f->rt, &good, "Configure", NULL);
    (void)runtime_put_call(&f->rt, &good, "Synchronize", NULL);
    (void)runtime_put_call(&f->rt, &good, "RunPodSandbox", &m.base);
    (void)runtime_put_call(&f->rt, &good, "CreateContainer", &m.base);
    (void)runtime_put_call(&f->rt, &good, "StateChange", &m.base);
    runtime_listen(&f->rt);
    plugin_start(f);
    for (int round = 0; round < 3000; round++) {
        _cleanup_free_ uint8_t *bytes = xmemdup(good.s, good.len);

        for (size_t i = 0; i < (round % 4 ? 1 + rnd(&seed) % 8 : good.len); i++)
            bytes[rnd(&seed) % good.len] = (uint8_t)rnd(&seed);
        runtime_accept(&f->rt);
        runtime_write(&f->rt, bytes, good.len);
        runtime_settle(&f->rt);
        runtime_hangup(&f->rt);
        runtime_settle(&f->rt);
        assert_false(nri_connected(f->nri));
        f->clock.now += 10000;
    }
    strbuf_done(&f->seen);
    strbuf_puts(&f->seen, "");
    connect_both(f);
}

#define nri_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        nri_test(test_session),
        nri_test(test_session_byte_by_byte),
        nri_test(test_state_change_is_the_same_event),
        nri_test(test_synchronize_in_parts),
        nri_test(test_synchronize_cut_off),
        nri_test(test_interleaved),
        nri_test(test_calls_at_once),
        nri_test(test_reply),
        nri_test(test_refused_requests),
        nri_test(test_bad_streams),
        nri_test(test_protocol_violations),
        nri_test(test_registration_refused),
        nri_test(test_shutdown),
        nri_test(test_reply_after_loss),
        nri_test(test_backoff),
        nri_test(test_backoff_without_synchronize),
        nri_test(test_cut_at_every_byte),
        nri_test(test_runtime_reads_late),
        nri_test(test_runtime_never_reads),
        nri_test(test_runtime_is_silent),
        nri_test(test_free_in_a_handler),
        nri_test(test_bad_config),
        nri_test(test_noise),
    };

    return cmocka_run_group_tests_name("nri", tests, NULL, NULL);
}
