# SPDX-License-Identifier: Apache-2.0
"""Runs the test suites and counts their cases; started by tests/run.

Builds are in $SRIOV_DRA_BUILD (build/ of the checkout): the release build at
its top, others below it. What a suite printed is in logs/ there.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

TOP = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("SRIOV_DRA_BUILD", TOP / "build")).absolute()
LOGS = BUILD / "logs"
PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's gRPC and pytest
ROOMS = ["base", "netlink", "sriov", "kube", "driver"]

# name: (directory, compiler, meson options)
BUILDS = {
    "release": (BUILD, "gcc", ["-Dwerror=true", "-Db_lto=false"]),
    "asan": (BUILD / "asan", "gcc", ["-Dwerror=true", "-Db_sanitize=address,undefined", "-Doptimization=1"]),
    "clang": (BUILD / "clang", "clang", ["-Dwerror=true"]),
    "no-libpci": (BUILD / "no-libpci", "gcc", ["-Dwerror=true", "-Dlibpci=disabled"]),
}

# It doesn't see system headers: their loops are named here, and what it says
# of structs that it doesn't know (legacyUninitvar) is noise. Its parser doesn't
# know __typeof__ in a declaration, nor some compound literals. NULL is a
# pointer in every C library that we build with.
CPPCHECK = [
    "--quiet", "-j2", "--std=c11", "--enable=warning,portability", "--inline-suppr", "--error-exitcode=1",
    "-D_GNU_SOURCE", "-D__GNUC__=12", "-D__typeof__(x)=__auto_type",
    "-Djson_array_foreach(a,i,v)=while((v=next(a,i)))",
    "-Djson_object_foreach(o,k,v)=while((v=next(o,k)))",
    "-Djson_object_foreach_safe(o,n,k,v)=while((v=next(o,n,k)))",
    "--suppress=internalAstError", "--suppress=varFuncNullUB", "--suppress=legacyUninitvar",
    "--suppress=arrayIndexThenCheck",
]


class Suite:
    """The counted cases of one suite."""

    def __init__(self, name, pattern):
        self.name = name
        self.pattern = pattern
        self.passed = 0
        self.failed = []  # (case, where to look)
        self.skipped = []  # (case, reason)

    def wants(self, case):
        return self.pattern is None or self.pattern in case

    def add(self, case, result, note=""):
        if result == "passed":
            self.passed += 1
        else:
            getattr(self, result).append((case, note))

    def check(self, case, args, **kwargs):
        """One command as one case."""
        if not self.wants(case):
            return
        began = time.monotonic()
        log = LOGS / f"{self.name}-{case}.log"
        status = run(args, log, show=False, **kwargs)
        seconds = time.monotonic() - began
        print(f"  {'ok  ' if status == 0 else 'FAIL'} {case} ({seconds:.1f} s)", flush=True)
        if status != 0:
            tail(log)
        self.add(case, "passed" if status == 0 else "failed", str(log))


child = None


def run(args, log, show=True, env=None, cwd=TOP):
    """Runs a command, its output into the log and, if asked, to the terminal.
    Returns its status."""
    global child
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as file:
        child = subprocess.Popen([str(a) for a in args], cwd=cwd, env={**os.environ, **(env or {})},
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for line in child.stdout:
            file.write(line)
            if show:
                sys.stdout.buffer.write(b"  " + line)
                sys.stdout.flush()
        status = child.wait()
        child = None
        return status


def tail(log, lines=25):
    for line in log.read_text(errors="replace").splitlines()[-lines:]:
        print(f"    {line}")


def build(suite, name, *targets):
    """Brings a build up to date, or some of it; a failure counts as a failed case of the suite."""
    directory, compiler, options = BUILDS[name]
    stamp = directory / "options"
    wanted = " ".join([compiler, *options])
    log = LOGS / f"build-{name}.log"
    status = 0
    if not (directory / "build.ninja").exists() or not stamp.exists() or stamp.read_text() != wanted:
        again = ["--wipe"] if (directory / "build.ninja").exists() and directory != BUILD else []
        if directory == BUILD and (directory / "build.ninja").exists():
            again = ["--reconfigure"]  # other builds are below this one
        directory.mkdir(parents=True, exist_ok=True)
        status = run(["meson", "setup", *again, directory, TOP, *options], log, show=False, env={"CC": compiler})
        if status == 0:
            stamp.write_text(wanted)
    if status == 0:
        status = run(["ninja", "-C", directory, *targets], log, show=False)
    if status != 0:
        print(f"  FAIL build {name}: {log}")
        tail(log)
        suite.add(f"build {name}", "failed", str(log))
    return status == 0


def program(name):
    """The driver of a build."""
    directory = BUILDS[name][0]
    found = [p for p in (directory / "sriov-dra", directory / "driver" / "sriov-dra") if p.exists()]
    return found[0] if found else directory / "sriov-dra"


def meson_suite(suite, name):
    """`meson test --suite NAME` in the sanitized build, counted by TAP case."""
    directory = BUILDS["asan"][0]
    known = json.loads(subprocess.check_output(["meson", "introspect", "--tests", str(directory)], text=True))
    programs = [t["name"] for t in known if f"sriov-dra:{name}" in t["suite"] and suite.wants(t["name"])]
    if not programs:
        return
    log = LOGS / f"{name}-meson.log"
    results = directory / "meson-logs" / "testlog.json"
    results.unlink(missing_ok=True)
    run(["meson", "test", "-C", directory, "--no-rebuild", "--print-errorlogs", "--suite", name, *programs], log)
    texts = results.read_text().splitlines() if results.exists() else []
    for result in map(json.loads, texts):
        test = result["name"].rsplit(" / ", 1)[-1].strip()
        cases = tap(result.get("stdout", ""))
        for case, outcome, note in cases:
            suite.add(f"{test}: {case}", outcome, note or str(directory / "meson-logs/testlog.txt"))
        # A sanitizer's complaint at exit, a crash, a time-out, or no TAP at all.
        outcome = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}.get(result["result"], "failed")
        if not cases or (outcome == "failed" and not any(o == "failed" for _, o, _ in cases)):
            suite.add(test, outcome, f"{result['result']}, {directory}/meson-logs/testlog.txt")
    if not texts:
        suite.add("meson test", "failed", str(log))


def tap(text):
    cases = []
    for line in text.splitlines():
        match = re.match(r"(not )?ok\b\s*\d*\s*-?\s*(.*?)(?:\s+#\s*(skip|todo)\b(.*))?$", line, re.I)
        if match:
            outcome = "skipped" if match[3] else "failed" if match[1] else "passed"
            cases.append((match[2], outcome, (match[4] or "").strip()))
    return cases


def pytest_suite(suite, folder, build_name, extra=()):
    if not list((TOP / folder).glob("**/test_*.py")):
        return
    log, report = LOGS / f"{suite.name}-pytest.log", LOGS / f"{suite.name}-pytest.xml"
    report.unlink(missing_ok=True)
    pick = ["-k", suite.pattern] if suite.pattern else []
    status = run([PYTHON, "-B", "-m", "pytest", "-v", "-p", "no:cacheprovider", "--color=no", f"--junitxml={report}",
                  *pick, *extra, TOP / folder], log,
                 env={"SRIOV_DRA": str(program(build_name)), "SRIOV_DRA_BUILD": str(BUILD), "PYTHONUNBUFFERED": "1"})
    cases = {}
    if report.exists():
        for case in xml.parse(report).iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            skip = case.find("skipped")
            bad = case.find("failure") is not None or case.find("error") is not None
            # A test whose tear-down fails is listed twice: the worse counts.
            if bad:
                cases[name] = ("failed", str(log))
            elif name not in cases:
                cases[name] = ("passed", "") if skip is None else ("skipped", skip.get("message", ""))
    for name, (outcome, note) in cases.items():
        suite.add(name, outcome, note)
    # 5: nothing matched, which is no failure here
    if status not in (0, 5) and not any(outcome == "failed" for outcome, _ in cases.values()):
        suite.add(f"pytest {folder}", "failed", f"status {status}, {log}")


def unit(suite):
    if build(suite, "asan"):
        meson_suite(suite, "unit")


def wire(suite):
    if build(suite, "asan"):
        meson_suite(suite, "wire")
        pytest_suite(suite, "tests/wire", "asan")


def e2e(suite):
    if build(suite, "release"):
        pytest_suite(suite, "tests/e2e", "release", ["-m", "not contract and not long"])


def contract(suite):
    if build(suite, "release"):
        pytest_suite(suite, "tests/e2e", "release", ["-m", "contract"])


def long(suite):
    if build(suite, "release"):
        pytest_suite(suite, "tests/e2e", "release", ["-m", "long"])


def broken(suite):
    """Each promise with its code taken out: what passes then is a test that tests nothing."""
    log = LOGS / "broken.log"
    pick = [suite.pattern] if suite.pattern else []
    run([PYTHON, "-B", TOP / "tests/e2e/broken.py", *pick], log, env={"SRIOV_DRA_BUILD": str(BUILD), "PYTHONUNBUFFERED": "1"})
    cases = tap(log.read_text(errors="replace"))
    for case, outcome, _ in cases:
        suite.add(case, outcome, str(BUILD / "broken" / "broken.log"))
    if not cases:
        suite.add("broken", "failed", str(log))


def bench(suite):
    if build(suite, "release"):
        script = TOP / "tests/bench/run"
        if script.exists():
            suite.add("bench", "passed" if run([script], LOGS / "bench.log", env={
                "SRIOV_DRA": str(program("release"))}) == 0 else "failed", str(LOGS / "bench.log"))
        else:
            pytest_suite(suite, "tests/bench", "release")


def sources():
    """Files of the checkout that aren't ignored."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=TOP, text=True,
                            stdout=subprocess.PIPE, check=True).stdout
    return [p for p in listed.splitlines() if (TOP / p).is_file()]


