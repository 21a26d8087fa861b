"""What other tools call our options: ``--tp`` is ``--tensor``, ``--gpu h100`` is ``--on h100``.

An option that a command does not have is an error that names the one that is meant.

>>> meant("--tp", ["--tensor", "--batch"])
'tensor parallelism is --tensor'
>>> meant("--batch-size", ["words", "--on"]), meant("--hidden", ["--on"])
('sizes are given by name: B=64', '')
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Container, Iterable, Sequence
from itertools import pairwise
from math import prod

import click

from roofline.answers import capability
from roofline.cli.command import CommandEntry
from roofline.cli.option_values import unit_apart
from roofline.counts import count
from roofline.dtypes import is_dtype
from roofline.errors import did_you_mean
from roofline.frozen import NamedTuple
from roofline.hardware.targets import is_machine, open_shape


class _Meant(NamedTuple):
    """What is said of a word to a command that has the option ``needed``; the ``option`` that it is another name of."""

    said: str
    needed: str
    option: str = ""


def _named(what: str, option: str, more: str = "", *, needed: str = "") -> _Meant:
    return _Meant(f"{what} {option}{more}", needed or option, option)


_TARGET = _named("the machine is", "--on", " TARGET")
_HERE = _named("operations run on this machine, whose measurement is", "--on", " FILE", needed="--backend")
_NAMED = ("a chip is a word without dashes: roofline chips h100", "--ratio")
_HOLDS = _named("what training holds, and the chips for it, is", "--memory")
_FITS = _named("what holds a model, and with how much left, is", "--fit")
_HELD = ("a chip is a word without dashes: roofline accuracy h100", "chip")
_MANY = ("the number of chips stands behind the target: --on h100:8", "--on")
_FORMATS = _Meant(
    "formats are --weights, --activations (of products, and of keys and values) and --kv, as in --weights int4", "--kv"
)  # fmt: skip
_TRAINED = _Meant("formats are --weights, --gradients, --moments and --master", "--gradients")
_CHOICE = _named("formats to choose from are", "--formats", " bf16,fp8")
_TYPED = ("each tensor names its own format, as in fp8[B, D]", "words")
_STAGES = _named("pipeline parallelism is", "--pipeline")
_APART = (
    "a prompt is --prompt, prefill on chips of its own --prefill-on h100:8, with --prompt 4k --output 512",
    "--prefill-on",
)
_SPARSE = ("2:4 sparsity, two of each four weights zero, doubles a peak: --set bf16=2x", "--set")
_PROMPT = ("a prompt is --prompt, what decode comes after --context", "--prompt")
_LENGTH = _named("the length of a sequence is", "--sequence")
_OUTPUT = _named("the tokens of an answer are", "--output", needed="--draft")
_BATCH = _named("a batch is", "--batch")
_TOKENS = _Meant("a batch is --batch-tokens, in tokens, as in --batch-tokens 1536*2048", "--batch-tokens")
_SIZES = _Meant("sizes are given by name: B=64", "words")
_ARRAY = ("the bytes of the whole array are --bytes, those of each chip --bytes-per-chip", "--bytes-per-chip")
_JSON = _named("that is", "--json")
_GRADIENT = _named("the gradient too is", "--backward")
_TRAIN_STEP = ("a training step is roofline train MODEL, of a program roofline trace … --backward", "--on")
_LAYOUT = ("chips that split each layer are --tensor, stages --pipeline, copies --data", "--data")
_RECOMPUTE = _named("what is kept, and what computed again, is", "--checkpoint", ": full, selective, none")
_PARTS = _Meant(
    "parts of a step are --microbatches, how many: tokens of the batch / (copies · sequence · sequences of a part)",
    "--microbatches",
)
_FIGURE = ("a figure of the machine is set by --set hbm=8.2e11", "--set")
_LOAD = ("what meets a rate and limits is found by roofline plan", "--tpot")
_DRAFTS = ("tokens of a draft are --draft N, what makes them --draft-by", "--draft")
_WHY = _named("where each figure comes from is", "--explain")
_SOURCE = _named("where each figure comes from is", "--sources")
_EPOCH = _named("what it takes in reality is", "--measured", " 60us")
_RUN = ("a measured run beside its floor is a row of a CSV: roofline profile FILE, with name,dtype,seconds", "--over")
_LANGUAGE = ("a formula in another language is --python, --js, --c or --latex", "--latex")
_INPUT = ("an input is --input 'bf16[8, 512]', once for each argument", "--input")
_GOAL = ("what a wanted time takes is told by --measured: how far off the floor it is", "--measured")
_TIME = _named("the time that the floor is to take is", "--time", " 1ms")
_OUTLINE = ("a model in outline is a word: roofline train 70B --tokens 15T, roofline llm 70B --fit", "--on")
_ADVICE = ("what would move it is told by roofline advise, or llm --advise", "--advise")
_ASK_AGAIN = ("a program is asked again: --policy each-op,fused,minimal, or --on with other chips", "--trips")
_FASTER = ("the answer says what would be faster; of a line roofline advise lists it all", "--power")
_SPENDING = ("a plan takes the price of a chip for an hour, --price, and how many there may be, --count", "--count")

#: Words, and what is said of them: of several answers the first whose option the command has.
_ANSWERS: tuple[tuple[str, *tuple[tuple[str, ...], ...]], ...] = (
    ("chip gpu device hardware hw machine target accelerator tpu", _HERE, _TARGET, _NAMED, _HELD),
    ("on", _NAMED, _HELD, ("a model on a chip is asked by roofline llm MODEL --on h100", "--parts")),
    ("params model-params parameters num-params num-parameters model-size", _OUTLINE),
    ("tree layers breakdown operations ops", _named("the parameters of each part are", "--parts")),
    ("gpus num-gpus n-gpus ngpus num-chips devices num-devices nodes world-size", _MANY),
    ("dtype precision quantization quant quantize bits nbits", _FORMATS, _TRAINED, _CHOICE, _TYPED),
    ("weights weight-dtype weights-dtype", _FORMATS, _TRAINED, _CHOICE),
    ("tp tensor-parallel tensor-parallel-size tp-size", _named("tensor parallelism is", "--tensor")),
    ("pp pipeline-parallel pipeline-parallel-size pp-size stages", _STAGES),
    ("dp data-parallel data-parallel-size dp-size replicas", _named("data parallelism is", "--data")),
    ("ep expert-parallel expert-parallel-size enable-expert-parallel", _named("expert parallelism is", "--expert")),
    ("cp context-parallel-size ring", _named("context parallelism is", "--context-parallel")),
    ("zero3 shard", _named("sharded data parallelism is", "--fsdp")),
    ("shape shapes input-shape example", _INPUT, _SIZES),
    ("gflops gflop flop mflops pflops gb mb gbytes byte", ("raw work is --flops 100e9 --bytes 2GB", "--flops")),
    ("fast short brief", _named("a measurement of ten seconds is", "--quick")),
    ("language lang js-code javascript cpp c++ julia rust fortran matlab sympy mathematica", _LANGUAGE),
    ("kind kernel operation", _named("a kind of kernel is", "--op")),
    ("budget max-cost max-price", _SPENDING),
    ("max-batch max-concurrency largest-batch max-sequences", _FITS),
    ("within deadline goal target-time max-time", _TIME, _GOAL),
    ("prefill disaggregate disaggregated", _APART, _PROMPT),
    ("sparse sparsity structured-sparsity 2:4", _SPARSE),
    (
        "cache kv-cache cache-dtype cache-format kv-dtype kv-cache-dtype",
        _named("the format of keys and values is", "--kv"),
        _TRAINED,
    ),
    (
        "for",
        ("from which size on it is compute-bound is answered by roofline solve, with a line and --for B", "--layouts"),
    ),
    ("input input-len input-length isl prompt-len prompt-length prompt-tokens", _named("a prompt is", "--prompt")),
    ("seq-len seq seqlen sequence-length seq-length ctx context-length max-model-len decode", _PROMPT, _LENGTH, _SIZES),
    ("output-len output-length osl output-tokens generate max-tokens", _OUTPUT),
    ("batch-size bs b users concurrency global-batch global-batch-size batch", _BATCH, _TOKENS, _SIZES),
    ("size message-size msg-size buffer", _ARRAY, _SIZES),
    ("m n k d f sizes", _SIZES),
    ("train training grad gradient gradients bwd backward", _GRADIENT, _TRAIN_STEP),
    ("format output-json as-json", _JSON),
    ("parallel parallelism layout split", _LAYOUT),
    ("recompute recomputation remat rematerialize activation-checkpointing gradient-checkpointing ac", _RECOMPUTE),
    ("micro-batch-size micro-batch mbs grad-accum gradient-accumulation gradient-accumulation-steps ga", _PARTS),
    ("fit fits", _HOLDS, _FITS),
    ("memory mem", _HOLDS, _FITS, _FIGURE),
    ("bw mem-bw memory-bandwidth peak peak-flops tflops clock frequency capacity hbm", _FIGURE),
    ("out save file write export html svg png pdf report csv", ("a file is -o FILE", "-o"), _JSON),
    ("cost dollars usd price-per-hour hourly", _named("dollars of a chip for an hour are", "--price")),
    ("watts tdp energy wattage", _named("watts of a chip are", "--power")),
    ("rps qps request-rate requests load rate", _named("requests that come in are", "--rate", " 12/s"), _LOAD),
    ("first-token time-to-first-token ttft", _named("the longest time to the first token is", "--ttft"), _LOAD),
    ("speculative speculate draft-model num-speculative-tokens speculation gamma mtp", _DRAFTS),
    ("compare versus vs against with", ("several machines stand behind one --on: --on h100,a100", "--on")),
    ("real realistic expected expect predict efficiency practical", _named("what it will take is", "--estimate")),
    ("verbose v why source sources details show", _WHY, _SOURCE),
    ("advice advise improve suggest optimize", _ADVICE, _ASK_AGAIN, _FASTER),
    ("auto best autotune tune", ("the fastest layout is found by --search", "--search")),
    ("derate sustained", _named("measured fractions of the rates are", "--achievable")),
    ("token-budget train-tokens total-tokens num-tokens", _named("a token budget is", "--tokens")),
    ("model model-name name", ("a model is a word without dashes: roofline llm llama-3-8b", "--tensor")),
    ("step-time time took runtime elapsed duration actual observed measured", _EPOCH, _RUN),
    ("solve-for unknown", _named("the unknown is", "--for")),
    ("slo sla itl tbt latency max-latency time-per-token", _named("the longest time a token may take is", "--tpot")),
)
_WORDS = {word: [_Meant(*each) for each in answers] for words, *answers in _ANSWERS for word in words.split()}


def meant(option: str, known: Sequence[str]) -> str:
    """Say what an unknown option is here, of a command that has the options ``known``; nothing where that is open."""
    return _meaning(option.lstrip("-").lower().replace("_", "-"), known).said


def _meaning(word: str, known: Container[str]) -> _Meant:
    return next((each for each in _WORDS.get(word, ()) if each.needed in known), _Meant("", ""))


def _having(option: str, commands: Callable[[], Iterable[CommandEntry]]) -> list[str]:
    """The commands that this is an option of."""
    from roofline.cli.option_table import OPTION_WORDS

    listed = commands() if option.removeprefix("--") in OPTION_WORDS else ()
    return [each.name for each in listed if any(option in one.words for group in each.groups.values() for one in group)]


#: Words for a format of everything; those for fewer bits mean the weights.
_OF_ALL = ("--dtype", "--precision")

#: What sequences are counted by: the length of one, and the copies of a model that share those of a step.
_COPIES = ("--sequence", "--fsdp", "--data")

#: Characters of the longest line that is shown in our words.
_LONGEST_LINE = 300

_LONGEST_NUMBER = 16


def _corrected(words: Sequence[str], command: click.Command) -> str:
    """The whole line in our words, where each unknown option is one of ours by another name; else nothing.

    >>> from roofline.cli import cli
    >>> train = cli.get_command(click.Context(cli), "train")
    >>> _corrected("train gpt-3 --seq 2048 --dp 4 --tp 8".split(), train)
    'roofline train gpt-3 --sequence 2048 --data 4 --tensor 8'
    >>> print(_corrected("train llama-3-8b --fsdp 16 --seq 4096 --micro-batch 2".split(), train))
    roofline train llama-3-8b --fsdp 16 --sequence 4096 --batch-tokens '32*4096'
    """
    known = {name for parameter in command.params for name in parameter.opts}
    forms = {name: each.make_metavar(click.Context(command)) for each in command.params for name in each.opts}
    valued = {name for each in command.params if not getattr(each, "is_flag", False) for name in each.opts}
    line = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else (word,))]
    names = [word.lower().replace("_", "-") if word.startswith("--") else "" for word in line]
    added: list[str] = []
    counted: dict[str, int] = {}  # where sequences stand: of a step, or of a part of one
    if any(word.startswith("-") and not word.startswith("--") and word not in known for word in words):
        return ""
    for at, name in enumerate(names):
        if not name or name in known:
            continue
        value = line[at + 1] if at + 1 < len(line) else "-"
        meaning = _meaning(name[2:], known)
        line[at] = meaning.option or meaning.needed
        if meaning in (_FORMATS, _TRAINED) and is_dtype(value) and "--weights" in known:
            line[at] = "--weights"
            if name in _OF_ALL and "--activations" in known - {*names}:
                added += ["--activations", value]
        elif meaning in (_TOKENS, _PARTS) and value.isdecimal() and len(value) < _LONGEST_NUMBER:
            counted[line[at]] = at
        elif value.startswith("-") or line[at] not in valued or not meaning.option:
            return ""
        if line[at] in names or not _reads_as(forms[line[at]], value):
            return ""
    if counted and not _of_sequences(line, counted):
        return ""
    found = f"roofline {shlex.join([*line, *added])}"
    return found if len(found) <= _LONGEST_LINE else ""


def _reads_as(form: str, value: str) -> bool:
    """Whether a value may be one of an option of this form, as far as a number and a format are told by their looks.

    >>> _reads_as("TOKENS", "4k"), _reads_as("TOKENS", "fp8"), _reads_as("DTYPE[,…]", "fp8"), _reads_as("N[,N…]", "n")
    (True, False, True, False)
    """
    kind = form.partition("[")[0]
    if kind == "DTYPE":
        return all(map(is_dtype, value.split(",")))
    return kind not in ("N", "TOKENS") or value[:1].isdecimal()


def _of_sequences(line: list[str], counted: dict[str, int]) -> bool:
    """Write sequences of a step, or of a part of it on each copy, as tokens and parts; say whether that can be told."""
    given = {name: count(value) for name, value in pairwise(line) if name in _COPIES}
    length, *ways = (value if isinstance(value := given.get(name), int) else 0 for name in _COPIES)
    copies = prod(each or 1 for each in ways)
    at, part = counted.get("--batch-tokens"), counted.get("--microbatches")
    if not length or line.count("--batch-tokens") > (at is not None) or (part is not None and copies == 1):
        return False
    if part is not None:
        each = copies * int(line[part + 1])
        if "--pipeline" in line or not each or (at is not None and int(line[at + 1]) % each):
            return False
        if at is None:  # a step of one such part on each copy
            line[part : part + 2] = ["--batch-tokens", f"{each}*{length}"]
        else:
            line[part + 1] = str(int(line[at + 1]) // each)
    if at is not None:
        line[at + 1] += f"*{length}"
    return True


def explained(
    error: click.UsageError, words: Sequence[str], commands: Callable[[], Iterable[CommandEntry]]
) -> click.UsageError:
    """Say with an error of a command line's ``words`` what would be right, where that can be told.

    The error is the option parser's own; its words are made those of this package. ``commands`` lists them all.
    """
    said = _right(error, words, commands)
    if not said:
        if isinstance(error, click.NoSuchOption) and error.possibilities:  # the nearest, not the first of the alphabet
            near = did_you_mean(error.option_name, error.possibilities)
            return click.NoSuchOption(error.option_name, possibilities=[near], ctx=error.ctx) if near else error
        return error
    unknown = f"No such option {error.option_name!r}" if isinstance(error, click.NoSuchOption) else ""
    wrong = unknown or error.format_message().rstrip(".")
    line = _corrected(words, error.ctx.command) if unknown and error.ctx else ""
    return click.UsageError(f"{wrong}; {said}." + f"\n  in our words: {line}" * bool(line), ctx=error.ctx)


def _right(error: click.UsageError, words: Sequence[str], commands: Callable[[], Iterable[CommandEntry]]) -> str:
    context = error.ctx
    if context is None:
        return ""
    known = [name for parameter in context.command.params for name in parameter.opts]
    if isinstance(error, click.NoSuchOption):
        if isinstance(context.command, click.Group):
            return "options stand behind a command, as in roofline bound … --on h100"
        if any(word.startswith(error.option_name) and "[" in word for word in words):
            return "the negative of a tensor is neg(x)"
        long = next((f"-{w}" for w in words if w.startswith(error.option_name) and f"-{w}" in known), "")
        if long:
            return f"that is written {long}, with two dashes"
        several = f"{error.option_name}s"  # format and formats
        near = f"this command has {several}" if several in known else ""
        said = meant(error.option_name, known)
        name = error.option_name.lstrip("-")
        if any((read := open_shape(word)) and read[2] == name for word in words):
            return f"a number of chips is written {name}=8"
        having = _having(error.option_name, commands)
        takes_model = "--batch" in known or any(each.name == "model" for each in context.command.params)
        is_of_steps = said == _SIZES.said or "sweep" in having
        shipped = (word for word in words if word.lower() in capability("model_names")())
        if is_of_steps and not takes_model and (model := next(shipped, "")):
            on = next((value for word, value in pairwise(words) if word == "--on"), "h100")
            named = shlex.join([model, "--on", on])
            asked, line = f"roofline llm {named}", "this is about a line of notation; its"
            says = {
                "plot": f"{line} roofline is drawn by {asked} --context 2k -o roof.svg, its steps by "
                f"roofline sweep {named} --batch 1,8,64 -o steps.svg",
                "solve": "its sizes are written as words: roofline solve "
                f"{shlex.join([model, '--for', 'hbm', '--time', '5ms', '--on', on])} batch=8 context=4k; "
                f"from which batch on its decode is compute-bound is said by {asked} --context 2k,32k --batch 1:256:*2",
            }
            steps = says.get(context.command.name or "", f"{line} steps are asked by {asked}")
            return f"{model} is a model, and {steps}"
        return said or near or (f"that is an option of roofline {', '.join(having)}" if having else "")
    if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Option) and error.param.help:
        return (error.param.help[0].lower() + error.param.help[1:]).rstrip(".")
    if isinstance(error, click.MissingParameter) and error.param is not None and error.param.name == "model":
        target = ["--on", "h100"] if "--on" in known and "--on" not in words else []
        line = shlex.join([words[0], "llama-3-8b", *words[1:], *target])
        return f"as in: roofline {line}, and roofline model lists them"
    if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Argument):
        examples = (context.command.help or "").partition("\b\n")[2].split("\n")
        example = examples[0].partition("  # ")[0].strip()
        return f"as in: {example}" if example else ""
    if isinstance(error, click.BadParameter) and isinstance(error.param, click.Option):
        if isinstance(error.param.type, click.types.FloatParamType):
            return "a plain number is meant, as in 0.8"
        return ""
    if apart := unit_apart(words):
        return apart
    extra = words[words.index("on") + 1 :] if "on" in words else []
    if extra and "--on" in known:
        return f"an option begins with two dashes: --on {extra[0]}"
    machines = [word for word in words if is_machine(word)] if "--on" in known else []
    if "--on" in words:
        return f"several machines are one word: --on {','.join(machines)}" if len(machines) > 1 else ""
    return f"the machine is an option: --on {machines[0]}" if machines else ""
