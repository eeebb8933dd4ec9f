# SPDX-License-Identifier: Apache-2.0
"""Each promise of the contract with the code that keeps it taken out: the test of the promise must fail then.

    tests/run broken [PATTERN]

For each entry of BROKEN whose name contains PATTERN, a copy of the sources is changed, built, and its tests run on the
lab. `--check` builds nothing: it says whether each test that is marked `contract` has its entry, and whether each text
that is to be replaced is found exactly once, so that the table can't rot.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("SRIOV_DRA_BUILD", TOP / "build")).absolute() / "broken"

# What is taken out: (tests that must fail, file, its text, what stands there instead), and three more of these for each
# further place that would keep the promise by itself.
BROKEN = {
    "a VF that differs stays in its slice": (
        ["test_a_vf_that_differs_leaves_the_skipping_slice", "test_drift_is_repaired_only_where_the_driver_provisions"],
        "driver/offer.c", "bool verified = fact->verified;", "bool verified = true;"),
    "only the PF's list is compared, not what the VF has itself": (
        ["test_a_vf_that_hears_nothing_is_not_verified"],
        "sriov/settings.c", "if (!mac_is_zero(&s->admin.mac) && !mac_equal(&s->admin.mac, &s->mac))", "if (false)"),
    "nothing is verified when a VF is acquired": (
        ["test_a_claim_that_tolerates_the_taint_is_refused_in_prepare", "test_a_vf_that_drifts_before_it_is_acquired_is_refused",
         "test_a_pod_that_started_on_a_drifted_vf_is_reported"],
        "driver/attachment.c", "if (n + vf_state_unclean(s, &why) == 0)", "if (true)"),
    "nobody looks at a VF that a claim has": (
        ["test_drift_under_a_live_claim_is_shown_and_its_pod_goes_on"],
        "driver/verify.c", "n = vf_state_differs(&listed, &claims, &why);", "n = 0;"),
    "the pool's taintEffect is ignored": (
        ["test_drift_ends_the_pod_where_the_pool_says_so"],
        "driver/offer.c", "fact->harmed ? pool->taint_effect : TAINT_NO_SCHEDULE", "TAINT_NO_SCHEDULE"),
    "what others provision is repaired too": (
        ["test_drift_is_repaired_only_where_the_driver_provisions"],
        "driver/provision.c", "p && p->by == PROVISIONED_BY_DRIVER && !mode_sets_up(p->mode)", "p && !mode_sets_up(p->mode)"),
    "a claim isn't given the repair": (
        ["test_drift_that_nobody_saw_is_repaired_for_the_claim"],
        "driver/hands.c", "if (!g->may_raise_pf || vf_verify_promise(s, g, NULL) == 0)", "if (true)"),
    "provisioning doesn't ask who holds a VF": (
        ["test_a_vf_in_use_is_not_repaired", "test_a_change_of_mode_strands_no_claim"],
        "driver/provisioning.c", "return claims_holder(p->node->claims, device) != NULL;", "return false && device[0];",
        "driver/observe.c", "return !f->in_use && vf && provision_pool(&in, pf, vf);", "return vf && provision_pool(&in, pf, vf);",
        # for what is away, settings of the PF's list only, as if it were home
        "sriov/provision.c", "    if (!s->home)\n        return err_set(e, ERR_TRANSIENT, -EAGAIN,", "    if (false)\n        return err_set(e, ERR_TRANSIENT, -EAGAIN,",
        "sriov/provision.c", "    if (vf_state_unclean(s, &why) == 0)\n        return 0;\n    return err_set(e, ERR_TRANSIENT, -EIO, \"VF %u (%s) of PF %s: set, but",
        "    if (true)\n        return 0;\n    return err_set(e, ERR_TRANSIENT, -EIO, \"VF %u (%s) of PF %s: set, but"),
    "the verb provision doesn't ask who holds a VF": (
        ["test_a_vf_in_use_is_in_the_way_of_provisioning"],
        "driver/provision_once.c", "vec_foreach (rec, &c.records)", "if (false)\n        vec_foreach (rec, &c.records)"),
    "the next claim doesn't wait for the VF of the last": (
        ["test_a_vf_that_the_old_namespace_holds_is_awaited_and_reset"],
        "driver/node.h", "#define HOME_WAIT_MS 20000", "#define HOME_WAIT_MS 100"),
    "the next claim takes the VF of one that isn't released": (
        ["test_a_late_release_touches_nothing_of_the_next_claim"],
        "driver/prepare.c", "struct claim *holder = claims_holder(n->claims, d->grant.device);", "struct claim *holder = NULL;",
        "driver/release.c", "else if (c->pods_seen)\n        release(n, c);", "else if (c->pods_seen)\n        timer_set(n->review, 8000), c->pods_seen = false;"),
    "what a pod changed of its VF is left": (
        ["test_what_a_pod_does_to_its_vf_ends_with_it", "test_a_skip_pod_has_what_its_device_promises_and_nobody_is_called"],
        "sriov/plan.c", "    if (s->mtu != o->mtu)\n        add_mtu_step(&p, s, o->mtu);\n    if (o->own_only) {",
        "    if (o->own_only) {"),
    "what a claim set is left": (
        ["test_what_a_claim_asks_is_in_force_and_gone_afterwards"],
        "driver/hands.c", "        r = vf_restore(&h->hw, &d->original, NULL, e);\n        if (r == -ENODEV", "        if (r == -ENODEV"),
    "a claim without Unprepare is never released": (
        ["test_a_vf_is_clean_for_the_next_claim_though_nobody_called", "test_no_deferred_pod_waits_for_a_stopped_driver"],
        "driver/release.c", "else if (c->pods_seen)\n        release(n, c);", "else if (c->pods_seen)\n        (void)release;"),
    "a claim is released although its pod lives": (
        ["test_nothing_is_released_under_a_living_pod"],
        "driver/release.c", "if (pods_need_claim(n->pods, c->rec))\n        return true;", "(void)pods_need_claim;"),
    "a Skip VF isn't prepared when the kubelet asks": (
        ["test_one_device_that_does_not_skip_makes_the_kubelet_call_for_all", "test_gate_off_at_the_kubelet_alone",
         "test_gate_off_at_the_scheduler_alone", "test_gate_turned_off_at_the_kubelet_before_a_pod_starts"],
        "driver/prepare.c", "if (contract_decide(&in, alloc, &grants, &e) < 0) {",
        "if (contract_decide(&in, alloc, &grants, &e) < 0 ||\n"
        "        (by_kubelet && grants.v[grants.n - 1].mode == MODE_SKIP &&\n"
        "         err_set(&e, ERR_USER, -EINVAL, \"it skips Prepare\") < 0)) {"),
    "lists that aren't copied aren't told": (
        ["test_gate_off_at_the_scheduler_alone", "test_gate_turned_off_in_the_control_plane_with_claims_live"],
        "driver/prepare.c", "if (!lacks || !n->skip_declared || n->dropped & SLICE_FIELD_LIST)", "if (true)"),
    "a slice gets a list whatever the node declares": (
        ["test_gate_off_everywhere", "test_gate_turned_off_at_the_kubelet_with_claims_live"],
        "driver/offer.c", "verified && in->skip_declared && in->lists_kept ?", "verified && in->lists_kept ?"),
    "nobody looks at what the server kept of a slice": (
        ["test_gate_off_at_the_api_server_alone"],
        "driver/offer.c", "verified && in->skip_declared && in->lists_kept ?", "verified && in->skip_declared ?"),
    "a setting that a Skip VF hasn't is passed over": (
        ["test_a_setting_that_the_vf_has_not_is_refused"],
        "driver/contract.c", "if ((r = check_preprovisioned(&s, e)) < 0)", "if (false)"),
    "a pod with hostNetwork isn't refused": (
        ["test_a_pod_with_host_network_is_refused"],
        "driver/ensure.c", "else if (ours && !en->netns)", "else if (false)"),
    "a VF that another pod has is taken from it": (
        ["test_a_vf_serves_one_pod_at_a_time"],
        "driver/ensure.c", "sandboxes_alive(en->node->sandboxes, c->sandbox_id))\n        err_set(", "false)\n        err_set("),
    "the pool's mode of today decides who ends a claim": (
        ["test_a_change_of_mode_strands_no_claim"],
        "driver/record.c", "r->unprepare_comes = !allocation_skips_unprepare(a);", "r->unprepare_comes = true;"),
    "what a VF was promised as isn't asked": (
        ["test_a_vf_promised_beforehand_is_not_given_under_another_mode"],
        "driver/contract.c", "if (!s->asked->skip_prepare || !mode_sets_up(s->pool->mode))", "if (true)"),
    "a device's name says its mode": (
        ["test_a_vf_is_one_device_whatever_its_mode"],
        "driver/offer.c", "device_name(vf->address, d->name);",
        "device_name(vf->address, d->name);\n    if (pool->mode == MODE_SKIP)\n        d->name[0] = 's';"),
    "what is attached doesn't need the driver": (
        ["test_the_driver_is_removed_only_where_nothing_needs_it"],
        "driver/live.c", "if (d->told || d->attach == LIVE_ATTACH_DRIVER) {", "if (false) {"),
    "a class forgets what it promises": (
        ["test_a_class_selects_the_guarantee_that_it_names"],
        "deploy/classes/hardware.yaml", 'device.attributes["sriov-dra.dev"].rdma', "true"),
    "which alternative it was isn't told": (
        ["test_which_alternative_was_allocated_is_told"],
        "driver/events.c", "if (g->choice == 1)\n            continue;", "continue;"),
    "slices never skip": (
        ["test_a_skip_pod_ends_without_the_driver_and_a_prepare_pod_waits"],
        "driver/offer.c", "case MODE_SKIP:\n        return SKIP_ALL;", "case MODE_SKIP:\n        return SKIP_NOTHING;"),
    "a start begins with a clean table": (
        ["test_a_killed_driver_leaves_live_claims_alone"],
        "driver/hands.c", "if (!streq(rec->boot_id, h->boot_id)) {", "if (true) {"),
    "a damaged record is forgotten": (
        ["test_a_vf_whose_record_is_damaged_is_not_verified"],
        "driver/node.c", "n->suspicious = content.bad.n > 0;", "n->suspicious = false;"),
    "pods that run aren't looked at": (
        ["test_a_pod_that_started_while_the_driver_was_away_is_repaired"],
        "driver/sandboxes.c", "if (!sb->judged && !sb->working)", "if (false)"),
    "a VF that comes home from a sandbox isn't set anew": (
        ["test_a_new_sandbox_has_the_settings_without_a_new_prepare"],
        "driver/attachment.c", "return r == 0 && s.home ? ready_again(h, d, e) : r;", "return r;"),
    "no hook": (
        ["test_a_driver_killed_after_prepare_costs_the_pod_nothing",
         "test_a_driver_that_hangs_as_the_sandbox_is_made_costs_the_pod_nothing",
         "test_a_vf_lost_between_sandbox_and_container_is_there_again",
         "test_a_driver_killed_while_it_attaches_costs_the_pod_nothing",
         "test_a_new_sandbox_has_the_settings_without_the_driver", "test_a_container_that_can_not_have_its_vf_is_not_started",
         "test_a_vf_that_another_namespace_has_is_not_taken_from_it", "test_the_hook_takes_no_vf_from_another_pod"],
        "driver/hands.c", "h->hook && record_wants_attach(rec) ? &hook : NULL", "false ? &hook : NULL"),
    "pods aren't annotated": (
        ["test_a_guarded_skip_pod_is_not_started_without_the_driver"],
        "deploy/policies/required.yaml", "{name: sriov-dra-required-pod}\nspec:\n  policyName: sriov-dra-required\n  matchResources:\n"
        "    objectSelector: {matchLabels: {sriov-dra.dev/required: \"true\"}}",
        "{name: sriov-dra-required-pod}\nspec:\n  policyName: sriov-dra-required\n  matchResources:\n"
        "    objectSelector: {matchLabels: {sriov-dra.dev/required: \"never\"}}"),
}


def marked():
    """Names of the tests that are marked `contract`."""
    found = set()
    for path in HERE.glob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        whole = re.search(r"^pytestmark = .*mark\.contract", text, re.M)
        for marks, name in re.findall(r"((?:^@[^\n]*\n)*)^def (test_\w+)\(", text, re.M):
            if whole or "mark.contract" in marks:
                found.add(name)
    return found


def changes(what):
    """Of an entry: (file, text, replacement), each."""
    return list(zip(*[iter(BROKEN[what][1:])] * 3))


def check():
    problems = []
    tested = {name for tests, *_ in BROKEN.values() for name in tests}
    problems += [f"{name} is marked `contract`, and nothing was broken for it" for name in sorted(marked() - tested)]
    problems += [f"{name} isn't marked `contract`, or isn't there" for name in sorted(tested - marked())]
    for what in BROKEN:
        for file, old, _ in changes(what):
            count = (TOP / file).read_text(encoding="utf-8").count(old)
            if count != 1:
                problems.append(f"{what}: its text is found {count} times in {file}")
    for problem in problems:
        print(f"tests/e2e/broken.py: {problem}")
    return not problems


def run(*args, **kwargs):
    return subprocess.run([str(a) for a in args], stdin=subprocess.DEVNULL, check=False, **kwargs)


def copy():
    """The sources as they are, with the times of an earlier copy where they are the same: only what differs is built."""
    source = BUILD / "source"
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=TOP, text=True, stdout=subprocess.PIPE,
                            check=True).stdout.splitlines()
    for name in listed:
        old, new = TOP / name, source / name
        if not old.is_file() or (new.is_file() and new.read_bytes() == old.read_bytes()):
            continue
        new.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(old, new)
    return source


def one(what, source, log):
    """Whether the tests of one entry fail without the code; what is said of it."""
    tests = BROKEN[what][0]
    wholes = {source / file: (source / file).read_text(encoding="utf-8") for file, *_ in changes(what)}
    for file, old, new in changes(what):
        path = source / file
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    environment = {**os.environ, "SRIOV_DRA": str(BUILD / "out" / "sriov-dra"), "SRIOV_DRA_BUILD": str(BUILD / "out"),
                   "LAB_NAME": "broken"}
    try:
        if run("ninja", "-C", BUILD / "out", "sriov-dra", "sriov-dra-hook", stdout=log, stderr=log).returncode:
            return False, "it doesn't build"
        missed = []
        for test in tests:
            # Whatever its parameters: one that fails is enough.
            status = run("/usr/bin/python3", "-B", "-m", "pytest", "-v", "-x", "-p", "no:cacheprovider", "--color=no", "--keep",
                         "-m", "contract", "-k", test, source / "tests/e2e", env=environment, stdout=log, stderr=log).returncode
            if status != 1:
                missed.append(f"{test} {'passes' if status == 0 else f'ended with {status}'}")
        return not missed, "; ".join(missed)
    finally:
        for path, whole in wholes.items():
            path.write_text(whole, encoding="utf-8")


def main(arguments):
    if arguments == ["--check"]:
        return 0 if check() else 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the lab is taken down
    if not check():
        return 1
    source, bad = copy(), 0
    if not (BUILD / "out" / "build.ninja").exists():
        run("meson", "setup", BUILD / "out", source, "-Db_lto=false", stdout=subprocess.DEVNULL).check_returncode()
    wanted = [what for what in BROKEN if all(a in what for a in arguments)]
    try:
        with open(BUILD / "broken.log", "wb") as log:
            for number, what in enumerate(wanted, 1):
                found, why = one(what, source, log)
                bad += not found
                print(f"{'ok' if found else 'not ok'} {number} - {what}{f': {why}' if why else ''}", flush=True)
    finally:
        run(source / "tests/lab/lab", "--name", "broken", "down", stdout=subprocess.DEVNULL)
    print(f"1..{len(wanted)}")
    return 1 if bad or not wanted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