def is_script(path):
    if path.endswith(".sh"):
        return True
    with open(TOP / path, "rb") as file:
        return re.match(rb"#!\s*/(usr/)?bin/(env )?(ba)?sh\b", file.readline()) is not None


def lint(suite):
    files = sources()
    c = [f for f in files if f.endswith((".c", ".h"))]
    # Sums and imported .proto files are not our spelling.
    prose = [f for f in files if not f.endswith((".sum", ".mod", ".proto")) and not f.startswith("tests/fuzz/corpus")]
    for name, case in (("release", "gcc"), ("clang", "clang")):
        if suite.wants(case) and build(suite, name):
            print(f"  ok   {case} -Werror")
            suite.add(f"{case} -Werror", "passed")
    if suite.wants("without libpci") and build(suite, "no-libpci", "sriov-dra"):
        suite.check("without libpci", [TOP / "tests/lint/no-libpci", program("no-libpci")])
    if suite.wants("static hook") and build(suite, "release", "sriov-dra-hook"):
        suite.check("static hook", [TOP / "tests/lint/static-hook", BUILD / "sriov-dra-hook"])
    suite.check("walls", [PYTHON, "-B", TOP / "tests/lint/walls", TOP])
    suite.check("contract", [PYTHON, "-B", TOP / "tests/e2e/broken.py", "--check"])
    suite.check("deploy", [PYTHON, "-B", TOP / "tests/lint/deploy", TOP])
    if c:
        suite.check("clang-format", ["clang-format", "--dry-run", "-Werror", *c])
        suite.check("cppcheck", ["cppcheck", *CPPCHECK, "-I", TOP,
                                 *[f for f in c if f.endswith(".c") and f.split("/")[0] in ROOMS]])
    suite.check("shellcheck", ["shellcheck", "-x", *filter(is_script, files)])
    suite.check("codespell", ["codespell", "-q", "3", "-I", TOP / "tests/lint/codespell-words", *prose])
    suite.check("python", [PYTHON, "-B", "-c", "import sys\nfor f in sys.argv[1:]: compile(open(f).read(), f, 'exec')",
                           *[f for f in files if f.endswith(".py")]])


