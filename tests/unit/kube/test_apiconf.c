/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/apiconf.h"

#include "base/str.h"
#include "tests/unit/kube/server.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>

#define HEAD "current-context: c\ncontexts:\n- {name: c, context: {cluster: k, user: u}}\n"

static char dir[] = "/tmp/test-apiconf-XXXXXX";

static void put(const char *name, const char *text)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

static int read_conf(const char *text, struct apiconf *c, struct err *e)
{
    _cleanup_free_ char *path = xasprintf("%s/config", dir);

    put("config", text);
    return apiconf_kubeconfig(path, c, e);
}

static void test_all_as_data(void **state)
{
    _cleanup_(apiconf_done) struct apiconf c = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    assert_ok(read_conf("apiVersion: v1\nkind: Config\n" HEAD
                        "- {name: other, context: {cluster: nowhere}}\n"
                        "clusters: [{name: x, cluster: {}}, {name: k, cluster: {server: "
                        "'https://[2001:db8::1]:6443/k8s//', certificate-authority-data: "
                        "Q0EgdGV4dAo=}}]\n"
                        "users: [{name: u, user: {client-certificate-data: Q0VSVA==, "
                        "client-key-data: S0VZMTIz, token: abc.def}}]\n",
                        &c, &e),
              &e);
    assert_string_equal(c.server, "https://[2001:db8::1]:6443/k8s");
    assert_string_equal(c.ca.text, "CA text\n");
    assert_string_equal(c.cert.text, "CERT");
    assert_string_equal(c.key.text, "KEY123");
    assert_string_equal(c.token.text, "abc.def");
    assert_false(apiconf_refresh(&c));
}

static void test_files_are_read_again(void **state)
{
    _cleanup_(apiconf_done) struct apiconf c = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    put("ca", "CA\n");
    put("cert", "CERT\n");
    put("key", "KEY\n");
    put("token", "one\n");
    _cleanup_free_ char *text =
        xasprintf(HEAD "clusters: [{name: k, cluster: {server: 'https://h', "
                       "certificate-authority: %s/ca}}]\n"
                       "users: [{name: u, user: {client-certificate: cert, client-key: key, "
                       "tokenFile: token, token: loses}}]\n",
                  dir);
    assert_ok(read_conf(text, &c, &e), &e);
    assert_string_equal(c.ca.text, "CA");
    assert_string_equal(c.cert.text, "CERT");
    assert_string_equal(c.key.text, "KEY");
    assert_string_equal(c.token.text, "one");
    assert_false(apiconf_refresh(&c));

    put("token", "two");
    assert_true(apiconf_refresh(&c));
    assert_string_equal(c.token.text, "two");
    put("ca", "CA2");
    assert_true(apiconf_refresh(&c));
    assert_string_equal(c.ca.text, "CA2");

    /* what is half written or damaged is left for the next time */
    put("token", "");
    assert_false(apiconf_refresh(&c));
    put("token", "x\r\nX-Evil: 1");
    assert_false(apiconf_refresh(&c));
    assert_string_equal(c.token.text, "two");
}

