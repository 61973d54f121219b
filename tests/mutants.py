"""Mutation check: does some test fail when one thing in the code is wrong?

    python tests/mutants.py losses problem oracle solver

changes one node of a module at a time (a comparison, an operator, a number, a condition, ...),
puts the changed functions into the running process and runs the tests that reach the changed line
until one fails. Each mutant lives in a forked child, so compiled kernels and collected tests are
loaded once. Results are JSON lines, one a mutant; a second run goes on where the first ended, and
looks again at mutants whose killer has changed since, and at survivors where any test has. Most
mutants fall to a cheap test, so all get a few seconds of tests first, and survivors get more.
Survivors that docs/mutants.md gives no reason for are printed, in its form, and the check fails.
Needs `os.fork`.
"""

import argparse
import ast
import copy
import functools
import hashlib
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import types
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
REASONS = TESTS.parent / "docs" / "mutants.md"
MODULES = ["losses", "problem", "oracle", "solver"]
FILES = [
    *(f"test_{name}.py" for name in ("losses", "problem", "kernels", "oracle", "solver", "path")),
    "test_safety.py::test_more_than_32_bits_can_number_is_refused",
]

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Div, ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip


# --- mutants -------------------------------------------------------------------------------------


def variants(node):
    """Yield what one node may be changed into."""
    match node:
        case ast.Compare(ops=ops):
            for k, op in enumerate(ops):
                yield changed(node, ops=[*ops[:k], COMPARISONS[type(op)](), *ops[k + 1 :]])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OPERATORS:
            yield changed(node, op=OPERATORS[type(op)]())
        case ast.BoolOp(op=op):
            yield changed(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield changed(node, value=not value)
        case ast.Constant(value=int(value)):
            yield changed(node, value=value + 1)
            if value > 0:
                yield changed(node, value=value - 1)
        case ast.Constant(value=float(value)):
            yield changed(node, value=2.0 * value if value else 1.0)
        case ast.Constant(value=str(value)):
            yield changed(node, value=f"?{value}")
        case ast.Return(value=ast.expr() as value) if not is_none(value):
            yield changed(node, value=ast.Constant(None))
        case ast.Break() | ast.Continue():
            yield ast.Continue() if isinstance(node, ast.Break) else ast.Break()
        case ast.Call(args=[first, second, *rest]) if order_matters(node):
            yield changed(node, args=[second, first, *rest])
    match node:
        case ast.If() | ast.IfExp() | ast.While() if not isinstance(node.test, ast.Constant):
            yield changed(node, test=ast.Constant(True))
            yield changed(node, test=ast.Constant(False))
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Call(keywords=[_, *_] as keywords):
            for k, keyword in enumerate(keywords):
                if not is_kept(keyword):
                    yield changed(node, keywords=keywords[:k] + keywords[k + 1 :])


def changed(node, **fields):
    """Return a copy of a node with other fields."""
    out = copy.copy(node)
    for name, value in fields.items():
        setattr(out, name, value)
    return out


def order_matters(call):
    """Whether the first two arguments of a call may not be exchanged for certain."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    starred = any(isinstance(argument, ast.Starred) for argument in call.args[:2])
    return not starred and name not in {"min", "max", "minimum", "maximum"}


def is_none(node):
    """Whether an expression is the constant None."""
    return isinstance(node, ast.Constant) and node.value is None


def sites(node, where=()):
    """Yield (holder, field, position, node, qualified name) of every node that may be changed."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "bases"}:
            continue
        for k, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or is_kept(child):
                continue
            inner = where
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = (*where, child.name)
            yield node, name, k if isinstance(value, list) else None, child, ".".join(inner)
            if not isinstance(child, ast.Raise):  # whether it is raised, not how it is worded
                yield from sites(child, inner)


def is_kept(node):
    """Whether there is nothing to change: docstrings, imports and internal checks."""
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    is_strict = isinstance(node, ast.keyword) and node.arg == "strict"
    return is_docstring or is_strict or isinstance(node, ast.Import | ast.ImportFrom | ast.Assert)


def mutants(source):
    """Yield a description of every mutant of a module, and what compiles it."""
    tree = ast.parse(source)
    functions = {}
    seen = {}
    for holder, name, k, node, where in list(sites(tree)):
        if isinstance(node, ast.FunctionDef) and where not in functions:
            digest = hashlib.sha256(ast.dump(node).encode()).hexdigest()[:8]
            functions[where] = digest, node.body[0].lineno, node.end_lineno
        for variant in variants(node):
            before, after = brief(node), brief(variant)
            if before == after:  # two equal arguments exchanged
                continue
            ast.copy_location(variant, node)
            key = where, before, after
            seen[key] = seen.get(key, -1) + 1
            digest, *body = functions.get(where, ("",))
            yield (
                {
                    "where": where,
                    "body": body,
                    "line": node.lineno,
                    "end": getattr(node, "end_lineno", node.lineno),
                    "before": before,
                    "after": after,
                    "id": f"{where}@{digest}:{before}=>{after}#{seen[key]}",
                },
                functools.partial(compiled, tree, holder, name, k, variant),
            )


def compiled(tree, holder, name, k, variant):
    """Return the code of a module with one node changed; the tree stays changed."""
    put(holder, name, k, variant)
    return compile(ast.fix_missing_locations(tree), "<mutant>", "exec")


def put(holder, name, k, node):
    """Set a field of a node, or one element of it."""
    if k is None:
        setattr(holder, name, node)
    else:
        getattr(holder, name)[k] = node


def brief(node):
    """Return a node as text on one line; of a block its first line."""
    if isinstance(node, ast.If | ast.While):
        node = type(node)(node.test, [ast.Pass()], [])
    text = ast.unparse(ast.fix_missing_locations(node))
    return " ".join(text.replace("pass", "").split()).rstrip(": ") or "nothing"


def graft(module, code):
    """Run changed code of a module and put what it defines into the module's own objects.

    Functions keep their identity and get new code, so whoever imported them has the mutant too.
    """
    fresh = types.ModuleType(module.__name__)
    fresh.__file__, fresh.__package__ = module.__file__, module.__package__
    exec(code, fresh.__dict__)
    for name, new in vars(fresh).items():
        if name.startswith("__") or isinstance(new, types.ModuleType):
            continue
        replace(module, name, vars(module).get(name), new, module.__name__)


def replace(owner, name, old, new, package):
    """Give an attribute what the changed code says it is."""
    if isinstance(new, type) and isinstance(old, type):
        if new.__module__ == package:
            for inner, value in list(vars(new).items()):
                if inner not in {"__dict__", "__weakref__", "__module__", "__doc__"}:
                    replace(old, inner, vars(old).get(inner), value, package)
            for made in ("__init__", "__new__"):  # of data classes and named tuples
                was, now = function_of(vars(old).get(made)), function_of(vars(new).get(made))
                if was is not None and now is not None:
                    was.__defaults__ = now.__defaults__
        return
    was, now = function_of(old), function_of(new)
    if was is not None and now is not None:
        if getattr(now, "__module__", None) == package and was is not now:
            was.__code__ = now.__code__
            was.__defaults__, was.__kwdefaults__ = now.__defaults__, now.__kwdefaults__
    elif isinstance(owner, types.ModuleType) and is_plain(new):
        setattr(owner, name, new)


def function_of(value):
    """Return the function behind a property, a class method and the like, None if there is none."""
    for attribute in ("fget", "func", "__func__"):
        if isinstance(value, property | functools.cached_property | classmethod | staticmethod):
            value = getattr(value, attribute, value)
    return value if isinstance(value, types.FunctionType) else None


def is_plain(value):
    """Whether a value of a module is data: not a class or function."""
    return not isinstance(value, type | types.FunctionType) and not callable(value)


# --- tests ---------------------------------------------------------------------------------------


class Runner:
    """A pytest plugin whose loop runs the tests once, and then the mutants."""

    def __init__(self, options):
        self.options = options
        self.failed = None

    def pytest_runtest_logreport(self, report):
        """Remember a failure."""
        if report.failed:
            self.failed = report.nodeid

    def pytest_runtestloop(self, session):
        """Replace the loop of pytest."""
        import coverage
        from hypothesis import settings

        settings.register_profile(
            "mutants", settings.get_profile("quick"), max_examples=self.options.examples
        )
        settings.load_profile("mutants")
        modules = {name: importlib.import_module(f"hdsl.{name}") for name in self.options.modules}
        watch = coverage.Coverage(
            data_file=None, include=[m.__file__ for m in modules.values()], config_file=False
        )
        self.items, self.seconds = few_variants(session.items, self.options.variants), {}
        watch.start()
        for item in list(self.items):
            watch.switch_context(item.nodeid)
            start, apart = time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN)
            self.run(item)
            self.seconds[item.nodeid] = time.process_time() - start
            if resource.getrusage(resource.RUSAGE_CHILDREN) != apart:
                self.items.remove(item)  # it starts a process, in which there is no mutant
            elif self.failed:
                say(f"left out, since it fails without any mutant: {item.nodeid}")
                self.items.remove(item)
            self.failed = None
        watch.stop()
        say(f"{len(self.items)} tests pass in {sum(self.seconds.values()):.0f} CPU seconds")
        self.data = watch.get_data()
        fine = [self.check(name, module) for name, module in modules.items()]
        session.testsfailed = fine.count(False)
        return True

    def run(self, item):
        """Run one test."""
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)

    def check(self, name, module):
        """Run all mutants of one module."""
        reached = self.data.contexts_by_lineno(module.__file__)
        results, killers = Results(self.options, name), {}
        if not self.is_honest(module):
            say(f"{name}: without any change a test fails in a child of this process: no check")
            return False
        everything = mutants(Path(module.__file__).read_text())
        chosen = [pair for pair in everything if number(pair[0]["id"]) % self.options.every == 0]
        results.order = [mutant["id"] for mutant, _ in chosen]
        for budget in self.options.budget:
            todo = [pair for pair in chosen if results.needs(pair[0]["id"], budget)]
            say(f"{name}: {len(todo)} of {len(chosen)} mutants to run for {budget:g} s")
            self.pass_over(module, todo, budget, reached, killers, results)
        return results.summary(self.options.least)

    def is_honest(self, module):
        """Whether the tests pass on a mutant that is none."""
        code = compile(Path(module.__file__).read_text(), "<mutant>", "exec")
        pid, told = self.fork(module, lambda: code, self.items, max(self.options.budget))
        os.waitpid(pid, 0)
        return told().get("status") == "survived"

    def pass_over(self, module, todo, budget, reached, killers, results):
        """Run mutants, each with so many seconds of tests."""
        running = {}
        while todo or running:
            if todo and len(running) < self.options.jobs:
                mutant, code = todo.pop(0)
                own = killers.setdefault(mutant["where"], [])
                before = results.known.get(mutant["id"], {}).get("by")
                tests = self.chosen(module, mutant, reached, own, before)
                pid, report = self.fork(module, code, tests, budget)
                running[pid] = mutant, report
                continue
            pid, status = os.wait()
            mutant, report = running.pop(pid)
            told = report()
            if not told:
                sent = os.WTERMSIG(status)
                late = sent in (signal.SIGPROF, signal.SIGALRM)
                told = {"status": "killed", "by": "time limit" if late else f"signal {sent}"}
            elif told["status"] == "killed":
                killers[mutant["where"]].append(told["by"])
            for test, seconds in told.pop("took", {}).items():  # the first run had kernels to load
                self.seconds[test] = min(self.seconds[test], seconds)
            results.add(mutant | told | {"budget": budget})

    def chosen(self, module, mutant, reached, killers, before):
        """Return the tests that reach a mutant, the likeliest and cheapest to fail first."""
        found = self.reaching(reached, mutant["line"], mutant["end"])
        if not found and mutant["body"]:  # a default value: its line runs at import
            found = self.reaching(reached, *mutant["body"])
        if not mutant["body"]:  # what runs at import is reached by all
            found = self.items
        file = f"test_{module.__name__.rpartition('.')[2]}.py"

        def cost(item):
            if item.nodeid == before:
                return 0.0
            likely = (1 + 4 * killers.count(item.nodeid)) * (5 if item.path.name == file else 1)
            return self.seconds[item.nodeid] / likely

        return sorted(found, key=cost)

    def reaching(self, reached, first, last):
        """Return the tests that reach one of these lines."""
        names = {test for line in range(first, last + 1) for test in reached.get(line, ()) if test}
        return [item for item in self.items if item.nodeid in names]

    def fork(self, module, code, tests, budget):
        """Start a child that runs tests on a mutant; what it returns says which one failed."""
        file = tempfile.TemporaryFile("w+")  # noqa: SIM115  the report closes it

        def report():
            with file:
                file.seek(0)
                return json.loads(file.read() or "{}")

        pid = os.fork()
        if pid:
            return pid, report
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        limit = 6 << 30
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        told = {"status": "survived"}
        took = {}
        try:
            signal.setitimer(signal.ITIMER_PROF, 5.0)
            if not is_grafted(module, code):
                tests, told = [], {"status": "invalid"}
            for item in tests:
                expected = self.seconds[item.nodeid]
                if took and sum(took.values()) + expected > budget:
                    break
                signal.setitimer(signal.ITIMER_PROF, 5.0 + 10.0 * expected)
                signal.setitimer(signal.ITIMER_REAL, 120.0 + 100.0 * expected)
                start = time.process_time()
                self.run(item)
                took[item.nodeid] = time.process_time() - start
                if self.failed:
                    told = {"status": "killed", "by": self.failed}
                    break
            else:
                told["all"] = True
        except BaseException as error:
            told = {"status": "killed", "by": repr(error)[:80]}
        told["took"] = took
        file.write(json.dumps(told))
        file.flush()
        os._exit(0)