SUITES = {"unit": unit, "wire": wire, "lint": lint, "contract": contract, "e2e": e2e, "long": long, "broken": broken, "bench": bench}
DEFAULT = ["unit", "wire", "lint", "contract", "e2e"]


def stop(number, _frame):
    print("interrupted", flush=True)
    if child is not None:
        child.send_signal(signal.SIGTERM)  # pytest takes its lab down
        try:
            child.wait(120)
        except subprocess.TimeoutExpired:
            child.kill()
    sys.exit(128 + number)


def main():
    names, pattern = sys.argv[1:2] or DEFAULT, (sys.argv[2:3] or [None])[0]
    if names[0] not in SUITES or len(sys.argv) > 3:
        print(f"usage: tests/run [{'|'.join(SUITES)} [PATTERN]]", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    suites = []
    for name in names:
        print(f"== {name}", flush=True)
        suite, began = Suite(name, pattern), time.monotonic()
        suites.append(suite)
        SUITES[name](suite)
        print(f"== {name}: {suite.passed} passed, {len(suite.failed)} failed, {len(suite.skipped)} skipped "
              f"({time.monotonic() - began:.0f} s)", flush=True)
    for title in ("skipped", "failed"):
        for suite in suites:
            for case, note in getattr(suite, title):
                print(f"{title}: {suite.name}: {case}" + (f" ({note})" if note else ""))
    passed, failed, skipped = (sum(s.passed for s in suites), sum(len(s.failed) for s in suites),
                               sum(len(s.skipped) for s in suites))
    if passed + failed == 0:
        print("no test ran")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        if child is not None:
            child.wait()
        sys.exit(130)