static void test_errors(void **state)
{
#define CLUSTERS   "clusters: [{name: k, cluster: {server: 'https://h'}}]\n"
#define CLUSTER(x) HEAD "clusters: [{name: k, cluster: {" x "}}]\nusers: [{name: u, user: {}}]\n"
#define USER(x)    HEAD CLUSTERS "users: [{name: z}, {name: u, user: {" x "}}]\n"
    static const struct {
        const char *text, *what;
    } table[] = {
        {"a: [", "/config: line 2, column 1: "},
        {"", "documents"},
        {"[]", "document: must be an object"},
        {"{}", "current-context: is missing"},
        {"current-context: c\n", "contexts: has no entry named \"c\""},
        {"current-context: c\ncontexts: 5\n", "contexts: must be a list"},
        {"current-context: c\ncontexts: [{name: c}]\n", "contexts[0].context: is missing"},
        {"current-context: c\ncontexts: [{name: c, context: {}}]\n",
         "contexts[0].context.cluster: is missing"},
        {HEAD, "clusters: has no entry named \"k\""},
        {HEAD CLUSTERS, "users: has no entry named \"u\""},
        {CLUSTER(""), "clusters[0].cluster.server: is missing"},
        {CLUSTER("server: 5"), "clusters[0].cluster.server: must be a string"},
        {CLUSTER("server: 'http://192.0.2.1'"), "clusters[0].cluster.server: http://192.0.2.1: "
                                                "must be https"},
        {CLUSTER("server: 'ftp://localhost'"), "must be https"},
        {CLUSTER("server: 'h:6443'"), "cluster.server: "},
        {CLUSTER("server: 'https://u:secret@h'"), "only scheme, host, port and path"},
        {CLUSTER("server: 'https://h?x=1'"), "only scheme, host, port and path"},
        {CLUSTER("server: 'https://h', insecure-skip-tls-verify: true"),
         "clusters[0].cluster.insecure-skip-tls-verify: isn't supported"},
        {CLUSTER("server: 'https://h', proxy-url: 'http://p'"), "proxy-url: isn't supported"},
        {CLUSTER("server: 'https://h', certificate-authority-data: 'x*'"),
         "clusters[0].cluster.certificate-authority-data: isn't base64"},
        {CLUSTER("server: 'https://h', certificate-authority: none"),
         "clusters[0].cluster.certificate-authority: "},
        {USER("exec: {command: aws}"), "users[1].user.exec: isn't supported"},
        {USER("username: a, password: b"), "users[1].user.username: isn't supported"},
        {USER("as: root"), "users[1].user.as: isn't supported"},
        {USER("token: \"a\\nb\""), "users[1].user.token: has a character"},
        {USER("tokenFile: none"), "users[1].user.tokenFile: "},
        {USER("client-certificate-data: Q0VSVA=="), "users[1].user: has a client certificate"},
        {USER("client-key-data: Q0VSVA=="), "users[1].user: has a client certificate"},
        {USER("client-key-data: Q0VSVA"), "isn't base64"},
        {USER("client-key-data: Q0VSV==="), "isn't base64"},
        {USER("client-key-data: Q0VSVA==x"), "isn't base64"},
        {USER("client-key-data: AAAA"), "isn't base64"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        struct apiconf c = {.server = (char[]){"untouched"}};

        assert_true(read_conf(table[i].text, &c, &e) < 0);
        assert_err_has(&e, table[i].what);
        assert_err_has(&e, "/config: ");
        assert_null(strstr(err_text(&e), "secret"));
        assert_string_equal(c.server, "untouched");
    }
}

static void test_missing_file(void **state)
{
    _cleanup_err_ struct err e = ERR_INIT;
    struct apiconf c;

    (void)state;
    assert_int_equal(apiconf_kubeconfig("/nonexistent/config", &c, &e), -ENOENT);
    assert_err_has(&e, "/nonexistent/config");
}

static void test_what_is_allowed(void **state)
{
    static const char *const table[] = {
        CLUSTER("server: 'http://127.0.0.1:8001'"),
        CLUSTER("server: 'http://localhost'"),
        CLUSTER("server: 'http://[::1]:80'"),
        CLUSTER("server: 'https://h', insecure-skip-tls-verify: false, unknown: [1]"),
        "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n" CLUSTERS,
        "{\"current-context\": \"c\", \"contexts\": [{\"name\": \"c\", \"context\": {\"cluster\": "
        "\"k\"}}], \"clusters\": [{\"name\": \"k\", \"cluster\": {\"server\": \"https://h\"}}]}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_(apiconf_done) struct apiconf c = {0};
        _cleanup_err_ struct err e = ERR_INIT;

        assert_ok(read_conf(table[i], &c, &e), &e);
    }
}

static void test_pod(void **state)
{
    static const struct {
        const char *host, *port, *server;
    } table[] = {
        {"10.96.0.1", "443", "https://10.96.0.1:443"},
        {"fd00::1", "443", "https://[fd00::1]:443"},
        {"[fd00::1]", "443", "https://[fd00::1]:443"},
    };

    (void)state;
    put("ca.crt", "CA\n");
    put("token", "tok\n");
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_(apiconf_done) struct apiconf c = {0};
        _cleanup_err_ struct err e = ERR_INIT;

        setenv("KUBERNETES_SERVICE_HOST", table[i].host, 1);
        setenv("KUBERNETES_SERVICE_PORT", table[i].port, 1);
        assert_ok(apiconf_pod(dir, &c, &e), &e);
        assert_string_equal(c.server, table[i].server);
        assert_string_equal(c.ca.text, "CA");
        assert_string_equal(c.token.text, "tok");
    }
}

static void test_pod_errors(void **state)
{
    _cleanup_err_ struct err e = ERR_INIT;
    struct apiconf c;

    (void)state;
    put("ca.crt", "CA\n");
    put("token", "\n");
    setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "443", 1);
    assert_int_equal(apiconf_pod(dir, &c, &e), -EINVAL);
    assert_err_has(&e, "/token: empty");
    put("token", "a b");
    assert_int_equal(apiconf_pod(dir, &c, &e), -EINVAL);
    assert_err_has(&e, "/token: ");
    assert_int_equal(apiconf_pod("/nonexistent", &c, &e), -ENOENT);
    assert_err_has(&e, "/nonexistent/ca.crt");
    unsetenv("KUBERNETES_SERVICE_PORT");
    assert_int_equal(apiconf_pod(dir, &c, &e), -EINVAL);
    assert_err_has(&e, "no kubeconfig given");
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    static const char *const files[] = {"config", "ca", "ca.crt", "cert", "key", "token"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        _cleanup_free_ char *path = xasprintf("%s/%s", dir, files[i]);

        unlink(path);
    }
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_as_data),     cmocka_unit_test(test_files_are_read_again),
        cmocka_unit_test(test_errors),          cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_what_is_allowed), cmocka_unit_test(test_pod),
        cmocka_unit_test(test_pod_errors),
    };

    return cmocka_run_group_tests_name("apiconf", tests, setup, teardown);
}