def is_grafted(module, code):
    """Put a mutant in its module's place; return whether it could be imported at all."""
    try:
        graft(module, code())
    except Exception:
        return False
    return True


def few_variants(items, most):
    """Return the tests with at most so many choices of parameters each, the same ones always."""
    by_name = {}
    for item in items:
        by_name.setdefault(item.nodeid.split("[")[0], []).append(item)
    return [
        item
        for variants in by_name.values()
        for item in sorted(variants, key=lambda item: number(item.nodeid))[:most]
    ]


def number(text):
    """Return a number that looks random, the same for the same text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


class Results:
    """The JSON lines of one module: what is known of each mutant."""

    def __init__(self, options, name):
        folder = options.out
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self.name, self.known, self.order = folder / f"{name}.jsonl", name, {}, []
        names = {name.split("::")[0] for name in options.tests}
        self.files = {name: self.digest(name) for name in sorted(names)}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                result = json.loads(line)
                self.known[result["id"]] = result

    def digest(self, *names):
        """Return what test files are, in short, with what all of them use."""
        names = [*names, "reference.py", "strategies.py"]
        return hashlib.sha256(b"".join((TESTS / n).read_bytes() for n in names)).hexdigest()[:8]

    def tests(self, result):
        """Return which tests a result hangs on, in short: the one that failed, or all."""
        file = Path(result.get("by", "").split("::")[0]).name
        return self.files.get(file) or self.digest(*self.files)

    def needs(self, key, budget):
        """Whether a mutant has to be run, now that the tests are what they are."""
        known = self.known.get(key)
        if known is None or known["with"] != self.tests(known):
            return True
        return known["status"] == "survived" and "all" not in known and known["budget"] < budget

    def add(self, result):
        """Write down one mutant."""
        result["with"] = self.tests(result)
        self.known[result["id"]] = result
        with self.path.open("a") as file:
            file.write(json.dumps(result) + "\n")

    def summary(self, least):
        """Print survivors without a reason; return whether there are none, and enough killed."""
        current = [self.known[key] for key in self.order]
        current = [result for result in current if result["status"] != "invalid"]
        alive = [self.line(result) for result in current if result["status"] == "survived"]
        listed = REASONS.read_text().splitlines() if REASONS.exists() else []
        new = [line for line in alive if line not in listed]
        killed = 100.0 * (1 - len(alive) / max(len(current), 1))
        say("\n".join(new))
        say(
            f"{self.name}: {len(current)} mutants, {killed:.1f} % killed, {len(alive)} survive, "
            f"{len(new)} of them without a reason in {REASONS.name}"
        )
        return killed >= least and not new

    def line(self, result):
        """Return a survivor as docs/mutants.md has it."""
        place = f"{self.name}.{result['where']}".rstrip(".")
        before, after = (
            text if len(text) <= 100 else f"{text[:50]} ... {text[-45:]}"
            for text in (result["before"], result["after"])
        )
        return f"- `{place}`: `{before}` to `{after}`"


def say(text):
    """Print past the capturing of pytest."""
    os.write(sys.__stderr__.fileno(), f"{text}\n".encode())


def main():
    """Parse the command line, collect the tests, and hand over to the runner."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", default=MODULES)
    parser.add_argument("--tests", nargs="*", default=FILES, help="test files to run")
    parser.add_argument("--out", type=Path, default=Path("build/mutants"), help="folder of results")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument(
        "--budget", type=float, nargs="*", default=[3.0, 15.0], help="CPU seconds of tests a mutant"
    )
    parser.add_argument("--examples", type=int, default=10, help="hypothesis examples a test")
    parser.add_argument("--variants", type=int, default=6, help="choices of parameters a test")
    parser.add_argument("--every", type=int, default=1, help="a sample: one mutant in so many")
    parser.add_argument("--least", type=float, default=90.0, help="percentage that must be killed")
    options = parser.parse_args()
    os.environ["HYPOTHESIS_PROFILE"] = "quick"
    arguments = [f"-pno:{plugin}" for plugin in ("cacheprovider", "faulthandler", "terminal")]
    arguments += [
        "-oaddopts=--import-mode=importlib",
        *(str(TESTS / name) for name in options.tests),
    ]
    return pytest.main(arguments, plugins=[Runner(options)])


if __name__ == "__main__":
    sys.exit(main())
