"""Options and help of the command `hdsl`."""

import subprocess
import sys
import textwrap

import pytest

import hdsl as hdsl_package
from commands import bad, good
from hdsl import HDSL
from hdsl.cli import COMMANDS, make_parser
from hdsl.cli.shared_options import OptionGroup, Parser, UsageError
from hdsl.settings import flat_parameters
from hdsl.solver.losses import LOSSES
from hdsl.solver.oracle import ORACLES
from hdsl.solver.steps import RULES


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_for_each_command(command):
    text = " ".join(good(command, "--help").stdout.split())
    assert "For example:" in text
    assert text.count(f"hdsl {command} ") > 1
    assert f" {command} " in good("--help").stdout


def test_help_loads_nothing_heavy():
    code = """
        import sys, time
        from hdsl.cli import main
        assert main(["fit", "--help"]) == 0
        assert time.process_time() < 0.4, time.process_time()
        heavy = {"numpy", "scipy", "sklearn", "numba", "pydantic", "rich"} & set(sys.modules)
        assert not heavy, heavy
        import hdsl
        assert {*hdsl.__all__, "triplets"} <= set(dir(hdsl))
        assert not {"Any", "TYPE_CHECKING", "import_module"} & set(dir(hdsl))
        assert not {"scipy", "sklearn"} & set(sys.modules)
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], check=True, capture_output=True
    )


def test_version_and_wrong_commands():
    assert good("--version").stdout == f"hdsl {hdsl_package.__version__}\n"
    assert "--nothing" in bad("--nothing")
    assert "'serch'" in bad("serch")
    assert "hdsl search --help" in bad("search", "m.hdsl", "--rows", 3)
    assert good().stdout == good("--help").stdout


def test_losses_oracles_and_steps_are_those_of_the_library():
    """The command line writes their names out, so that its help loads no NumPy."""
    options = vars(make_parser().parse_args(["fit", "x.csv"]).parser)["_actions"]
    choices = {option.dest: option.choices for option in options}
    for name, known in (("loss", LOSSES), ("oracle", ORACLES), ("step", RULES)):
        assert sorted(choices[name]) == sorted(known)
        assert choices[name][0] == flat_parameters(HDSL())[name]


def test_an_option_says_its_default_and_of_what_kind_it_is():
    parser = Parser(prog="hdsl")
    options = OptionGroup(parser, "title")
    options.add_number("--share", "A share, up to 100 %.", 1.0)
    options.add_integer("-k --count", "A count.")
    options.add_choice("--kind", "A kind.", ("first", "second"))
    options.add_choice("--needed", "Another.", ("x", "y"), required=True)
    options.add_switch("--weigh", "Weigh.")
    options.add_paths("--file", "Files.")
    shown = " ".join(parser.format_help().split())
    assert "--share FLOAT A share, up to 100 %. [default: 1] " in shown
    assert "-k INT, --count INT A count. --kind" in shown
    assert "--kind {first,second} A kind. [default: first]" in shown
    assert "--needed {x,y} Another. --weigh, --no-weigh Weigh." in shown
    values = parser.parse_args(["--needed", "y", "--file", "a", "--file", "b"])
    assert [path.name for path in values.file] == ["a", "b"]
    assert (values.share, values.count, values.kind) == (1.0, None, "first")
    assert (values.needed, values.weigh) == ("y", None)
    with pytest.raises(UsageError, match="--needed"):
        parser.parse_args([])
